"""A storage node that is reached over HTTP: it is told where an object's manifest is, and fetches the files itself.

    POST   {service}/add/{node}/{object}       a version that replaces the content   {"manifest": {"url": …}, …}
    POST   {service}/update/{node}/{object}    a version that is merged into the last one
    GET    {service}/manifest/{node}/{object}  what it holds: versions, files, digests
    GET    {service}/fixity/{node}/{object}    reads every byte again
    DELETE {service}/content/{node}/{object}   forgets an object
    GET    {service}/state/{node}              is it well?

Adding carries the job's own id as its Idempotency-Key: asked again after a lost answer, the service answers the
version it made. What the service says it holds is compared with what was handed over, digest by digest, before a
version counts as stored. Where the service is, and its token, are the operator's settings, never a depositor's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from custody.formats.text.readers import TextLimits, read_json
from custody.ingest.storage.ocfl.change import Change, Stored

MANIFEST = "system/mrt-manifest.txt"
DOWN = "storage.down"
ANSWER = TextLimits(size=64 << 20, depth=20)
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Held:
    """What the node says it holds of an object."""

    version: int
    files: Mapping[str, str]  # the newest version's names, with their SHA-256


@dataclass(frozen=True, slots=True)
class Window:
    """Where the node sees what lies in our working folder."""

    folder: Path
    url: str

    def url_of(self, path: Path) -> str:
        return f"{self.url.rstrip('/')}/{quote(path.relative_to(self.folder).as_posix())}"


class HttpNode:
    def __init__(
        self,
        service: str,
        node: str,
        window: Window,
        *,
        token: str = "",
        tries: int = 3,
        pause: float = 0.5,
        timeout: float = 120,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.service, self.node, self.window = service.rstrip("/"), node, window
        self._tries, self._pause, self._sleep = tries, pause, sleep
        self._http = httpx2.Client(
            headers={"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})},
            timeout=httpx2.Timeout(timeout, connect=min(10.0, timeout)),
            follow_redirects=False,
            trust_env=False,
        )

    def store(self, identifier: str, change: Change) -> Stored:
        """Make the next version of an object, or answer the one that this request made before."""
        answer = self._ask(
            "POST", "update" if change.update else "add", identifier, self._asked(change), key=change.request
        )
        version = _whole(answer, "version")
        self._compare(identifier, version, change)
        return Stored(version, None, bool(answer.get("new", True)))

    def address(self, what: str, identifier: str) -> str:
        return f"{self.service}/{what}/{quote(self.node, safe='')}/{quote(identifier, safe='')}"

    def relative(self, identifier: str) -> None:
        """Nowhere on this machine."""

    def holds(self, identifier: str) -> bool:
        try:
            self.manifest(identifier)
        except NotFound:
            return False
        return True

    def manifest(self, identifier: str) -> Held:
        """What the node holds; NotFound if nothing."""
        answer = self._ask("GET", "manifest", identifier)
        files = answer.get("files")
        if not isinstance(files, dict):
            raise _unreadable("its manifest has no files")
        return Held(_whole(answer, "version"), {str(name): str(digest) for name, digest in files.items()})

    def fixity(self, identifier: str) -> list[str]:
        """Every byte read again, over there: what is not as it was stored; nothing means all is well."""
        damage = self._ask("GET", "fixity", identifier).get("damage")
        if not isinstance(damage, list):
            raise _unreadable("it does not say what is damaged")
        return [str(each) for each in damage]

    def delete(self, identifier: str) -> bool:
        """Let it forget an object; False when it had none."""
        try:
            self._ask("DELETE", "content", identifier)
        except NotFound:
            return False
        return True

    def check(self) -> None:
        """Raises Unavailable unless the node says that it is well. Asked once, without trying again."""
        self._once("GET", f"{self.service}/state/{quote(self.node, safe='')}", None, "")

    def _asked(self, change: Change) -> dict[str, Any]:
        given = change.files[MANIFEST]
        return {
            "manifest": {"url": self.window.url_of(given.path), "name": MANIFEST, **given.digests},
            "created": change.created.isoformat(),
            "message": change.message,
            "deletes": list(change.deletes),
        }

    def _compare(self, identifier: str, version: int, change: Change) -> None:
        """A later version may have other content: then only our version's number is known to be good."""
        held = self.manifest(identifier)
        if held.version < version:
            raise _unreadable(f"it says that it made version {version}, and holds only {held.version}")
        if held.version > version:
            return
        for name, given in change.files.items():
            wanted = given.digests["sha256"]
            if held.files.get(name) != wanted:
                raise BadInput(
                    f"{name!r} did not arrive at storage node {self.node} as it was sent",
                    code="storage.mismatch",
                    expected=wanted,
                    found=held.files.get(name, ""),
                )

    def _ask(
        self, method: str, what: str, identifier: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> Mapping[str, Any]:
        url = self.address(what, identifier)
        for attempt in range(1, self._tries + 1):
            try:
                return self._once(method, url, body, key)
            except Unavailable:
                if attempt == self._tries:
                    raise
                self._sleep(self._pause * 2 ** (attempt - 1))
        raise AssertionError("a request is tried at least once")

    def _once(self, method: str, url: str, body: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
        headers = {"Idempotency-Key": key} if key else {}
        try:
            answer = self._http.request(method, url, json=body, headers=headers)
        except httpx2.HTTPError as error:
            raise self._down(type(error).__name__) from error
        if answer.status_code in _TRY_AGAIN:
            raise self._down(f"HTTP {answer.status_code}")
        facts = _facts(answer)
        if answer.is_success:
            return facts
        raise self._refusal(answer.status_code, facts)

    def _down(self, trouble: str) -> Unavailable:
        return Unavailable(f"storage node {self.node} does not answer: {trouble}", code=DOWN, where=self.service)

    def _refusal(self, status: int, facts: Mapping[str, Any]) -> CustodyError:
        said = str(facts.get("message") or f"HTTP {status}")[:500]
        code = str(facts.get("code") or "storage.refused")[:100]
        if status == 404:
            return NotFound(f"storage node {self.node}: {said}", code=code)
        return Refused(f"storage node {self.node}: {said}", code=code, status=status)


def _facts(answer: httpx2.Response) -> Mapping[str, Any]:
    if answer.status_code == 204 or not answer.content:
        return {}
    try:
        facts = read_json(answer.content, limits=ANSWER)
    except BadInput:
        facts = None
    if isinstance(facts, dict):
        return facts
    if answer.is_success:
        raise _unreadable("not a JSON object")
    return {}


def _whole(facts: Mapping[str, Any], name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _unreadable(f"{name} is {value!r}")
    return value


def _unreadable(why: str) -> Unavailable:
    return Unavailable(f"the answer of the storage node cannot be used: {why}", code="storage.answer")
