"""How the writer of a document uses PREMIS: words for outcomes and types, times without a zone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from custody.formats.premis.model import Result
from custody.kernel.history.head import EPOCH
from custody.kernel.model.event import Outcome

OUTCOME_WORDS: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys(("success", "successful", "succeeded", "pass", "passed", "ok", "valid"), "success"),
    **dict.fromkeys(("positive", "true", "complete", "completed", "well-formed"), "success"),
    **dict.fromkeys(("fail", "failure", "failed", "failing", "error", "invalid", "negative", "false"), "failure"),
    **dict.fromkeys(("warning", "warn", "partial", "partial success", "partial_success"), "warning"),
    "fai": "failure",  # the Library of Congress's terms by the last part of their addresses
    "suc": "success",
    "war": "warning",
}
"""Words for outcomes seen in the wild; an archive adds its own."""
GRAVITY: Final[tuple[Outcome, ...]] = ("none", "success", "warning", "failure")
PERIOD: Final = re.compile(r"(\d{4})(?:-(\d\d))?")


@dataclass(frozen=True, slots=True)
class Habits:
    outcomes: Mapping[str, Outcome] = field(default_factory=lambda: OUTCOME_WORDS)
    unknown: Outcome = "failure"  # a word we do not know must not open a gate
    types: Mapping[str, str] = field(default_factory=dict)  # their event types → ours
    zone: tzinfo = UTC  # of times that name none

    def outcome(self, results: Iterable[Result]) -> tuple[Outcome, list[str]]:
        """The gravest of all that are given, and the words that nobody knows. A term may be given by its address.

        One that says nothing has none, unless it is said what that means there (the word "")."""
        worst: Outcome = "none"
        unknown: list[str] = []
        words = [result.word.text for result in results if result.word.text]
        if not words:
            return self.outcomes.get("", "none"), []
        for word in words:
            outcome = self.outcomes.get(word.casefold()) or self.outcomes.get(word.casefold().rpartition("/")[2])
            if outcome is None:
                unknown.append(word)
                outcome = self.unknown
            worst = max(worst, outcome, key=GRAVITY.index)
        return worst, unknown

    def time(self, text: str) -> int | None:
        """Microseconds since 1970 of any ISO 8601 time, with or without fractions, colons and zone; a year or a month
        means its beginning. None if nobody can read it."""
        period = PERIOD.fullmatch(text)
        try:
            found = datetime.fromisoformat(f"{period[1]}-{period[2] or '01'}-01" if period else text)
            if found.tzinfo is None:
                found = found.replace(tzinfo=self.zone)
            return (found - EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):
            return None
