"""Starts bwrap and holds it at the door until everything about it is written down.

Run by the deadman, in its own process. If that process is root, the sandbox belongs to an unprivileged user
of its own and the folders it may see are first mounted in a private mount namespace, because bwrap as that
user could not walk to them. Otherwise bwrap runs as the same user, which is what unprivileged user namespaces
are for.

The command itself does not run before `Launched.release`: until then its limits are set, its control group is
filled and its process numbers are recorded, so there is no moment at which a task runs that nobody could find
and kill.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import subprocess
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from custody.border import bwrap, cgroup, processes, seccomp
from custody.border.confinement import Limits, Spec
from custody.model.errors import BadInput, NotFound, Unavailable

FIRST_UID, UIDS = 1_900_000_000, 65_536  # far from people, services and containers
MARK = "CUSTODY_SANDBOX"
_STAGES = ("/mnt", "/srv", "/media", "/run")
_NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
_PDEATHSIG, _SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Launched:
    bwrap: subprocess.Popen[bytes]
    init: processes.Process  # the first process of the namespace; while it is gone, so is everything in it
    init_fd: int
    out: int
    err: int
    status: int
    door: int
    group: cgroup.Group | None

    def release(self) -> None:
        os.write(self.door, b"go")
        os.close(self.door)


def launch(spec: Spec, parents: Mapping[str, Path], token: str) -> Launched:
    """`token` marks bwrap's processes: one whose deadman died at the wrong moment can still be found."""
    uid = FIRST_UID + zlib.crc32(spec.name.encode()) % UIDS if os.geteuid() == 0 else None
    sources = _reachable([spec.work, *(mount.source for mount in spec.mounts)], uid)
    given: list[int] = []
    out, err, status, door = (os.pipe2(os.O_CLOEXEC) for _ in range(4))
    given += [out[1], err[1], status[1], *door]
    made = bwrap.arguments(spec, sources, lambda data: _give(data, given))
    # The writing end of the door stays open in the sandbox's first process (--sync-fd), so that the door does
    # not fall open if this process dies.
    made += ["--json-status-fd", str(status[1]), "--block-fd", str(door[0]), "--sync-fd", str(door[1])]
    if rules := seccomp.program():
        made += ["--seccomp", str(_give(rules, given))]
    argv = ["bwrap", "--args", str(_give(bwrap.joined(made), given)), "--", *bwrap.command(spec)]
    knob = os.dup(door[1])
    try:
        process = _start(argv, given, out[1], err[1], token, spec.limits, uid)
    finally:
        for descriptor in given:
            os.close(descriptor)
    init, init_fd = _first_process(process, status[0], err[0])
    group = _limited(spec, token, init, parents, uid)
    return Launched(process, init, init_fd, out[0], err[0], status[0], knob, group)


def adopt_orphans() -> None:
    """Become the parent of what bwrap leaves behind: not every machine's first process buries the dead."""
    _libc.prctl(_SUBREAPER, 1)


def _start(
    argv: list[str], given: list[int], out: int, err: int, token: str, limits: Limits, uid: int | None
) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def confine() -> None:
        _libc.prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked to die with it
            os._exit(1)
        _set_limits(0, limits, with_processes=uid is not None)

    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=[descriptor for descriptor in given if descriptor not in (out, err)],
            # Never the task's variables: one meant for the loader would act on bwrap, outside.
            env={"PATH": bwrap.PATH, MARK: token},
            cwd="/",
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            preexec_fn=confine,  # noqa: PLW1509 -- a deadman has no threads
        )
    except FileNotFoundError as error:
        raise Unavailable(
            "bwrap is not installed", code="sandbox.missing", hint="apt-get install bubblewrap"
        ) from error


def _set_limits(pid: int, limits: Limits, *, with_processes: bool) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_DATA: limits.memory,
    }
    if limits.cpu_seconds:
        wanted[resource.RLIMIT_CPU] = limits.cpu_seconds
    if with_processes:
        wanted[resource.RLIMIT_NPROC] = limits.processes + 2  # bwrap counts as this user too
    for kind, value in wanted.items():
        _set_limit(pid, kind, value)


