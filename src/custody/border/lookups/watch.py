"""Looks on while a confined program runs, and ends the part of it that asks for what it is not shown.

Where a gate of somebody's (a hook that may refuse) is run confined, a file that it asks for may be there and not be
seen; the gate takes that for "there is no such thing", and lets pass what it would have refused. So the kernel tells of
each lookup before it is done (seccomp's user notification). Is there something of this name outside and not inside,
then the gate is killed at that very moment, which its caller takes for a refusal, and what it asked for is kept.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from custody.border.lookups import calls, launcher
from custody.border.sandbox import host_tool
from custody.border.sandbox.host_tool import Owner, Sight

_RECEIVE, _SEND, _VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE: Final = 1
_OPENAT2, _IN_ROOT = 437, 0x10
_LONGEST: Final = 4096
_UNIX, _NETWORKS = 1, {2: (4, 8), 10: (8, 24)}  # where in an address of IPv4 and IPv6 the address itself is
_HERE = -100  # AT_FDCWD
_WITHIN = 30.0  # seconds for the program to begin
_NOT_OF_FILES: Final = ("/proc", "/sys", "/dev")
_BY_ITSELF: Final = (
    "/etc/gitconfig",
    "/etc/subversion",
    "/etc/ld.so.preload",
    "/etc/inputrc",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/nscd.conf",
    "/run/nscd",
    "/var/run/nscd",
    "/run/systemd",
    "/var/run/systemd",
)
"""What git, shells and the C library look at by themselves, whatever they are asked. What git's settings there would
refuse is looked at before (`commit_gates.py`)."""
_AT_HOME: Final = (".gitconfig", ".config/git", ".subversion", ".profile", ".bashrc")
_TRIAL: Final = (
    'mkdir /tmp/hooks && printf "#!/bin/sh\\n[ -e %s ]\\n" "$1" > /tmp/hooks/gate && chmod 755 /tmp/hooks/gate && '
    "/tmp/hooks/gate; true"
)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Missed:
    gate: str
    what: str  # a path, or an address of the network


class Watch:
    """One command whose gates are looked after: `argv` begins it."""

    def __init__(self, gates: Sequence[str], home: str) -> None:
        self._gates, self._ignored = frozenset(gates), (*_BY_ITSELF, *(f"{home}/{name}" for name in _AT_HOME))
        self.missed: Missed | None = None
        self._running: dict[int, tuple[int, str]] = {}  # process: the gate that it is of, by process and name

    def __enter__(self) -> Watch:
        self._folder = tempfile.TemporaryDirectory(prefix="custody-watch-")
        self._place = str(Path(self._folder.name, "told"))
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self._place)
        self._listening.listen(1)
        self._over, self._end = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end)
        self._thread.join()
        self._listening.close()
        os.close(self._over)
        self._folder.cleanup()

    def argv(self, command: Sequence[str]) -> list[str]:
        known = _known()
        given = [self._place, str(known.seccomp), calls.program(known).hex()]
        return [_python(), "-I", "-S", launcher.__file__, *given, *command]

    def _look(self) -> None:
        if not self._waited(self._listening.fileno()):
            return
        with self._listening.accept()[0] as way:
            if not self._waited(way.fileno()):
                return
            _, given, _, _ = socket.recv_fds(way, 1, 1)
        if not given:
            return
        try:
            while self._waited(given[0]):
                if not self._answered(given[0]):
                    return
        finally:
            os.close(given[0])  # what is still asked there is answered with "no such call"

    def _waited(self, descriptor: int) -> bool:
        """Whether there is something to read before it is over."""
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(self._over, 0)
        told = dict(waiting.poll())
        return self._over not in told and bool(told.get(descriptor, 0) & select.POLLIN)

    def _answered(self, told: int) -> bool:
        asked = bytearray(80)
        try:
            fcntl.ioctl(told, _RECEIVE, asked)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # it was killed meanwhile
        number, pid = struct.unpack_from("=QI", asked)
        call = struct.unpack_from("=i", asked, 16)[0]
        arguments = struct.unpack_from("=6Q", asked, 32)
        try:
            self._judge(pid, call, arguments)
        except ProcessLookupError:
            pass  # it is gone, and asks for nothing
        except OSError as error:
            if self._gate(pid) and _is_valid(told, number):
                self._refuse(pid, f"something that cannot be seen ({error.strerror})")
        with suppress(OSError):
            fcntl.ioctl(told, _SEND, bytearray(struct.pack("=QqiI", number, 0, 0, _CONTINUE)))
        return True

    def _judge(self, pid: int, call: int, arguments: Sequence[int]) -> None:
        known = _known()
        if call == known.execve:
            name = os.fsdecode(_text(pid, arguments[0]))
            if os.path.basename(name) in self._gates and os.path.basename(os.path.dirname(name)) == "hooks":
                self._running[pid] = (pid, os.path.basename(name))
        if self._gate(pid) is None:
            return
        if call == known.connect:
            what = self._address(pid, arguments[1], int(arguments[2]))
        else:
            folder, place = (_HERE, arguments[0]) if call in known.plain else (_signed(arguments[0]), arguments[1])
            what = self._unseen(pid, folder, os.fsdecode(_text(pid, place)))
        if what:
            self._refuse(pid, what)

    def _gate(self, pid: int) -> tuple[int, str] | None:
        """Which gate a process is of: itself, or one above it."""
        way = list[int]()
        here = pid
        while here > 1 and here not in self._running:
            way.append(here)
            here = _parent(here)
        found = self._running.get(here)
        if found:
            self._running.update(dict.fromkeys(way, found))  # also when those above it have ended
        return found

    def _address(self, pid: int, place: int, length: int) -> str:
        data = _memory(pid, place, min(length, 128))
        family = struct.unpack_from("=H", data)[0] if len(data) > 2 else 0
        if family == _UNIX:
            path = os.fsdecode(data[2:].split(b"\0")[0])
            return self._unseen(pid, _HERE, path) if path else ""
        if family not in _NETWORKS:
            return ""
        start, end = _NETWORKS[family]
        address = socket.inet_ntop(family, data[start:end])
        return f"the network ({address}, port {struct.unpack_from('!H', data, 2)[0]})"

    def _unseen(self, pid: int, folder: int, name: str) -> str:
        """The path, if it is there outside and not inside."""
        if not name:
            return ""
        if not name.startswith("/"):
            name = os.path.join(os.readlink(f"/proc/{pid}/{'cwd' if folder == _HERE else f'fd/{folder}'}"), name)
        path = os.path.normpath(name)
        if not path.startswith("/") or _is_below(path, _NOT_OF_FILES) or _is_below(path, self._ignored):
            return ""
        if not _is_there(path) or _is_inside(pid, name):
            return ""
        return "" if _is_below(os.path.realpath(path), self._ignored) else path

    def _refuse(self, pid: int, what: str) -> None:
        found = self._gate(pid)
        if found is None:
            return
        gate, name = found
        with suppress(ProcessLookupError):  # it has ended, and what it left behind decides nothing
            os.kill(gate, signal.SIGKILL)
            self.missed = self.missed or Missed(name, what)


def _python() -> str:
    """Ours; or the machine's, where a worker that has given up its rights may not start its own again."""
    return next((each for each in (sys.executable, "/usr/bin/python3") if os.access(each, os.X_OK)), sys.executable)


