"""Runs a command in an image, by podman or docker, watched over like any other sandbox.

The engine's client is the deadman's child and gives it the container's output and exit code; the container itself
belongs to the engine, so it outlives a killed worker (which its successor notices by name) and, unlike what bwrap
makes, would outlive a killed deadman: whoever finds one without a deadman ends it.

Settings that work where podman's own do not (in a machine that is itself a container): runc instead of crun, low
limits said outright, and no network but none: a way out (egress/way_out.py) is opened in it before its command begins.

What is mounted is opened first, below its root and without links (roots.py), and given to the engine by the path of
what was opened: an engine takes no descriptors. So a folder could be swapped until the engine has bound it; as soon as
the container's first process is there, what it sees is compared with what was opened, and if it is another, the
container is killed.

Nothing is ever pulled: an image is on this machine, and its name is one that an operator has allowed.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from custody.border import processes
from custody.border.sandbox import bwrap
from custody.border.sandbox.launch import FIRST_UID, UIDS
from custody.border.sandbox.mounts import give_to
from custody.border.sandbox.spec import Engine, Spec
from custody.errors import BadInput, Refused, Unavailable

NAME = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}\Z")
LABEL = "custody.sandbox"
_START_WITHIN = 60.0
_CALL_WITHIN = 60.0
_TMP = "/tmp"  # noqa: S108 -- inside the container, its own
_MEMORY = "/dev/shm"  # noqa: S108 -- where secrets are while they are needed: never on a disk
_PASSED_ON = ("HOME", "XDG_RUNTIME_DIR", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DOCKER_HOST")


def engine(program: str = "podman") -> Engine:
    """An engine of this machine, as this process would use it."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    options = ("--runtime", "runc", "--cgroup-manager", "cgroupfs") if _is_podman(program) and _has_runc() else ()
    return Engine(program, options, {"PATH": bwrap.PATH, **kept})


def _is_podman(program: str) -> bool:
    return os.path.basename(program) == "podman"


def _has_runc() -> bool:
    return shutil.which("runc", path=bwrap.PATH) is not None


def trouble(which: Engine) -> str:
    """Why no container can be run here; nothing if it looks as if one could."""
    if not shutil.which(which.program, path=which.env.get("PATH")):
        return f"{which.program} is not installed"
    done = _call(which, "info")
    return "" if done.returncode == 0 else f"{which.program} does not work: {_last(done)}"


def has_image(which: Engine, image: str) -> bool:
    check_image(image)
    return _call(which, "image", "inspect", "--format", "found", image).returncode == 0


def check_image(image: str) -> None:
    """A name that the engine could take for an option or an address is no image."""
    if not NAME.match(image) or ".." in image or "//" in image:
        raise BadInput(f"{image!r} is not the name of an image", code="image.name", hint="such as debian:bookworm")


@dataclass(slots=True)
class Contained:
    """A container from its start to its end, as the deadman needs it."""

    spec: Spec
    token: str
    process: subprocess.Popen[bytes]  # the engine's client
    init: processes.Process | None  # the container's first process; nothing if it ended before we could look
    init_fd: int
    out: int
    err: int
    secrets: Path | None = None

    def release(self) -> None:
        """It runs already: its name finds it, whatever happens to us."""

    def abandon(self) -> None:
        self.finish()
        self.process.wait()

    def inside(self) -> list[processes.Process]:
        return [self.init, *processes.descendants(self.init.pid)] if self.init else []

    def kill(self) -> None:
        if self.init is None:
            self.process.kill()
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def exit_code(self) -> int | None:
        """What the client says is what the command said; its own troubles are told apart by `never_ran`."""
        return self.process.returncode

    def never_ran(self, code: int | None, words: str) -> bool:
        engines_own = words.startswith(("Error:", "docker:")) or "OCI runtime" in words
        return code == 125 or (code in (126, 127) and engines_own)

    def ran_out_of_memory(self) -> bool:
        """Killed, and not by us: the kernel does that to those who take too much. Not every engine notices."""
        return self.process.returncode == 128 + signal.SIGKILL

    def finish(self) -> None:
        remove(_engine_of(self.spec), self.token)
        if self.secrets:
            shutil.rmtree(self.secrets, ignore_errors=True)


