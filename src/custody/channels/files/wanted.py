"""Rows of files that messages name, and the mark that says whether some are wanted: how both are joined. Pure.

The mark says from which id on something may be wanted: `{"low": "…", "turn": n}`. Whoever wants something lowers it and
counts on; the job that fetches raises it, unless somebody has counted on meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from custody.errors import BadInput

START: Final = '{"want": 0}'  # a mark that says: something may be wanted from the beginning on

Raw = Mapping[str, Any]


def state_of(row: Raw) -> str:
    """Rows of earlier archives have no state: they have a digest, or the reason why not."""
    return str(row.get("state") or ("kept" if "digest" in row else "lost"))


def name_of(row: Raw) -> str:
    return str(row.get("name") or row.get("filename") or "file")


def latest(lines: tuple[bytes, ...], line: bytes) -> tuple[bytes, ...]:
    """A table's `merge`: what is kept stays kept, until it is wanted `again`; else the later word counts."""
    return (max(lines[-1], line, key=_rank),)


def _rank(line: bytes) -> tuple[str, bool, str, bytes]:
    row = json.loads(line)
    return str(row.get("again") or ""), state_of(row) == "kept", str(row.get("at") or ""), line


@dataclass(frozen=True, slots=True)
class Wanted:
    """From which id on something may be wanted (None: nothing is), and how often somebody wanted something."""

    low: int | None = None
    turn: int = 0

    @classmethod
    def read(cls, mark: str) -> Wanted:
        try:
            told = json.loads(mark) if mark else {}
            return cls(None if told.get("low") is None else int(told["low"]), int(told.get("turn", 0)))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise BadInput("not a mark of files", code="wanted.mark", where=mark[:100]) from error

    def written(self) -> str:
        return json.dumps({"low": None if self.low is None else str(self.low), "turn": self.turn})


def joined(old: str, new: str) -> str:
    """A mark after somebody wanted something (`want`), or after the job came to an end (`low`, at that turn)."""
    had, told = Wanted.read(old), json.loads(new)
    if "want" in told:
        low = int(told["want"])
        return Wanted(low if had.low is None else min(low, had.low), had.turn + 1).written()
    return new if int(told.get("turn", 0)) == had.turn else old
