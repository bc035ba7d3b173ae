"""custody channel fsck, verify: is what is kept whole, and what becomes of what is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Annotated

import typer

from custody.channels import jobs, places
from custody.channels.blobs.port import Blobs
from custody.channels.commands.parts import Channel, blobs_of, known, refuse_removed, table_of
from custody.channels.condition.standing import lack_of
from custody.channels.context import EPOCH, HELD, assets_of, checked, files_of, noted
from custody.channels.crawl import trust
from custody.channels.debts import payment
from custody.channels.files import fetch
from custody.channels.integrity import damage, expected
from custody.channels.integrity.verify import HARMLESS, UNKNOWN, Verified, owe
from custody.channels.kinds import offline_mirror, open_mirror
from custody.channels.messages import last_seen
from custody.channels.removal import orders
from custody.channels.removal.removal import ORPHANED
from custody.channels.table import Finding, Table
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile, StoreUrl, opened
from custody.cli.runtime import AsJson
from custody.errors import BadInput, CustodyError, Refused
from custody.kernel.model.event import NewEvent, Outcome
from custody.kernel.model.item import Item
from custody.kernel.stores import Store

FETCH = "`custody channel verify --mend` fetches what the channel still shows"


def fsck(
    channel: Channel,
    repair: Annotated[bool, typer.Option("--repair", help="mend what can be mended")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Walk the tables of a channel, its messages, what was last seen of them, its files, and read each file. Say what
    is wrong."""
    from custody.channels.integrity.verify import verify as verify_channel

    with opened(config, store) as (handle, settings):
        number = checked(channel)
        blobs, item = blobs_of(settings, handle), known(handle, number)
        _refuse_removed(item, lambda: blobs)
        others = (open_(blobs, number) for open_ in (last_seen.of, files_of, assets_of))
        tables = (table_of(settings, channel, blobs), *others)
        if repair:
            damage.mend(offline_mirror(handle, settings.channels, blobs), number)
            before = EPOCH + timedelta(microseconds=handle.now()) - ORPHANED
            print(f"{sum(_swept(table, before) for table in tables)} blobs that nothing named were deleted")
        gone = [*expected.lacking(handle, blobs, number).values(), *damage.unnamed(handle, number, tables)]
        found = verify_channel(blobs, number, tables[0], gone=gone)
        _written_down(handle, last_seen.of(blobs, number, settings.channels.capacity), item, found)
    _told(found.findings)
    said = "something is wrong: " + (FETCH if repair else "--repair mends what it can")
    print("nothing is wrong" if found.sound else said)
    raise typer.Exit(0 if found.sound else 1)


def _refuse_removed(item: Item, opened_blobs: Callable[[], Blobs]) -> None:
    """A channel that was removed is not looked at: that is said, and also if some of it is still there."""
    if item.detail.get("mirrored") not in orders.GONE:
        return
    left = [one for folder in HELD for one in opened_blobs().list(f"{folder}/{jobs.number_of(item)}/")]
    if left and item.detail.get("mirrored") == "removed":
        hint = "`custody channel remove` deletes them, `custody channel add` takes them up again"
        raise Refused(
            f"it was removed, and {len(left)} blobs of it are still here",
            code="channel.left",
            where=left[0].name,
            hint=hint,
        )
    refuse_removed(item)


def _swept(table: Table, before: datetime) -> int:
    """How many blobs were swept. Of a table that is not whole none are: they may be all that is left of it."""
    return len(table.sweep(before)) if all(one.code in HARMLESS for one in table.check()) else 0


def _told(found: Iterable[Finding]) -> None:
    for one in found:
        print(f"{'note' if one.code in HARMLESS else 'WRONG'}  {one.code}  {one.where}  {one.detail}".rstrip())


