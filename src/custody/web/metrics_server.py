"""Metrics of a worker that serves no dashboard: one small HTTP server, `/metrics` and `/health`, nothing else."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from custody.errors import BadInput, Unavailable
from custody.kernel.model.machine import Machines
from custody.kernel.stores import Store
from custody.kernel.stores.recovery.trial import Trial
from custody.web.metrics import Telling
from custody.web.queries.overview import Glance

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def place(text: str) -> tuple[str, int]:
    """HOST:PORT, or a port of this machine."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"{text!r} is not a place to listen at", code="metrics.place", hint="127.0.0.1:9337")
    return host.strip("[]") or "127.0.0.1", int(port)


class Scraped:
    """Listens in a thread of its own until it is stopped."""

    def __init__(self, where: str, store: Store, machines: Machines, telling: Telling) -> None:
        host, port = place(where)
        glance, trial = Glance(store, machines, []), Trial(store)

        class Handler(BaseHTTPRequestHandler):
            timeout = 20  # for those who connect and say nothing

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, telling.text(glance))
                elif self.path == "/health":
                    refusal = trial.refusal()
                    self._answer(*((503, b"the store takes no writes\n") if refusal else (200, b"ok\n")))
                else:
                    self._answer(404, b"not here\n")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", TEXT)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Scrapes are not news."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise Unavailable(f"cannot listen at {where}: {error.strerror}", code="metrics.place") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True, name="metrics")

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/metrics"

    def __enter__(self) -> Scraped:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
