"""Damage to what is kept of a channel: written down where it is noticed, and mended in an order that loses no more.

Noticed, it stands on the channel's item, which is not where the damage is: so it is told even if no table can be read.
A part whose blobs cannot be read is written down there, then an empty one takes its place and the bytes are set aside,
then the part is owed: all that the channel still shows is fetched again. What it does not show any more (earlier
versions, messages that were deleted there) is *lost*, and told until somebody says that he knows.

What is told twice is used: an erasure leaves its line in the messages and in `seen`, so that losing one of them brings
nobody back. Rows of files are made again from the messages that name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from hashlib import sha256
from itertools import islice
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from custody.channels.blobs.port import Broken, NoBlob, Shut
from custody.channels.context import Context, item_id, noted
from custody.channels.crawl import trust
from custody.channels.crawl.due import has_come
from custody.channels.crawl.trust import Span
from custody.channels.debts import unseen_content
from custody.channels.debts.debts import LOST, TORN, Debts
from custody.channels.debts.payment import AGAIN as AGAIN_AFTER
from custody.channels.debts.payment import OWED_AT
from custody.channels.discord import attachments, media
from custody.channels.files.wanted import START
from custody.channels.integrity import expected
from custody.channels.snowflake import HIGHEST, at
from custody.channels.table import Finding, Survey, Table, Torn
from custody.errors import BadInput, CustodyError, NotFound
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item
from custody.kernel.stores import Store

DAMAGE: Final = "damage"  # on a channel's item: {"since", "said", "lost": {folder: [[low, high], …]}}
FOLDERS: Final = ("ch", "seen", "files", "assets")
AGAIN: Final = "again"  # of the same: what only has to be looked at once more
MARKS = frozenset({"crawl.mark", "debts.mark", "wanted.mark"})  # codes of a mark that cannot be read
BATCH = 100

P = ParamSpec("P")
T = TypeVar("T")


# --- Noticing ---


def is_damage(error: CustodyError) -> bool:
    return isinstance(error, Torn | Broken) or (isinstance(error, BadInput) and error.code in MARKS)


def noticed(store: Store, channel: int, said: str, lost: Mapping[str, Iterable[Span]] | None = None) -> None:
    """Write down that something of a channel is damaged; it is looked at again at once."""
    try:
        detail = store.records.item(item_id(channel)).detail
    except NotFound:
        return
    known = detail.get(DAMAGE) or {}
    spans = {name: sorted({*_spans(known, name), *(lost or {}).get(name, ())}) for name in (*FOLDERS, AGAIN)}
    told = {name: [[str(low), str(high)] for low, high in found] for name, found in spans.items() if found}
    now = trust.stamp(store.now())
    facts = {"since": known.get("since") or now, "said": known.get("said") or said[:300], "lost": told}
    if facts != known:
        event = NewEvent(item_id(channel), "damaged", "failure", detail={"why": said[:300]})
        store.records.put((noted(channel, **{DAMAGE: facts, OWED_AT: now}),), () if known else (event,), "channels")


def forgotten(store: Store, channel: int) -> None:
    """Nothing of it is damaged any more; what is owed for it is in its debts."""
    if store.records.item(item_id(channel)).detail.get(DAMAGE):
        store.records.put((noted(channel, **{DAMAGE: {}}),), (), "channels")


def _spans(known: Mapping[str, Any], folder: str) -> list[Span]:
    return [(int(low), int(high)) for low, high in (known.get("lost") or {}).get(folder, ())]


# --- Mending tables ---


@dataclass(frozen=True, slots=True)
class Parts:
    """What one table has lost."""

    spans: tuple[Span, ...] = ()
    mark: bool = False  # and what was written with its last page
    shut: str = ""  # what is only not given, and so left alone
    wrong: bool = False  # something can be mended here

    @classmethod
    def of(cls, survey: Survey) -> Parts:
        spans = tuple(_span(low, high) for low, high in survey.lost)
        shut = next((f"{one.where}: {one.detail}" for one in survey.findings if one.code == "shut"), "")
        wrong = any(one.code not in ("orphan", "shut", "block.damaged", "leaf.unknown") for one in survey.findings)
        return cls(spans, bool(survey.bad_mark) or any(not high for _, high in survey.lost), shut, wrong)


def _span(low: str, high: str) -> Span:
    return int(low), int(high) - 1 if high else HIGHEST


def mend(mirror: Context, channel: int) -> bool:
    """Make what is kept whole, as far as that can be done without the channel; answers whether all is given here.

    Everything is read. Whatever is cut short is found on the item, and done again.
    """
    opened = dict(zip(FOLDERS, mirror.tables(channel), strict=True))
    parts = {name: Parts.of(table.survey()) for name, table in opened.items()}
    shut = next((found.shut for found in parts.values() if found.shut), "")
    item = mirror.item(channel)
    known = (item.detail.get(DAMAGE) or {}) if item else {}
    rows: dict[str, list[Span]] = {name: list(found.spans) for name, found in parts.items()}
    rows |= {name: [(0, HIGHEST)] for name in ("files", "assets") if parts[name].mark}
    gone = expected.lacking(mirror.store, mirror.blobs, channel)
    rows |= {name: [(0, HIGHEST)] for name in gone}
    rows[AGAIN] = [(0, HIGHEST)] if parts["seen"].mark or "seen" in gone else []  # what was owed is not known any more
    if any(rows.values()) or shut:
        told = [f"{one.where}: {one.detail}" for one in gone.values()]
        noticed(mirror.store, channel, shut or next(iter(told), "parts of it cannot be read"), rows)
    lost = {name: sorted({*_spans(known, name), *found}) for name, found in rows.items()}
    for name, table in opened.items():
        if name in gone and gone[name].code == expected.FOREIGN:
            table.set_all_aside()
        lost[name] += _repaired(name, table, parts[name])
    _made_good(mirror, channel, opened, lost)
    files_again(mirror, channel)
    if not shut:
        for table in opened.values():
            table.vouch()
        expected.note(mirror.store, mirror.blobs, channel, anew=True)
        forgotten(mirror.store, channel)
    elif item is not None:
        later = (mirror.now() + AGAIN_AFTER).isoformat(timespec="microseconds")
        mirror.store.records.put((noted(channel, **{OWED_AT: later}),), (), "channels")
    return not shut


def _repaired(name: str, table: Table, parts: Parts) -> list[Span]:
    """Mend one table; answers what was taken out of it."""
    if parts.wrong or table.unnamed():
        table.repair()
    out = [(0, HIGHEST)] if table.drop_foreign() else []  # with them came what is said to be fetched: all is looked at
    return out + ([_span(low, high) for low, high in table.drop_damaged()] if name != "ch" else [])


def is_due(item: Item, now: int) -> bool:
    """Is damage written down that may be mended now?"""
    then = item.detail.get(OWED_AT)
    return bool(item.detail.get(DAMAGE)) and (not then or has_come(then, now, int(AGAIN_AFTER.total_seconds() * 1e6)))


def look(mirror: Context, channel: int) -> None:
    """Mend what is due, and what is gone whole, before anything is written where it was."""
    item = mirror.item(channel)
    due = item is not None and is_due(item, mirror.store.now())
    if due or expected.lacking(mirror.store, mirror.blobs, channel):
        mend(mirror, channel)


def _made_good(mirror: Context, channel: int, opened: Mapping[str, Table], lost: Mapping[str, list[Span]]) -> None:
    """What the other tables know of the lost parts is written again, and the rest is owed."""
    _erased_again(opened, lost)
    newest = at(mirror.now())
    spans = [(low, min(high, newest)) for low, high in (*lost["ch"], *lost["seen"]) if low <= newest]
    again = [*spans, *((low, min(high, newest)) for low, high in lost[AGAIN])]
    if again:
        unseen_content.owe(mirror, channel, again, TORN, stamp=mirror.stamp())
    if spans:
        unseen_content.owe(mirror, channel, spans, LOST, stamp=mirror.stamp())
        told = [f"{low}..{high}" for low, high in spans[:20]]
        mirror.store.records.append(
            NewEvent(
                item=item_id(channel), type="parts lost", outcome="failure", agent="channels", detail={"parts": told}
            )
        )
    if lost["files"] or lost["assets"]:
        want_again(mirror, channel)


def _erased_again(opened: Mapping[str, Table], where: Mapping[str, Iterable[Span]]) -> None:
    """Erase what an earlier copy may have brought back: an erasure is told twice, in the messages and in `seen`."""
    for name, other in (("ch", "seen"), ("seen", "ch")):
        for low, high in where[name]:
            erased = [(one.id, one.deleted_at) for one in opened[other].between(low, high + 1) if one.deleted_at]
            for one, when in erased:
                opened[name].delete([one], when)
            opened[name].bury(erased)


def unnamed(store: Store, channel: int, tables: Iterable[Table]) -> list[Finding]:
    """Leaves that mending has not taken in yet: while damage stands on the item, they may be all there is of a part.
    Where nothing was damaged they are a page that somebody was killed at, and that is fetched again."""
    if not store.records.item(item_id(channel)).detail.get(DAMAGE):
        return []
    said = "`--mend` takes it in"
    return [Finding("leaf.unnamed", name, said) for table in tables for name in table.unnamed()]


def taken_in(mirror: Context, channel: int, before: datetime) -> list[str]:
    """Write what only leaves have that nothing names, before the sweep deletes them; answers their names."""
    opened = dict(zip(FOLDERS, mirror.tables(channel), strict=True))
    found = {name: table.take_in(before) for name, table in opened.items()}
    taken = [leaf for leaves in found.values() for leaf in leaves]
    if taken:
        keys = {name: [(one, one) for ids in leaves.values() for one in ids] for name, leaves in found.items()}
        _erased_again(opened, keys)
        told = {"blobs": len(taken), "first": taken[0]}
        mirror.store.records.append(
            NewEvent(item=item_id(channel), type="taken in", outcome="failure", agent="sweep", detail=told)
        )
    return taken


def want_again(mirror: Context, channel: int) -> None:
    """Make the rows of files anew from the messages that name them. What is still kept is recognised by its digest."""
    mirror.known.clear()
    every = (dict(json.loads(line)) for found in mirror.table(channel).between() for line in found.versions)
    while some := list(islice(every, BATCH)):
        attachments.want(mirror, channel, some)
    for table in (mirror.files(channel), mirror.assets(channel)):
        table.upsert([], START)  # how far the files had come is not known


def files_again(mirror: Context, channel: int) -> int:
    """Set files aside that are not what their rows say; they are wanted again. Answers how many rows that were."""
    count, now = 0, mirror.stamp()
    for table in (mirror.files(channel), mirror.assets(channel)):
        rows = list(_wrong(mirror, channel, table))
        anew = {"state": "wanted", "url": "", "at": now, "again": now}
        again = [{key: value for key, value in row.items() if key != "digest"} | anew for row in rows]
        if again:
            table.upsert(again, START)
        for row in rows:
            mirror.known.discard((channel, int(row["id"])))
            with suppress(NoBlob):  # nothing is left of it, or another row has the same file
                folder, digest = f"media/{channel}", str(row["digest"])
                mirror.blobs.set_aside(f"{folder}/{digest}", f"{folder}/damaged-{mirror.store.now()}-{digest}")
        count += len(rows)
    return count


def _wrong(mirror: Context, channel: int, table: Table) -> Iterator[attachments.Row]:
    """Rows whose file is not there, or not theirs."""
    good = dict[str, bool]()
    for found in table.between():
        digest = str(found.message.get("digest") or "") if found.versions else ""
        if digest and digest not in good:
            good[digest] = _is_whole(mirror, media.name_of(str(channel), digest), digest)
        if digest and not good[digest]:
            yield found.message


def _is_whole(mirror: Context, name: str, digest: str) -> bool:
    """Also what is only not given: nobody may put anything in its place."""
    try:
        return sha256(mirror.blobs.read(name).data).hexdigest() == digest
    except Shut:
        return True
    except (NoBlob, Broken):
        return False


def accepted(overlay: Table) -> int:
    """Somebody knows of the lost parts; answers how many there were."""
    debts = counted = Debts.read(overlay.mark)
    for debt in debts.open():
        counted = counted.paid(debt, debt.high) if debt.why == LOST else counted
    if counted != debts:
        overlay.upsert([], counted.mark())
    return sum(debt.why == LOST for debt in debts.open())


# --- At work ---


def guarded(step: Callable[Concatenate[Context, int, P], T], /) -> Callable[Concatenate[Context, int, P], T]:
    """A step about a channel: where it meets damage, that is written down, mended as far as can be, and tried again."""

    @wraps(step)
    def call(mirror: Context, channel: int, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return step(mirror, channel, *args, **named)
        except CustodyError as error:
            if not is_damage(error):
                raise
            noticed(mirror.store, channel, str(error))
            if isinstance(error, Shut) or (isinstance(error, Torn) and error.shut) or not mend(mirror, channel):
                raise
        return step(mirror, channel, *args, **named)

    return call
