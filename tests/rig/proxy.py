"""A TCP proxy that cuts when it hurts: after the server has done its work, before anybody hears of it.

    with Proxy(postgres.port) as proxy:
        cut = proxy.cut_answer(b"COMMIT")     # the next connection that says COMMIT never learns how it went
        ...
        assert cut.wait(5)

Bytes are not understood, only searched. With a protocol in which one request follows another's answer (plain
PostgreSQL, HTTP, SMTP) the answer that is cut is the answer to the request that was found; with pipelined
requests it is the first thing the server says after it.
"""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass, field
from types import TracebackType

from rig.program import LOOPBACK

RESET = struct.pack("ii", 1, 0)  # close without goodbye: the other side sees "connection reset by peer"


@dataclass(eq=False, slots=True)
class Link:
    """One client's connection and ours to the server."""

    client: socket.socket
    server: socket.socket
    open: int = 2  # directions that still flow
    cut: bool = False

    def reset(self) -> None:
        self.cut = True
        for end in (self.client, self.server):
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads here
            except OSError:
                pass
            end.close()


@dataclass(eq=False, slots=True)
class Cut:
    """A cut that is waiting for its moment."""

    word: bytes
    answer: bool
    said: dict[Link, bytes] = field(default_factory=dict)  # since it was asked for; a word may come in pieces
    link: Link | None = None
    happened: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Listens on `port`, forwards to `target` on loopback; one thread for each direction of a connection."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._flowing = {upwards: threading.Event() for upwards in (True, False)}
        self.resume()
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._cut: Cut | None = None
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, what: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def cut_answer(self, to: bytes = b"") -> threading.Event:
        """Let the next request that has these bytes through, and reset at the first byte of its answer."""
        return self._arm(Cut(to, answer=True))

    def cut_request(self, having: bytes = b"") -> threading.Event:
        """Reset when the next request that has these bytes arrives: the server never sees it."""
        return self._arm(Cut(having, answer=False))

    def cut_all(self) -> None:
        """Reset every connection now; new ones are welcome."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.reset()

    def freeze(self, *, up: bool = True, down: bool = True) -> None:
        """Hold everything back with the connections open, both ways or one: a network that has gone silent."""
        for held, way in ((up, True), (down, False)):
            if held:
                self._flowing[way].clear()

    def resume(self) -> None:
        for way in self._flowing.values():
            way.set()

    def calm(self) -> None:
        """No more trouble: what waits for its moment is called off."""
        with self._lock:
            self._cut = None
        self.resume()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # a close alone leaves the waiting accept one more client
        self._listener.close()
        self.resume()
        self.cut_all()

    def _arm(self, cut: Cut) -> threading.Event:
        with self._lock:
            self._cut = cut
        return cut.happened

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxy-up", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing[True].wait()
        try:
            server = socket.create_connection((LOOPBACK, self.target), timeout=5)
        except OSError:  # as a server that is down would answer
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
            return
        server.settimeout(None)
        link = Link(client, server)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._links.add(link)
        threading.Thread(target=self._pump, args=(link, False), name="proxy-down", daemon=True).start()
        self._pump(link, True)

    def _pump(self, link: Link, upwards: bool) -> None:
        source, sink = (link.client, link.server) if upwards else (link.server, link.client)
        try:
            while data := source.recv(65536):
                self._flowing[upwards].wait()
                if self._cuts(link, data, upwards):
                    link.reset()
                    return
                sink.sendall(data)
            if not link.cut:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            link.reset()
        finally:
            self._ended(link)

    def _ended(self, link: Link) -> None:
        with self._lock:
            link.open -= 1
            if link.open:
                return
            self._links.discard(link)
        link.client.close()
        link.server.close()

    def _cuts(self, link: Link, data: bytes, upwards: bool) -> bool:
        """Is this the moment? A cut is used once."""
        with self._lock:
            cut = self._cut
            if cut is None:
                return False
            if upwards:
                cut.said[link] = (cut.said.get(link, b"") + data)[-65536 - len(cut.word) :]
                if cut.word not in cut.said[link]:
                    return False
                if cut.answer:
                    cut.link = link
                    return False
            elif cut.link is not link:
                return False
            self._cut = None
        cut.happened.set()
        return True
