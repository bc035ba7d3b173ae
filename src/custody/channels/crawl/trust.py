"""What one answer of a chat service proves, and what two prove together. Pure: no I/O and no clock.

A message that was shown is kept, whatever the page is worth: that is information. What was *not* shown is information
only under the rules below. A clean page speaks strongly for the span of its own ids and weakly for the rest of what it
was asked; two weak claims from opposite sides make a proof; an empty page claims nothing. Absence is evidence and never
a fact: two witnesses some time apart, one of them a refusal of that very message beside a neighbour that answers.
Ids are numbers, times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from custody.channels.snowflake import HIGHEST

PAGE = 100
APART = 10 * 60 * 1_000_000  # microseconds between two looks that count as two
EXCERPT = 200  # characters of an element that could not be read, for whoever looks into it
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_SUCH = "404"  # a mark by a refusal of that very message; others are "page" and "event"
WORD = "word"  # a mark by an operator
NOTHING_READ = "none of its elements can be read"
TOMBSTONE = {"id", "deleted_at"}  # the fields of the line that stays of an erased message

Raw = Mapping[str, Any]
Span = tuple[int, int]  # closed, unless said otherwise
Mark = tuple[int, str, str]  # when, what kind of witness, which answer


# --- One answer ---


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for a page: the oldest after an id, or the newest before one."""

    after: int | None = None
    before: int | None = None
    limit: int = PAGE

    @property
    def low(self) -> int:
        return -1 if self.after is None else self.after

    @property
    def high(self) -> int:
        return HIGHEST + 1 if self.before is None else self.before


@dataclass(frozen=True, slots=True)
class Page:
    """A judged answer, oldest first. Its sights are worth keeping; it proves something only if it is clean."""

    ask: Ask
    sights: tuple[Raw, ...] = ()
    ids: tuple[int, ...] = ()  # of the sights
    bad: str = ""  # why it proves nothing
    holes: tuple[Span, ...] = ()  # open, round elements that could not be read
    unread: tuple[str, ...] = ()  # the beginning of each of those
    loose: tuple[bool, bool] = (False, False)  # such elements stand before its first id, behind its last
    digest: str = ""
    at: int = 0  # just before it was asked

    @property
    def span(self) -> Span | None:
        """From its first id to its last."""
        return (self.ids[0], self.ids[-1]) if self.ids and not self.bad else None

    @property
    def full(self) -> bool:
        """There may have been more to give."""
        return len(self.ids) + len(self.unread) >= self.ask.limit

    def spans(self) -> tuple[Span, ...]:
        """What it speaks for: its span, cut round what could not be read."""
        if self.span is None:
            return ()
        cuts = [self.ids[0], *(edge for hole in self.holes for edge in hole), self.ids[-1]]
        return tuple(zip(cuts[::2], cuts[1::2], strict=True))


def judge(channel: int, ask: Ask, answer: Any, *, newest: int = HIGHEST, at: int = 0) -> Page:
    """Judge one answer by itself. `newest` is the highest id that a message can have by now."""
    if not isinstance(answer, list):
        return Page(ask, bad="it is not a list", at=at)
    known = [(identity(one, newest) if legible(one) else None, one) for one in answer]
    ids = [one for one, _ in known if one is not None]
    if any(one is not None and _foreign(raw, channel) for one, raw in known):
        return Page(ask, bad="it has messages of another channel", at=at)
    bad = _fault(ask, len(answer), ids)
    if ids != sorted(ids):
        known.reverse()
    sights = {one: raw for one, raw in known if one is not None and ask.low < one < ask.high}
    order = tuple(sorted(sights))
    unread = tuple(repr(raw)[:EXCERPT] for one, raw in known if one is None)
    holes = () if bad else _holes([one for one, _ in known])
    edges = (known[0][0] is None, known[-1][0] is None) if known else (False, False)
    loose = (any(edges), any(edges)) if len(ids) < 2 else edges  # beside one id nobody knows which way the row goes
    digest = sha256(repr((ask, order)).encode()).hexdigest()[:8]
    return Page(
        ask=ask,
        sights=tuple(sights[one] for one in order),
        ids=order,
        bad=bad,
        holes=holes,
        unread=unread,
        loose=loose,
        digest=digest,
        at=at,
    )


def identity(one: Any, newest: int = HIGHEST) -> int | None:
    """The id of a message object; None if it cannot be read, is of a time that has not come, or looks like the line
    that we leave for one that was erased."""
    told = one.get("id") if isinstance(one, Mapping) and set(one) != TOMBSTONE else None
    if not (isinstance(told, str) and told.isascii() and told.isdigit() and len(told) <= len(str(HIGHEST))):
        return None
    number = int(told)
    return number if number <= newest else None


def legible(one: Any) -> bool:
    """Has it a text, be it an empty one? Each message has: an object without was cut, and is no sight of a message."""
    return isinstance(one, Mapping) and isinstance(one.get("content"), str)


def _foreign(raw: Raw, channel: int) -> bool:
    return str(raw.get("channel_id", channel)) != str(channel)


def _fault(ask: Ask, count: int, ids: Sequence[int]) -> str:
    """Why a page with these ids cannot be the answer to that question."""
    if count > ask.limit:
        return "it has more than was asked for"
    if count and not ids:
        return NOTHING_READ
    if any(not ask.low < one < ask.high for one in ids):
        return "it has ids outside the bounds that were asked for"
    if list(ids) not in (sorted(set(ids)), sorted(set(ids), reverse=True)):
        return "its ids are neither rising nor falling"
    return ""


