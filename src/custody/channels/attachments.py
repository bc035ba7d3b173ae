"""Files that came with messages: fetched while their links are good, kept by digest, listed by their own ids.

Each channel has its files in a folder of its own, so that removing it removes them and nobody else's. A file that
could not be had is listed too, with the reason, and asked for again when its message is seen again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from custody.channels import media
from custody.channels.blobs import Blobs, NoBlob
from custody.channels.mirror import Mirror, files_of
from custody.channels.snowflake import parse
from custody.channels.table import Found
from custody.model.errors import CustodyError, Unavailable

TRIES = 4  # for one file, before the page is tried again later

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    attachment: int
    message: str
    name: str
    url: str


def links(messages: Iterable[Raw]) -> Iterator[Link]:
    """What can be fetched. Messages are kept as they came, so nothing is taken for granted here."""
    for raw in messages:
        for one in raw.get("attachments") or []:
            if isinstance(one, Mapping) and one.get("url") and str(one.get("id", "")).isdecimal():
                yield Link(parse(str(one["id"])), str(raw["id"]), str(one.get("filename") or "file"), str(one["url"]))


def keep(mirror: Mirror, channel: int, messages: Iterable[Raw]) -> int:
    """Fetch the files of a page; answers how many could not be had. That does not stop the messages."""
    files, rows = mirror.files(channel), list[dict[str, Any]]()
    for link in links(messages):
        known = files.search(link.attachment)
        if known is None or "lost" in known.message:
            rows.append(_kept(mirror, channel, link))
    if rows:
        files.upsert(rows)
    return sum("lost" in row for row in rows)


def _kept(mirror: Mirror, channel: int, link: Link) -> dict[str, Any]:
    row = {"id": str(link.attachment), "message": link.message, "filename": link.name}
    try:
        kept = _fetched(mirror, channel, link)
    except Unavailable:
        raise  # it is there, and can be had later
    except CustodyError as error:
        return row | {"lost": error.message}
    return row | {"digest": kept.digest, "size": kept.size}


def _fetched(mirror: Mirror, channel: int, link: Link) -> media.Kept:
    """A file server that stumbles is asked again here: its message's whole page would have to wait otherwise."""
    for attempt in range(TRIES - 1):
        with suppress(Unavailable):
            return media.keep(mirror.blobs, mirror.discord.attachment(link.url), mirror.largest_file, str(channel))
        mirror.discord.sleep(0.25 * 2**attempt)
    return media.keep(mirror.blobs, mirror.discord.attachment(link.url), mirror.largest_file, str(channel))


def drop(blobs: Blobs, channel: int, gone: Iterable[Found]) -> None:
    """The files of messages that were deleted go with them, unless another message has the same file."""
    files, rows = files_of(blobs, channel), list[Found]()
    for found in gone:
        versions = [json.loads(line) for line in found.versions]
        ids = {parse(str(one["id"])) for raw in versions for one in raw.get("attachments") or [] if "id" in one}
        rows += [row for one in ids if (row := files.search(one)) and not row.deleted_at]
    if not rows:
        return
    files.delete([row.id for row in rows])
    digests = {row.message.get("digest") for row in rows} - {None}
    digests -= {row.message.get("digest") for row in files.between()}
    for digest in digests:
        with suppress(NoBlob):
            blobs.delete(media.name_of(str(channel), str(digest)))


def where_kept(blobs: Blobs, channel: int) -> dict[int, tuple[str, str]]:
    """Attachments by id: the blob that holds each, and the name it had."""
    return {
        row.id: (media.name_of(str(channel), row.message["digest"]), str(row.message["filename"]))
        for row in files_of(blobs, channel).between()
        if "digest" in row.message
    }
