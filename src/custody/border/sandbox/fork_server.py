"""The process from which deadmen are forked.

Starting an interpreter for each sandbox would cost more than the sandbox. So a worker starts one small
process, once; it has no threads, no store and no secrets, and forks a deadman for every sandbox it is asked
for. It ends with its worker; the deadmen do not.

`Nursery` is the worker's side, `main` the process itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import custody
from custody.border import processes
from custody.border.sandbox import containers
from custody.border.sandbox.launch import adopt_orphans, group_name, launch, mark_of
from custody.border.sandbox.spec import End, Spec, decode_spec, encode_spec
from custody.border.sandbox.watchdog import Deadman, write_file
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from custody.border.egress.way_out import WayOut

_LENGTH = struct.Struct("<I")
_ANSWER_WITHIN = 60.0
_WITH_A_WAY_OUT = b"n"
_ERRORS: dict[str, type[CustodyError]] = {kind.__name__: kind for kind in (BadInput, NotFound, Refused, Unavailable)}
_BOOT = "import sys; sys.path.append(sys.argv[1]); from custody.border.sandbox.fork_server import main; main()"


class Nursery:
    """Asks for deadmen; starts the process on first use and again should it have died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def start(self, spec: Spec, root: Path, until: float, parents: Mapping[str, Path]) -> None:
        """Have a sandbox started; returns when its first process exists, its command released."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._send(theirs, _WITH_A_WAY_OUT if spec.network else b"!")
            ours.settimeout(_ANSWER_WITHIN)
            places = {name: str(place) for name, place in parents.items()}
            asked = {"root": str(root.absolute()), "until": until, "parents": places, "egress": bool(spec.network)}
            _put(ours, json.dumps(asked).encode())
            _put(ours, encode_spec(spec))
            try:
                answer = json.loads(_get(ours))
            except (OSError, EOFError) as error:
                raise Unavailable("the sandbox's deadman did not answer", code="sandbox.deadman") from error
        if answer:
            raise _ERRORS[answer.pop("type")](answer.pop("message"), **answer)

    def close(self) -> None:
        with self._lock:
            if self._channel:
                self._channel.close()
                self._channel = None
            if self._process:
                self._process.wait()
                self._process = None

    def warm(self) -> None:
        """Start it now, so that the first sandbox does not wait for it."""
        with self._lock:
            self._open()

    def _send(self, theirs: socket.socket, word: bytes) -> None:
        with self._lock:
            try:
                socket.send_fds(self._open(), [word], [theirs.fileno()])
            except OSError:  # it has died; one fresh one is worth trying
                self._drop()
                socket.send_fds(self._open(), [word], [theirs.fileno()])

    def _open(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair()
            source = str(Path(custody.__file__).parent.parent)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-B", "-c", _BOOT, source],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C for the worker is not for the sandboxes
                )
        return self._channel

    def _drop(self) -> None:
        if self._channel:
            self._channel.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._channel = self._process = None


def main() -> None:
    channel = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a deadman here
    os.umask(0o077)
    while True:
        word, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not word:
            return
        if word == _WITH_A_WAY_OUT:
            import custody.border.egress.way_out  # noqa: F401 -- once for all; where nobody goes out, deadmen stay small
        if os.fork() == 0:
            channel.close()
            _become_deadman(socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def _become_deadman(control: socket.socket) -> None:
    """Never returns: what runs in this process from here on is one sandbox."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        adopt_orphans()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)  # the nursery's channel was here
        _watch_over(control)
        os._exit(0)
    except BaseException:  # the last line of defence: there is no caller to tell
        try:
            if os.getcwd() != "/":  # then there is a state folder
                Path("deadman.err").write_text(traceback.format_exc())
        finally:
            os._exit(1)


