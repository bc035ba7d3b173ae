"""A stand-in for a storage service: the requests of `httpnode`, on the loopback interface, over an OCFL root.

Covered: add, update with deletes, manifest, fixity, delete and state, for one node; fetching the manifest and every
file by its URL and checking all digests; idempotency keys; a token; being busy with an object. Faults on request:
being down, answers that are lost after the work was done, bytes that change on their way.

Not covered: several nodes and copies between them, cloud storage, queues of its own, access to contents, anything
that a deployed service says in XML, the inventory's questions (our inventory is in SQL), and TLS. `delete` removes
the object's folder without a trace, which a real service would not do.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, build_opener

from custody.errors import BadInput, CustodyError, NotFound, Refused
from custody.formats import checkm
from custody.formats.checkm.form import STORAGE
from custody.ingest.storage.ocfl.change import Change, Given
from custody.ingest.storage.ocfl.fixity import verify
from custody.ingest.storage.ocfl.open_root import open_root
from custody.ingest.storage.ocfl.root import version_of

Reply = tuple[int, dict[str, Any]]
_STATUS: Mapping[type[CustodyError], int] = {NotFound: 404, Refused: 409, BadInput: 422}


class StorageStandIn:
    """`with StorageStandIn(folder) as storage:` — then `storage.url`, `storage.root`, `storage.requests`."""

    def __init__(self, folder: Path, node: str = "far", *, token: str = "", port: int = 0) -> None:
        self.root = open_root(folder.resolve())
        self.node, self.token, self.port = node, token, port
        self.requests: list[str] = []
        self.down = False
        self.corrupt: set[str] = set()  # names of files whose bytes change on their way
        self._lose = 0
        self._open = build_opener(ProxyHandler({})).open

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> StorageStandIn:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
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

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """What is said, or None when the answer gets lost."""
        self.requests.append(f"{method} {path}")
        if self.down:
            return 503, {"code": "storage.maintenance", "message": "come back later"}
        try:
            reply = self._carry_out(method, path, headers, body)
        except CustodyError as error:
            status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
            reply = status, {"code": error.code, "message": error.message}
        if self._lose and method == "POST":
            self._lose -= 1
            return None
        return reply

    def _carry_out(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"code": "storage.unauthorized", "message": "who are you?"}
        what, _, rest = urlsplit(path).path.lstrip("/").partition("/")
        node, _, identifier = rest.partition("/")
        identifier = unquote(identifier)
        if unquote(node) != self.node:
            return 404, {"code": "storage.node", "message": f"there is no node {node}"}
        match method, what:
            case "GET", "state":
                return 200, {"node": self.node, "state": "ok"}
            case "POST", "add" | "update":
                return self._add(identifier, json.loads(body), what == "update", headers.get("Idempotency-Key", ""))
            case "GET", "manifest":
                return 200, self._manifest(identifier)
            case "GET", "fixity":
                return 200, {"damage": [f"{each.path}: {each.problem}" for each in verify(self.root, identifier)]}
            case "DELETE", "content":
                return self._delete(identifier)
        return 405, {"code": "storage.method", "message": "not possible here"}

    def _add(self, identifier: str, given: Mapping[str, Any], update: bool, request: str) -> Reply:
        with tempfile.TemporaryDirectory(dir=self.root.staging.parent) as scratch:
            files = self._fetch(given["manifest"], Path(scratch))
            created = datetime.fromisoformat(given["created"])
            change = Change(
                files=files,
                request=request,
                created=created,
                message=given["message"],
                update=update,
                deletes=tuple(given["deletes"]),
            )
            stored = self.root.store(identifier, change)
        return 201 if stored.new else 200, {"version": stored.version, "new": stored.new}

    def _fetch(self, listed: Mapping[str, str], scratch: Path) -> dict[str, Given]:
        """The manifest, and every file it lists, each with the digest it must have."""
        box = scratch / "manifest"
        box.write_bytes(self._get(listed["url"], listed["name"]))
        if hashlib.sha256(box.read_bytes()).hexdigest() != listed["sha256"]:
            raise BadInput("the manifest is not the one that was meant", code="digest.mismatch")
        files = {listed["name"]: Given(box, {"sha256": listed["sha256"]})}
        with box.open("rb") as source:
            for row in checkm.read(source, check_name=lambda name: None, kinds=(STORAGE,)):
                target = scratch / str(len(files))
                target.write_bytes(self._get(row.url, row.name))
                files[row.name] = Given(target, {row.algorithm: row.digest})
        return files

    def _get(self, url: str, name: str) -> bytes:
        if urlsplit(url).hostname != "127.0.0.1":
            raise Refused(f"a stand-in fetches from this machine only, not {url}", code="url.forbidden_address")
        with self._open(url, timeout=30) as answer:
            data = bytes(answer.read())
        return data[::-1] if name in self.corrupt else data

    def _manifest(self, identifier: str) -> dict[str, Any]:
        inventory = self.root.inventory(identifier)
        newest = version_of(inventory)
        fixity = {content.sha512: content.fixity["sha256"] for content in inventory.content.values()}
        return {"version": newest.number, "files": {name: fixity[digest] for name, digest in newest.state.items()}}

    def _delete(self, identifier: str) -> Reply:
        self.root.inventory(identifier)  # refuses an object that is not there
        shutil.rmtree(self.root.folder(identifier))
        return 204, {}


def _handler(standin: StorageStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = standin.answer(self.command, self.path, dict(self.headers), body)
            if reply is None:
                self.close_connection = True
                return
            status, facts = reply
            data = b"" if status == 204 else json.dumps(facts).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Silence: the demo's terminal is for the demo."""

    return Handler
