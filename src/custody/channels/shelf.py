"""The files that make up one blob on a disk, and how each is read and written.

`files.py` decides when; this page knows where and in which form. A blob `ch/7/leaf/a.jsonl` is

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
import secrets
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from custody.channels import disk
from custody.channels.blobs import Facts
from custody.model.errors import BadInput

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
        return json.dumps(plain, separators=(",", ":")).encode()

    @classmethod
    def parsed(cls, data: bytes) -> State:
        found = json.loads(data)
        lists = {"ids": tuple(found["ids"]), "sizes": tuple(found["sizes"]), "facts": Facts(**found["facts"])}
        return cls(**(found | lists))


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
        try:
            handle = os.open(self.path("state"), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if known and os.pread(handle, _TURN.stop, 0)[_TURN].decode() == known.turn:
                return known
            return State.parsed(os.pread(handle, os.fstat(handle).st_size, 0))
        finally:
            os.close(handle)

    def save(self, state: State) -> None:
        disk.replace(self.path("state"), state.written())

    # --- Content ---

    def read(self, number: int, start: int, size: int) -> bytes:
        handle = os.open(self.content(number), os.O_RDONLY)
        try:
            return os.pread(handle, size, start)
        finally:
            os.close(handle)

    def blocks(self, state: State) -> dict[str, bytes]:
        """Every committed block by its id."""
        content, start, found = self.read(state.number, 0, state.size), 0, {}
        for one, size in zip(state.ids, state.sizes, strict=True):
            found[one] = content[start : start + size]
            start += size
        return found

    def clear_away(self, state: State) -> None:
        """Remove the files of a blob whose state says that it is gone; that state goes last."""
        for number in range(state.number - 1, state.number + 2):
            self.content(number).unlink(missing_ok=True)
        for kind in ("staged", "lease", "read", "state"):
            self.path(kind).unlink(missing_ok=True)

    # --- Staged blocks: a head that names the commit they follow, then one record after the other ---

    def add_staged(self, state: State | None, ids: Sequence[str], blocks: Sequence[bytes]) -> None:
        """Not synced: a staged block that a crash takes away is missed by the commit, which then refuses."""
        widths = {len(one.encode()) for one in ids} | (
            {len(state.ids[0].encode())} if state and state.ids else set()
        )
        base = _base(state)
        path, found = self.path("staged"), b""
        with suppress(FileNotFoundError), open(path, "rb") as file:
            found = file.readline()
        if found.startswith(base):
            widths.add(int(found.split()[1]))
        if len(widths) > 1:
            raise BadInput(
                "block ids of one blob must have one length", code="blob.block-id", where=self.name
            )
        records = [
            b"%08x %d %b\n%b" % (zlib.crc32(b), len(b), i.encode(), b)
            for i, b in zip(ids, blocks, strict=True)
        ]
        if not found.startswith(base):
            records.insert(0, b"%b%d\n" % (base, widths.pop()))
        with open(path, "ab" if found.startswith(base) else "wb") as file:
            file.write(b"".join(records))

    def staged(self, state: State | None) -> dict[str, bytes]:
        """Blocks staged since the last commit. A file that does not read to its end is worth nothing."""
        try:
            data = self.path("staged").read_bytes()
        except FileNotFoundError:
            return {}
        if not data.startswith(_base(state)):
            return {}
        found, start = {}, data.index(b"\n") + 1
        while start < len(data):
            head, _, _ = data[start : start + 100].partition(b"\n")
            check, _, rest = head.partition(b" ")
            size, _, one = rest.partition(b" ")
            block = data[start + len(head) + 1 :][: int(size)] if size.isdigit() else b""
            if not size.isdigit() or len(block) != int(size) or b"%08x" % zlib.crc32(block) != check:
                self.path("staged").unlink()
                return {}
            found[one.decode()] = block
            start += len(head) + 1 + len(block)
        return found


def _base(state: State | None) -> bytes:
    return b"%b " % (state.etag if state else "none").encode()
