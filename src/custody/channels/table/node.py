"""The values a channel's table is made of: messages, leaves and indexes. No I/O here.

A leaf's blocks are JSON lines, so a leaf is also a .jsonl file. A block holds one message or, with packing,
a run of neighbours. A message that was edited has one line per version, newest last. An index has one block
per entry: the child that holds everything from a fence up to the next.

A block's id is its first message's id (twenty digits) and eight digits of its SHA-256. The key alone would
not do: the store takes, for an id in a list, whatever was staged under it last, also by another writer, so
two writers could commit each other's blocks. With the content in its name a block is that content or is
missing; a page that is already there is recognised without reading it; and damage shows.

A leaf or index carries its seals in its metadata, because a commit replaces metadata and blocks together:

    end     no id from here on may be added; it belongs to a neighbour on the right
    moved   nothing may be added; its content is being, or has been, copied to fresh blobs

and whose it is (`of`), so that another channel's table in its place is not taken for its own. Blobs of earlier versions
do not say it; of messages their lines do.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, groupby
from typing import Any

from custody.channels.blobs.port import Broken, Facts, Foreign, NoBlob, Tier
from custody.channels.snowflake import WIDTH, block_id, parse
from custody.errors import BadInput

FIRST = block_id(0)
REMOVED = "removed"

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ID_FIRST = re.compile(rb'\{"id":"(\d+)"[,}]')
_CHANNEL = b'"channel_id":"'
_TOMBSTONE = re.compile(rb'\{"id":"(\d+)","deleted_at":"([^"]*)"\}')


@dataclass(frozen=True, slots=True)
class Message:
    key: str  # the id as twenty digits
    line: bytes
    asked_at: str = ""  # a moment before the service gave it, as in tombstones
    veiled: bool = False  # given without its content: better than nothing, and never better than something
    anew: bool = False  # its block is looked at even if it bears the right name: it may be damaged
    revive: bool = True  # may it come back if it was deleted before that?

    @classmethod
    def of(cls, raw: Mapping[str, Any], asked_at: str = "", **how: bool) -> Message:
        """A message as the service gave it, every field kept; the id is moved to the front of the line."""
        number = parse(raw["id"])
        kept = {"id": str(number), **raw, "id": str(number)}  # noqa: F601 - first place, and not overwritten
        try:
            line = _COMPACT.encode(kept).encode()
        except UnicodeEncodeError:  # half a character, which only an escape can carry
            line = json.dumps(kept, separators=(",", ":")).encode()
        return cls(block_id(number), line, asked_at, **how)


@dataclass(frozen=True, slots=True)
class Found:
    """A message in the archive: its versions as lines, newest last."""

    id: int
    versions: tuple[bytes, ...]
    deleted_at: str = ""
    damaged: str = ""  # the block that no longer is what its name says; there are no versions then
    upto: int = 0  # of a part that is lost with the names of what was in it: its last id; `id` is its first

    @property
    def message(self) -> dict[str, Any]:
        if self.upto:
            return {"damaged": True, "from": str(self.id), "to": str(self.upto)}
        return {"id": str(self.id), "damaged": True} if self.damaged else dict(json.loads(self.versions[-1]))


Lines = tuple[bytes, ...]  # the versions of one message, newest last
Records = dict[str, Lines]  # by key, in order


def tombstone(key: str, deleted_at: str) -> bytes:
    return b'{"id":"%d","deleted_at":%b}' % (int(key), json.dumps(deleted_at).encode())


def is_newer_tombstone(line: bytes, asked_at: str) -> bool:
    """Was it found deleted after that moment?"""
    buried = _TOMBSTONE.fullmatch(line)
    return buried is not None and asked_at != "" and asked_at <= buried[2].decode()


def is_tombstone(line: bytes) -> bool:
    return _TOMBSTONE.fullmatch(line) is not None


def found(key: str, lines: tuple[bytes, ...]) -> Found:
    buried = _TOMBSTONE.fullmatch(lines[-1])
    return Found(int(key), () if buried else lines, buried[2].decode() if buried else "")


def records(block: bytes) -> Records:
    """The messages of a block, or of several that follow each other."""
    lines = block.split(b"\n")[:-1]
    return {key: tuple(group) for key, group in groupby(lines, key_of)}


def key_of(line: bytes) -> str:
    quick = _ID_FIRST.match(line)
    return block_id(int(quick[1]) if quick else _id_in(line))


def _id_in(line: bytes) -> int:
    try:
        return parse(json.loads(line)["id"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            "this is not a message",
            code="table.line",
            where=repr(line[:80]),
            hint="`custody channel verify` finds damage",
        ) from error


def is_foreign(line: bytes, channel: str) -> bool:
    """Does a message say that it is of another channel? What it quotes may be; so a suspicion is looked into."""
    if not channel or _CHANNEL not in line or b'%b%b"' % (_CHANNEL, channel.encode()) in line:
        return False
    try:
        told = json.loads(line).get("channel_id")
    except (ValueError, AttributeError, RecursionError):
        return False
    return told is not None and str(told) != channel


def pack(messages: Records, most: int) -> Iterator[tuple[str, bytes]]:
    """Messages in order as blocks of at most so many, each with its id."""
    keys = sorted(messages)
    for start in range(0, len(keys), most):
        run = keys[start : start + most]
        data = b"".join(line + b"\n" for key in run for line in messages[key])
        yield named(run[0], data), data


def named(key: str, data: bytes) -> str:
    return f"{key}-{sha256(data).hexdigest()[:8]}"


def is_damaged(block: str, data: bytes) -> bool:
    """Is this not the content that the block was named after?"""
    return named(key_in(block), data) != block


def both(lines: Lines, line: bytes) -> Lines:
    """Every different line is a version of its own."""
    return lines if line in lines else (*lines, line)


def key_in(block: str) -> str:
    return block[:WIDTH]


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    etag: str
    ids: tuple[str, ...] = ()
    starts: tuple[int, ...] = (0,)  # where each block begins, and where the last one ends
    tier: Tier = "Hot"
    end: str = ""
    moved: bool = False
    mark: str = ""
    packed: int = 1  # no block holds more messages than this
    top: str = ""  # no message is above this
    of: str = ""  # whose it is, if it says so

    @classmethod
    def read(cls, name: str, etag: str, ids: tuple[str, ...], sizes: Iterable[int], facts: Facts) -> Leaf:
        told = facts.metadata
        refuse_foreign(name, told)
        if told.get("kind") != "leaf" or told.get("own", own_name(name)) != own_name(name):
            raise Broken("this is not the leaf that was written under its name", where=name)
        if not told.get("packed", "1").isdecimal() or list(map(len, ids)) != [len(FIRST) + 9] * len(ids):
            raise Broken("its list is not one of messages", where=name)
        return cls(
            name=name,
            etag=etag,
            ids=ids,
            starts=tuple(accumulate(sizes, initial=0)),
            tier=facts.tier,
            end=told.get("end", ""),
            moved="moved" in told,
            mark=told.get("mark", ""),
            packed=int(told.get("packed", "1")),
            top=told.get("top", "") or (key_in(ids[-1]) if ids else ""),
            of=told.get("of", ""),
        )

    def facts(self, parent: str) -> Facts:
        told = {
            "kind": "leaf",
            "own": own_name(self.name),
            "of": owner(self.name),
            "end": self.end,
            "moved": "1" if self.moved else "",
            "mark": self.mark,
            "packed": str(self.packed) if self.packed > 1 else "",
            "top": self.top if self.packed > 1 else "",
        }
        tags = {"kind": "leaf", "parent": parent}
        return Facts({name: value for name, value in told.items() if value}, tags, self.tier)

    def takes(self, key: str) -> bool:
        return not self.moved and (not self.end or key < self.end)

    def before(self, key: str) -> int:
        """The position of the last block that begins at or before this id; -1 if there is none."""
        return bisect_right(self.ids, key + "~") - 1


class Removed(NoBlob):
    """The root of a table of which nothing is to be read any more, though blobs of it may still be there."""


@dataclass(frozen=True, slots=True)
class Entry:
    fence: str
    blob: str

    def block(self) -> tuple[str, bytes]:
        line = b'{"fence":"%b","blob":"%b"}\n' % (self.fence.encode(), self.blob.encode())
        return named(self.fence, line), line


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    etag: str
    entries: tuple[Entry, ...]
    fences: tuple[str, ...]
    moved: bool = False
    signed: bool = True  # it says whose it is

    @classmethod
    def of(cls, name: str, etag: str, entries: Iterable[Entry], moved: bool = False, signed: bool = True) -> Index:
        entries = tuple(entries)
        return cls(
            name=name,
            etag=etag,
            entries=entries,
            fences=tuple(entry.fence for entry in entries),
            moved=moved,
            signed=signed,
        )

    @classmethod
    def read(cls, name: str, etag: str, data: bytes, metadata: Mapping[str, str]) -> Index:
        if metadata.get("kind") == REMOVED:
            raise Removed("this table is being removed", where=name)
        refuse_foreign(name, metadata)
        try:
            entries = [Entry(**json.loads(line)) for line in data.splitlines()]
            sound = all(len(entry.fence) == len(FIRST) and entry.fence.isdecimal() for entry in entries)
            sound &= bool(entries) and all(isinstance(entry.blob, str) for entry in entries)
        except (ValueError, TypeError, RecursionError) as error:
            raise Broken("not an index", code="table.index", where=name) from error
        if not sound or metadata.get("kind") != "index" or metadata.get("sum", _sum(data)) != _sum(data):
            raise Broken("not the index that was written", code="table.index", where=name)
        return cls.of(name, etag, entries, "moved" in metadata, signed="of" in metadata)

    def facts(self, parent: str) -> Facts:
        whole = b"".join(entry.block()[1] for entry in self.entries)
        told = {"kind": "index", "sum": _sum(whole), "of": owner(self.name)} | ({"moved": "1"} if self.moved else {})
        return Facts(told, {"kind": "index"} | ({"parent": parent} if parent else {}))


def own_name(name: str) -> str:
    """A leaf's name without the folders above it: nobody else has it, wherever a tree is copied to."""
    return name.rpartition("/")[2]


def owner(name: str) -> str:
    """The table that a blob of this name belongs to: its kind, and the channel's number."""
    return "/".join(name.split("/")[:2])


def refuse_foreign(name: str, metadata: Mapping[str, str]) -> None:
    said = metadata.get("of", owner(name))
    if said != owner(name):
        raise Foreign(
            f"it is {said}'s: another channel's was put in its place",
            where=name,
            hint="put the right one there, or `custody channel verify --mend` fetches it again",
        )


def _sum(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def route(fences: tuple[str, ...], key: str) -> int:
    """Which child an id belongs to: the one with the largest fence at or below it. Everybody asks here."""
    return bisect_right(fences, key) - 1
