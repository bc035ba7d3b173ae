"""A stand-in for a depositor's web server: serves a folder, and misbehaves on request.

Covers what goes wrong between an archive and the servers it fetches from: missing files, errors that pass, bodies
that are cut or slow, sizes that lie, redirects, servers that do not answer HEAD. It does not cover TLS or
authentication. Used by the demo and by the tests.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, cast
from urllib.parse import unquote, urlsplit

Fault = Literal["gone", "busy", "truncated", "slow", "liar", "redirect", "no-head", "loop"]


@dataclass
class Behaviour:
    """What happens to a path: the fault, and for how many requests (0: until mended)."""

    fault: Fault
    times: int = 0


@dataclass
class FileServer:
    """Serve `root` on loopback. `faults` maps a path to how it misbehaves; `mend` ends that."""

    root: Path
    port: int = 0
    faults: dict[str, Behaviour] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    pause: float = 0.0  # seconds before each body, so that people can watch

    def start(self) -> FileServer:
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.owner = self
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def misbehave(self, path: str, fault: Fault, times: int = 0) -> None:
        self.faults[path] = Behaviour(fault, times)

    def mend(self, path: str = "") -> None:
        """This path behaves from now on; without one, all do."""
        if path:
            self.faults.pop(path, None)
        else:
            self.faults.clear()

    def fault_of(self, path: str) -> Fault | None:
        found = self.faults.get(path)
        if found is None:
            return None
        if found.times:
            found.times -= 1
            if not found.times:
                del self.faults[path]
        return found.fault


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    owner: FileServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        time.sleep(cast(_Server, self.server).owner.pause)
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the tests and the demo have better things to show."""

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        owner = cast(_Server, self.server).owner
        owner.requests[path] += 1
        fault = owner.fault_of(path)
        file = owner.root / path.lstrip("/")
        if fault == "gone" or not file.is_file():
            return self._plain(404, "there is no such file")
        if fault == "busy":
            return self._plain(503, "come back later", {"Retry-After": "0"})
        if fault == "no-head" and not body:
            return self._plain(405, "HEAD is not allowed")
        if fault in ("redirect", "loop"):
            target = self.path if fault == "loop" else self.path + "?again"
            return self._plain(302, "elsewhere", {"Location": target})
        self._serve(file.read_bytes(), body, fault)

    def _plain(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _serve(self, data: bytes, body: bool, fault: Fault | None) -> None:
        start, part = self._range(data)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        size = len(part) * 3 if fault == "liar" else len(part)
        self.send_header("Content-Length", str(size))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{hash(data) & 0xFFFFFFFF:x}"')
        self.end_headers()
        if not body:
            return
        if fault in ("truncated", "liar"):
            self.wfile.write(part[: len(part) // 2])
            self.close_connection = True
        elif fault == "slow":
            self._slowly(part)
        else:
            self.wfile.write(part)

    def _slowly(self, part: bytes) -> None:
        for at in range(0, len(part), 1024):
            try:
                self.wfile.write(part[at : at + 1024])
                self.wfile.flush()
            except OSError:
                return  # the client lost patience
            time.sleep(0.02)

    def _range(self, data: bytes) -> tuple[int, bytes]:
        asked = self.headers.get("Range", "")
        if not asked.startswith("bytes=") or not asked.endswith("-"):
            return 0, data
        start = min(int(asked[6:-1] or 0), len(data))
        return start, data[start:]
