"""Times as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time

from custody.errors import BadInput
from custody.kernel.model.event import Event, told_time


def moment(microseconds: int | None) -> str:
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def moment_of(text: str) -> int:
    """A moment as people write it, in microseconds: a day means its end, a time without a zone is UTC."""
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise BadInput(
            f"{text!r} is not a day or a time", code="value.time", hint="2026-03-01, or 2026-03-01T12:00:00+01:00"
        ) from error
    if len(text.strip()) <= len("2026-03-01"):
        given = datetime.combine(given.date(), time.max)
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def own_time(events: Iterable[Event]) -> dict[str, Callable[[Event], str]]:
    """A column for the times that imported events have of their own, if there are any."""
    return {"happened, as told": told_time} if any(map(told_time, events)) else {}


def ago(microseconds: int | None, now: int) -> str:
    if not microseconds:
        return ""
    seconds = max(0, now - microseconds) // 1_000_000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
