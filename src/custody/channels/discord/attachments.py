"""Files that messages name, as rows: *wanted* when a page names them, later *kept* by digest or *lost* with the reason.
What is at a place where nobody asks is *refused*.

A page never waits for a file: rows are written before its messages, and a job of their own works them off
(`fetch`). Each channel has its rows and its files in folders of its own, so that removing it removes them and
nobody else's. `files/` has attachments by their ids, `assets/` the rest, by a number made from the link.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from custody.channels.blobs.port import Blobs, NoBlob
from custody.channels.context import Context, assets_of, files_of, noted
from custody.channels.discord import media
from custody.channels.discord.answers import expires
from custody.channels.files.links import Finder, Link
from custody.channels.files.wanted import Wanted, name_of, state_of
from custody.channels.plain_text import plainly
from custody.channels.snowflake import HIGHEST, parse
from custody.channels.table import Found, Table
from custody.kernel.model.event import NewEvent

LOST_FOR: Final = timedelta(days=1)  # before what was lost is asked for again, when its message is seen again
LOST_SINCE: Final = "lost_since"  # on a row: when its file was first found lost
MOST_KNOWN = 200_000
REFUSED: Final = "refused"  # the state of a row whose link leads to a place where nobody asks
FOREIGN: Final = "files_refused"  # on the channel's item: how many such were met since somebody last looked
HOSTS: Final = "files_hosts"  # and where they are, some of them
MOST_HOSTS = 5

Raw = Mapping[str, Any]
Row = dict[str, Any]


# --- What is wanted ---


def finder_of(mirror: Context) -> Finder:
    return Finder(mirror.discord.media_hosts, mirror.discord.cdn)


def want(mirror: Context, channel: int, messages: Iterable[Raw]) -> int:
    """Write down what these messages name and is neither kept nor wanted yet; answers how many that was."""
    finder, links, foreign = finder_of(mirror), dict[int, Link](), list[Link]()
    for raw in messages:
        links |= {link.key: link for link in finder.of(raw) if (channel, link.key) not in mirror.known}
    tables = mirror.files(channel), mirror.assets(channel)
    rows: tuple[list[Row], list[Row]] = ([], [])
    for link in links.values():
        place = 0 if link.id else 1
        key, found = _place(tables[place], link)
        if found and state_of(found) == "kept":
            mirror.known.add((channel, link.key))
        elif finder.may_ask(link) and (not found or _worth_asking(found, link, mirror.now())):
            rows[place].append(_row(key, link, mirror.stamp()) | _known_loss(found))
        elif not found:
            foreign.append(link)
            rows[place].append(_row(key, link, mirror.stamp(), REFUSED) | {"why": _elsewhere(link)})
    for table, named in zip(tables, rows, strict=True):
        _write(table, named)
    if foreign:
        _tell_foreign(mirror, channel, foreign)
    if len(mirror.known) > MOST_KNOWN:
        mirror.known.clear()
    return sum(row["state"] == "wanted" for named in rows for row in named)


def _write(table: Table, named: list[Row]) -> None:
    wanted = [int(row["id"]) for row in named if row["state"] == "wanted"]
    if named:
        table.upsert(named, json.dumps({"want": min(wanted)}) if wanted else "")


def _elsewhere(link: Link) -> str:
    place = f"it is at {link.host}" if link.host else "its link cannot be read"
    return f"{place}, which is not a place of the service: `media_hosts` in [channels] may name it"


def _tell_foreign(mirror: Context, channel: int, foreign: list[Link]) -> None:
    """Nobody asks there, and that is told: on the channel's item until somebody has looked, and in its history."""
    item = mirror.item(channel)
    if item is None:
        return
    hosts = sorted({*(item.detail.get(HOSTS) or ()), *(plainly(one.host) or "?" for one in foreign)})[:MOST_HOSTS]
    files = [{"message": one.message, "name": plainly(one.name), "host": plainly(one.host)} for one in foreign[:20]]
    event = NewEvent(item.id, "files refused", "warning", detail={"count": len(foreign), "files": files})
    count = int(item.detail.get(FOREIGN) or 0) + len(foreign)
    mirror.store.records.put((noted(channel, **{FOREIGN: count, HOSTS: hosts}),), (event,), "channels")


def _place(table: Table, link: Link) -> tuple[int, Raw]:
    """Its number, and what is known of it. Where another link has the number, the next free one is its."""
    key = link.key
    while True:
        found = table.search(key)
        row = found.message if found and found.versions else {}
        if link.id or not row or row.get("link") == link.plain:
            return key, row
        key = (key + 1) % HIGHEST


