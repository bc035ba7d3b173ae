"""An HTTP server that does exactly what a test tells it to, wrong things included.

It listens on 127.0.0.1 only. A route is the bytes to send, or a function that gets the request and the
connection and says whether to keep it open.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    path: str
    fields: dict[str, str]
    body: bytes = b""


Route = bytes | Callable[[Request, socket.socket], bool]


def reply(body: bytes = b"", status: int = 200, length: int | None = None, **fields: str) -> bytes:
    """A well-formed answer, or one that lies about its length."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Server:
    routes: dict[str, Route] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    busiest: int = 0  # the most connections at once
    tls: ssl.SSLContext | None = None
    threads: list[threading.Thread] = field(default_factory=list)
    _open: set[socket.socket] = field(default_factory=set)
    _closing: bool = False

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._accepting.join(5)
        for thread in self.threads:
            thread.join(5)

    def url(self, path: str = "/", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            self.busiest = max(self.busiest, len(self._open))
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        original = connection
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._talk(connection)
        except (OSError, ValueError):
            pass  # the client hung up
        finally:
            self._open.discard(original)
            connection.close()

    def _talk(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while line := stream.readline():
            method, path, _ = line.decode("latin-1").split(" ", 2)
            fields: dict[str, str] = {}
            while (text := stream.readline().decode("latin-1").strip()) != "":
                name, _, value = text.partition(":")
                fields[name.lower()] = value.strip()
            body = stream.read(int(fields.get("content-length", "0")))
            request = Request(method, path, fields, body)
            self.requests.append(request)
            route = self.routes.get(path) or self.routes.get(path.partition("?")[0]) or reply(b"no", 404)
            if isinstance(route, bytes):
                connection.sendall(route.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else route)
            elif not route(request, connection):
                return


def ranged(body: bytes, etag: str = '"v1"', **fields: str) -> Route:
    """A file with ranges, as good servers serve it."""

    def route(request: Request, connection: socket.socket) -> bool:
        start = range_start(request)
        stale = request.fields.get("if-range", etag) != etag
        if start is None or stale:
            connection.sendall(reply(body, ETag=etag, **fields))
        elif start >= len(body):
            connection.sendall(reply(b"", 416, Content_Range=f"bytes */{len(body)}"))
        else:
            end = range_end(request, len(body))
            where = f"bytes {start}-{end}/{len(body)}"
            connection.sendall(reply(body[start : end + 1], 206, Content_Range=where, ETag=etag, **fields))
        return True

    return route


def range_start(request: Request) -> int | None:
    asked = request.fields.get("range", "")
    return int(asked.removeprefix("bytes=").partition("-")[0]) if asked else None


def range_end(request: Request, size: int) -> int:
    last = request.fields.get("range", "").partition("-")[2]
    return min(int(last), size - 1) if last else size - 1
