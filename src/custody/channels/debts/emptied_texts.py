"""Texts that turned empty without an edit, and what an operator says of them.

Such a text is owed, and told like a missing intent, because that is what it nearly always is. Where it truly was
emptied (a service may do that without an edit), nothing would ever pay the debt: then a person says so, of exactly the
messages that are shown so now. What is kept stays the newest text; it is no longer owed. The word is in the message's
row of `seen`, `[when, yes or no, who, edit mark]`, the last one counts, and it is about the text under that edit mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from custody.channels.context import Context, item_id
from custody.channels.crawl.kept import Kept, Live
from custody.channels.debts import unseen_content
from custody.channels.debts.debts import BLANK, Debt, Debts
from custody.channels.messages.last_seen import BLANK_WORD, is_believed_blank
from custody.kernel.model.event import NewEvent

TOLD = 20  # ids that an event names


def shown_now(mirror: Context, channel: int) -> tuple[list[int], list[Debt]]:
    """The messages that are owed for it and are shown so now; and the debts of which every page could be asked."""
    found, asked = set[int](), list[Debt]()
    for debt in Debts.read(mirror.seen(channel).mark).open():
        if debt.why != BLANK:
            continue
        live, kept, cursor = Live(mirror, channel), Kept(mirror, channel), debt.next
        while cursor <= debt.high:
            page = live.page(after=cursor - 1)
            if page.bad or not page.ids:
                break
            kept.keep(page, ())
            found |= {one for one in kept.blank if debt.next <= one <= debt.high}
            cursor = (page.ids[-1] if page.full else debt.high) + 1
        else:
            asked.append(debt)
    return sorted(found), asked


def believe(mirror: Context, channel: int, ids: Sequence[int], debts: Iterable[Debt], *, why: str, who: str) -> None:
    """Write down that these are so there; what is owed for them is paid."""
    _say(mirror, channel, ids, "yes", why=why, who=who)
    overlay = mirror.seen(channel)
    known = left = Debts.read(overlay.mark)
    for debt in debts:
        now = next((one for one in left.open() if one.why == BLANK and one.low <= debt.low <= one.high), debt)
        left = left.paid(now, debt.high)
    if left != known:
        overlay.upsert([], left.mark())


def believed(mirror: Context, channel: int) -> list[int]:
    """The messages of which that was said."""
    return [row.id for row in mirror.seen(channel).between() if row.versions and is_believed_blank(row.message)]


def disbelieve(mirror: Context, channel: int, ids: Sequence[int], *, why: str, who: str) -> None:
    """Take the word back: their texts are owed again."""
    _say(mirror, channel, ids, "no", why=why, who=who)
    unseen_content.owe(mirror, channel, [(one, one) for one in ids], BLANK, stamp=mirror.stamp())


def _say(mirror: Context, channel: int, ids: Sequence[int], word: str, *, why: str, who: str) -> None:
    table, stamp = mirror.table(channel), mirror.stamp()
    marks = {row.id: _mark_of(row.message) for one in ids if (row := table.search(one)) and row.versions}
    rows = [{"id": str(one), BLANK_WORD: [stamp, word, who, mark]} for one, mark in sorted(marks.items())]
    if rows:
        mirror.seen(channel).upsert(rows)
    said = "blank believed" if word == "yes" else "blank disbelieved"
    told = {"messages": len(rows), "first": [str(one) for one in ids[:TOLD]], "why": why}
    mirror.store.records.put((), (NewEvent(item_id(channel), said, detail=told),), who)


def _mark_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("edited_timestamp") or "")
