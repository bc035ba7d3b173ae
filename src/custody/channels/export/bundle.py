"""Pages for a browser with the files beside them, so that the folder can be read anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from custody.channels.blobs.port import Blobs, Broken, NoBlob
from custody.channels.discord.attachments import where_kept
from custody.channels.export.html import Raw, write_html
from custody.channels.messages.reader import Leaving, Shown

LONGEST = 80  # bytes of a name: with what is put before it, every disk takes that
PIECE = 4 * 2**20


def write_pages(
    blobs: Blobs, messages: Iterable[Shown], folder: Path, channel: int, leaving: Leaving, *, title: str = ""
) -> int:
    """Write a channel's messages and files; answers how many messages. No file of one that is left out."""
    kept = where_kept(blobs, channel, leaving.files)
    names = {one: f"files/{one}-{short_name(file.name)}" for one, file in kept.items()}

    def link(attachment: Raw) -> str | None:
        told = str(attachment.get("id", ""))
        return names.get(int(told)) if told.isdecimal() else None

    def files(beside: Path) -> None:
        for one, file in kept.items():
            if file.message in leaving.out:
                continue
            path = beside / names[one]
            path.parent.mkdir(exist_ok=True)
            if not _copied(blobs, file.blob, path):
                path.unlink(missing_ok=True)
                leaving.files.append(one)

    return write_html(messages, folder, title or f"Channel {channel}", link, also=files)


def short_name(name: str) -> str:
    """Letters, digits and a few signs, not too many; the ending stays, since it says what a file is."""
    plain = re.sub("[^A-Za-z0-9._-]", "_", name)
    stem, dot, ending = plain.rpartition(".")
    if len(plain) <= LONGEST or not stem or len(ending) > 10:
        return plain[:LONGEST]
    return stem[: LONGEST - len(ending) - 1] + dot + ending


def _copied(blobs: Blobs, name: str, path: Path) -> bool:
    """Piece by piece: a file may be larger than memory. False if it is not there, or not what was kept."""
    digest, start = sha256(), 0
    try:
        about = blobs.head(name)
        with path.open("wb") as file:
            while about and start < about.size:
                piece = blobs.read(name, start, PIECE, if_match=about.etag).data
                digest.update(piece)
                file.write(piece)
                start += len(piece)
                if not piece:
                    break
    except (NoBlob, Broken):
        return False
    return digest.hexdigest() == name.rpartition("/")[2]
