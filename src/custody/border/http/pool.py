"""Connections to judged addresses, kept open for the next request to the same host.

A name is looked up once and every answer judged (`addresses.py`); then we connect to the address itself,
so there is no second lookup that could answer differently. The host's name is only used for the `Host`
header and for the certificate. Proxy settings of the environment are not looked at.
"""

from __future__ import annotations

import errno
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from custody.border.http.addresses import Resolver, vouched
from custody.border.http.deadlines import SLICE, Deadline
from custody.border.http.http11 import Wire
from custody.border.http.policy import Policy
from custody.border.http.urls import Target
from custody.errors import CustodyError, Refused, Unavailable, Unsafe

# An address and a port become a connected socket; the third argument is called at least every tenth of a
# second while waiting, and raises when it is time to stop.
Connector = Callable[[str, int, Callable[[], None]], socket.socket]

_ADDRESSES = 4  # of one host are tried before giving up


def connect(address: str, port: int, tick: Callable[[], None]) -> socket.socket:
    """Connect to an address (never a name)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        result = sock.connect_ex((address, port))
        if result == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(sock, select.POLLOUT)
            while not poll.poll(SLICE * 1000):
                tick()
            result = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            raise OSError(result, "cannot connect")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    except BaseException:
        sock.close()
        raise


@dataclass(slots=True)
class _Host:
    """What is known about one host and port."""

    slots: threading.Semaphore
    lookup: threading.Lock = field(default_factory=threading.Lock)
    addresses: list[str] = field(default_factory=list)
    judged_at: float = 0.0
    idle: list[Wire] = field(default_factory=list)


class Pool:
    """The connections of one fetcher."""

    def __init__(self, policy: Policy, resolver: Resolver, connector: Connector) -> None:
        self._policy = policy
        self._resolver = resolver
        self._connector = connector
        self._hosts: dict[tuple[str, str, int], _Host] = {}
        self._lock = threading.Lock()
        # Reading the system's authorities takes a while: only when needed. A file that was named is read at once,
        # so that a wrong name is found out at once.
        self._tls = _tls_context(policy) if policy.ca_file else None

    def take(self, target: Target, watch: Deadline, *, fresh: bool = False) -> Wire:
        """A connection for one request. Waits while the host has as many as it may have."""
        watch.idle()
        host = self._host(target)
        while not host.slots.acquire(timeout=SLICE):
            watch.tick()
        try:
            wire = None if fresh else self._idle(host)
            return wire or self._connected(host, target, watch)
        except BaseException:
            host.slots.release()
            raise

    def give(self, wire: Wire) -> None:
        """Back after the request; kept open if its answer was read to the end and the server agrees."""
        host = self._hosts[wire.origin]
        if wire.reusable:
            with self._lock:
                host.idle.append(wire)
        else:
            wire.close()
        host.slots.release()

    def close(self) -> None:
        with self._lock:
            for host in self._hosts.values():
                while host.idle:
                    host.idle.pop().close()

    def _host(self, target: Target) -> _Host:
        host = self._hosts.get(target.origin)
        if host is None:
            with self._lock:
                host = self._hosts.setdefault(target.origin, _Host(threading.Semaphore(self._policy.per_host)))
        return host

    def _idle(self, host: _Host) -> Wire | None:
        while True:
            with self._lock:
                if not host.idle:
                    return None
                wire = host.idle.pop()
            if time.monotonic() - wire.last_used < self._policy.idle_seconds:
                return wire
            wire.close()

    def _connected(self, host: _Host, target: Target, watch: Deadline) -> Wire:
        addresses = self._addresses(host, target, watch)
        watch.phase(self._policy.connect_seconds, "net.unreachable", "the server cannot be reached in time")
        lost: OSError | None = None
        for address in addresses[:_ADDRESSES]:
            try:
                sock = self._connector(address, target.port, watch.tick)
            except OSError as error:
                lost = error
                continue
            sock.settimeout(SLICE)
            return Wire(self._secured(sock, target, watch), target, self._policy)
        raise Unavailable(f"the server cannot be reached: {lost}", code="net.unreachable", where=target.shown)

    def _addresses(self, host: _Host, target: Target, watch: Deadline) -> list[str]:
        while not host.lookup.acquire(timeout=SLICE):
            watch.tick()
        try:
            if not host.addresses or time.monotonic() - host.judged_at > self._policy.lookup_seconds:
                answers = [target.literal] if target.literal else self._looked_up(target, watch)
                host.addresses = vouched(target.host, answers, self._policy.networks, self._policy.forbidden)
                host.judged_at = time.monotonic()
            return host.addresses
        finally:
            host.lookup.release()

    def _looked_up(self, target: Target, watch: Deadline) -> Sequence[str]:
        """Ask the resolver, in a thread of its own: the system's cannot be interrupted."""
        watch.phase(self._policy.connect_seconds, "dns.unavailable", "the host's address was not found in time")
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._resolver(target.host, target.port))
            except Exception as error:  # raised again below, where somebody listens
                answers.put(error)

        threading.Thread(target=ask, name="resolver", daemon=True).start()
        while True:
            try:
                answer = answers.get(timeout=SLICE)
            except queue.Empty:
                watch.tick()
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer

    def _secured(self, sock: socket.socket, target: Target, watch: Deadline) -> socket.socket:
        if target.scheme == "http":
            return sock
        try:
            self._tls = self._tls or _tls_context(self._policy)
            secured = self._tls.wrap_socket(
                sock, server_hostname=target.host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
            _shake_hands(secured, watch)
            return secured
        except OSError as error:
            sock.close()
            raise _tls_error(error, target) from error
        except BaseException:
            sock.close()
            raise


def _shake_hands(secured: ssl.SSLSocket, watch: Deadline) -> None:
    try:
        while True:
            try:
                return secured.do_handshake()
            except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                watch.tick()
    except BaseException:
        secured.close()
        raise


def _tls_context(policy: Policy) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=policy.ca_file)
    except OSError as error:
        raise Unsafe(
            f"the file of the trusted authority cannot be read: {error}",
            code="tls.ca_file",
            where=policy.ca_file or "",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _tls_error(error: OSError, target: Target) -> CustodyError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(
            f"the server's certificate is not trusted: {error.verify_message}",
            code="tls.untrusted",
            where=target.shown,
            hint="the server must renew it, or an administrator name its authority for the collection",
        )
    return Unavailable(f"no secure connection: {error}", code="tls.failed", where=target.shown)
