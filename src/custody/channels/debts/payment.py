"""Paying what is owed, a page at a time: fetched again, it is read, seen with its content, or put in place of damage.

What a page does not mend stays owed and is tried again later: a message that is damaged here and gone there is owed for
ever, and told so.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from custody.channels.context import Context, noted
from custody.channels.crawl.kept import Kept, Live
from custody.channels.crawl.trust import NO_SUCH, Page
from custody.channels.debts import unseen_content
from custody.channels.debts.debts import BLANK, DAMAGED, DIFFERS, LOST, TORN, UNREADABLE, VEIL, Debt, Debts
from custody.channels.table import Table

OWED_AT: Final = "owed_at"  # on a channel's item: when what is owed is tried again
AGAIN = timedelta(hours=6)


def step(mirror: Context, channel: int, live: Live, kept: Kept, cursor: int) -> int | None:
    """Fetch a page of the first debt from the cursor on; answers where to go on, None at the end."""
    debt = next((one for one in _payable(mirror, channel) if one.high >= cursor), None)
    if debt is None:
        _over(mirror, channel)
        return None
    if debt.why == TORN and debt.next > kept.coverage.upto:  # nothing there was ever shown: it is the crawl's to fetch
        _write(mirror, channel, debt, debt.high)
        return debt.high + 1
    page = live.page(after=max(debt.next - 1, cursor - 1, 0))
    if page.bad or not page.ids:  # it pays nothing; what is behind it may still be had
        return debt.high + 1
    kept.keep(page, ())
    upto = min(page.ids[-1], debt.high) if page.full else debt.high
    if cursor > debt.next:
        return upto + 1
    closer = _by_themselves(live, kept, debt, page, upto=upto) if debt.why == DIFFERS else upto
    _write(mirror, channel, debt, min(closer, _paid_upto(mirror.table(channel), debt, page, upto, blank=kept.blank)))
    return upto + 1


def _paid_upto(table: Table, debt: Debt, page: Page, upto: int, blank: set[int]) -> int:
    """How far a debt is paid by a page that was kept."""
    if debt.why == UNREADABLE and page.loose[0]:
        return debt.next - 1
    if debt.why == UNREADABLE:
        unread = [low for low, high in page.holes if high > debt.low] + [page.ids[-1]] * page.loose[1]
        return min([*unread, upto])
    if debt.why == BLANK:
        return min((one - 1 for one in blank if one >= debt.next), default=upto)
    if debt.why == DAMAGED:
        return next((one.id - 1 for one in table.between(debt.next, upto + 1) if one.damaged), upto)
    return upto


def _by_themselves(live: Live, kept: Kept, debt: Debt, page: Page, upto: int) -> int:
    """How far a difference is settled after a direct look at what the page does not show, or what was erased here.

    A page alone brings nothing back, and may leave out the very message that is lacking. One that is refused by its
    number as well is not there any more."""
    unshown = {one for one in (debt.low, debt.high) if debt.next <= one <= upto} - set(page.ids)
    for one in sorted({*unshown, *kept.erased([one for one in page.ids if debt.next <= one <= upto])}):
        at = live.now()
        answer, raw = live.message(one)
        if raw is not None:
            kept.shown(raw, at)
        elif answer != NO_SUCH:
            return one - 1
    return upto


def _payable(mirror: Context, channel: int) -> list[Debt]:
    """What is owed and can be had now: content only with the intent."""
    found = sorted(Debts.read(mirror.seen(channel).mark).open(), key=lambda debt: debt.next)
    veiled = any(debt.why == VEIL for debt in found) and not unseen_content.sees_content(mirror)
    return [debt for debt in found if debt.why != LOST and not (veiled and debt.why == VEIL)]


def _write(mirror: Context, channel: int, debt: Debt, upto: int) -> None:
    overlay = mirror.seen(channel)
    debts = Debts.read(overlay.mark)
    paid = debts.paid(debt, upto)
    if paid != debts:
        overlay.upsert([], paid.mark())


def _over(mirror: Context, channel: int) -> None:
    """Note when what is still owed is tried again, and that nothing is owed for want of the intent."""
    item = mirror.item(channel)
    debts = [debt for debt in Debts.read(mirror.seen(channel).mark).open() if debt.why != LOST]
    detail = item.detail if item else {}
    facts: dict[str, object] = {}
    if detail.get(unseen_content.NO_INTENT) and all(debt.why != VEIL for debt in debts):
        facts[unseen_content.NO_INTENT] = False
    if debts or detail.get(OWED_AT):
        facts[OWED_AT] = (mirror.now() + AGAIN).isoformat(timespec="microseconds") if debts else ""
    if facts:
        mirror.store.records.put([noted(channel, **facts)], agent="channels")


def recounted(overlay: Table, damaged: Iterable[int], stamp: str) -> None:
    """Write down what a look at every block found: what is damaged is owed, and what no longer is, is paid."""
    wrong, debts = sorted(damaged), Debts.read(overlay.mark)
    counted = debts
    for debt in debts.open():
        if debt.why == DAMAGED and not any(debt.next <= one <= debt.high for one in wrong):
            counted = counted.paid(debt, debt.high)
    if counted != debts:
        overlay.upsert([], counted.mark())
    note(overlay, wrong, stamp)


def note(overlay: Table, damaged: Iterable[int], stamp: str) -> None:
    """Write down that these are damaged: they are owed until they are mended."""
    known = debts = Debts.read(overlay.mark)
    for one in damaged:
        debts = debts.owe(one, one, DAMAGED, stamp)
    if debts != known:
        overlay.upsert([], debts.mark())