def _holes(row: Sequence[int | None]) -> tuple[Span, ...]:
    """Where elements stand that could not be read: between their readable neighbours. The row rises."""
    holes, left, open_ = set[Span](), None, False
    for one in row:
        if one is None:
            open_ = True
            continue
        if open_ and left is not None:
            holes.add((left, one))
        left, open_ = one, False
    return tuple(sorted(holes))


# --- What a page says beyond its own ids, and what two say together ---


def claims(page: Page) -> Span | None:
    """The open interval that a page says to have shown whole. Weak: it may only have been cut short."""
    if page.span is None or page.unread:
        return None
    first, last = page.span
    if page.ask.after is not None:
        return page.ask.after, last + 1 if page.full else HIGHEST + 1
    return first - 1 if page.full else -1, page.ask.high


def agreed(up: Page, down: Page) -> Span | None:
    """What two pages from opposite sides both say to have shown whole: two questions, one proof."""
    one, two = claims(up), claims(down)
    if one is None or two is None or up.ask.after is None or down.ask.before is None:
        return None
    low, high = max(one[0], two[0]) + 1, min(one[1], two[1]) - 1
    return (0 if low <= 1 else low, high) if low <= high else None


# --- Spans: what was shown without a break. They only grow ---


def cover(spans: Iterable[Span], *more: Span) -> tuple[Span, ...]:
    """All of them as few: those that meet are one."""
    out: list[Span] = []
    for low, high in sorted([*spans, *more]):
        if out and low <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(out[-1][1], high)
        else:
            out.append((low, high))
    return tuple(out)


# --- Absence ---


@dataclass(frozen=True, slots=True)
class Doubt:
    """What speaks against a kept message: marks since it was last seen. Joined, whoever came first."""

    shown: int = -1  # the last sight that contradicted a mark
    marks: frozenset[Mark] = frozenset()

    def joined(self, other: Doubt) -> Doubt:
        shown = max(self.shown, other.shown)
        return Doubt(shown, frozenset(mark for mark in self.marks | other.marks if mark[0] > shown))

    def marked(self, mark: Mark) -> Doubt:
        return self.joined(Doubt(marks=frozenset({mark})))

    def seen(self, at: int) -> Doubt:
        """It was shown: all that was marked until then is void."""
        return self.joined(Doubt(at))

    def confirmed(self, apart: int = APART, refused: bool = True) -> int | None:
        """Since when it is gone there: two witnesses, different answers, one a refusal; or an operator's word."""
        marks = sorted(self.marks)
        for number, (at, kind, digest) in enumerate(marks):
            if kind == WORD:
                return at
            if refused and not any(kind == NO_SUCH for _, kind, _ in marks[: number + 1]):
                continue
            if any(_two(at - then, apart, (kind, digest), other) for then, *other in marks[:number]):
                return at
        return None

    def is_open(self, now: int) -> bool:
        """Would one more look say more? Not once it is confirmed, and not soon after a refusal."""
        return self.confirmed() is None and not any(kind == NO_SUCH and now - at < APART for at, kind, _ in self.marks)

    @property
    def spoken(self) -> bool:
        """An operator has said so."""
        return any(kind == WORD for _, kind, _ in self.marks)

    @property
    def how(self) -> str:
        """By which kinds of witnesses."""
        return "+".join(sorted({kind for _, kind, _ in self.marks}))


def _two(between: int, apart: int, one: tuple[str, str], other: Sequence[str]) -> bool:
    """Are two marks two witnesses? The same bytes twice are one; two refusals differ by their time alone."""
    return between >= apart and (one[1] != other[1] or one[0] == other[0] == NO_SUCH)


def unshown(page: Page, kept: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of what is kept: what the page speaks for and lacks, and what it might have had. The first is evidence, the
    second a reason to look closer. `kept` rises."""
    if page.span is None:
        return [], []
    (first, last), shown, ask = page.span, set(page.ids), page.ask
    inside = [one for one in kept if first < one < last and one not in shown]
    lacking = [one for one in inside if not any(low < one < high for low, high in page.holes)]
    under = [one for one in kept if ask.low < one < first]
    over = [one for one in kept if last < one < ask.high]
    if page.full:  # then it says nothing of what lies beyond its far end
        under, over = (under, []) if ask.after is not None else ([], over)
    return lacking, [*under[-ask.limit :], *over[: ask.limit]]


def denied(page: Page, kept: Iterable[int]) -> set[int]:
    """What is kept and a page says not to be there, be it weakly."""
    claim, shown = claims(page), set(page.ids)
    return {one for one in kept if claim and claim[0] < one < claim[1] and one not in shown}


# --- The brake ---


def most_denied(kept: int) -> int:
    """More kept messages than these denied at once are no deletions but an accident, until somebody says so."""
    return min(100, max(10, kept // 10))


def quota(kept: int) -> int:
    """How many messages of a channel may be erased within a day without an operator's word."""
    return min(100, max(10, kept // 20))


def guild_quota(kept: int) -> int:
    return min(1_000, max(50, kept // 100))


# --- Doubt as fields of a row: what was last seen, and the marks since ---


def stamp(at: int) -> str:
    return (EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds")


def moment(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def doubt_of(row: Raw) -> Doubt:
    """The doubt that a row tells of; what cannot be read of it is none."""
    shown, marks = -1, set[Mark]()
    for name in ("seen", "shown"):
        with suppress(LookupError, TypeError, ValueError):
            shown = max(shown, moment(row[name]))
    told = row.get("absent")
    for one in told if isinstance(told, list) else []:
        with suppress(TypeError, ValueError):
            at, kind, digest = one
            marks.add((moment(at), str(kind), str(digest)))
    return Doubt(shown, frozenset(mark for mark in marks if mark[0] > shown))


def written(mark: Mark) -> list[str]:
    """A mark as a row has it."""
    return [stamp(mark[0]), mark[1], mark[2]]
