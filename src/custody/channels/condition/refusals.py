"""What a service refuses, or answers wrongly: the sorts of it, and how each is written down on its channel's item.

The time of the next try is written down with it, and what we have stays. One answer is no verdict.
"""

from __future__ import annotations

from typing import Any, Final

from custody.channels.condition import states
from custody.channels.context import ASKED, CHANNEL, Context, Request, Told, item_id, noted
from custody.channels.discord import attachments
from custody.channels.discord.client import BadToken, Gone, Unreadable
from custody.errors import BadInput, CustodyError, LeaseLost, NotFound, Refused, Unavailable, Unsafe
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem


class Hidden(Refused):
    """The channel shows nothing at all, though some of it is kept or named: the bot may not read its history."""

    code = "discord.hidden"


class Unfit(Unavailable):
    """What came, however often it was asked for, cannot be the answer."""

    code = "discord.answer"


class NotMirrored(Refused):
    """The channel was removed, or never added."""

    code = "channel.not-mirrored"


TROUBLES: dict[type[CustodyError], str] = {Unreadable: "unreadable", Gone: "gone", Hidden: "hidden", BadToken: "token"}
REFUSALS = (Refused, BadInput, NotFound, Unsafe)  # what a service says that no second question would change at once
UNKNOWN_CHANNEL = 10003
TOKEN: Final = "by"  # of a trouble: the mark of the token that met it


def not_added(mirror: Context, channel: int, known: Item | None, refusal: CustodyError) -> Told:
    """Nothing of it is mirrored, but it is asked for: one answer is no verdict, so it is tried again, and told.

    A job that failed would swallow every later wish to add it.
    """
    if known is not None and known.detail.get("mirrored") not in (ASKED, "removed"):
        return set_aside(mirror, channel, refusal)  # some of it is here
    before = known.detail.get("trouble") if known is not None and known.detail.get("mirrored") == ASKED else {}
    trouble = _by(mirror, states.trouble(before, what_of(refusal), str(refusal), mirror.store.now()))
    facts = {"mirrored": ASKED, "trouble": trouble} | ({} if known else {"title": str(channel)})
    item = NewItem(item_id(channel), frozenset({CHANNEL}), fingerprint=f"asked {channel}", detail=facts)
    event = NewEvent(item.id, "not added", "failure", detail={"why": str(refusal)})
    return Told({"why": str(refusal)}, (item,), (event,) if trouble["tries"] == 1 else ())


def _by(mirror: Context, trouble: dict[str, Any]) -> dict[str, Any]:
    """With the token that met it: with another one it is tried again at once."""
    return trouble | {TOKEN: mirror.discord.token_mark}


def what_of(refusal: CustodyError) -> str:
    """The sort of trouble. That a channel is not there must be said in the service's own words."""
    found = next((word for kind, word in TROUBLES.items() if isinstance(refusal, kind)), "failing")
    return "failing" if found == "gone" and refusal.facts.get("discord") != UNKNOWN_CHANNEL else found


def set_aside(mirror: Context, channel: int, refusal: CustodyError) -> Told:
    """What a service refuses, or answers wrongly, is written down with the time of the next try. What we have stays."""
    if isinstance(refusal, LeaseLost):
        raise refusal
    item, told = mirror.item(channel), {"why": str(refusal)}
    if item is None or isinstance(refusal, NotMirrored):
        return Told(told)
    if item.detail.get("mirrored") == ASKED:
        return not_added(mirror, channel, item, refusal)
    what = what_of(refusal)
    known = item.detail.get("trouble")
    trouble = _by(mirror, states.trouble(known, what, str(refusal), mirror.store.now()))
    aside = {"mirrored": what} if what in ("unreadable", "gone", "hidden") else {}
    news = trouble["tries"] == 1 or (aside and item.detail.get("mirrored") != what)
    event = NewEvent(item.id, what, "failure", detail=told)
    # What was named until now is fetched all the same: its links do not last.
    wanted = files_wanted(mirror, channel) if aside and news else ()
    return Told(told, (noted(channel, trouble=trouble, **aside),), (event,) if news else (), wanted)


def stumbled(mirror: Context, channel: int, trouble: CustodyError) -> None:
    """Write down that the service is out of order, for those who ask how a channel stands; it is tried again soon."""
    told = set_aside(mirror, channel, trouble)
    mirror.store.records.put(told.items, told.events, "channels")


def files_wanted(mirror: Context, channel: int) -> tuple[Request, ...]:
    """Files are a job of their own: no message waits for one."""
    return (Request("files", channel),) if attachments.anything_wanted(mirror, channel) else ()
