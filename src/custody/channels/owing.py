"""Finding out what is owed, and paying it: what was fetched without its content is fetched again once it may be seen.

Whether a bot may see content is the intent's to say, not the content's: an empty message may be empty. The service is
asked when a page shows such messages, once an hour at most; a service that does not say is believed to show all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from custody.channels.debts import VEIL, Debts
from custody.channels.mirror import Mirror, noted
from custody.channels.versions import hollow
from custody.model.errors import CustodyError

MESSAGE_CONTENT = 1 << 18 | 1 << 19  # of an application's flags
ASKED_EVERY = timedelta(hours=1)
NO_INTENT = "no_intent"  # on a channel's item

Raw = Mapping[str, Any]


def sees_content(mirror: Mirror) -> bool:
    asked, said = mirror.intent.get("told", (None, True))
    if asked is None or not timedelta() <= mirror.now() - asked < ASKED_EVERY:
        try:
            flags = mirror.discord.application().get("flags")
            said = not isinstance(flags, int) or bool(flags & MESSAGE_CONTENT)
        except CustodyError:
            said = True
        mirror.intent["told"] = (mirror.now(), said)
    return said


def veiled(mirror: Mirror, messages: Sequence[Raw]) -> set[int]:
    """Those of a page that were given without their content, for want of the intent."""
    empty = {int(raw["id"]) for raw in messages if hollow(raw)}
    return empty if empty and not sees_content(mirror) else set()


def owe(mirror: Mirror, channel: int, messages: set[int], stamp: str) -> None:
    overlay = mirror.seen(channel)
    overlay.upsert([], Debts.read(overlay.mark).owe(min(messages), max(messages), VEIL, stamp).mark())
    item = mirror.item(channel)
    if item is not None and not item.detail.get(NO_INTENT):
        mirror.store.records.put([noted(channel, **{NO_INTENT: True})], agent="channels")


def payable(mirror: Mirror, channel: int) -> bool:
    """Is something owed that can be had now?"""
    return bool(Debts.read(mirror.seen(channel).mark).open()) and sees_content(mirror)


def paid(mirror: Mirror, channel: int, ids: Sequence[int], full: bool) -> bool:
    """Write down that a page from the first debt on was fetched; answers whether all is paid."""
    overlay = mirror.seen(channel)
    debts = Debts.read(overlay.mark)
    first = debts.open()[0]
    at = max(ids[-1], first.next) if full else first.high
    debts = debts.paid(first, at)
    overlay.upsert([], debts.mark())
    if not debts.open():
        mirror.store.records.put([noted(channel, **{NO_INTENT: False})], agent="channels")
    return not debts.open()


def next_owed(mirror: Mirror, channel: int) -> int:
    return Debts.read(mirror.seen(channel).mark).open()[0].next