def _set_limit(pid: int, kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.prlimit(pid, kind, (value, value))


def _first_process(bwrap_: subprocess.Popen[bytes], status: int, err: int) -> tuple[processes.Process, int]:
    line = _read_line(status, seconds=20)
    pid = int(json.loads(line).get("child-pid", 0)) if line else 0
    init = processes.look(pid) if pid else None
    descriptor = processes.opened(init) if init and init.parent == bwrap_.pid else None
    if init is None or descriptor is None:
        bwrap_.kill()
        bwrap_.wait()
        os.set_blocking(err, False)
        said = os.read(err, 4096).decode(errors="replace").strip()
        raise Unavailable(f"the sandbox could not be made: {said}", code="sandbox.setup", hint=_hint(said))
    return init, descriptor


def _hint(said: str) -> str:
    if "namespace" in said or "uid map" in said:
        return "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone"
    if "nknown option" in said:
        return f"bubblewrap {bwrap.NEEDED} or newer is needed"
    return "run `custody doctor`"


def group_name(spec: Spec, token: str) -> str:
    return f"custody-{spec.name}-{token[:8]}"


def _limited(
    spec: Spec, token: str, init: processes.Process, parents: Mapping[str, Path], uid: int | None
) -> cgroup.Group | None:
    """Limits that count from the namespace's first process on."""
    if uid is None:
        # Set from outside and only now, so that the user's other processes do not count.
        _set_limit(init.pid, resource.RLIMIT_NPROC, spec.limits.processes + 1)
    Path(f"/proc/{init.pid}/oom_score_adj").write_text("500")  # rather the sandbox than the worker
    limits = spec.limits
    group = cgroup.make(
        group_name(spec, token),
        parents,
        memory=limits.memory,
        processes=limits.processes + 1,
        processors=limits.processors,
    )
    if group:
        group.add(init.pid)
    return group


def _reachable(paths: Iterable[Path], uid: int | None) -> dict[Path, str]:
    """Where bwrap finds each host path: the path itself, or its place on the stage."""
    paths = list(paths)
    if uid is not None:
        _call(_libc.unshare(_NEW_MOUNTS))  # before anything is opened: mounts are not bound across namespaces
        _mount("none", "/", "", _REC | _PRIVATE)
    opened = {path: _opened(path) for path in paths}
    try:
        if uid is None:
            return {path: str(path) for path in paths}
        give_to(paths[0], uid)
        return _staged(opened)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else BadInput
        raise kind(f"cannot be mounted: {error.strerror}", code="sandbox.mount", where=str(path)) from error


def give_to(folder: Path, uid: int) -> None:
    """Make the work folder belong to the sandbox's user. Links are changed themselves, never followed."""
    os.chown(folder, uid, uid)
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def _staged(opened: Mapping[Path, int]) -> dict[Path, str]:
    """Bind each onto a small tmpfs that only this process and its children see."""
    stage = next((place for place in _STAGES if os.path.isdir(place)), "")
    if not stage:
        raise Unavailable(f"none of {', '.join(_STAGES)} exists", code="sandbox.setup", hint="mkdir /mnt")
    _mount("custody", stage, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    found = {}
    for number, (path, descriptor) in enumerate(opened.items()):
        target = f"{stage}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        _mount(f"/proc/self/fd/{descriptor}", target, "", _BIND | _REC)
        found[path] = target
    return found


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call(_libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None))


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise Unavailable(
            f"a mount namespace could not be made: {os.strerror(number)}",
            code="sandbox.setup",
            hint="run the worker as an ordinary user, or with CAP_SYS_ADMIN",
        )


def _give(data: bytes, given: list[int]) -> int:
    """A descriptor from which bwrap reads these bytes; they never touch a disk."""
    descriptor = os.memfd_create("custody", os.MFD_CLOEXEC)
    given.append(descriptor)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_line(descriptor: int, seconds: float) -> bytes:
    """One line, or what there is when the time or the writer has ended."""
    line, until = b"", time.monotonic() + seconds
    while not line.endswith(b"\n") and processes.gone(descriptor, until - time.monotonic()):
        piece = os.read(descriptor, 1)
        if not piece:
            break
        line += piece
    return line
