"""Format identification by signature: the first bytes of each file, against a small table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from custody.model.item import Item
from custody.model.trigger import Trigger
from custody.robots.ready.ocfl import current, folder_of
from custody.robots.robot import Report, robot

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


@robot(
    name="formats",
    version="1.0",
    event="formats identified",
    when=Trigger(
        types=frozenset({"object"}), past=frozenset({"fixity checked"}), old=frozenset({"formats identified"})
    ),
    at_once=2,
)
def formats(item: Item, report: Report) -> None:
    found: Counter[str] = Counter()
    for name, path in current(folder_of(item)):
        kind = media_type(_head(path))
        found[kind] += 1
        if kind == "application/octet-stream":
            report.warn("format.unknown", f"nobody knows what {name} is", file=name)
    report.note(formats=dict(found))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)
