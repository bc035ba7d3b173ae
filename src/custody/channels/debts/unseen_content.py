"""Finding out what is owed: what was fetched without its content is fetched again once it may be seen (see `payment`).

Whether a bot may see content is the intent's to say, not the content's: an empty message may be empty. The service is
asked when a page shows such messages, once an hour at most; a service that does not say is believed to show all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from custody.channels.context import Context, noted
from custody.channels.crawl.trust import Span
from custody.channels.debts.debts import VEIL, Debts
from custody.channels.messages.versions import hollow
from custody.errors import CustodyError

MESSAGE_CONTENT = 1 << 18 | 1 << 19  # of an application's flags
ASKED_EVERY = timedelta(hours=1)
NO_INTENT = "no_intent"  # on a channel's item

Raw = Mapping[str, Any]


def sees_content(mirror: Context) -> bool:
    token = mirror.discord.token_mark  # another bot's intent is another one
    asked, said = mirror.intent.get(token, (None, True))
    if asked is None or not timedelta() <= mirror.now() - asked < ASKED_EVERY:
        try:
            flags = mirror.discord.application().get("flags")
            said = not isinstance(flags, int) or bool(flags & MESSAGE_CONTENT)
        except CustodyError:
            said = True
        mirror.intent[token] = (mirror.now(), said)
    return said


def veiled(mirror: Context, messages: Sequence[Raw]) -> set[int]:
    """Those of a page that were given without their content, for want of the intent."""
    empty = {int(raw["id"]) for raw in messages if hollow(raw)}
    return empty if empty and not sees_content(mirror) else set()


def owe(mirror: Context, channel: int, spans: Iterable[Span], why: str, stamp: str) -> None:
    """Write down what has to be fetched again, and why. What is owed already is not written twice."""
    overlay = mirror.seen(channel)
    known = debts = Debts.read(overlay.mark)
    for low, high in spans:
        debts = debts.owe(low, high, why, stamp)
    if debts != known:
        overlay.upsert([], debts.mark())
    item = mirror.item(channel) if why == VEIL else None
    if item is not None and not item.detail.get(NO_INTENT):
        mirror.store.records.put([noted(channel, **{NO_INTENT: True})], agent="channels")