def verify(
    channel: Channel,
    pages: Annotated[int, typer.Option(help="pages to compare with the live channel; 0: read our own blobs only")] = 3,
    mend: Annotated[
        bool,
        typer.Option("--mend", help="fetch again what is damaged, lacking or otherwise here, and all that is owed"),
    ] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Read every blob again, check digests and order, and compare a sample with the live channel."""
    from custody.channels.integrity.mend import Mended
    from custody.channels.integrity.mend import mend as mend_channel
    from custody.channels.integrity.verify import verify as verify_channel

    with opened(config, store) as (handle, settings):
        number = checked(channel)
        item = known(handle, number)
        _refuse_removed(item, lambda: blobs_of(settings, handle))  # a place that is lost for good is made anew below
        mirror = open_mirror(handle, settings.channels, settings.home, anew=mend) if pages or mend else None
        if mend and mirror is None:
            raise BadInput("without a bot's token nothing can be fetched", hint="`custody channel fsck --repair`")
        blobs = mirror.blobs if mirror else blobs_of(settings, handle)
        live = mirror is not None and item.detail.get("mirrored") == "yes" and not places.has_no_messages(item)
        done = mend_channel(mirror, item, number) if mend and mirror else Mended()
        discord = mirror.discord if mirror and live and pages else None
        seed = random.randrange(1 << 32)

        def look() -> tuple[Verified, int]:
            table, seen = table_of(settings, channel, blobs), last_seen.of(blobs, number)
            loose = damage.unnamed(handle, number, (table, seen, files_of(blobs, number), assets_of(blobs, number)))
            gone = [*expected.lacking(handle, blobs, number).values(), *loose]
            looked = verify_channel(blobs, number, table, discord, pages=pages, seed=seed, gone=gone)
            return looked, _owed(handle, last_seen.of(blobs, number, settings.channels.capacity), item, looked)

        (found, owed), fetched = look(), 0
        if owed and mend and mirror:
            done.said += mend_channel(mirror, item, number).said
            before, (found, owed) = owed, look()
            fetched = max(0, before - owed)
        _written_down(handle, last_seen.of(blobs, number, settings.channels.capacity), item, found)
        told = {"mended": done.messages + fetched, "files mended": done.files} if mend else {}
        told |= {"messages": found.messages, "files": found.files, "compared": found.sampled}
        told |= {"owed": owed} if owed else {}
        told |= {"files never had": found.never_had} if found.never_had else {}
        lacks, code = lack_of(handle, blobs, number)
        sound = found.sound and not done.said
        outcome: Outcome = "success" if sound else "failure"
        findings = {"findings": [f"{one.code} {one.where}" for one in found.findings[:20]]} if found.findings else {}
        handle.records.append(
            NewEvent(item=item.id, type="verified", outcome=outcome, agent=runtime.me(), detail={**told, **findings})
        )
    if json:
        runtime.emit({"sound": sound, "lacks": lacks, **told, "findings": found.findings, "not done": done.said})
    else:
        _told(found.findings)
        for said in done.said:
            print(f"WRONG  not mended  {said}")
        if mend:
            print(f"{done.messages + fetched} messages and {done.files} files were fetched again")
        print(f"{found.messages} messages and {found.files} files read; {found.sampled} compared with the channel")
        if owed:
            print(f"{owed} of them are owed: the next sync fetches them, `custody channel verify --mend` does it now")
        if found.never_had:
            print(f"{found.never_had} files that messages name were never had, or not yet: see above")
        whole = not lacks and not found.never_had
        kept = "nothing is wrong" if whole else "nothing is wrong with what is kept"
        kept += ", as far as is known: see above" if any(one.code == UNKNOWN for one in found.findings) else ""
        print(kept if sound else f"something is wrong: {_hint(found, mend)}")
        if lacks:
            print(f"not all of it is here: {lacks}")
    raise typer.Exit((code if lacks else 0) if sound else 1)


def _hint(found: Verified, mended: bool) -> str:
    if not mended:
        return FETCH
    lost = any(one.code == "lost" for one in found.findings)
    said = "`custody channel accept-loss` says that you know what is lost"
    return said if lost else "what is damaged here and gone there stays so; look at the disk"


def _owed(store: Store, overlay: Table, item: Item, found: Verified) -> int:
    """Owe what the live channel shows and the archive has not, or has otherwise; answers how many messages."""
    number = jobs.number_of(item)
    try:
        owed = owe(overlay, found.findings, trust.stamp(store.now()))
    except CustodyError as error:
        if not damage.is_damage(error):
            raise
        damage.noticed(store, number, str(error))
        return 0
    if owed:
        store.records.put((noted(number, owed_at=trust.stamp(store.now())),), (), runtime.me())
    return owed


def _written_down(store: Store, overlay: Table, item: Item, found: Verified) -> None:
    """What is damaged is owed, or told on the channel's item; what no longer is, is neither."""
    number = jobs.number_of(item)
    if found.hurt:
        damage.noticed(store, number, found.hurt)
    else:
        damage.forgotten(store, number)
    try:
        payment.recounted(overlay, found.damaged, trust.stamp(store.now()))
    except CustodyError as error:
        if not damage.is_damage(error):
            raise
        damage.noticed(store, number, str(error))
    if any(item.detail.get(name) for name in fetch.LOOKED_AT):
        looked = {**fetch.LOOKED_AT, fetch.LOOKED: trust.stamp(store.now())}
        store.records.put((noted(number, **looked),), (), runtime.me())
