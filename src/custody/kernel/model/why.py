"""Reasons: why something waits, since when, and what would clear it."""

from __future__ import annotations

from dataclasses import dataclass

READY = frozenset({"queue", "no-worker"})
"""Codes of what keeps a job only until its turn comes."""


@dataclass(frozen=True, slots=True)
class Reason:
    code: str  # "needs", "due", "held", "leased", "queue", …
    text: str  # a sentence
    clears: str  # what would clear it
    since: int | None = None  # microseconds
    job: int | None = None  # the job it is about, if it is about one
