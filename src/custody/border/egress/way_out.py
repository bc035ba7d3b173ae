"""The process through which one sandbox reaches the network, and the deadman's hold on it.

The sandbox has a network of its own in which there is nothing but its loopback. There the proxy listens, on
127.0.0.1:3128: its socket is made inside, before any command runs, and handed out to a process that is set apart
(isolation.py), forked before the deadman has heard of a secret. So nothing has to be put into the sandbox or into an
image, and whoever can talk to the socket is the sandbox: there is no password to lose.

It lives as long as the deadman holds the line to it. Killing it cuts every connection. It holds the time by itself
(gate.py): nothing passes that nobody has lately confirmed, be worker and deadman stopped and what it serves alive.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from custody.border import processes
from custody.border.egress.allowance import PORT, Egress, egress_from
from custody.border.egress.gate import Gate, clock
from custody.border.egress.isolation import begin_anew, set_apart
from custody.border.egress.proxy import Proxy
from custody.errors import CustodyError, Unavailable

FIRST_UID, UIDS = 1_900_065_536, 65_536  # beside those of the sandboxes
_MEMORY, _STACK = 512 << 20, 1 << 20
_MESSAGE = 1 << 20
_ANSWER_WITHIN = 20.0
_LOOK_AGAIN = 10.0  # at the clock, which runs on while the machine sleeps
_MORE_THAN_ALLOWED = 16  # connections that are heard, and told that they are too many
_OWNER, _NEW_USER, _NEW_NET = 0xB701, 0x10000000, 0x40000000  # NS_GET_USERNS and kinds of namespaces
_FREEBIND = 15
_libc = ctypes.CDLL(None, use_errno=True)


class WayOut:
    """Held by the deadman."""

    def __init__(self) -> None:
        """Fork the process; it does nothing yet. To be called while there is nothing here that it must not know."""
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE)
        child = os.fork()
        if child == 0:
            _become_proxy(theirs)
        theirs.close()
        self._wire.settimeout(_ANSWER_WITHIN)
        self._said: dict[str, Any] = {}
        self._renewed: dict[str, Any] = {}
        try:
            self._process = processes.look(self._heard("pid"))
        finally:
            os.waitpid(child, 0)  # that was the one which is left behind; its child is ours, as we adopt orphans

    def _heard(self, word: str) -> Any:
        """Wait for it; the two who speak do so in any order."""
        while word not in self._said:
            self._said |= json.loads(self._wire.recv(_MESSAGE) or b'{"error": "the proxy has ended"}')
            if "error" in self._said:
                raise Unavailable(self._said["error"], code="sandbox.egress", hint=self._said.get("hint", ""))
        return self._said[word]

    def fileno(self) -> int:
        return self._wire.fileno()

    def open(self, egress: Egress, pid: int, lease: float) -> None:
        """Let it listen inside the sandbox of this process."""
        self._heard("ready")
        told = {"egress": egress.as_dict(), "fresh": clock() + egress.fresh, "lease": lease}
        with _listening(pid) as listener:
            socket.send_fds(self._wire, [json.dumps(told).encode()], [listener.fileno()])
        self._wire.setblocking(False)

    def renew(self, fresh: float, lease: float, granted: Sequence[str] | None) -> None:
        """How long it may be used, and what is granted now, if that has changed. If that cannot be said, nothing is."""
        told = {"fresh": fresh, "lease": lease} | ({} if granted is None else {"granted": list(granted)})
        if told == self._renewed:
            return
        try:
            self._wire.send(json.dumps(told).encode(), socket.MSG_DONTWAIT)
            self._renewed = told
        except OSError:
            if granted is not None:  # else its time passes
                self.cut()

    def hear(self) -> str | None:
        """What is to be told in the log; None if it has gone, and nothing more will be heard."""
        try:
            piece = self._wire.recv(_MESSAGE)
        except BlockingIOError:
            return ""
        except OSError:  # it was killed with something unread
            return None
        return str(json.loads(piece)["tell"]) if piece else None

    def finish(self, seconds: float) -> None:
        """The sandbox has ended by itself: what it has sent is passed on, for so long at most."""
        with suppress(OSError):
            self._wire.send(b'{"last": true}', socket.MSG_DONTWAIT)
            if self._process and (descriptor := processes.opened(self._process)) is not None:
                processes.gone(descriptor, max(0.0, seconds))
                os.close(descriptor)
        self.cut()

    @property
    def process(self) -> processes.Process | None:
        return self._process

    def cut(self) -> None:
        """End it, and with it every connection."""
        if self._process is not None:
            processes.kill(self._process, 10)
            self._process = None


def _listening(pid: int) -> socket.socket:
    """A socket of the sandbox's own network, in which this process is not."""
    ours, theirs = socket.socketpair()
    with ours:
        child = os.fork()
        if child == 0:
            _listen_inside(pid, theirs)
        theirs.close()
        ours.settimeout(_ANSWER_WITHIN)
        try:
            word, found, _, _ = socket.recv_fds(ours, 4096, 1)
        finally:
            os.waitpid(child, 0)
    if not found:
        said = word.decode(errors="replace") or "no answer"
        raise Unavailable(f"no way out of the sandbox can be made: {said}", code="sandbox.egress")
    return socket.socket(fileno=found[0])


