"""A local EZID, for the demo and the tests: the documented API, on the loopback interface, in memory.

Covered: mint, create, create-or-update, view, update and delete an identifier; basic authentication;
shoulders an account may use; reserved identifiers; ANVL with escapes; the status lines and HTTP codes of
EZID, API version 2. Faults on request: answers that are lost after the work was done, and error codes.

Not covered: DOIs, Crossref and DataCite, groups and proxies, sessions and cookies, prefix matching, batch
download, resolution, metadata profiles' own rules, the real minter's order (names here count up), and
everything about time: test identifiers do not expire.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

from custody.errors import BadInput
from custody.formats import anvl
from custody.formats.noid import Noid

SETTABLE = {"_owner", "_target", "_profile", "_status", "_export"}


class EzidStandIn:
    """`with EzidStandIn() as ezid:` — then `ezid.url`, `ezid.records`, `ezid.requests`."""

    def __init__(
        self,
        *,
        user: str = "demo",
        password: str = "demo",
        shoulders: Iterable[str] = ("ark:/99999/fk4",),
        port: int = 0,
    ) -> None:
        self.user = user
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.shoulders = tuple(shoulders)
        self.records: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self._minted = 0
        self._lose = 0
        self._errors: list[int] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> EzidStandIn:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def lose_answers(self, count: int) -> None:
        """The next requests are carried out, and their answers lost."""
        self._lose = count

    def fail_with(self, *codes: int) -> None:
        """The next requests are not carried out, and answered with these codes."""
        self._errors = list(codes)

    # -- what EZID does ----------------------------------------------------------------------------

    def answer(self, method: str, target: str, authorization: str, body: str) -> tuple[int, str, bool]:
        """The HTTP code, the body, and whether the answer gets lost on its way."""
        with self.lock:
            self.requests.append(f"{method} {target}")
            if self._errors:
                return self._errors.pop(0), "error: internal server error", False
            code, text = self._carry_out(method, target, authorization, body)
            lost = self._lose > 0
            self._lose -= lost
            return code, text, lost

    def _carry_out(self, method: str, target: str, authorization: str, body: str) -> tuple[int, str]:
        parts = urlsplit(target)
        path, query = unquote(parts.path), parse_qs(parts.query)
        if path == "/status":
            return 200, "success: EZID is up"
        if method != "GET" and authorization != self.authorization:
            return 401, "error: unauthorized"
        try:
            pairs = anvl.read(body, escaped=True)
        except BadInput as error:
            return 400, f"error: bad request - ANVL parse error ({error.message})"
        elements = dict(pairs)
        if len(elements) != len(pairs):
            return 400, "error: bad request - ANVL parse error (repeated label)"
        if any(name.startswith("_") and name not in SETTABLE for name in elements):
            return 400, "error: bad request - use of reserved metadata element name"
        if path.startswith("/shoulder/") and method == "POST":
            return self._mint(path.removeprefix("/shoulder/"), elements)
        if path.startswith("/id/"):
            return self._identifier(method, path.removeprefix("/id/"), query, elements)
        return 405, "error: method not allowed"

    def _mint(self, shoulder: str, elements: dict[str, str]) -> tuple[int, str]:
        if shoulder not in self.shoulders:
            return 400, "error: bad request - no such shoulder"
        naan, _, name = shoulder.removeprefix("ark:/").partition("/")
        self._minted += 1
        return self._create(Noid(naan, name, "zeedk", lambda: self._minted).mint(), elements)

    def _identifier(
        self, method: str, name: str, query: dict[str, list[str]], elements: dict[str, str]
    ) -> tuple[int, str]:
        known = self.records.get(name)
        if method == "PUT" and known is not None and query.get("update_if_exists") != ["yes"]:
            return 400, "error: bad request - identifier already exists, cannot create"
        if method == "PUT" and known is None:
            return self._create(name, elements)
        if known is None:
            return 400, "error: bad request - no such identifier"
        if method == "GET":
            return 200, f"success: {name}\n{anvl.write(known.items(), escaped=True)}"
        if method == "DELETE":
            return self._delete(name, known)
        for element, value in elements.items():
            if value:
                known[element] = value
            else:
                known.pop(element, None)
        return 200, f"success: {name}"

    def _create(self, name: str, elements: dict[str, str]) -> tuple[int, str]:
        if not name.startswith(self.shoulders):
            return 403, "error: forbidden"
        given = {element: value for element, value in elements.items() if value}
        default = {
            "_owner": self.user,
            "_status": "public",
            "_target": f"{self.url}/id/{name}",
            "_profile": "erc",
        }
        self.records[name] = default | given
        return 201, f"success: {name}"

    def _delete(self, name: str, known: dict[str, str]) -> tuple[int, str]:
        if known["_status"] != "reserved":
            return 400, "error: bad request - identifier status does not support deletion"
        del self.records[name]
        return 200, f"success: {name}"


def _handler(standin: EzidStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            authorization = self.headers.get("Authorization", "")
            code, text, lost = standin.answer(self.command, self.path, authorization, body)
            if lost:
                self.close_connection = True
                return
            data = text.encode()
            self.send_response(code)
            if code == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="EZID"')
            self.send_header("Content-Type", "text/plain; charset=UTF-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Silence: the demo's terminal is for the demo."""

    return Handler
