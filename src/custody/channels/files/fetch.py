"""Works off the files that messages named: some at a time, apart from the messages, for as long as it takes.

A link that has expired or is refused is no verdict: its message is asked for a fresh one, once an hour at most. Refused
twice, an hour apart, with the freshest link there is: lost, and wanted again when the message is seen again later; that
it is lost still is then known, and told no more. A server that stumbles is asked again after 1 minute, 10, an hour, 6,
a day, and then every week, for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from custody.channels.context import Context, Request, Told, item_id, kept, noted, number_of
from custody.channels.crawl.due import has_come
from custody.channels.discord import attachments, media
from custody.channels.discord.attachments import FOREIGN, LOST_SINCE, Row, finder_of, is_over
from custody.channels.discord.client import Gone, NoFile, Unreadable, Withheld
from custody.channels.files.wanted import Wanted, state_of
from custody.channels.integrity import damage
from custody.channels.plain_text import plainly
from custody.channels.table import Table
from custody.errors import Unsafe
from custody.kernel.model.event import NewEvent

BATCH = 20  # files, before their rows are written
HOUR = timedelta(hours=1)
PAUSES = tuple(timedelta(minutes=one) for one in (1, 10, 60, 360, 1440, 7 * 1440))
WITHIN = int(PAUSES[-1] / timedelta(microseconds=1))  # a next try is never further off
DUE = "files_due"  # on the channel's item: when something that is wanted may be asked for again
LEFT = "files_wanted"  # and how many are still wanted
SINCE = "files_since"  # and since when the first of them is
LOST = "files_lost"  # how many were lost since somebody last looked (`custody channel verify`)
LOOKED = "files_looked"  # and when that was
LOOKED_AT = {LOST: 0, FOREIGN: 0}  # once somebody has looked

Raw = Mapping[str, Any]


@dataclass(slots=True)
class Fetched:
    """What a batch came to."""

    done: bool = True
    kept: int = 0
    lost: list[dict[str, str]] = field(default_factory=list)  # and was not known to be
    back: list[str] = field(default_factory=list)  # kept now: since when they were lost

    def learn(self, before: Row, row: Row) -> None:
        """What became of one file."""
        if row["state"] == "kept":
            self.kept += 1
            self.back += [str(before[LOST_SINCE])] if LOST_SINCE in before else []
        elif row["state"] == "lost" and LOST_SINCE not in before:
            self.lost.append({name: plainly(str(row.get(name, ""))) for name in ("id", "message", "name", "why")})


@damage.guarded
def batch(mirror: Context, channel: int) -> tuple[bool, Told]:
    """Fetch some of what is wanted and due; answers whether that was all for now, and what there is to say."""
    fetched, left, then, since = Fetched(), 0, "", ""
    for table in (mirror.files(channel), mirror.assets(channel)):
        rows = _due(mirror, table)
        results = [_tried(mirror, channel, row) for row in rows]
        for before, row in zip(rows, results, strict=True):
            fetched.learn(before, row)
        if results:
            table.upsert(results)
        fetched.done &= len(rows) < BATCH
        if len(rows) < BATCH:
            waiting = _settle(table)
            left += len(waiting)
            then = min(filter(None, (then, _least(waiting, "next"))), default="")
            since = min(filter(None, (since, _least(waiting, "since"))), default="")
    facts = {DUE: then, LEFT: left, SINCE: since} if fetched.done else {}
    return fetched.done, _told(mirror, channel, fetched, left, facts=facts)


def due(mirror: Context) -> list[Request]:
    """Channels of which files were wanted and could not be had, and may be asked for again now."""
    now = mirror.store.now()
    waiting = [item for item in kept(mirror.store) if item.detail.get(DUE) and has_come(item.detail[DUE], now, WITHIN)]
    return [Request("files", number_of(item)) for item in waiting]


def _told(mirror: Context, channel: int, fetched: Fetched, left: int, facts: Row) -> Told:
    told = {"kept": fetched.kept, "lost": len(fetched.lost), "wanted": left}
    item = mirror.item(channel)
    events = [NewEvent(item_id(channel), "files lost", "warning", detail={"files": fetched.lost})]
    detail = item.detail if item else {}
    back = sum(since > str(detail.get(LOOKED) or "") for since in fetched.back)  # who has looked has no count of them
    if fetched.lost or back:
        facts |= {LOST: max(0, int(detail.get(LOST) or 0) + len(fetched.lost) - back)}
    changed = {name: value for name, value in facts.items() if (detail.get(name) or type(value)()) != value}
    items = (noted(channel, **changed),) if changed and item is not None else ()
    return Told(told, items, tuple(events) if fetched.lost else ())


def _wanted(table: Table, low: int) -> Iterator[Row]:
    return (row.message for row in table.between(low) if row.versions and state_of(row.message) == "wanted")


def _due(mirror: Context, table: Table) -> list[Row]:
    low = Wanted.read(table.mark).low
    if low is None:
        return []
    now = mirror.store.now()
    return list(islice((row for row in _wanted(table, low) if has_come(row.get("next"), now, WITHIN)), BATCH))


def _settle(table: Table) -> list[Row]:
    """Write down from where on something is still wanted; answers what."""
    mark = Wanted.read(table.mark)
    if mark.low is None:
        return []
    left = list(_wanted(table, mark.low))
    low = min((int(row["id"]) for row in left), default=None)
    if low != mark.low:
        table.upsert([], replace(mark, low=low).written())
    return left


def _least(rows: list[Row], name: str) -> str:
    return min((str(row.get(name) or "") for row in rows), default="")


# --- One file ---


def _tried(mirror: Context, channel: int, row: Row) -> Row:
    now = mirror.now()
    since = row.get("since") or row.get("at") or mirror.stamp()
    row = row | {"at": mirror.stamp(), "since": since, "tries": int(row.get("tries", 0)) + 1}
    try:
        return _with_fresh_link(mirror, channel, row, now)
    except (Withheld, Unsafe) as refusal:
        return _ended(row, "lost", why=refusal.message)
    except NoFile as trouble:
        pause = PAUSES[min(row["tries"], len(PAUSES)) - 1]
        return row | {"why": trouble.message, "next": _stamp(now + pause)}


def _with_fresh_link(mirror: Context, channel: int, row: Row, now: datetime) -> Row:
    why, over = "its link has expired", not row.get("url") or is_over(str(row["url"]), now)
    other: NoFile | None = None
    if not over:
        try:
            return _fetched(mirror, channel, row)
        except Gone as refusal:
            why = refusal.message
        except OtherSize as trouble:  # it may have been described wrongly, and rightly since
            other = trouble
    link, size = _fresh_link(mirror, channel, row, now)
    if other is not None and (not link or size == row.get("size")):
        raise other
    if link and (over or other or link != row["url"]):  # by whose clock it has expired, the file server knows best
        row = row | {"url": link} | ({"size": size} if size >= 0 else {})
        try:
            return _fetched(mirror, channel, row)
        except Gone as refusal:
            why = refusal.message
    return _refused(row, why, now)


def _refused(row: Row, why: str, now: datetime) -> Row:
    """The freshest link there is was refused. Once may be a bad hour; twice, an hour apart, is an answer. Of what was
    lost before, once is enough to say that it still is."""
    first = row.get("refused")
    if LOST_SINCE in row:
        return _ended(row, "lost", why=why)
    if first and now - datetime.fromisoformat(str(first)) >= HOUR:
        return _ended(row, "lost", why=why)
    first = first if first and datetime.fromisoformat(str(first)) <= now else None  # a clock that was ahead
    return row | {"refused": first or _stamp(now), "why": why, "next": _stamp(now + HOUR)}


def _fresh_link(mirror: Context, channel: int, row: Row, now: datetime) -> tuple[str, int]:
    """From the message itself, with the size that it tells; empty if that is gone, or no longer names it."""
    try:
        raw = mirror.discord.message(channel, attachments.message_of(row))
    except (Gone, Unreadable):
        return "", -1
    wanted = row.get("link")
    finder = finder_of(mirror)
    links = (one for one in finder.of(raw) if finder.may_ask(one))
    same = (one for one in links if (one.plain == wanted if wanted else str(one.id) == row["id"]))
    return next(((one.url, one.size) for one in same), ("", -1))


def _fetched(mirror: Context, channel: int, row: Row) -> Row:
    pieces = _whole(mirror.discord.attachment(str(row["url"])), row)
    got = media.keep(mirror.blobs, pieces, mirror.largest_file, str(channel))
    return _ended(row, "kept", digest=got.digest, size=got.size)


class OtherSize(NoFile):
    """It came, and is not of the size that its message tells."""


def _whole(pieces: Iterator[bytes], row: Row) -> Iterator[bytes]:
    """The pieces, if they come to the size that was told."""
    told, size = row.get("size"), 0
    for piece in pieces:
        size += len(piece)
        yield piece
    if told is not None and size != told:
        raise OtherSize(f"{size} bytes came instead of {told}", where=str(row["url"]))


def _ended(row: Row, state: str, **facts: Any) -> Row:
    dropped = ("next", "refused", "since", "why", "tries", *(("url", LOST_SINCE) if state == "kept" else ()))
    known = {LOST_SINCE: row.get(LOST_SINCE) or row["at"]} if state == "lost" else {}
    return {name: value for name, value in row.items() if name not in dropped} | {"state": state, **known, **facts}


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
