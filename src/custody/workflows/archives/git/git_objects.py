"""git's objects as bytes: commits and trees taken apart and put together by ourselves, and every one hashed.

A repository's owner can put any content under any name, and git shows it without a word. What does not hash to the
name it was asked by is not read.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from custody.errors import Unavailable

COMMIT, TREE, BLOB = "commit", "tree", "blob"
CORRUPT, MALFORMED = "archive.corrupt", "archive.malformed"
FILE, PROGRAM, LINK, FOLDER, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o040000, 0o160000
_OLD = {0o100664: FILE}  # written by gits of long ago
_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_PERSON = re.compile(r"(.*) (-?\d+) ([+-]\d{4})\Z", re.DOTALL)
_PACKED = {COMMIT: 1, TREE: 2, BLOB: 3}


def is_id(text: str) -> bool:
    return bool(_ID.match(text))


def hasher(id_: str, kind: str, size: int) -> Any:
    """What an object of this name is hashed by: the length of the name tells."""
    made = hashlib.sha256() if len(id_) == 64 else hashlib.sha1(usedforsecurity=False)
    made.update(b"%s %d\0" % (kind.encode(), size))
    return made


def named(like: str, kind: str, data: bytes) -> str:
    """The name of an object, in the repository that has the name `like`."""
    made = hasher(like, kind, len(data))
    made.update(data)
    return str(made.hexdigest())


def corrupt(id_: str, what: str, where: str) -> Unavailable:
    hint = "somebody has put another content under its name, or the disk fails: `git fsck` in the repository tells"
    return Unavailable(f"object {id_} {what}", code=CORRUPT, where=where, hint=hint)


def malformed(id_: str, what: str, where: str) -> Unavailable:
    """Its content is what its name says, and so will never be another."""
    hint = "whoever made it has written it like this: `git fsck` in the repository tells; push a commit without it"
    return Unavailable(f"object {id_} {what}", code=MALFORMED, where=where, hint=hint)


def a(kind: str) -> str:
    return f"a {'file' if kind == BLOB else kind}"


@dataclass(frozen=True, slots=True)
class Commit:
    tree: str
    parents: tuple[str, ...]
    author: str
    date: str
    message: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """An entry of a tree."""

    name: bytes
    mode: int
    id: str

    @property
    def is_folder(self) -> bool:
        return self.mode == FOLDER

    @property
    def text(self) -> str:
        return self.name.decode("utf-8", "surrogateescape")


def read_commit(id_: str, data: bytes, where: str) -> Commit:
    head, _, message = data.partition(b"\n\n")
    said: dict[str, list[bytes]] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name:  # otherwise it goes on with the line before: a signature
            said.setdefault(name.decode("ascii", "replace"), []).append(value)
    tree = b"".join(said.get("tree", [])[:1]).decode("ascii", "replace")
    parents = tuple(value.decode("ascii", "replace") for value in said.get("parent", ()))
    if not all(is_id(one) and len(one) == len(id_) for one in (tree, *parents)):
        raise malformed(id_, "is no commit that git would make", where)
    coding = b"".join(said.get("encoding", [])[:1]).decode("ascii", "replace") or "utf-8"
    author, _ = _person(b"".join(said.get("author", [])[:1]), coding)
    _, date = _person(b"".join(said.get("committer", [])[:1]), coding)
    return Commit(tree=tree, parents=parents, author=author, date=date, message=_text(message, coding))


def _text(data: bytes, coding: str) -> str:
    try:
        return data.decode(coding, "replace")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")


def _person(line: bytes, coding: str) -> tuple[str, str]:
    found = _PERSON.match(_text(line, coding))
    if found is None:
        return _text(line, coding), ""
    minutes = int(found[3][1:3]) * 60 + int(found[3][3:])
    try:
        zone = timezone((-1 if found[3][0] == "-" else 1) * timedelta(minutes=minutes)) if minutes else UTC
        return found[1], datetime.fromtimestamp(int(found[2]), zone).isoformat()
    except (ValueError, OverflowError, OSError):
        return found[1], ""


def read_tree(id_: str, data: bytes, where: str) -> tuple[Leaf, ...]:
    """The entries. What their names are is for whoever uses them to judge."""
    size, at, found = len(id_) // 2, 0, list[Leaf]()
    while at < len(data):
        space = data.find(b" ", at, at + 8)
        end = data.find(b"\0", space + 1)
        mode = data[at:space]
        if space < 0 or end < 0 or end + 1 + size > len(data) or not mode.isdigit() or set(mode) & {56, 57}:
            raise malformed(id_, "is no tree that git would make", where)
        kind = _OLD.get(number := int(mode, 8), number)
        found.append(Leaf(data[space + 1 : end], kind, data[end + 1 : end + 1 + size].hex()))
        at = end + 1 + size
    return tuple(found)


def made_tree(leaves: Iterable[Leaf]) -> bytes:
    """As git writes it down: folders are sorted as if their name ended with a slash."""
    order = sorted(leaves, key=lambda leaf: leaf.name + (b"/" if leaf.is_folder else b""))
    return b"".join(b"%o %s\0" % (leaf.mode, leaf.name) + bytes.fromhex(leaf.id) for leaf in order)


Part = bytes | Path
"""An object's content, or the file that has it: what a task commits may be larger than our memory."""


def size_of(part: Part) -> int:
    return len(part) if isinstance(part, bytes) else part.stat().st_size


def pieces(part: Part) -> Iterator[bytes]:
    if isinstance(part, bytes):
        yield part
        return
    with part.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def id_of(like: str, kind: str, part: Part) -> str:
    made = hasher(like, kind, size_of(part))
    for piece in pieces(part):
        made.update(piece)
    return str(made.hexdigest())


def pack(like: str, objects: Sequence[tuple[str, Part]]) -> Iterator[bytes]:
    """A pack of whole objects, as receive-pack takes it."""
    sum_ = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    for piece in _packed(objects):
        sum_.update(piece)
        yield piece
    yield sum_.digest()


def _packed(objects: Sequence[tuple[str, Part]]) -> Iterator[bytes]:
    yield b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big")
    for kind, part in objects:
        size = size_of(part)
        first, size = (_PACKED[kind] << 4) | (size & 15), size >> 4
        head = bytearray()
        while size:
            head.append(first | 128)
            first, size = size & 127, size >> 7
        yield bytes(head) + bytes([first])
        squeezed = zlib.compressobj(1)
        for piece in pieces(part):
            yield squeezed.compress(piece)
        yield squeezed.flush()
