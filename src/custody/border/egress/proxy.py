"""The one way out of a sandbox: connects for it, to what is granted, and to nothing else.

A name is looked up once, only if it is granted; all its addresses must be public, and not this machine's own; the
connection goes to the very address that was judged. What is refused is answered with a reason, and told in the
task's log with what to do about it; neither names an address, which would tell of the network inside.

One proxy serves one sandbox: it need not be told who asks. `way_out.py` runs it in a process that sees nothing.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 -- looked for when the first name is looked up, where there are no files any more
import shlex  # noqa: F401 -- and this when the first grant is named
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address

from custody.border.egress import request, tls_hello
from custody.border.egress.allowance import TLS, Egress, Place, command, must_be_named, read_place
from custody.border.egress.gate import Gate
from custody.border.egress.relay import Pipe, Silent, pump
from custody.border.egress.request import Request
from custody.border.http.addresses import NEVER, Resolver, system_resolver, vouched
from custody.errors import CustodyError, Refused, Unavailable

HEAD_SECONDS = 30.0
_MOST_TOLD = 50
_STATUS = {"egress.request": "400 Bad Request", "egress.connect": "502 Bad Gateway"}
_PARTING_SECONDS = 2.0
Dial = Callable[[str, int, float], socket.socket]
"""An address, a port and how long to try."""


def dial(address: str, port: int, seconds: float) -> socket.socket:
    wire = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        wire.settimeout(seconds)
        wire.connect((address, port))
    except BaseException:
        wire.close()
        raise
    return wire


def is_ours(address: str) -> bool:
    """Is it this machine itself, be it by a public address? Who talks to himself does so from the same address.

    Nothing is sent. (Whether it can be bound would not tell: machines that take over each other's addresses bind any.)
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.connect((address, 9))
        except OSError:  # no way leads there
            return False
        return ip_address(tried.getsockname()[0]) == ip_address(address)


class Proxy:
    """All connections of one sandbox. `serve` is called in a thread for each."""

    def __init__(
        self,
        egress: Egress,
        tell: Callable[[str], None],
        *,
        resolve: Resolver = system_resolver,
        dial: Dial = dial,
        ours: Callable[[str], bool] = is_ours,
        gate: Gate | None = None,
    ) -> None:
        self._egress, self._rules = egress, egress.rules
        self._tell, self._resolve, self._dial, self._ours = tell, resolve, dial, ours
        self.gate = gate or Gate()
        self._inner = egress.rules.networks()
        self._asked = [read_place(each) for each in egress.asked]
        self._granted = [read_place(each) for each in egress.granted]
        self._lock = threading.Lock()
        self._lines: set[_Line] = set()
        self._told: set[str] = set()
        self._left = {"sent": egress.rules.bytes_out, "got": egress.rules.bytes_in}

    @property
    def open(self) -> int:
        return len(self._lines)

    @property
    def has_passed_all(self) -> bool:
        """Nothing is on its way out any more."""
        with self._lock:
            return all(line.sent for line in self._lines)

    def grant(self, granted: Sequence[str]) -> None:
        """This is granted from now on; what goes on without being granted is cut."""
        places = [read_place(each) for each in granted]
        with self._lock:
            self._granted = places
            for line in self._lines:
                if line.place and not _covered(line.place, places):
                    line.cut()

    def cut(self) -> None:
        """The lease has ended: so does what goes on."""
        with self._lock:
            for line in self._lines:
                line.cut()

    def serve(self, wire: socket.socket) -> None:
        """One connection from its first byte to its last. Never raises: there is nobody to tell but the log."""
        line = _Line(wire)
        with self._lock:
            self._lines.add(line)
        try:
            self._serve(line)
        except CustodyError as error:
            self._refuse(line, error)
        except Silent:
            self._note(f"{line.place} was silent for {self._rules.silence:g} s, and was cut")
        except OSError:
            pass  # one of the two has gone
        except Exception as error:  # it must not end the others
            self._note(f"a connection was given up: {type(error).__name__}")
        finally:
            with self._lock:
                self._lines.discard(line)
            line.close()

    def _serve(self, line: _Line) -> None:
        head, rest = _read_head(line.wire)
        asked = request.read_request(head)
        self.gate.enter()
        with self._lock:
            if len(self._lines) > self._rules.connections:
                raise _budget(f"more than {self._rules.connections} connections at once")
            self._must_be_granted(asked.place)
            line.place = asked.place
        self._use("sent", 0)
        self._use("got", 0)
        far = self._connected(asked)
        line.reach(far)
        self.gate.enter()
        if asked.head:
            self._pass_request(line, far, asked, rest)
        else:
            self._pass_all(line, far, asked, rest)

    def _must_be_granted(self, place: Place) -> None:
        _must_be_a_name(place)
        lacks = bool(self._asked) and not _covered(place, self._asked)
        if not _covered(place, self._granted):
            name, how = self._egress.subject.partition("/")[2], f"`{command(self._egress.subject, str(place))}`"
            if lacks:
                what, hint = (
                    "neither asked for nor granted",
                    f"`network` has to name it, and an operator to grant it: {how}",
                )
            else:
                what, hint = "not granted", f"an operator can: {how}"
            raise Refused(f"{place} is {what} to {name}", code="egress.host", hint=hint)
        if lacks:
            raise Refused(f"{place} is not asked for", code="egress.host", hint="`network` has to name it")

    def _connected(self, asked: Request) -> socket.socket:
        """To an address that was judged, and to none that was not."""
        until = time.monotonic() + self._rules.connect
        addresses = self._judged(asked)
        for address in addresses:
            with suppress(OSError):
                return self._dial(address, asked.place.port, max(0.1, until - time.monotonic()))
        raise Unavailable(f"{asked.place} does not answer", code="egress.connect")

    def _judged(self, asked: Request) -> list[str]:
        host = asked.place.host
        try:
            found = vouched(host, self._resolve(host, asked.place.port), self._inner, NEVER)
        except Refused as error:  # which says where it leads, and that is not for everybody
            raise _inside(asked.place) from error
        except CustodyError as error:
            raise Unavailable(f"{host}: {error.message}", code="egress.connect") from error
        if any(self._ours(address) for address in found):  # whatever the configuration opens
            raise _inside(asked.place)
        return found

    def _pass_all(self, line: _Line, far: socket.socket, asked: Request, rest: bytes) -> None:
        wire = line.wire
        wire.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        if asked.place.port == TLS:
            rest = self._said_to_be(wire, asked, rest)
        out, back = Pipe(wire, far, self._count("sent"), rest), Pipe(far, wire, self._count("got"))
        self._pump(line, out, back)

    def _pass_request(self, line: _Line, far: socket.socket, asked: Request, rest: bytes) -> None:
        """One request and its answer: what comes after them is for nobody."""
        count = self._count("sent")
        count(len(asked.head))
        far.sendall(asked.head)
        out = Pipe(line.wire, far, count, rest[: asked.length], most=asked.length)
        self._pump(line, out, Pipe(far, line.wire, self._count("got")))

    def _pump(self, line: _Line, out: Pipe, back: Pipe) -> None:
        def over() -> bool:
            return line.has_sent(out) and back.over

        pump((out, back), self._rules.silence, self.gate.enter, over)

    def _said_to_be(self, wire: socket.socket, asked: Request, data: bytes) -> bytes:
        """The first words of TLS, if they are for the host that was asked for: a server may answer for many."""
        until = time.monotonic() + HEAD_SECONDS
        while True:
            try:
                name = tls_hello.server_name(data)
                break
            except tls_hello.Unfinished:
                if len(data) > tls_hello.MOST:
                    raise Refused("its first words have no end", code="egress.tls") from None
                data += _piece(wire, until)
        if name != asked.place.host:
            hint = "the name in TLS must be the one that was asked for"
            raise Refused(f"{asked.place} was asked for, and another host meant", code="egress.tls", hint=hint)
        return data

    def _count(self, way: str) -> Callable[[int], None]:
        return lambda size: self._use(way, size)

    def _use(self, way: str, size: int) -> None:
        with self._lock:
            self._left[way] -= size
            over = self._left[way] <= 0
        if over:
            most = self._rules.megabytes_out if way == "sent" else self._rules.megabytes_in
            raise _budget(f"{most} MiB were {way}")

    def _refuse(self, line: _Line, error: CustodyError) -> None:
        code = error.code if error.code.startswith("egress.") else "egress.request"
        self._note(f"{error.message}{f'; {error.hint}' if error.hint else ''}")
        if line.far is not None:  # bytes are passing: no answer fits between them
            return
        text = f"{error.message}\n{error.hint}\n".encode()
        lines = [
            f"HTTP/1.1 {_STATUS.get(code, '403 Forbidden')}",
            f"X-Custody-Reason: {code}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(text)}",
            "Connection: close",
            "",
            "",
        ]
        with suppress(OSError):
            line.wire.sendall("\r\n".join(lines).encode() + text)
            line.wire.shutdown(socket.SHUT_WR)
            until = time.monotonic() + _PARTING_SECONDS  # closed with something unread, the answer would be lost
            while _piece(line.wire, until):
                pass

    def _note(self, text: str) -> None:
        with self._lock:
            if text in self._told or len(self._told) > _MOST_TOLD:
                return
            self._told.add(text)
            full = len(self._told) > _MOST_TOLD
        self._tell("network: more was refused, which is not told" if full else f"network: {text}")


class _Line:
    """A connection from inside, and the one that was made for it."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.far: socket.socket | None = None
        self.place: Place | None = None
        self._lock = threading.Lock()
        self._is_cut = False
        self.sent = False  # all that came from inside has been passed on

    def has_sent(self, out: Pipe) -> bool:
        self.sent = out.over
        return self.sent

    def reach(self, far: socket.socket) -> None:
        with self._lock:
            self.far = far
            if self._is_cut:
                raise ConnectionAbortedError

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for wire in (self.wire, self.far):
                if wire is not None:
                    with suppress(OSError):
                        wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            self.wire.close()
            if self.far is not None:
                self.far.close()


def _covered(place: Place, by: Sequence[Place]) -> bool:
    return any(each.covers(place) for each in by)


def _read_head(wire: socket.socket) -> tuple[bytes, bytes]:
    data, until = b"", time.monotonic() + HEAD_SECONDS
    while b"\r\n\r\n" not in data:
        if len(data) > request.MOST:
            raise Refused("the request's head has no end", code="egress.request")
        data += _piece(wire, until)
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _piece(wire: socket.socket, until: float) -> bytes:
    wire.settimeout(max(0.01, until - time.monotonic()))
    data = wire.recv(16384)
    if not data or time.monotonic() > until:
        raise ConnectionAbortedError
    return data


def _budget(what: str) -> Refused:
    hint = "an operator can allow more: [network] in custody.toml"
    return Refused(f"the budget is used up: {what}", code="egress.budget", hint=hint)


def _inside(place: Place) -> Refused:
    return Refused(
        f"{place} leads to a place that is not public",
        code="egress.address",
        hint="no grant opens that: an operator names the network as `inner` in the [network] part of custody.toml; "
        "the machine itself, link-local addresses and a cloud's metadata stay closed even so",
    )


def _must_be_a_name(place: Place) -> None:
    """Refuse what no grant can open, so that none is named."""
    try:
        must_be_named(place)
    except Refused as error:
        raise Refused(error.message, code="egress.address", hint=error.hint) from error
    if "." not in place.host:
        hint = "no grant opens that: name the host with its domain"
        raise Refused(f"{place} is no host with its domain", code="egress.host", hint=hint)
