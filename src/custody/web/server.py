"""Running the application: bound before it is announced, announced when it has answered, stopped without hurry."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import threading
import time
from typing import Final

import uvicorn
from fastapi import FastAPI

from custody.errors import Unavailable, Unsafe
from custody.web.access.slow_clients import HEADER_SECONDS, waiting
from custody.web.site import Site

GRACE_SECONDS: Final = 3
PATIENCE_SECONDS: Final = 20.0
MOST_CONNECTIONS: Final = 2_000


class Server:
    """An HTTP server in a thread of its own."""

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        tries: int = 1,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        site: Site = app.state.site
        if site.options.demo and not is_loopback(host):
            raise Unsafe(
                f"without login only this machine may be served, not {host}",
                code="web.demo",
                hint="`custody token create`, and serve without --demo",
            )
        self._site, self.listens_at = site, _bound(host, port, tries)
        self.host, self.port = host, int(self.listens_at.getsockname()[1])
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=15,
            lifespan="on",
            ws="none",
            http=waiting(header_seconds),
            limit_concurrency=MOST_CONNECTIONS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="custody-web", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def start(self) -> Server:
        """Returns when it has answered."""
        self._thread.start()
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._answers():
            if not self._thread.is_alive() or time.monotonic() > until:
                raise Unavailable(f"the server at {self.url} does not answer", code="web.start")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """Streams end at once, requests get a moment to finish."""
        self._site.changes.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE_SECONDS + 5)
        self.listens_at.close()

    def _run(self) -> None:
        self._server.run(sockets=[self.listens_at])

    def _answers(self) -> bool:
        if not self._server.started:
            return False
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        asking = http.client.HTTPConnection(host, self.port, timeout=5)
        try:
            asking.request("GET", "/api/v1/health")
            return asking.getresponse().status == 200
        except OSError:
            return False
        finally:
            asking.close()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int, tries: int) -> socket.socket:
    """A socket at this port, or the next one that is free."""
    for number in range(port, port + tries):
        # Named as TCP outright: only then does the event loop send small answers at once, without 40 ms of thought.
        bound = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, number))
        except OSError as error:
            bound.close()
            taken = error
            continue
        return bound
    raise Unavailable(
        f"port {port} of {host} cannot be had: {taken.strerror}", code="web.port", hint="--port with another number"
    )
