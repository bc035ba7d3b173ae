"""Removing a channel, and clearing away what crashes left: from our own lists, so it works after a kick as well."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from custody.channels import places
from custody.channels.blobs.port import NoBlob
from custody.channels.context import HELD, Context, Request, Told, channels, item_id, noted, number_of, parent_of
from custody.channels.discord import attachments
from custody.channels.integrity import damage, expected
from custody.channels.removal import orders
from custody.kernel.model.event import NewEvent
from custody.kernel.stores import Store

PER_PAGE_OF_REMOVAL = 100
TORN = frozenset(
    {"table.foreign", "index.missing", "child.missing", "leaf.older", "mark.damaged", "shut"}
)  # found by the daily look
ORPHANED = timedelta(days=1)  # before a blob that nothing names is taken for one that nobody wants


# --- Removing ---


@dataclass(frozen=True, slots=True)
class Under:
    """What is said to be a thread of a channel and is kept."""

    along: tuple[int, ...] = ()  # a removal of the channel may take these along
    stays: tuple[int, ...] = ()  # and not these: who wants them gone names them


def goes_along(store: Store, channel: int) -> Under:
    """What a removal of a channel takes along, to be shown to whoever says it.

    Only threads that the mirror itself has found, and whose parent is sure: one list's word has deleted a channel that
    somebody had added.
    """
    under = [
        item for item in channels(store) if parent_of(item) == channel and item.detail.get("mirrored") != "removed"
    ]
    sure = {
        number_of(item) for item in under if places.is_surely_under(item, channel) and not places.by_number(store, item)
    }
    every = sorted(map(number_of, under))
    return Under(tuple(one for one in every if one in sure), tuple(one for one in every if one not in sure))


def begin_removal(mirror: Context, channel: int, along: Collection[int] = ()) -> Told:
    """From now on nobody writes to it. Its threads go as well: those that were shown when it was said, as far as
    nothing has changed about them since; what was heard later deletes nothing. Each is ordered for itself."""
    threads = [one for one in goes_along(mirror.store, channel).along if one in set(along)]
    order, why = mirror.store.new_move(), f"its channel {channel} was removed"
    told = {orders.REMOVAL: orders.facts(order, why), orders.AGAIN: {}}
    marked = (noted(thread, removed_with=str(channel), **told) for thread in threads)
    requests = tuple(Request("remove", thread, why=why, order=order) for thread in threads)
    return Told({}, (noted(channel, mirrored="removing"), *marked), (), requests)


def begin_ordered(mirror: Context, channel: int) -> Told:
    """Begin the removal that is ordered, with the threads that its order names; begun before, its threads are asked for
    again, as they were ordered then."""
    item = mirror.item(channel)
    if item is None or item.detail.get("mirrored") != "removing":
        return begin_removal(mirror, channel, orders.along_of(orders.removal_of(item)))
    left = [one for one in channels(mirror.store) if one.detail.get("removed_with") == str(channel)]
    known = {number_of(one): orders.removal_of(one) for one in left if orders.removal_of(one)}
    return Told(
        {}, requests=tuple(Request("remove", one, why=told["why"], order=told["id"]) for one, told in known.items())
    )


def remove_page(mirror: Context, channel: int) -> bool:
    """Delete some of what we keep, from our own lists: it works after a kick as well. Answers whether there is more."""
    if any(table.remove_some(PER_PAGE_OF_REMOVAL) for table in mirror.tables(channel)):
        return True
    left = list(islice(mirror.blobs.list(f"media/{channel}/"), PER_PAGE_OF_REMOVAL + 1))
    for blob in left[:PER_PAGE_OF_REMOVAL]:
        with suppress(NoBlob):
            mirror.blobs.delete(blob.name)
    return len(left) > PER_PAGE_OF_REMOVAL


def removed(mirror: Context, channel: int, why: str = "") -> Told:
    """It is over. Who has asked for the channel since is not forgotten: it begins anew."""
    mirror.notes.forget(channel)
    item = mirror.item(channel)
    again = item.detail.get(orders.AGAIN) if item else None
    then = (Request("add", channel, newest_first=bool(again.get("newest_first"))),) if again else ()
    why = why or str(orders.removal_of(item).get("why", ""))
    under = [item for item in channels(mirror.store) if parent_of(item) == channel]
    left = [item for item in under if item.detail.get("mirrored") != "removed" and not item.detail.get("removed_with")]
    told: dict[str, object] = {"why": why} if why else {}
    told |= {"stays": sorted(str(number_of(item)) for item in left)} if left else {}
    event = NewEvent(item_id(channel), "removed", detail=told)
    return Told({}, (noted(channel, mirrored="removed", **{orders.REMOVAL: {}}),), (event,), then)


# --- Clearing away ---


@damage.guarded
def sweep(mirror: Context, channel: int) -> Told:
    """Blobs that a crash in the middle of a split left behind, and files that one in the middle of an erasure did.

    Fresh blobs may be a writer's that is at work now.
    """
    before = mirror.now() - ORPHANED
    for table in mirror.tables(channel):
        if lost := next((one for one in table.survey(content=False).findings if one.code in TORN), None):
            damage.noticed(mirror.store, channel, f"{lost.where}: {lost.detail}")
    for gone in expected.lacking(mirror.store, mirror.blobs, channel).values():
        damage.noticed(mirror.store, channel, f"{gone.where}: {gone.detail}")
    if files := attachments.missing(mirror.blobs, channel):
        damage.noticed(mirror.store, channel, f"media/{channel}/: {len(files)} files that were kept are not there")
    damage.taken_in(mirror, channel, before)
    attachments.drop_orphans(mirror.blobs, channel, mirror.table(channel))
    swept = [name for table in mirror.tables(channel) for name in table.sweep(before)]
    event = NewEvent(item_id(channel), "swept", detail={"blobs": len(swept)})
    return Told({"blobs": len(swept)}, events=(event,) if swept else ())


def left_of(mirror: Context, channel: int) -> list[str]:
    """Blobs that are still kept of a channel."""
    return [blob.name for folder in HELD for blob in mirror.blobs.list(f"{folder}/{channel}/")]