def container_name(token: str) -> str:
    """Never used before: ending one cannot end another."""
    return f"custody-{token}"


def remove(which: Engine, token: str) -> None:
    """Kill and forget; that there is none is no fault."""
    at_once = ("--time", "0") if _is_podman(which.program) else ()
    done = _call(which, "rm", "--force", *at_once, container_name(token))
    if done.returncode and not any(words in done.stderr.lower() for words in (b"no such container", b"no container")):
        raise Unavailable(f"a container does not end: {_last(done)}", code="sandbox.undead")


def start(spec: Spec, token: str, open_way: Callable[[int], None]) -> Contained:
    """Start the client, and wait until the container's first process can be held. If there is a way out, the container
    is made first and its command begun only when that is open."""
    which = _engine_of(spec)
    uid = FIRST_UID + zlib.crc32(spec.name.encode()) % UIDS
    if os.geteuid() == 0:
        give_to(spec.work, uid)
    folder = Path.cwd()
    secrets = _written_secrets(spec, uid)
    if spec.script:
        script = folder / "script"
        script.write_text(spec.script)
        script.chmod(0o444)
    opened = [mount.source.open() for mount in spec.mounts]
    volumes = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in opened]
    words = arguments(spec, token, uid, folder, secrets=secrets, volumes=volumes)
    if spec.network:
        words = _made(which, token, words, open_way)
    argv = [which.program, *which.options, *words]
    out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out[1], stderr=err[1], env=which.env, cwd="/", start_new_session=True
        )
    except FileNotFoundError:
        message = f"{which.program} is not installed"
        raise Unavailable(message, code="sandbox.missing", hint=f"apt-get install {which.program}") from None
    finally:
        os.close(out[1])
        os.close(err[1])
    init, descriptor = _first_process(which, token, process)
    made = Contained(
        spec=spec, token=token, process=process, init=init, init_fd=descriptor, out=out[0], err=err[0], secrets=secrets
    )
    try:
        _compare(made, opened)
    except BaseException:
        made.abandon()
        raise
    finally:
        for each in opened:
            os.close(each)
    return made


def _compare(made: Contained, opened: Sequence[int]) -> None:
    """What it sees must be what was opened: somebody may have put another in its place before the engine bound it."""
    for descriptor, mount in zip(opened, made.spec.mounts, strict=True):
        try:
            seen = os.stat(f"/proc/{made.init.pid}/root{mount.at}", follow_symlinks=False) if made.init else None
        except OSError:
            continue  # it has ended, or the kernel lets nobody look
        if seen is not None and not os.path.samestat(seen, os.fstat(descriptor)):
            raise Refused(
                "it was swapped while it was being mounted", code="sandbox.mount", where=str(mount.source.path)
            )


def arguments(
    spec: Spec, token: str, uid: int, folder: Path, secrets: Path | None, volumes: Sequence[str]
) -> list[str]:
    """What follows the engine's own options. The task's variables go through a file that only we can read."""
    limits = spec.limits
    made = ["run", "--name", container_name(token), "--label", f"{LABEL}={spec.name}", "--pull=never"]
    made += ["--network", "none", "--log-driver", "none", "--hostname", "custody"]
    made += ["--read-only", "--cap-drop=all", "--security-opt", "no-new-privileges"]
    made += ["--tmpfs", f"{_TMP}:rw,mode=1777,size={limits.tmp}", "--shm-size", str(limits.tmp)]
    made += ["--ulimit", f"nofile={limits.open_files}:{limits.open_files}", "--ulimit", "core=0:0"]
    made += ["--ulimit", f"nproc={limits.processes}:{limits.processes}"]
    made += ["--ulimit", f"fsize={limits.file_size}:{limits.file_size}"]
    made += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory), "--pids-limit", str(limits.processes)]
    made += ["--cpus", str(limits.processors)] if limits.processors else []
    made += ["--user", f"{uid}:{uid}"] if os.geteuid() == 0 else _as_ourselves()
    made += ["--env-file", str(_variables(spec, folder))]
    made += ["--volume", f"{spec.work}:/work", "--workdir", "/work"]
    for source, mount in zip(volumes, spec.mounts, strict=True):
        if ":" in source:
            raise BadInput("an engine cannot mount a path with ':' in it", code="sandbox.mount", where=source)
        made += ["--volume", f"{source}:{mount.at}:ro"]
    if spec.script:
        made += ["--volume", f"{folder / 'script'}:/run/script:ro"]
    if secrets:
        made += ["--volume", f"{secrets}:/run/secrets:ro"]
    wanted = spec.argv or (*spec.shell, "/run/script")
    check_image(spec.image)
    return [*made, "--entrypoint", wanted[0], spec.image, *wanted[1:]]


