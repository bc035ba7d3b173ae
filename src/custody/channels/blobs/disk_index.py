"""Which blobs there are on a disk, what is known of each, and how the content of one is written anew.

Also of those whose state says nothing any more: they are named, so that they are seen, and can be set aside or removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from custody.channels.blobs import durable
from custody.channels.blobs.layout import Shelf, State
from custody.channels.blobs.port import BlocksMissing, Facts, Properties

BROKEN = '"broken"'  # the ETag of what has none


def found(root: Path, prefix: str) -> dict[str, set[str]]:
    """Names, and which sorts of files there are of each. A folder that cannot be read is not an empty one."""
    names: dict[str, set[str]] = {}
    for here, folders, files in os.walk(root / prefix.rpartition("/")[0], onerror=_unless_absent):
        folder = Path(here).relative_to(root)
        for file in (*files, *(one for one in folders if "@" in one)):
            name, _, kind = (folder / file).as_posix().rpartition("@")
            number, dot, ending = kind.partition(".")
            if number.isdecimal():  # content: `a@3.jsonl` is of `a.jsonl`
                name, kind = name + dot + ending, "content"
            if name.startswith(prefix) and kind in {"state", "staged", "content"}:
                names.setdefault(name, set()).add(kind)
    return names


def write_content(shelf: Shelf, ids: tuple[str, ...], old: State | None) -> tuple[int, tuple[int, ...]]:
    staged = shelf.staged(old)
    had: tuple[str, ...] = old.ids if old else ()
    added = ids[len(had) :]
    adds = ids[: len(had)] == had and staged.keys() >= set(added) and staged.keys().isdisjoint(had)
    if adds and (old is None or shelf.is_whole(old)):
        number, offset, sizes = (old.number, old.size, old.sizes) if old else (1, 0, ())
        data = [staged[one] for one in added]
    else:
        number, offset, sizes = (old.number + 1 if old else 1), 0, ()
        data = _gather(shelf, ids, (shelf.blocks(old) if old else {}) | staged)
        # Left by a crash after an earlier rewrite; as it goes now, there is never more than one.
        durable.remove(shelf.content(number - 2))
    durable.append(shelf.content(number), offset, b"".join(data))
    return number, sizes + tuple(map(len, data))


def _gather(shelf: Shelf, ids: tuple[str, ...], found: Mapping[str, bytes]) -> list[bytes]:
    missing = [one for one in ids if one not in found]
    if missing:
        raise BlocksMissing(f"{len(missing)} blocks were not staged", where=shelf.name, block=missing[0])
    return [found[one] for one in ids]


def properties(shelf: Shelf, state: State) -> Properties:
    read = last_read(shelf)
    return Properties(
        name=shelf.name,
        etag=state.etag,
        size=state.size,
        facts=state.facts,
        modified=datetime.fromtimestamp(state.modified, UTC),
        tier_changed=datetime.fromtimestamp(state.tier_changed, UTC),
        accessed=datetime.fromtimestamp(read, UTC) if read else None,
    )


def what_is_left(shelf: Shelf) -> Properties:
    """Of a blob whose state says nothing."""
    paths = [*shelf.contents()[-1:], shelf.path("state")]
    about = next((path.lstat() for path in paths if os.path.lexists(path)), None)
    size, at = (about.st_size, about.st_mtime) if about else (0, 0.0)
    return Properties(
        name=shelf.name,
        etag=BROKEN,
        size=size,
        facts=Facts({"kind": "broken"}),
        modified=datetime.fromtimestamp(at, UTC),
    )


def _unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def last_read(shelf: Shelf) -> float | None:
    with suppress(FileNotFoundError):
        return shelf.path("read").stat().st_mtime
    return None
