"""The files of a stored object, read from its own OCFL inventory, which may say anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from custody.border import below
from custody.border.roots import Root

INVENTORY = "inventory.json"


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
