"""Starts bwrap, and lets the command run only when nothing can go wrong with ending it.

There are two doors. bwrap waits at the first (`--block-fd`) while its limits are set, its control group is
filled and its process numbers are written down. Behind it the namespace's first process binds its life to
bwrap's; only when it is seen to have done so is the second opened, at which the command waits as a shell that
reads one line. Should the deadman die at any moment, both doors fall open with nothing to read: the first
lets bwrap go on, the second makes the shell end without running anything. So no command ever runs that would
outlive its deadman.

One moment is bwrap's own: its first process waits for a word of bwrap's before it comes to the first door, and a
bwrap that is killed (because its deadman was) before it says so leaves it waiting. It has run nothing and never
will; its mark lets whoever looks next find and kill it (`Running.end`).

If the worker is root, the sandbox belongs to a user of its own, without rights. Otherwise bwrap runs as the
same user, which is what unprivileged user namespaces are for.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from custody.border import processes
from custody.border.sandbox import bwrap, cgroup, seccomp
from custody.border.sandbox.mounts import reachable
from custody.border.sandbox.spec import Limits, Spec
from custody.errors import Unavailable

FIRST_UID, UIDS = 1_900_000_000, 65_536  # far from people, services and containers
MARK = "CUSTODY_SANDBOX"
_SUBREAPER = 36
_SETUP_WITHIN = 20.0
_ENDING = 5.0  # seconds for one that ends to be gone: on the way it is nobody's any more
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Launched:
    process: subprocess.Popen[bytes]  # bwrap
    init: processes.Process  # the first process of the namespace; while it is gone, so is everything in it
    init_fd: int
    out: int
    err: int
    status: int
    door: int
    second_door: int
    group: cgroup.Group | None

    def release(self) -> None:
        with suppress(BrokenPipeError):  # it has given up already, and said why
            os.write(self.door, b"!")
        os.close(self.door)
        until = time.monotonic() + _SETUP_WITHIN
        while not self._bound() and not processes.gone(self.init_fd, 0):
            if time.monotonic() > until:
                self.abandon()
                raise Unavailable("bwrap does not get on", code="sandbox.setup", hint="does a mount hang?")
            time.sleep(0.0002)
        with suppress(BrokenPipeError):  # it could not be set up, and has said why
            os.write(self.second_door, b"go\n")
        os.close(self.second_door)

    def _bound(self) -> bool:
        """bwrap's first process loads the filter right after it has bound its life to its parent's."""
        with suppress(FileNotFoundError, ProcessLookupError):  # gone before its file was opened, or before it was read
            return not seccomp.program() or "\nSeccomp:\t2" in Path(f"/proc/{self.init.pid}/status").read_text()
        return False

    def abandon(self) -> None:
        """Leave nothing of it. At the door its first process does not yet die with ours."""
        processes.kill(self.init, within=10)
        self.process.wait()
        if self.group:
            self.group.remove()

    def inside(self) -> list[processes.Process]:
        """All that can be asked to end; the first process of the namespace is bwrap's own."""
        return processes.descendants(self.init.pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it died at this very moment
            signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def exit_code(self) -> int | None:
        """What bwrap said of the command; nothing if the command never ran."""
        os.set_blocking(self.status, False)
        try:
            said = os.read(self.status, 4096).decode().splitlines()
        except BlockingIOError:
            said = []
        codes = [json.loads(line).get("exit-code") for line in said if line.strip()]
        return next((int(code) for code in codes if code is not None), None)

    def never_ran(self, code: int | None, words: str) -> bool:
        """The shell at the second door found no such command."""
        return code in (126, 127) and words.startswith(bwrap.STARTER)

    def ran_out_of_memory(self) -> bool:
        return self.group is not None and self.group.ran_out_of_memory()

    def finish(self) -> None:
        if self.group:
            self.group.remove()


def launch(
    spec: Spec, parents: Mapping[str, Path], token: str, open_way: Callable[[int], None] = lambda _: None
) -> Launched:
    """`token` marks bwrap's processes: one whose deadman died at the wrong moment can still be found. `open_way` is
    called while the first process waits at the first door, with nothing running inside."""
    uid = FIRST_UID + zlib.crc32(spec.name.encode()) % UIDS if os.geteuid() == 0 else None
    sources = reachable(spec, uid)
    given = [source for source in sources if isinstance(source, int)]
    out, err, status, door, second_door = (os.pipe2(os.O_CLOEXEC) for _ in range(5))
    given += [out[1], err[1], status[1], door[0], second_door[0]]
    made = bwrap.arguments(spec, sources, lambda data: _give(data, given))
    made += ["--json-status-fd", str(status[1]), "--block-fd", str(door[0])]
    if rules := seccomp.program():
        made += ["--seccomp", str(_give(rules, given))]
    argv = ["bwrap", "--args", str(_give(bwrap.joined(made), given)), "--", *bwrap.command(spec)]
    group = _group(spec, token, parents)
    entrances = group.entrances() if group else []
    try:
        try:
            process = _start(
                argv, given, (second_door[0], out[1], err[1]), token, limits=spec.limits, uid=uid, entrances=entrances
            )
        finally:
            for descriptor in (*given, *entrances):
                os.close(descriptor)
        init, init_fd = _first_process(process, status[0], err[0])
        _open_way(open_way, init, process)
    except BaseException:
        if group:
            group.remove()
        raise
    try:
        _limit(spec, init, group, uid)
    except OSError:
        if not processes.gone(init_fd, _ENDING):  # else it could not be set up, and has said why
            raise
    return Launched(
        process=process,
        init=init,
        init_fd=init_fd,
        out=out[0],
        err=err[0],
        status=status[0],
        door=door[1],
        second_door=second_door[1],
        group=group,
    )


def _open_way(open_way: Callable[[int], None], init: processes.Process, bwrap_: subprocess.Popen[bytes]) -> None:
    try:
        open_way(init.pid)
    except BaseException:
        processes.kill(init, within=10)
        bwrap_.wait()
        raise


def adopt_orphans() -> None:
    """Become the parent of what bwrap leaves behind: not every machine's first process buries the dead."""
    _libc.prctl(_SUBREAPER, 1)


def _start(
    argv: list[str],
    given: list[int],
    standard: tuple[int, int, int],
    token: str,
    limits: Limits,
    uid: int | None,
    entrances: list[int],
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=standard[0],
            stdout=standard[1],
            stderr=standard[2],
            pass_fds=[descriptor for descriptor in given if descriptor not in standard],
            # Never the task's variables: one meant for the loader would act on bwrap, outside.
            env={"PATH": bwrap.PATH, MARK: token},
            cwd="/",
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            preexec_fn=lambda: _confine_me(limits, uid is not None, entrances),  # noqa: PLW1509 -- a deadman has no threads
        )
    except FileNotFoundError as error:
        raise Unavailable(
            "bwrap is not installed", code="sandbox.missing", hint="apt-get install bubblewrap"
        ) from error


def _confine_me(limits: Limits, with_processes: bool, entrances: list[int]) -> None:
    for descriptor in entrances:
        with suppress(OSError):  # then it is moved from outside
            os.write(descriptor, b"0")
    _set_limits(limits, with_processes=with_processes)


def _set_limits(limits: Limits, *, with_processes: bool) -> None:
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
        _set_limit(0, kind, value)


def _set_limit(pid: int, kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.prlimit(pid, kind, (value, value))


def _first_process(bwrap_: subprocess.Popen[bytes], status: int, err: int) -> tuple[processes.Process, int]:
    line = _read_line(status, seconds=_SETUP_WITHIN)
    pid = int(json.loads(line).get("child-pid", 0)) if line else 0
    init = processes.look(pid) if pid else None
    descriptor = processes.opened(init) if init and init.parent == bwrap_.pid else None
    if init is None or descriptor is None:
        bwrap_.kill()
        bwrap_.wait()
        said = _said(err)
        raise Unavailable(f"the sandbox could not be made: {said}", code="sandbox.setup", hint=_hint(said))
    return init, descriptor


def _said(err: int) -> str:
    """Why it gave up. What it began and left behind may hold the line open, and say nothing."""
    os.set_blocking(err, False)
    with suppress(BlockingIOError):
        return os.read(err, 4096).decode(errors="replace").strip()
    return ""


def _hint(said: str) -> str:
    if "namespace" in said or "uid map" in said:
        return (
            "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone,"
            " kernel.apparmor_restrict_unprivileged_userns"
        )
    if "nknown option" in said:
        return f"bubblewrap {bwrap.NEEDED} or newer is needed"
    return "run `custody doctor`"


def mark_of(root: Path) -> str:
    """The beginning of all tokens below one state folder."""
    return f"{zlib.crc32(str(root.absolute()).encode()):08x}"


def group_name(token: str) -> str:
    return f"custody-{token}"


def _group(spec: Spec, token: str, parents: Mapping[str, Path]) -> cgroup.Group | None:
    """Made before bwrap is started, so that it can be born there. It counts itself and the namespace's first."""
    limits = spec.limits
    return cgroup.make(
        group_name(token), parents, memory=limits.memory, processes=limits.processes + 2, processors=limits.processors
    )


def _limit(spec: Spec, init: processes.Process, group: cgroup.Group | None, uid: int | None) -> None:
    """Limits that count from the namespace's first process on."""
    if uid is None:
        # Set from outside and only now, so that the user's other processes do not count.
        _set_limit(init.pid, resource.RLIMIT_NPROC, spec.limits.processes + 1)
    Path(f"/proc/{init.pid}/oom_score_adj").write_text("500")  # rather the sandbox than the worker
    if group and not group.has(init.pid):
        group.add(init.pid)


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