def _known() -> calls.Calls:
    known = calls.of_this_machine()
    assert known is not None, "asked before: works()"
    return known


def _signed(number: int) -> int:
    return int(ctypes.c_int(number & 0xFFFFFFFF).value)


def _is_valid(told: int, number: int) -> bool:
    try:
        fcntl.ioctl(told, _VALID, bytearray(struct.pack("=Q", number)))
    except OSError:
        return False
    return True


def _memory(pid: int, place: int, most: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(place)
        return memory.read(most)


def _text(pid: int, place: int) -> bytes:
    """What stands there up to its end; what follows it may not be there to be read, so page by page."""
    if not place:
        return b""
    found = b""
    while b"\0" not in found and len(found) <= _LONGEST:
        try:
            piece = _memory(pid, place + len(found), 4096 - (place + len(found)) % 4096)
        except OSError as error:
            if error.errno == errno.EIO:
                return b""  # the kernel will find nothing there either
            raise
        if not piece:
            break
        found += piece
    return found.partition(b"\0")[0]


def _parent(pid: int) -> int:
    """A thread's is that of its process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    about = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return int(about["Tgid"]) if int(about["Tgid"]) != pid else int(about["PPid"])


def _is_below(path: str, tops: Sequence[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def _is_there(path: str) -> bool:
    """Outside; what may not be looked at may be there."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    return True


def _is_inside(pid: int, name: str) -> bool:
    """For that process: links lead to what is there for it."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT)
        found = int(_libc.syscall(_OPENAT2, root, os.fsencode(name), how, len(how)))
        if found < 0:
            return ctypes.get_errno() not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        os.close(found)
        return True
    finally:
        os.close(root)


@functools.cache
def works() -> bool:
    """Whether lookups are told on this machine, and can be read."""
    if calls.of_this_machine() is None or not host_tool.works():
        return False
    with tempfile.TemporaryDirectory(prefix="custody-watch-") as folder, Watch(["gate"], "/nonexistent") as watch:
        argv = ["sh", "-c", _TRIAL, "sh", folder]
        try:
            owner = Owner(os.geteuid(), os.getegid())
            subprocess.run(watch.argv(host_tool.command(argv, owner, Sight())), capture_output=True, timeout=_WITHIN)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return watch.missed == Missed("gate", folder)
