"""Format identification by signature: with Siegfried (pygfried) where it is installed, else by a small table.

Siegfried knows all of PRONOM and looks inside containers; the table knows the first bytes of what comes most often.
Which of them it was is noted in the event, so that items can be looked at again (`custody robot restart`).
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import current, folder_of

SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    # at, bytes, media type
    (0, b"%PDF-", "application/pdf"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (257, b"ustar", "application/x-tar"),
    (0, b"RIFF", "application/x-riff"),
    (0, b"ID3", "audio/mpeg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"<?xml", "application/xml"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
HEAD = 512


def media_type(head: bytes) -> str:
    for at, signature, name in SIGNATURES:
        if head[at : at + len(signature)] == signature:
            return name
    return "text/plain" if _is_text(head) else "application/octet-stream"


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # a letter cut at the end of what was read
    return b"\x00" not in head


@dataclass(frozen=True, slots=True)
class Found:
    """What a file is, as far as anybody can say."""

    media: str  # "" where a format has none
    pronom: str = ""  # an identifier of the registry, such as fmt/18
    name: str = ""
    doubt: str = ""  # why one should not rely on it


@dataclass(frozen=True, slots=True)
class Identifier:
    """Whoever identifies, and what to say of it in the history."""

    name: str
    identify: Callable[[Path], Found]


def by_table(path: Path) -> Found:
    with path.open("rb") as file:
        kind = media_type(file.read(HEAD))
    return Found("") if kind == "application/octet-stream" else Found(kind)


TABLE = Identifier("table of signatures", by_table)


@cache
def identifier() -> Identifier:
    """Siegfried where it is installed, else the table."""
    try:
        return siegfried(importlib.import_module("pygfried"))
    except ImportError:
        return TABLE


def siegfried(library: Any) -> Identifier:
    """Through pygfried, version 2 or later."""

    def identify(path: Path) -> Found:
        told = library.identify(str(path), detailed=True)["files"][0]
        match: dict[str, str] = next(iter(told["matches"]), {})
        if match.get("id", "UNKNOWN") == "UNKNOWN":
            return Found("", doubt=told.get("errors", ""))
        return Found(match.get("mime", ""), match["id"], match.get("format", ""), match.get("warning", ""))

    return Identifier(f"siegfried {library.version()}", identify)


@robot(
    name="formats",
    version="1.1",
    event="formats identified",
    when=Trigger(
        types=frozenset({"object"}), past=frozenset({"fixity checked"}), old=frozenset({"formats identified"})
    ),
    at_once=2,
)
def formats(item: Item, report: Report) -> None:
    look_at(item, report, identifier())


def look_at(item: Item, report: Report, by: Identifier) -> None:
    """Every file of the newest version."""
    kinds: Counter[str] = Counter()
    registered: Counter[str] = Counter()
    for name, path in current(folder_of(item)):
        found = by.identify(path)
        unknown = not found.media and not found.pronom
        kinds["application/octet-stream" if unknown else found.media or found.name] += 1
        registered.update([found.pronom] if found.pronom else [])
        if unknown:
            report.warn("format.unknown", f"nobody knows what {name} is", file=name)
        elif found.doubt:
            report.warn("format.doubt", f"{name} may be {found.name or found.media}: {found.doubt}", file=name)
    report.note(formats=dict(kinds), identified_by=by.name, **({"pronom": dict(registered)} if registered else {}))
