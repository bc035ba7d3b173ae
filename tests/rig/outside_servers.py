"""The servers of a small world (outside.py), run in one of its two networks: TLS, plain HTTP, names, a raw socket.

    outside_servers.py FOLDER PLACE

Every connection is written to FOLDER/PLACE.hits, one line of JSON each, before anything is answered.
"""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import struct
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER, PLACE = Path(sys.argv[1]), sys.argv[2]
PUBLIC, OTHER, MACHINE, INSIDE, METADATA = (
    "93.184.216.34",
    "93.184.216.35",
    "93.184.216.1",
    "10.9.9.9",
    "169.254.169.254",
)
NAMES: dict[str, list[list[str]]] = {  # what is answered the first time, the second …; the last again and again
    "data": [[PUBLIC]],
    "files": [[PUBLIC]],
    "git": [[PUBLIC]],
    "other": [[OTHER]],
    "inside": [[INSIDE]],
    "both": [[PUBLIC, INSIDE]],
    "metadata": [[METADATA]],
    "machine": [[MACHINE]],
    "loopback": [["127.0.0.1"]],
    "six": [["::1"]],
    "mapped": [["::ffff:10.9.9.9"]],
    "rebinding": [[PUBLIC], [INSIDE]],
    "nowhere": [["93.184.216.99"]],
}


def note(**what: object) -> None:
    with HITS, (FOLDER / f"{PLACE}.hits").open("a") as file:
        file.write(json.dumps(what) + "\n")


HITS = threading.Lock()


class Web(SimpleHTTPRequestHandler):
    """Files below FOLDER/site, and a few odd ones."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(10)
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        note(
            at=self.request.getsockname()[0],
            port=self.request.getsockname()[1],
            path=self.path,
            host=self.headers.get("Host"),
            heads=list(self.headers.keys()),
        )
        if self.path.startswith("/slow"):
            self._drip()
        elif self.path.startswith("/zeroes/"):
            self._zeroes(int(self.path.rpartition("/")[2]))
        else:
            super().do_GET()

    def do_POST(self) -> None:
        size = len(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        note(at=self.request.getsockname()[0], port=self.request.getsockname()[1], path=self.path, posted=size)
        self._answer(str(size).encode())

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(b"drop\n")
                self.wfile.flush()
                note(dripped=True)
                threading.Event().wait(0.1)
        except OSError:
            note(cut=self.path)

    def _zeroes(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        for _ in range(size // 65536 + 1):
            self.wfile.write(bytes(65536))

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Dual(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, *_: object) -> None:
        pass

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        wire, whom = super().get_request()
        note(connected=wire.getsockname()[0], port=wire.getsockname()[1])
        return wire, whom


class Names(socketserver.BaseRequestHandler):
    asked: dict[str, int] = {}  # noqa: RUF012 -- of all questions

    def handle(self) -> None:
        data, wire = self.request
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind, question = struct.unpack(">H", data[at + 1 : at + 3])[0], data[12 : at + 5]
        name, rest = labels[0].lower(), ".".join(labels[1:]).lower()
        known = NAMES.get(name) if rest in ("example.org", "deep.example.org") else None
        note(name=".".join(labels), kind=kind)
        answers: list[str] = []
        if known:
            times = Names.asked.get(name, 0)
            if kind == 1:
                Names.asked[name] = times + 1
            answers = [each for each in known[min(times, len(known) - 1)] if (":" in each) == (kind == 28)]
        body = b"".join(self._record(each) for each in answers)
        flags = 0x8180 if known else 0x8183
        wire.sendto(
            data[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0) + question + body, self.client_address
        )

    def _record(self, address: str) -> bytes:
        family, kind = (socket.AF_INET6, 28) if ":" in address else (socket.AF_INET, 1)
        packed = socket.inet_pton(family, address)
        return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed


def main() -> None:
    site = partial(Web, directory=str(FOLDER / "site"))
    secure = Dual(("::", 443), site)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "server.pem", FOLDER / "server.key")
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    servers: list[socketserver.BaseServer] = [secure, Dual(("::", 80), site), Dual(("::", 8080), site)]
    servers.append(socketserver.ThreadingUDPServer(("0.0.0.0", 53), Names))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0custody-outside")
        abstract.listen(8)
        print("ready", flush=True)
        while True:
            wire, _ = abstract.accept()
            note(abstract=True)
            wire.sendall(b"hello from the host")
            wire.close()


if __name__ == "__main__":
    main()
