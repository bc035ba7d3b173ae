"""Lists over very many rows: a few walks down an index, merged, and stopped after a page.

A walk says of each row whether the rest of the filter fits it, and looks at so many and no more; where it stopped is
where the next page begins. So a page may have few rows, or none, and there is still more: what is rare takes many
small steps instead of one that nobody can wait for. Which walks answer a filter is decided in lists.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from custody.kernel.stores.rows import Row, Tx

T = TypeVar("T")
K = TypeVar("K", int, str)
LOOK = 5_000
"""Rows that one page looks at, however many walks it takes."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and where the next ones begin; empty when these were the last. Before that there may be few."""

    rows: Sequence[T]
    next: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """A statement that begins behind `start`, looks at `look` rows in order and answers (key, does it fit)."""

    statement: str
    values: Mapping[str, Any] = field(default_factory=dict)


def merged(
    tx: Tx, walks: Sequence[Walk], start: K, limit: int, *, exact: bool, newest_first: bool, fits: Mapping[str, Any]
) -> tuple[list[K], K | None]:
    """The keys of a page, and behind which the next one begins. `exact`: each row that is walked over fits."""
    look = limit + 1 if exact else max(limit + 1, LOOK // max(1, len(walks)))
    found: list[K] = []
    ends: list[K] = []  # how far each came that did not reach its end
    for walk in walks:
        rows = tx.run(walk.statement, start=start, look=look, **walk.values, **fits)
        found += [row[0] for row in rows if row[1]]
        if len(rows) == look:
            ends.append(rows[-1][0])
    found.sort(reverse=newest_first)
    end = (max(ends) if newest_first else min(ends)) if ends else None
    if end is not None:  # beyond it, only some of the walks have looked
        found = [key for key in found if (key >= end if newest_first else key <= end)]
    return found[:limit], found[limit - 1] if len(found) > limit else end


def these(tx: Tx, statement: str, keys: Sequence[K], read: Callable[[Row], T], key_of: Callable[[T], K]) -> list[T]:
    """The rows with these keys, in their order."""
    rows = [read(row) for row in tx.run(statement, ids=json.dumps(list(keys)))] if keys else []
    by_key = {key_of(row): row for row in rows}
    return [by_key[key] for key in keys if key in by_key]
