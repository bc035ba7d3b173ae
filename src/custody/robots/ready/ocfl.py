"""The files of a stored object, read from its own OCFL inventory: all that the ready-made robots need of storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from custody.border import below
from custody.border.roots import Root
from custody.errors import NotFound
from custody.kernel.model.item import Item
from custody.kernel.model.names.reserved import FOLDER

INVENTORY = "inventory.json"


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


def _file(folder: Path, path: str) -> Path:
    """A file of the object: an inventory that names anything else, or a link in its place, is refused."""
    return Root("the object", folder).find(path).path


def contents(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every stored file with the digest (SHA-512) that it must have."""
    inventory = json.loads(below.read(folder, INVENTORY))
    for digest, paths in inventory["manifest"].items():
        for path in paths:
            yield digest, _file(folder, path)


def current(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of the newest version, by the names the depositor knows."""
    inventory = json.loads(below.read(folder, INVENTORY))
    for digest, names in inventory["versions"][inventory["head"]]["state"].items():
        for name in names:
            yield name, _file(folder, inventory["manifest"][digest][0])
