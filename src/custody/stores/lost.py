"""What the history tells of losses, compared with what is there now: a copy that was put back may bring it all back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

WENT_BACK, RESTORED = "went-back", "restored"
"""Events of the subject `store`: acknowledged moves are unknown here; somebody has taken note of it."""

Has = Callable[[str, str], bool]
"""Is there an event of this subject with this move? Where the move is not known (""), any event of it."""


def still_lost(detail: Mapping[str, Any], has: Has) -> bool:
    """Is something missing of what a `went-back` tells of, or is that not known?"""
    if detail.get("missing") == 0:
        return False
    newest = detail.get("newest") or ("", "")
    if newest[1] and has(newest[0], newest[1]):
        return False  # and so is all that came before it
    named = subjects_lost(detail, has)
    return bool(named) or not detail["subjects"] or len(detail["subjects"]) < (detail.get("jobs") or detail["missing"])


def subjects_lost(detail: Mapping[str, Any], has: Has) -> list[str]:
    """Of those that it names, those that are not there now."""
    moves = detail.get("moves") or [""] * len(detail["subjects"])
    return [subject for subject, move in zip(detail["subjects"], moves, strict=False) if not has(subject, move)]
