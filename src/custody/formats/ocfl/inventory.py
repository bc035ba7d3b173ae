"""The inventory of an OCFL object: which bytes each version has, under which names. Values only.

`ocfl` reads and writes the files; here is what they say. The object's content is addressed by SHA-512:
a file that did not change from one version to the next is stored once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from custody.errors import BadInput, CustodyError, Refused

SPEC = "https://ocfl.io/1.1/spec/#inventory"
LAYOUT = "0003-hash-and-id-n-tuple-storage-layout"
LAYOUT_CONFIG = {
    "extensionName": LAYOUT,
    "digestAlgorithm": "sha256",
    "tupleSize": 3,
    "numberOfTuples": 3,
}
FIXITY = ("md5", "sha1", "sha256")
"""the depositor's digests that OCFL has a place for; others are compared on the way in and not recorded"""

State = Mapping[str, str]
"""logical path -> SHA-512"""

_REQUEST = re.compile(r"\[request (?P<request>[^\]]+)\]\Z")
_REQUEST_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    created: str
    message: str
    state: State
    user: tuple[str, str]
    """name, address"""

    @property
    def request(self) -> str:
        """The caller's id of the request that made this version."""
        found = _REQUEST.search(self.message)
        return found["request"] if found else ""


@dataclass(frozen=True, slots=True)
class Content:
    """One stored file: its digest, and those the depositor gave that agreed with it."""

    sha512: str
    fixity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Inventory:
    id: str
    versions: tuple[Version, ...]
    content: Mapping[str, Content]
    """content path (`v1/content/producer/a`) -> what it is"""

    @property
    def head(self) -> Version | None:
        return self.versions[-1] if self.versions else None

    def paths(self) -> dict[str, str]:
        """SHA-512 -> where its bytes are."""
        return {content.sha512: path for path, content in self.content.items()}

    def made_by(self, request: str) -> Version | None:
        return next((each for each in self.versions if each.request == request), None)

    def before(self, version: Version) -> State | None:
        """What the object held when that version was made."""
        return self.versions[version.number - 2].state if version.number > 1 else None

    def followed_by(
        self,
        state: State,
        added: Mapping[str, Content],
        *,
        created: datetime,
        message: str,
        request: str,
        user: tuple[str, str],
    ) -> Inventory:
        """The next inventory: one more version."""
        if created.tzinfo is None:
            raise BadInput("the time of a version needs its zone", code="object.time")
        version = Version(
            number=len(self.versions) + 1,
            created=created.isoformat(timespec="seconds"),
            message=f"{message} [request {request}]".strip(),
            state=dict(state),
            user=user,
        )
        return replace(self, versions=(*self.versions, version), content={**self.content, **added})

    def as_json(self) -> bytes:
        fixity: dict[str, dict[str, list[str]]] = {}
        manifest: dict[str, list[str]] = {}
        for path, content in sorted(self.content.items()):
            manifest.setdefault(content.sha512, []).append(path)
            for name, digest in content.fixity.items():
                fixity.setdefault(name, {}).setdefault(digest, []).append(path)
        whole: dict[str, Any] = {
            "id": self.id,
            "type": SPEC,
            "digestAlgorithm": "sha512",
            "head": f"v{len(self.versions)}",
            "manifest": manifest,
            "versions": {f"v{each.number}": _version_json(each) for each in self.versions},
        }
        if fixity:
            whole["fixity"] = fixity
        return json.dumps(whole, indent=1, ensure_ascii=False).encode()


def _version_json(version: Version) -> dict[str, Any]:
    state: dict[str, list[str]] = {}
    for path, digest in sorted(version.state.items()):
        state.setdefault(digest, []).append(path)
    name, address = version.user
    return {
        "created": version.created,
        "message": version.message,
        "state": state,
        "user": {"name": name, "address": address},
    }


def from_json(data: bytes, sidecar: bytes) -> Inventory:
    """An inventory as stored; refused when it is not what its sidecar says or not of our making."""
    if sidecar.split()[:1] != [hashlib.sha512(data).hexdigest().encode()]:
        raise Refused("the inventory is not what its sidecar says", code="object.damaged")
    try:
        whole = json.loads(data)
        if whole["digestAlgorithm"] != "sha512" or "contentDirectory" in whole:
            raise Refused("the inventory was made by another program", code="object.foreign")
        return Inventory(whole["id"], tuple(_versions(whole)), _content(whole))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"the inventory cannot be read: {error}", code="object.damaged") from error


def _versions(whole: Any) -> list[Version]:
    found = []
    for number in range(1, len(whole["versions"]) + 1):
        given = whole["versions"][f"v{number}"]
        state = {path: digest for digest, paths in given["state"].items() for path in paths}
        user = given["user"]["name"], given["user"]["address"]
        found.append(Version(number=number, created=given["created"], message=given["message"], state=state, user=user))
    return found


def _content(whole: Any) -> dict[str, Content]:
    fixity: dict[str, dict[str, str]] = {}
    for name, block in whole.get("fixity", {}).items():
        for digest, paths in block.items():
            for path in paths:
                fixity.setdefault(path, {})[name] = digest
    return {
        path: Content(digest, fixity.get(path, {})) for digest, paths in whole["manifest"].items() for path in paths
    }


def sidecar_of(data: bytes) -> bytes:
    return f"{hashlib.sha512(data).hexdigest()} inventory.json\n".encode()


def object_folder(identifier: str) -> str:
    """Where an object is below the root, by OCFL extension 0003: three folders of its hash, then a folder
    a person can recognise."""
    digest = hashlib.sha256(identifier.encode()).hexdigest()
    name = re.sub("[^A-Za-z0-9_-]", lambda found: _percent(found.group()), identifier)
    if len(name) > 100:
        name = f"{name[:100]}-{digest}"
    return "/".join([digest[:3], digest[3:6], digest[6:9], name])


def _percent(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode())


def check_request(request: str) -> None:
    if not _REQUEST_FORM.fullmatch(request):
        raise BadInput(f"{request!r} is no request id", code="object.request")


def check_paths(state: State) -> None:
    """Logical paths as OCFL allows them, and as a disk can hold them."""
    if not state:
        raise BadInput("an object needs at least one file", code="object.empty")
    for path in state:
        parts = path.split("/")
        if any(part in {"", ".", ".."} for part in parts) or "\0" in path:
            raise _bad_path(path, "is not a path below a folder")
        if any(len(part.encode(errors="surrogatepass")) > 255 for part in parts):
            raise _bad_path(path, "has a part of more than 255 bytes")
        if any("\ud800" <= character <= "\udfff" for character in path):
            raise _bad_path(path, "is not Unicode text")
        for place in range(1, len(parts)):
            if "/".join(parts[:place]) in state:
                raise _bad_path(path, f"needs a folder where {'/'.join(parts[:place])!r} is a file")


def _bad_path(path: str, why: str) -> CustodyError:
    return BadInput(f"{path!r} {why}", code="object.path")
