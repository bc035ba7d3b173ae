"""The files of a stored object, read from its own OCFL inventory: all that the ready-made robots need of storage."""

from __future__ import annotations

import os
from pathlib import Path

from custody.border import below
from custody.border.ocfl_object import INVENTORY
from custody.border.ocfl_object import contents as contents
from custody.border.ocfl_object import current as current
from custody.errors import NotFound
from custody.kernel.model.item import Item
from custody.kernel.model.names.reserved import FOLDER


def folder_of(item: Item) -> Path:
    """Where the object is, as whoever stored it told."""
    folder = Path(str(item.detail.get(FOLDER, "")))
    try:
        if item.detail.get(FOLDER):
            os.close(below.opened(folder, INVENTORY))
            return folder
    except NotFound:
        pass
    raise NotFound(
        f"{item.id} has no OCFL object here", code="object.unknown", hint="does this machine see its storage?"
    )
