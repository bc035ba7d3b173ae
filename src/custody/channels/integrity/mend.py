"""`verify --mend`: everything that a live channel still shows is put in the place of what is damaged here, now.

Tables first (`damage`), then what they lack by pages, as a sync would fetch it, then single messages that no page has
shown, then files. What is gone there as well stays owed, and is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from custody.channels import places
from custody.channels.context import Context
from custody.channels.crawl import walk
from custody.channels.crawl.kept import Kept, Live
from custody.channels.crawl.trust import legible
from custody.channels.debts import payment, unseen_content
from custody.channels.discord import attachments
from custody.channels.discord.client import Gone, Unreadable
from custody.channels.files import fetch
from custody.channels.integrity import damage
from custody.channels.messages.copies import own
from custody.errors import Unavailable
from custody.kernel.model.item import Item

MOST_BATCHES = 10_000


@dataclass(slots=True)
class Mended:
    messages: int = 0
    files: int = 0
    said: list[str] = field(default_factory=list)  # what could not be done


def mend(mirror: Context, item: Item, channel: int) -> Mended:
    """Mend a channel; what the service refuses is told, and what was mended until then stays mended."""
    done = Mended()
    if not damage.mend(mirror, channel):
        done.said.append("something is not given by the disk, or not understood: it was left alone")
    if item.detail.get("mirrored") != "yes":
        done.said.append("the channel is not mirrored now: nothing was fetched again")
        return done
    try:
        if not places.has_no_messages(item):
            done.messages = _shown_again(mirror, channel) + _one_by_one(mirror, channel)
        done.files = _files(mirror, channel)
    except walk.Silent:
        done.said.append("it shows no messages at all")
    except (walk.Bad, Unreadable, Gone, Unavailable) as trouble:
        done.said.append(str(trouble))
    return done


def _shown_again(mirror: Context, channel: int) -> int:
    """Everything beyond the mark, then the gaps, then what is owed."""
    live, kept = Live(mirror, channel), Kept(mirror, channel)
    while not walk.forward(live, kept):
        pass
    for gap in reversed(kept.coverage.gaps):
        walk.into(live, kept, gap)
    cursor: int | None = 0
    while cursor is not None:
        cursor = payment.step(mirror, channel, live, kept, cursor=cursor)
    return len(kept.mended) + kept.added


def _one_by_one(mirror: Context, channel: int) -> int:
    table, mended = mirror.table(channel), 0
    for one in [found.id for found in table.between() if found.damaged and not found.upto]:
        asked_at = mirror.stamp()
        try:
            raw = mirror.discord.message(channel, one)
        except (Gone, Unreadable):
            continue  # it is not to be had any more: it stays damaged, and is told
        if str(raw.get("id")) == str(one) and legible(raw) and not unseen_content.veiled(mirror, [raw]):
            table.mend([own(raw)], asked_at)
            mended += 1
    return mended


# --- Files ---


def _files(mirror: Context, channel: int) -> int:
    """Fetch what is wanted now: what was damaged, from the message that named it."""
    before = sum(1 for _ in attachments.kept(mirror.blobs, channel))
    if attachments.anything_wanted(mirror, channel):
        _fetched(mirror, channel)
    return sum(1 for _ in attachments.kept(mirror.blobs, channel)) - before


def _fetched(mirror: Context, channel: int) -> None:
    for _ in range(MOST_BATCHES):
        over, told = fetch.batch(mirror, channel)
        if told.items or told.events:
            mirror.store.records.put(told.items, told.events, "channels")
        if over:
            return
