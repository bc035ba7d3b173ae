"""Removing a channel, and clearing away what crashes left: from our own lists, so it works after a kick as well."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import islice

from custody.channels import attachments, held, mending
from custody.channels.blobs import NoBlob
from custody.channels.mirror import HELD, Mirror, Request, Told, item_id, noted, threads_under
from custody.model.event import NewEvent

PER_PAGE_OF_REMOVAL = 100
TORN = frozenset({"index.missing", "child.missing", "mark.damaged", "shut"})  # found by the daily look
ORPHANED = timedelta(days=1)  # before a blob that nothing names is taken for one that nobody wants


# --- Removing ---


def begin_removal(mirror: Mirror, channel: int) -> Told:
    """From now on nobody writes to it; its threads go as well."""
    children = _threads_left(mirror, channel)
    along = (noted(thread, removed_with=str(channel)) for thread in children)
    requests = tuple(Request("remove", thread, why=f"its channel {channel} was removed") for thread in children)
    return Told({}, (noted(channel, mirrored="removing"), *along), (), requests)


def _threads_left(mirror: Mirror, channel: int) -> list[int]:
    under = threads_under(mirror.store, channel)
    return [one for one in under if (item := mirror.item(one)) and item.detail.get("mirrored") != "removed"]


def remove_page(mirror: Mirror, channel: int) -> bool:
    """Delete some of what we keep, from our own lists: it works after a kick as well. Answers whether there is more."""
    if any(table.remove_some(PER_PAGE_OF_REMOVAL) for table in mirror.tables(channel)):
        return True
    left = list(islice(mirror.blobs.list(f"media/{channel}/"), PER_PAGE_OF_REMOVAL + 1))
    for blob in left[:PER_PAGE_OF_REMOVAL]:
        with suppress(NoBlob):
            mirror.blobs.delete(blob.name)
    return len(left) > PER_PAGE_OF_REMOVAL


def removed(mirror: Mirror, channel: int, why: str = "") -> Told:
    mirror.notes.forget(channel)
    event = NewEvent(item_id(channel), "removed", detail={"why": why} if why else {})
    return Told({}, (noted(channel, mirrored="removed"),), (event,))


# --- Clearing away ---


@mending.guarded
def sweep(mirror: Mirror, channel: int) -> Told:
    """Blobs that a crash in the middle of a split left behind, and files that one in the middle of an erasure did.

    Fresh blobs may be a writer's that is at work now.
    """
    before = mirror.now() - ORPHANED
    for table in mirror.tables(channel):
        if lost := next((one for one in table.survey(content=False).findings if one.code in TORN), None):
            mending.noticed(mirror.store, channel, f"{lost.where}: {lost.detail}")
    for gone in held.lacking(mirror.store, mirror.blobs, channel).values():
        mending.noticed(mirror.store, channel, f"{gone.where}: {gone.detail}")
    attachments.drop_orphans(mirror.blobs, channel, mirror.table(channel))
    swept = [name for table in mirror.tables(channel) for name in table.sweep(before)]
    event = NewEvent(item_id(channel), "swept", detail={"blobs": len(swept)})
    return Told({"blobs": len(swept)}, events=(event,) if swept else ())


def left_of(mirror: Mirror, channel: int) -> list[str]:
    """Blobs that are still kept of a channel."""
    return [blob.name for folder in HELD for blob in mirror.blobs.list(f"{folder}/{channel}/")]
