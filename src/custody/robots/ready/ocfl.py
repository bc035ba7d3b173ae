"""The files of a stored object, read from its own OCFL inventory: all that the ready-made robots need of storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from custody.model.errors import NotFound
from custody.model.item import Item


def folder_of(item: Item) -> Path:
    """Where the object is, as whoever stored it told."""
    folder = Path(str(item.detail.get("folder", "")))
    if not item.detail.get("folder") or not (folder / "inventory.json").is_file():
        raise NotFound(
            f"{item.id} has no OCFL object here", code="object.unknown", hint="does this machine see its storage?"
        )
    return folder


def contents(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every stored file with the digest (SHA-512) that it must have."""
    inventory = json.loads((folder / "inventory.json").read_bytes())
    for digest, paths in inventory["manifest"].items():
        for path in paths:
            yield digest, folder / path


def current(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of the newest version, by the names the depositor knows."""
    inventory = json.loads((folder / "inventory.json").read_bytes())
    for digest, names in inventory["versions"][inventory["head"]]["state"].items():
        for name in names:
            yield name, folder / inventory["manifest"][digest][0]