def _listen_inside(pid: int, wire: socket.socket) -> NoReturn:
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        owner = fcntl.ioctl(network, _OWNER)
        if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:  # one cannot enter where one is
            _enter(owner, _NEW_USER)
        _enter(network, _NEW_NET)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)  # its loopback may not be up yet
        listener.bind(("127.0.0.1", PORT))
        listener.listen(128)
        socket.send_fds(wire, [b"!"], [listener.fileno()])
    except BaseException as error:
        wire.send(f"{type(error).__name__}: {error}".encode())
    os._exit(0)


def _enter(namespace: int, kind: int) -> None:
    if _libc.setns(namespace, kind):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _become_proxy(wire: socket.socket) -> NoReturn:
    """Keep nothing of the deadman but the line to it."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a machine that shuts down asks the deadman, who sees to us
        _close_all_but(wire.fileno())
        child = begin_anew(FIRST_UID + os.getpid() % UIDS if os.geteuid() == 0 else None)
        if child:
            wire.send(json.dumps({"pid": child}).encode())
            os._exit(0)
        set_apart(_MEMORY, files=1024)
        wire.send(b'{"ready": true}')
        _serve(wire)
    except CustodyError as error:
        wire.send(json.dumps({"error": error.message, "hint": error.hint}).encode())
    except BaseException as error:
        wire.send(json.dumps({"error": f"the proxy does not start: {error!r}"}).encode())
    finally:
        os._exit(1)


def _close_all_but(kept: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    os.closerange(3, kept)
    os.closerange(kept + 1, highest + 1)


def _serve(wire: socket.socket) -> None:
    """Until the deadman lets go."""
    told, listeners, _, _ = socket.recv_fds(wire, _MESSAGE, 1)
    if not told:
        return
    begun = json.loads(told)
    egress, gate = egress_from(begun["egress"]), Gate(begun["fresh"], begun["lease"])
    proxy = Proxy(egress, lambda text: _tell(wire, text), gate=gate)
    listener = socket.socket(fileno=listeners[0])
    listener.setblocking(False)
    threading.stack_size(_STACK)
    poll = select.poll()
    poll.register(wire, select.POLLIN)
    poll.register(listener, select.POLLIN)
    meet: dict[int, Callable[[], object]] = {
        wire.fileno(): lambda: _obey(wire, proxy),
        listener.fileno(): lambda: _meet(listener, proxy, egress),
    }
    was_open = True
    while True:
        left = gate.left
        if was_open and not left:
            proxy.cut()
        was_open = left > 0
        for descriptor, _ in poll.poll(min(left, _LOOK_AGAIN) * 1000 if left else None):
            meet[descriptor]()


def _obey(wire: socket.socket, proxy: Proxy) -> None:
    word = wire.recv(_MESSAGE)
    if not word:
        os._exit(0)  # the deadman has gone, and all that goes on here ends
    said: dict[str, Any] = json.loads(word)
    if "granted" in said:
        proxy.grant(said["granted"])
    if "fresh" in said:
        proxy.gate.renew(said["fresh"], said["lease"])
    while said.get("last"):
        if proxy.has_passed_all:
            os._exit(0)
        time.sleep(0.005)


def _meet(listener: socket.socket, proxy: Proxy, egress: Egress) -> None:
    with suppress(OSError):
        wire, _ = listener.accept()
        if proxy.open >= egress.rules.connections + _MORE_THAN_ALLOWED:
            wire.close()
            return
        try:
            threading.Thread(target=proxy.serve, args=(wire,), daemon=True).start()
        except RuntimeError:  # no more threads: the others go on
            wire.close()


def _tell(wire: socket.socket, text: str) -> None:
    with suppress(OSError):  # more than the deadman can hear is not heard
        wire.send(json.dumps({"tell": text}).encode(), socket.MSG_DONTWAIT)
