"""Whether a time that was written down has come. Pure.

Whoever writes down when something is to be tried again knows how far off that can be at most. A time that is further
off was written by a clock that was ahead, and a last time that is still to come as well: neither is believed, or a
clock that was wrong for a minute would stop a channel for as long as it was ahead.
"""

from __future__ import annotations

from typing import Any

from custody.channels.crawl import trust


def has_come(then: Any, now: int, within: int) -> bool:
    """Is it time, if it was to be within so many microseconds? What cannot be read as a time has come."""
    moment = _moment(then)
    return moment is None or not now < moment <= now + within


def is_over(last: Any, now: int, period: int) -> bool:
    """Is the last time longer ago than this? One that is still to come never was."""
    moment = _moment(last)
    return moment is None or not 0 <= now - moment < period


def _moment(text: Any) -> int | None:
    if isinstance(text, int):
        return text or None
    try:
        return trust.moment(str(text)) if text else None
    except (ValueError, OverflowError):
        return None
