"""The files that make up one blob on a disk, and how each is read and written.

`local.py` decides when; this page knows where and in which form. A blob `ch/7/leaf/a.jsonl` is

    ch/7/leaf/a@3.jsonl         its content and nothing else, so `grep` and `jq` can read an archive
    ch/7/leaf/a.jsonl@state     blocks, ETag, metadata, tags, tier; the rename of this file is the commit
    ch/7/leaf/a.jsonl@staged    blocks that no commit has named yet
    ch/7/leaf/a.jsonl@lease     who may change it
    ch/7/leaf/a.jsonl@read      its time stamp is the last read

No blob may have `@` in its name, so none of these can be another blob's.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from custody.channels.blobs import durable
from custody.channels.blobs.disk_errors import refusals
from custody.channels.blobs.port import BlocksMissing, Broken, Facts, Shut
from custody.errors import BadInput

_RECORD = struct.Struct("<IIB")  # check sum, size of the block, length of its id; then the id, then the block
_SUM = b',"sum":'  # last in a state file, of all that is before it
_TURN = slice(9, 25)  # where a state file's own random name stands: {"turn":"0123456789abcdef"


@dataclass(frozen=True, slots=True)
class State:
    """One state file. `turn` is new with every write of it, the ETag only with a commit. Times in seconds."""

    turn: str
    etag: str
    number: int
    size: int
    ids: tuple[str, ...]
    sizes: tuple[int, ...]
    facts: Facts
    modified: float
    tier_changed: float
    gone: bool = False

    def turned(self, **changes: Any) -> Self:
        return replace(self, turn=secrets.token_hex(8), **changes)

    def written(self) -> bytes:
        plain = {name: getattr(self, name) for name in self.__slots__} | {"facts": asdict(self.facts)}
        body = json.dumps(plain, separators=(",", ":")).encode().removesuffix(b"}")
        return b"%b%b%d}" % (body, _SUM, zlib.crc32(body))

    @classmethod
    def parsed(cls, data: bytes, where: str = "") -> State:
        """Raises Broken for what nobody wrote so, and Shut for what a later version may have written."""
        try:
            found = json.loads(data)
            body, _, check = data.rpartition(_SUM) if found.pop("sum", None) is not None else (b"", b"", b"")
            ids, sizes, facts = tuple(found["ids"]), tuple(found["sizes"]), Facts(**found["facts"])
            sound = not body or b"%d}" % zlib.crc32(body) == check  # earlier versions wrote no sum
            sound &= sum(sizes) == found["size"] and len(ids) == len(sizes)
            if sound and found.keys() <= set(cls.__slots__):
                return cls(**(found | {"ids": ids, "sizes": sizes, "facts": facts}))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise Broken("its state cannot be read", where=where) from error
        if found.keys() - set(cls.__slots__):
            raise Shut("a later version has written its state", where=where, hint="read it with that version")
        raise Broken("its state is not what was written", where=where)


@dataclass(frozen=True, slots=True)
class Shelf:
    root: Path
    name: str

    def path(self, kind: str) -> Path:
        return self.root / f"{self.name}@{kind}"

    def content(self, number: int) -> Path:
        folder, _, last = self.name.rpartition("/")
        stem, dot, ending = last.rpartition(".")
        return self.root / folder / (f"{stem}@{number}.{ending}" if dot else f"{last}@{number}")

    # --- State ---

    def load(self, known: State | None) -> State | None:
        """The state, parsed only if it is not the one already known."""
        with refusals(self.name):
            try:
                handle = os.open(self.path("state"), os.O_RDONLY | os.O_NOFOLLOW)
            except FileNotFoundError:
                return None
            try:
                if known and os.pread(handle, _TURN.stop, 0)[_TURN] == known.turn.encode():
                    return known
                return State.parsed(os.pread(handle, os.fstat(handle).st_size, 0), self.name)
            finally:
                os.close(handle)

    def save(self, state: State) -> None:
        durable.replace(self.path("state"), state.written())

    # --- Content ---

    def read(self, number: int, start: int, size: int) -> bytes:
        handle = os.open(self.content(number), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            return os.pread(handle, size, start)
        finally:
            os.close(handle)

    def blocks(self, state: State) -> dict[str, bytes]:
        """Every committed block by its id; nothing of those whose bytes are no longer there."""
        content, start, found = self.read(state.number, 0, state.size) if self.holds(state) else b"", 0, {}
        for one, size in zip(state.ids, state.sizes, strict=True):
            found[one] = content[start : start + size]
            start += size
        return found

    def holds(self, state: State) -> bool:
        """Is there a file with content? It may still be too short, or another one."""
        with suppress(FileNotFoundError):
            return stat.S_ISREG(os.lstat(self.content(state.number)).st_mode)
        return False

    def is_whole(self, state: State) -> bool:
        return self.holds(state) and os.lstat(self.content(state.number)).st_size >= state.size

    def contents(self) -> list[Path]:
        """Whatever stands where content of this blob would, the newest last."""
        first, last = self.content(0).name.split("@0")
        named = re.compile(re.escape(first) + "@([0-9]+)" + re.escape(last))
        folder = self.content(0).parent
        found = [(int(n[1]), folder / n[0]) for one in _names_in(folder) if (n := named.fullmatch(one))]
        return [path for _, path in sorted(found)]

    def clear_all(self) -> None:
        """Remove everything of a blob whose state says nothing."""
        for path in (*self.contents(), *(self.path(kind) for kind in ("staged", "lease", "read", "state"))):
            durable.remove(path, folders=True)

    def clear_away(self, state: State) -> None:
        """Remove the files of a blob whose state says that it is gone; that state goes last."""
        for number in range(state.number - 1, state.number + 2):
            durable.remove(self.content(number), folders=True)
        for kind in ("staged", "lease", "read", "state"):
            durable.remove(self.path(kind))

    # --- Staged blocks: a line that names the commit they follow, then one record after the other ---

    def add_staged(self, state: State | None, ids: Sequence[str], blocks: Sequence[bytes]) -> None:
        """Not synced: a staged block that a crash takes away is missed by the commit, which then refuses."""
        names = [one.encode() for one in ids]
        widths = {len(one) for one in names} | {len(one.encode()) for one in (state.ids[:1] if state else ())}
        base = _base(state)
        found = _first_line(self.path("staged"))
        if found.startswith(base):
            widths.add(int(found[len(base) :]))
        if len(widths) > 1:
            raise BadInput("block ids of one blob have one length", code="blob.block-id", where=self.name)
        head = b"" if found.startswith(base) else b"%b%d\n" % (base, widths.pop())
        records = [
            _RECORD.pack(zlib.crc32(block), len(block), len(one)) + one + block
            for one, block in zip(names, blocks, strict=True)
        ]
        durable.add(self.path("staged"), head + b"".join(records), anew=bool(head))

    def staged(self, state: State | None) -> dict[str, bytes]:
        """Blocks staged since the last commit."""
        try:
            data = self.path("staged").read_bytes()
        except FileNotFoundError:
            return {}
        if not data.startswith(_base(state)):
            return {}
        found, place = {}, data.index(b"\n") + 1
        while place < len(data):
            check, size, width = _RECORD.unpack_from(data.ljust(place + _RECORD.size, b"\0"), place)
            place += _RECORD.size + width + size
            block = data[place - size : place]
            if place > len(data) or zlib.crc32(block) != check:
                # Half of what somebody staged. Going on without it would commit old blocks for new ones.
                durable.remove(self.path("staged"))
                raise BlocksMissing("staged blocks are damaged", where=self.name, hint="stage them again")
            found[data[place - size - width : place - size].decode()] = block
        return found


def _names_in(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []


def _base(state: State | None) -> bytes:
    return b"%b " % (state.etag if state else "none").encode()


def _first_line(path: Path) -> bytes:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return file.readline()
    return b""
