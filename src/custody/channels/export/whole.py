"""Pages for a browser with the files beside them, so that the folder can be read anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from custody.channels.attachments import where_kept
from custody.channels.blobs import Blobs
from custody.channels.export.html import Raw, write_html
from custody.channels.table import Found


def write_pages(blobs: Blobs, messages: Iterable[Found], folder: Path, channel: int) -> int:
    """Write a channel's messages and files; answers how many messages."""
    kept = where_kept(blobs, channel)
    names = {one: f"files/{one}-{re.sub('[^A-Za-z0-9._-]', '_', name)}" for one, (_, name) in kept.items()}

    def link(attachment: Raw) -> str | None:
        told = str(attachment.get("id", ""))
        return names.get(int(told)) if told.isdecimal() else None

    def files(beside: Path) -> None:
        for one, (blob, _) in kept.items():
            path = beside / names[one]
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(blobs.read(blob).data)

    return write_html(messages, folder, f"Channel {channel}", link, also=files)