def _row(key: int, link: Link, at: str, state: str = "wanted") -> Row:
    told = ({"size": link.size} if link.size >= 0 else {}) | ({} if link.id else {"link": link.plain})
    named = {"id": str(key), "message": link.message, "name": link.name, "url": link.url}
    return {**named, "state": state, "at": at, **told}


def _known_loss(row: Raw) -> Row:
    """What stays of a row that is wanted again: since when it was lost. That it still is will be no news."""
    if not row or not (LOST_SINCE in row or state_of(row) == "lost"):
        return {}
    return {LOST_SINCE: row.get(LOST_SINCE) or row.get("at") or ""}


def _worth_asking(row: Raw, link: Link, now: datetime) -> bool:
    """Is what a fresh look at its message tells news for this row?"""
    state = state_of(row)
    if link.size >= 0 and row.get("size") not in (None, link.size):  # it was described wrongly before
        return True
    if state == REFUSED:  # the place may be asked now
        return True
    if state == "lost":
        return not row.get("at") or not timedelta() <= now - datetime.fromisoformat(str(row["at"])) < LOST_FOR
    return state == "wanted" and is_over(str(row.get("url", "")), now)


def is_over(url: str, now: datetime) -> bool:
    """Has this link expired, by its own word?"""
    end = expires(url)
    return end is not None and end <= now


def anything_wanted(mirror: Context, channel: int) -> bool:
    return any(Wanted.read(table.mark).low is not None for table in (mirror.files(channel), mirror.assets(channel)))


# --- What is no longer wanted, and what there is ---


def drop(blobs: Blobs, channel: int, gone: Iterable[Found]) -> None:
    """The files of messages that were erased go with them, unless another message has the same file."""
    messages, digests = {str(found.id) for found in gone}, set[str]()
    if not messages:
        return
    for table in (files_of(blobs, channel), assets_of(blobs, channel)):
        rows = [row for row in _rows(table) if str(row.message.get("message")) in messages]
        table.delete([row.id for row in rows])
        digests |= {str(row.message["digest"]) for row in rows if "digest" in row.message}
    if digests:
        unknown = list[int]()
        digests -= {str(row["digest"]) for _, row in kept(blobs, channel, unknown)}
        digests = set() if unknown else digests  # who else has them cannot be read: they stay
    for digest in digests:
        with suppress(NoBlob):
            blobs.delete(media.name_of(str(channel), digest))


def drop_orphans(blobs: Blobs, channel: int, messages: Table) -> int:
    """Files whose message was erased, and that a crash left; answers how many messages had some."""
    named = {
        message_of(row.message)
        for table in (files_of(blobs, channel), assets_of(blobs, channel))
        for row in _rows(table)
    }
    erased = [found for one in sorted(named) if (found := messages.search(one)) and found.deleted_at]
    drop(blobs, channel, erased)
    return len(erased)


def _rows(table: Table, damaged: list[int] | None = None) -> Iterator[Found]:
    for row in table.between():
        if row.versions:
            yield row
        elif row.damaged and damaged is not None:
            damaged.append(row.id)


def kept(blobs: Blobs, channel: int, damaged: list[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Every row that has its file. `damaged` gets the numbers at which rows cannot be read."""
    for table in (files_of(blobs, channel), assets_of(blobs, channel)):
        for row in _rows(table, damaged):
            if "digest" in row.message:
                yield row.id, row.message


def missing(blobs: Blobs, channel: int) -> list[str]:
    """Digests of files that rows have and that are not there, by the list of what is: nothing is read."""
    there = {blob.name for blob in blobs.list(f"media/{channel}/")}
    digests = {str(row["digest"]) for _, row in kept(blobs, channel)}
    return sorted(one for one in digests if media.name_of(str(channel), one) not in there)


class File(NamedTuple):
    """What was fetched: the blob that holds it, the name it had, and the message that named it."""

    blob: str
    name: str
    message: int


def where_kept(blobs: Blobs, channel: int, damaged: list[int] | None = None) -> dict[int, File]:
    """What was fetched, by its number."""
    found = kept(blobs, channel, damaged)
    return {one: File(media.name_of(str(channel), row["digest"]), name_of(row), message_of(row)) for one, row in found}


def message_of(row: Raw) -> int:
    return parse(str(row["message"]))
