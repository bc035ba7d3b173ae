"""How many rows travel in one statement: each column as one text.

Numbers go as an array literal, texts joined by a control character that no JSON text contains (JSON writes
control characters as escapes). Quoting every text for an array costs more than the row itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CUT, NONE = "\x1e", "\x1f"


def numbers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def column(values: Sequence[str | None]) -> str | None:
    """One column, or None when it has nothing to say in any row."""
    if not any(value is not None for value in values):
        return None
    return CUT.join([NONE if value is None else value for value in values])


def fits(value: str | None) -> bool:
    """Can this text travel in a column? (An empty one alone would look like no rows at all.)"""
    return value is None or (value != "" and CUT not in value and value != NONE)