def _made(which: Engine, token: str, run: Sequence[str], open_way: Callable[[int], None]) -> list[str]:
    """Make the container, let its way out be opened, and answer the words that begin its command."""
    name = container_name(token)
    for words in (["create", *run[1:]], ["init", name]):
        done = _call(which, *words)
        if done.returncode:
            _remove_if_there(which, token)
            raise Unavailable(f"the container cannot be made: {_last(done)}", code="sandbox.setup")
    told = _call(which, "inspect", "--format", "{{.State.Pid}}", name)
    try:
        open_way(int(told.stdout.strip() or b"0"))
    except BaseException:
        _remove_if_there(which, token)
        raise
    return ["start", "--attach", "--sig-proxy=false", name]


def _remove_if_there(which: Engine, token: str) -> None:
    with suppress(Unavailable):
        remove(which, token)


def can_hold(which: Engine) -> bool:
    """Can it make a container whose command does not run yet? docker cannot."""
    return _is_podman(which.program)


def _as_ourselves() -> list[str]:
    """Without root: under our own number, if we were given numbers to map. Otherwise the command sees itself as root,
    which outside is nobody but us, and it has none of root's powers: they are all dropped."""
    try:
        texts = [Path(file).read_text() for file in ("/etc/subuid", "/etc/subgid")]
        us = (pwd.getpwuid(os.geteuid()).pw_name, str(os.geteuid()))
    except (OSError, KeyError):
        return []
    given = all(any(line.partition(":")[0] in us for line in text.splitlines()) for text in texts)
    return ["--userns=keep-id"] if given else []


def _variables(spec: Spec, folder: Path) -> Path:
    """One to a line, so a value of several lines cannot be given."""
    values = {"HOME": _TMP, "TMPDIR": _TMP, **spec.variables}
    if wrong := [name for name, value in values.items() if "\n" in value]:
        raise BadInput(f"the variable {wrong[0]} has several lines", code="sandbox.env", hint="use a file")
    file = folder / "variables"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


def _written_secrets(spec: Spec, uid: int) -> Path | None:
    if not spec.secrets:
        return None
    folder = Path(tempfile.mkdtemp(prefix="custody-secrets-", dir=_MEMORY))
    for name, value in spec.secrets.items():
        (folder / name).write_bytes(value)
        (folder / name).chmod(0o400)
    if os.geteuid() == 0:
        give_to(folder, uid)
    return folder


def _first_process(which: Engine, token: str, client: subprocess.Popen[bytes]) -> tuple[processes.Process | None, int]:
    until = time.monotonic() + _START_WITHIN
    while processes.look(client.pid) and time.monotonic() < until:  # not `poll`: the deadman waits for its end
        told = _call(which, "inspect", "--format", "{{.State.Pid}}", container_name(token))
        pid = int(told.stdout.strip() or b"0") if told.returncode == 0 else 0
        init = processes.look(pid) if pid else None
        descriptor = processes.opened(init) if init else None
        if init is not None and descriptor is not None:
            return init, descriptor
        time.sleep(0.01)
    ended, other = os.pipe2(os.O_CLOEXEC)
    os.close(other)  # reads as ended at once
    return None, ended


def _engine_of(spec: Spec) -> Engine:
    assert spec.engine is not None
    return spec.engine


def _call(which: Engine, *words: str) -> subprocess.CompletedProcess[bytes]:
    argv: Sequence[str] = [which.program, *which.options, *words]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=dict(which.env), cwd="/", timeout=_CALL_WITHIN
    )


def _last(done: subprocess.CompletedProcess[bytes]) -> str:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
