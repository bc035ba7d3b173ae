"""The walks through a channel: forward, into gaps, back over the newest, closer at single messages, and all over again.

Each asks, has the answer judged, and keeps what was shown with the span that this proves; then come the marks against
what was not shown, and then the closer look. None decides by itself what an answer is worth: `trust` does. They know a
service that answers and an archive that keeps, so that a simulation walks the same ways as the product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from custody.channels.crawl.coverage import Coverage, Gap
from custody.channels.crawl.trust import (
    NO_SUCH,
    NOTHING_READ,
    Ask,
    Doubt,
    Mark,
    Page,
    Raw,
    Span,
    agreed,
    denied,
    unshown,
)
from custody.channels.snowflake import HIGHEST

MOST_LOOKS = 100  # at single messages in one go
LOOK_BACK = 2  # pages of the newest that are looked at again after each sync


class Silent(Exception):
    """The channel shows nothing at all, from either side, though something of it is kept."""


class Bad(Exception):
    """However often it was asked for, the page that came cannot be the answer."""

    def __init__(self, page: Page) -> None:
        super().__init__(page.bad)
        self.page = page


class Service(Protocol):
    def page(self, after: int | None = None, before: int | None = None) -> Page:
        """Ask for a page, a few times if it is bad."""

    def message(self, one: int) -> tuple[str, Raw | None]:
        """Ask for one message: ("200", it), ("404", None) if it is denied by its number, else ("", None)."""

    def now(self) -> int: ...


class Archive(Protocol):
    @property
    def coverage(self) -> Coverage: ...

    def keep(self, page: Page, spans: Sequence[Span]) -> None:
        """Write what a page showed together with what that proves, and what is told of it without an edit."""

    def kept(self, low: int, high: int) -> Sequence[int]:
        """Messages between these two that are kept and not erased, oldest first."""

    def erased(self, ids: Sequence[int]) -> list[int]:
        """Those of these that were erased here."""

    def doubt(self, one: int) -> Doubt: ...

    def confirmed(self, ids: Collection[int]) -> Mapping[int, int]:
        """Those of these that are gone there, and since when."""

    def mark(self, ids: Iterable[int], mark: Mark) -> None: ...

    def erase(self, ids: Sequence[int]) -> None: ...

    def shown(self, raw: Raw, at: int) -> None:
        """A direct look has shown it: it is kept, also if it was erased, and no longer doubted."""


@dataclass(slots=True)
class Found:
    """What pages have left to look into."""

    suspects: set[int] = field(default_factory=set)  # kept and not shown, or shown and erased
    denied: set[int] = field(default_factory=set)  # kept, and the latest claim says no
    witness: int = 0  # one that the last clean page has shown
    shown: int = 0
    looked: set[int] = field(default_factory=set)  # suspects that were asked for by themselves
    more: bool = False  # there are others to look at, after these
    due: list[int] = field(default_factory=list)  # to be erased, in the next steps

    def learn(self, page: Page, archive: Archive, mark: bool = True) -> None:
        """Compare a page that was kept with what is kept besides."""
        if page.span is None:
            return
        low, high = page.ask.low, page.ask.high
        if page.full:  # beyond its far end it says nothing
            low, high = (low, page.ids[-1] + 1) if page.ask.after is not None else (page.ids[0] - 1, high)
        kept = archive.kept(low, high)
        lacking, beyond = unshown(page, kept)
        if len(beyond) >= page.ask.limit:
            beyond = self._beyond(page, kept, archive)
        if mark and lacking:
            archive.mark(lacking, (page.at, "page", page.digest))
        self.suspects |= {*lacking, *beyond, *archive.erased(page.ids)}
        self.denied = (self.denied | denied(page, kept)) - set(page.ids)
        self.witness, self.shown = page.ids[len(page.ids) // 2], self.shown + len(page.ids)

    def _beyond(self, page: Page, kept: Sequence[int], archive: Archive) -> list[int]:
        """Of more messages beside a page than are looked at in one go, those that are not confirmed to be gone: else
        the nearest ones would keep the others from being looked at for ever."""
        beside = [one for one in kept if not page.ids[0] <= one <= page.ids[-1]]
        gone = archive.confirmed(beside)
        self.more |= len(beside) - len(gone) > page.ask.limit
        return unshown(page, [one for one in beside if one not in gone])[1]


def asked(service: Service, archive: Archive, after: int | None = None, before: int | None = None) -> Page:
    """A page, kept with what it proves. One of which nothing can be read proves nothing: others may stand beside it."""
    page = service.page(after, before)
    if page.ids or page.unread:
        archive.keep(page, page.spans())
    if page.bad and page.bad != NOTHING_READ:
        raise Bad(page)
    return page


def forward(service: Service, archive: Archive) -> bool:
    """One page beyond what there is; answers whether nothing newer is shown."""
    upto = archive.coverage.upto
    page = asked(service, archive, after=max(upto - 1, 0))
    if len(page.ids) == 1 and not page.full:
        return _alone(service, archive, page.ids[0])
    if page.ids:
        return not page.full or page.ids[-1] <= upto
    down = other_side(service, archive, page)
    if down is None:
        return True
    if down.ids[-1] <= upto:
        up = asked(service, archive, after=down.ids[-1] - 1)
        return not up.ids or up.ids[-1] <= upto
    return True  # what lies between is a gap now


def _alone(service: Service, archive: Archive, one: int) -> bool:
    """Is there nothing newer than a message that came alone? A service that gives one at a time always says so: it is
    asked by a bound that leaves this one out, and what comes is joined to it if the other side agrees."""
    more = asked(service, archive, after=one)
    if not more.ids:
        return True
    first = more.ids[0]
    if not any(one < other < first for other in asked(service, archive, before=first).ids):
        archive.keep(Page(more.ask), [(one, first)])
    return False


def other_side(service: Service, archive: Archive, page: Page) -> Page | None:
    """After an empty page: what the channel shows from its end. Nothing there either, and something kept: silence."""
    down = asked(service, archive, before=HIGHEST)
    if down.ids:
        return down
    _must_be_silent(down, page)
    if archive.coverage.upto:
        raise Silent
    return None


def _must_be_silent(*pages: Page) -> None:
    """Who shows something that cannot be read is not silent."""
    for page in pages:
        if page.unread:
            raise Bad(page)


def into(service: Service, archive: Archive, gap: Gap) -> bool:
    """Fetch what a gap lacks, from its newer end; answers whether less of it is left."""
    before = archive.coverage
    down = asked(service, archive, before=gap.high + 1)
    if archive.coverage != before:
        return True
    up = asked(service, archive, after=max(gap.low - 1, 0))
    beyond = [one for one in up.ids if one > gap.low]
    if not up.ids:
        end = other_side(service, archive, up)
        if end is None:
            return False
        down, up = end, asked(service, archive, after=max(end.ids[-1] - 1, 0))
    elif not beyond or beyond[0] != gap.high or not down.ids:
        down = asked(service, archive, before=beyond[0] + 1 if beyond else HIGHEST)
    if _inside(service, archive, gap, up):
        return archive.coverage != before
    if proof := agreed(up, down):
        low, high = max(proof[0], gap.low), min(proof[1], gap.high)
        if low <= high:
            archive.keep(Page(up.ask), [(max(low, 0), high)])
    return archive.coverage != before


def _inside(service: Service, archive: Archive, gap: Gap, up: Page) -> bool:
    """Ask for a gap from both sides by bounds that leave out its edges: a service that gives one message at a time has
    shown nothing but those. What comes is kept, with the span between it and the edge if the other side agrees.

    Answers whether there is something inside, be it nothing that can be read."""
    down = asked(service, archive, before=gap.high)
    if down.ids and down.ids[-1] > gap.low:
        last = down.ids[-1]
        if not any(last < one < gap.high for one in asked(service, archive, after=last).ids):
            archive.keep(Page(down.ask), [(last, gap.high)])
        return True
    up = up if up.ask.after == max(gap.low, 0) else asked(service, archive, after=max(gap.low, 0))
    if not up.ids or up.ids[0] >= gap.high:
        return NOTHING_READ in (up.bad, down.bad)
    first = up.ids[0]
    if gap.low >= 0 and not any(gap.low < one < first for one in asked(service, archive, before=first).ids):
        archive.keep(Page(up.ask), [(gap.low, first)])
    return True


def back(service: Service, archive: Archive, pages: int = LOOK_BACK) -> Found:
    """Look at the newest again, from the end of all: late ones and a deleted last one show."""
    found, before = Found(), HIGHEST
    for number in range(pages):
        page = asked(service, archive, before=before)
        if not page.ids:
            if number == 0 and not (up := asked(service, archive, after=0)).ids and archive.coverage.upto:
                _must_be_silent(page, up)
                raise Silent
            break
        found.learn(page, archive)
        if not page.full:
            break
        before = page.ids[0] + 1
    return found


def closer(service: Service, archive: Archive, found: Found, most: int = MOST_LOOKS) -> int:
    """Look at each suspect itself, beside one that was shown: if that does not answer, no refusal counts.

    Answers how many were denied. A suspect that is shown is kept, and what spoke against it is void.
    """
    refused, now = list[int](), service.now()
    left = sorted(found.suspects - found.looked, reverse=True)
    worth = (one for one in left if archive.doubt(one).is_open(now))
    for one in islice(worth, most):
        found.looked.add(one)
        at = service.now()
        answer, raw = service.message(one)
        if raw is not None:
            archive.shown(raw, at)
            found.denied.discard(one)
        elif answer == NO_SUCH:
            refused.append(one)
    refused = [one for one in refused if one not in set(archive.erased(refused))]
    if refused and found.witness and service.message(found.witness)[1] is not None:
        archive.mark(refused, (service.now(), NO_SUCH, NO_SUCH))
        return len(refused)
    return 0


def again(service: Service, archive: Archive, cursor: int, found: Found) -> int | None:
    """One page of the whole channel seen once more, from its beginning; answers where to go on, None at its end."""
    page = asked(service, archive, after=cursor)
    found.learn(page, archive)
    if page.ids and page.ids[-1] > cursor + 1:
        return page.ids[-1] - 1
    end = asked(service, archive, before=HIGHEST)  # the other side decides, else a deleted end would stop us for ever
    if not end.ids:
        _must_be_silent(end, page)
        raise Silent
    found.learn(end, archive)
    beyond = [one for one in end.ids if one > cursor + 1]
    if beyond and page.unread:  # it cannot be stepped over but by what comes behind it
        return beyond[0] - 1
    return cursor if beyond else None


def erase(service: Service, archive: Archive, due: Sequence[int], witness: int) -> list[int]:
    """Erase messages that are gone there, after three more looks, and then a page that shows others in their place;
    answers which.

    The looks are taken beside one that answers. But a service that denies everything may still have an old answer for
    that one: what it cannot have is a page of the very place that shows the neighbours and lacks the message. Where
    nothing is left to be shown, only those go that an operator has spoken for.
    """
    sure = _beside(service, archive, _refused(service, archive, due), witness)
    twice = _refused(service, archive, sure)
    gone = _left_out(service, archive, _refused(service, archive, twice))
    if gone:
        archive.erase(gone)
    return gone


def _beside(service: Service, archive: Archive, ids: Sequence[int], witness: int) -> list[int]:
    """Those of these that are gone there still, if the witness answers; else only those that were spoken for."""
    alone = not ids or not witness or service.message(witness)[1] is None
    return [one for one in ids if (doubt := archive.doubt(one)).confirmed() and (doubt.spoken or not alone)]


def _left_out(service: Service, archive: Archive, ids: Sequence[int]) -> list[int]:
    """Those of these that are gone there still, and that a clean page lacks which shows others in their place; those
    that were spoken for need none."""
    out, page = list[int](), Page(Ask())
    for one in sorted(ids, reverse=True):
        if spoken := archive.doubt(one).spoken:
            lacks = False
        else:
            if page.span is None or not page.span[0] < one < page.ask.high:
                page = _round(service, archive, one)
            lacks = page.span is not None and not page.unread and one not in page.ids
        if (spoken or lacks) and archive.doubt(one).confirmed():
            out.append(one)
    return sorted(out)


def _round(service: Service, archive: Archive, one: int) -> Page:
    """A page that would show this message, with those before it; if there are none, with those behind it."""
    try:
        page = asked(service, archive, before=one + 1)
        return page if page.ids or page.unread else asked(service, archive, after=max(one - 1, 0))
    except Bad as bad:
        return bad.page


def _refused(service: Service, archive: Archive, ids: Sequence[int]) -> list[int]:
    """Those of these that are refused by their number; one that is shown is kept, and no longer doubted."""
    refused = list[int]()
    for one in ids:
        at = service.now()
        answer, raw = service.message(one)
        if raw is not None:
            archive.shown(raw, at)
        elif answer == NO_SUCH:
            refused.append(one)
    return refused