def _watch_over(control: socket.socket) -> None:
    try:
        asked = json.loads(_get(control))
    except (OSError, EOFError):  # the worker has died while asking
        return
    try:
        way = _way_out() if asked["egress"] else None  # before anything is known here that it must not know
        spec = decode_spec(_get(control))
    except (OSError, EOFError):
        return
    except CustodyError as error:
        _put(control, _told(error))
        return
    root = Path(asked["root"])
    # Everything is prepared under a hidden name; the sandbox gets its own when it is complete and watched.
    hidden = root / f".{spec.name}.{os.getpid()}"
    try:
        deadman = _started(spec, asked, hidden, root / spec.name, way=way)
    except CustodyError as error:
        shutil.rmtree(hidden, ignore_errors=True)
        _put(control, _told(error))
        return
    try:
        _put(control, b"{}")
        control.close()
    except OSError:  # the worker has gone meanwhile; its successor will find us by name
        pass
    with _on_terminate(deadman, spec.grace):
        end = deadman.run()
    write_file("end.json", _as_dict(end))


@contextmanager
def _on_terminate(deadman: Deadman, grace: float) -> Iterator[None]:
    """A machine that shuts down sends TERM to everybody; pass it on as an ordinary stop."""
    wake_up, bell = socket.socketpair()
    bell.setblocking(False)
    signal.set_wakeup_fd(bell.fileno())
    signal.signal(signal.SIGTERM, lambda *_: deadman.stop(grace))
    deadman.watch(wake_up.fileno(), lambda: wake_up.recv(64))
    yield


def _way_out() -> WayOut:
    from custody.border.egress.way_out import WayOut

    return WayOut()


def _told(error: CustodyError) -> bytes:
    return json.dumps({"type": type(error).__name__} | error.as_dict()).encode()


def _started(spec: Spec, asked: dict[str, Any], hidden: Path, folder: Path, way: WayOut | None) -> Deadman:
    if folder.exists():
        _taken(spec.name)
    parents = {name: Path(place) for name, place in asked["parents"].items()}
    token = _take_charge(spec, hidden, parents)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("control")
    listener.listen(64)
    listener.setblocking(False)

    def open_way(pid: int) -> None:
        if way and spec.network:
            way.open(spec.network, pid, asked["until"])

    launched = containers.start(spec, token, open_way) if spec.image else launch(spec, parents, token, open_way)
    if init := launched.init:
        told: dict[str, Any] = {"boot": processes.boot(), "pid": init.pid, "started": init.started}
        if way and (proxy := way.process):
            told["proxy"] = [proxy.pid, proxy.started]
        write_file("pids.json", told)
    deadman = Deadman(spec=spec, launched=launched, listener=listener, until=asked["until"], way=way)
    try:
        os.rename(hidden, folder)
    except OSError:  # somebody took the name meanwhile
        launched.abandon()
        _taken(spec.name)
    launched.release()
    return deadman


def _take_charge(spec: Spec, folder: Path, parents: Mapping[str, Path]) -> str:
    """Make the state folder and hold its lock for life."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise Unavailable(f"cannot be made: {error.strerror}", code="sandbox.state", where=str(folder)) from error
    os.chdir(folder)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    token = f"{mark_of(folder.parent)}-{os.urandom(8).hex()}"
    groups = [str(parent / group_name(token)) for parent in parents.values()]
    write_file("spec.json", spec.described() | {"token": token, "groups": groups})
    return token


def _taken(name: str) -> None:
    raise Refused(f"there is already a sandbox named {name}", code="sandbox.exists", hint="find it, or remove it")


def _as_dict(end: End) -> dict[str, Any]:
    return {name: getattr(end, name) for name in end.__dataclass_fields__}


def _put(wire: socket.socket, data: bytes) -> None:
    wire.sendall(_LENGTH.pack(len(data)) + data)


def _get(wire: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(wire, _LENGTH.size))
    return _exactly(wire, length)


def _exactly(wire: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = wire.recv(size - len(data))
        if not piece:
            raise EOFError("the other side has gone")
        data += piece
    return data
