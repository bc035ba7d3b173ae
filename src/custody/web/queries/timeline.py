"""A job's life as bars: one lane for each try, to scale, with long idle times cut short. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custody.kernel.model.event import Event

WIDTH = 1000.0
LEAST = 14.0  # so that the shortest bar can still be seen and pointed at
LONG = 300_000_000  # microseconds after which a bar is cut short
QUIET = frozenset({"kept", "prioritised", "asked"})


@dataclass(frozen=True, slots=True)
class Bar:
    state: str
    look: str
    start: int
    length: int
    x: float
    width: float
    cut: bool  # longer than it is drawn
    ended_by: str  # the event that ended it
    note: str


@dataclass(frozen=True, slots=True)
class Lane:
    title: str
    bars: Sequence[Bar]


def lanes(events: Sequence[Event], now: int, ended: bool) -> Sequence[Lane]:
    """From the first event to now; a resume begins a new lane."""
    pieces = _pieces(events, now, ended)
    if not pieces:
        return []
    drawn = [min(length, LONG) for _, _, length, _, _, _ in pieces]
    free = WIDTH - LEAST * len(pieces)
    scale = max(free, 0.0) / max(1, sum(drawn))
    made: list[Lane] = []
    bars: list[Bar] = []
    x, title = 0.0, "first try"
    for (state, start, length, look, by, note), shown in zip(pieces, drawn, strict=True):
        width = min(WIDTH, LEAST + shown * scale)
        bars.append(
            Bar(
                state=state,
                look=look,
                start=start,
                length=length,
                x=round(x, 1),
                width=round(width, 1),
                cut=length > LONG,
                ended_by=by,
                note=note,
            )
        )
        x += width
        if by == "resumed":
            made.append(Lane(title, bars))
            bars, title = [], f"resumed {len(made)}×" if len(made) > 1 else "resumed"
    return [*made, Lane(title, bars)] if bars else made


def _pieces(events: Sequence[Event], now: int, ended: bool) -> list[tuple[str, int, int, str, str, str]]:
    moves = [event for event in events if "state" in event.detail and event.type not in QUIET]
    pieces = []
    for event, following in zip(moves, [*moves[1:], None], strict=True):
        state = str(event.detail["state"])
        over = following is None and ended
        until = event.at if over else (following.at if following else now)
        by = following.type if following else ""
        note = str(following.detail.get("reason", "")) if following else ""
        pieces.append((state, event.at, max(0, until - event.at), _look(event, following), by, note))
    return pieces


def _look(event: Event, following: Event | None) -> str:
    """How a stretch is shown: by how it ended, or by what the job is now."""
    ended = event.detail.get("ended")
    if ended:
        return {"passed": "done", "failed": "failed"}.get(str(ended), "cancelled")
    if event.detail.get("state") == "held":
        return "held"
    if following is None:
        return "waiting"
    if following.outcome == "failure":
        return "failed" if following.detail.get("ended") else "retrying"
    return "done" if following.outcome in ("success", "warning") else "waiting"
