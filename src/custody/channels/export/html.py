"""Pages for a browser: readable without a server or a network, searchable by a script of our own.

A folder with `index.html` (search, list of pages), numbered pages, and numbered lists of words to search. The
lists are scripts and not data files, because a browser that opened a page from a disk loads nothing else.
What came from a message is escaped by the templates; no link leads outside unless a caller gives it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from custody.channels.export.fields import (
    attachments,
    author,
    number,
    poll,
    previews,
    reactions,
    reply_to,
    text,
    thread,
)
from custody.channels.messages.reader import Shown
from custody.channels.snowflake import time_of
from custody.errors import Refused

PER_PAGE = 500

Raw = Mapping[str, Any]
Media = Callable[[Raw], str | None]  # where an attachment is kept, as a link from the export's folder


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page, as the list of pages names it."""

    number: int
    first: str
    day: str
    count: int

    @property
    def file(self) -> str:
        return f"page-{self.number:05d}.html"


def write_html(
    found: Iterable[Shown],
    folder: Path,
    title: str,
    media: Media = lambda attachment: None,
    per_page: int = PER_PAGE,
    also: Callable[[Path], None] = lambda folder: None,
) -> int:
    """Write a folder that is not there yet, or is an earlier export; answers how many messages.

    `also` puts what else belongs there into the folder before it is swung into place.
    """
    if folder.exists() and not (folder / "search.js").exists():
        raise Refused("this folder is not an export", code="export.folder", where=str(folder), hint="name another")
    pages = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    beside = folder.with_name(folder.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    sheets = list(_write_sheets(pages, iter(found), beside, title, media=media, per_page=per_page))
    firsts = [sheet.first for sheet in sheets]
    _render(pages, beside / "index.html", "index.html", title=title, sheets=sheets, firsts=firsts)
    for name in ("search.js", "style.css"):
        (beside / name).write_text(pages.loader.get_source(pages, name)[0], "utf-8")  # type: ignore[union-attr]
    also(beside)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(beside, folder)
    return sum(sheet.count for sheet in sheets)


def _write_sheets(
    pages: Environment, found: Iterator[Shown], folder: Path, title: str, media: Media, per_page: int
) -> Iterator[Sheet]:
    batch, place = list(islice(found, per_page)), 0
    while batch:
        place += 1
        after = list(islice(found, per_page))
        messages = [_shown(one, media) for one in batch]
        sheet = Sheet(place, str(batch[0].id), messages[0]["at"][:10], sum(not one.upto for one in batch))
        _render(
            pages,
            folder / sheet.file,
            "page.html",
            title=title,
            sheet=sheet,
            messages=messages,
            more=bool(after),
        )
        _write_words(folder / f"words-{place:05d}.js", place, messages)
        yield sheet
        batch = after


def _render(pages: Environment, path: Path, template: str, **values: Any) -> None:
    path.write_text(pages.get_template(template).render(**values), "utf-8")


def _shown(one: Shown, media: Media) -> dict[str, Any]:
    raw: Raw = one.message if one.versions else {}
    files = [{"name": text(a.get("filename")) or "file", "link": media(a)} for a in attachments(raw)]
    earlier = [text(json.loads(line).get("content")) for line in one.versions[:-1]]
    return {
        "id": str(one.id),
        "at": time_of(one.id).strftime("%Y-%m-%d %H:%M:%S"),
        "author": author(raw)[1],
        "content": text(raw.get("content")),
        "edited": text(raw.get("edited_timestamp")),
        "earlier": earlier,
        "deleted": one.deleted_at,
        "gone": one.gone[:19],
        "damaged": bool(one.damaged),
        "upto": time_of(one.upto).strftime("%Y-%m-%d %H:%M:%S") if one.upto else "",
        "pinned": raw.get("pinned") is True,
        "reactions": reactions(raw),
        "previews": previews(raw),
        "poll": poll(raw),
        "thread": thread(raw),
        "reply_to": reply_to(raw),
        "type": number(raw.get("type")) or 0,
        "files": files,
    }


def _write_words(path: Path, page: int, messages: list[dict[str, Any]]) -> None:
    rows = [[one["id"], one["at"], one["author"], one["content"]] for one in messages if one["content"]]
    words = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    for sign in ("<", "\u2028", "\u2029"):  # it must stay inside its script, whatever it says
        words = words.replace(sign, f"\\u{ord(sign):04x}")
    path.write_text(f"custodyWords({page},{words});\n", "utf-8")
