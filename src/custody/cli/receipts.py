"""A file of receipts: what was acknowledged, kept outside of the store that acknowledged it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from custody.model.errors import BadInput
from custody.stores import Store

PAGE = 500


def append(file: Path, job: int, move: str) -> None:
    """Write one down, on disk when this returns."""
    with file.open("ab") as kept:
        kept.write(json.dumps({"job": job, "move": move}).encode() + b"\n")
        kept.flush()
        os.fsync(kept.fileno())


def read(file: Path) -> Iterator[tuple[int, str]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                one = json.loads(line)
                yield int(one["job"]), str(one["move"])
            except (ValueError, TypeError, KeyError) as error:
                raise BadInput(
                    f"this is no receipt: {line.strip()[:80]!r}", code="receipts.line", where=f"{file}, line {number}"
                ) from error


def missing(store: Store, file: Path) -> tuple[int, list[tuple[int, str]]]:
    """How many there are, and those of which the store knows nothing."""
    count, lost = 0, list[tuple[int, str]]()
    receipts = read(file)
    while page := list(islice(receipts, PAGE)):
        count += len(page)
        lost += _asked(store, page)
    return count, lost


def _asked(store: Store, page: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    from custody.stores.queue import SqlQueue

    queue = store.queue if isinstance(store.queue, SqlQueue) else SqlQueue(store.db)
    return queue.missing(page)
