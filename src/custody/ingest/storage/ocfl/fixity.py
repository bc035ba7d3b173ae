"""Reads what is stored again, and tells what is not as it was stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from custody.border import below
from custody.errors import BadInput, CustodyError, NotFound, Refused
from custody.formats.digest_table import CHUNK, digests_of
from custody.formats.ocfl.inventory import Inventory, from_json
from custody.ingest.storage.ocfl.root import INVENTORY, SIDECAR, OcflRoot

OBJECT_DECLARATION, OBJECT_DECLARED = "0=ocfl_object_1.1", b"ocfl_object_1.1\n"


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of an object that is not as it was stored."""

    path: str
    problem: str
    expected: str = ""
    found: str = ""


def verify(root: OcflRoot, identifier: str) -> list[Damage]:
    """Read every byte of an object again; an empty list means it is as it was stored."""
    try:
        folder = root.folder(identifier)
    except Refused as error:
        return [Damage("", f"{error.message}: {error.where}")]
    if not folder.is_dir():
        raise NotFound(f"no object {identifier!r}", code="object.unknown")
    try:
        inventory = root.inventory(identifier)
    except CustodyError as error:
        return [Damage(INVENTORY, error.message)]
    return [
        *_inventories(folder, inventory),
        *_contents(folder, inventory),
        *_unlisted(folder, inventory),
    ]


def _inventories(folder: Path, inventory: Inventory) -> Iterator[Damage]:
    if _read(folder, OBJECT_DECLARATION) != OBJECT_DECLARED:
        yield Damage(OBJECT_DECLARATION, "missing or changed")
    for version in inventory.versions:
        where = f"v{version.number}/{INVENTORY}"
        try:
            data, sidecar = _read(folder, where), _read(folder, f"v{version.number}/{SIDECAR}")
            then = from_json(data, sidecar)
        except CustodyError as error:
            yield Damage(where, error.message)
            continue
        if then.versions != inventory.versions[: version.number]:
            yield Damage(where, "tells another history than the newest inventory")


def _contents(folder: Path, inventory: Inventory) -> Iterator[Damage]:
    for path, content in inventory.content.items():
        expected = {"sha512": content.sha512, **content.fixity}
        try:
            with open(below.opened(folder, path), "rb") as file:
                found = digests_of(iter(lambda: file.read(CHUNK), b""), expected)
        except NotFound:
            yield Damage(path, "missing")
            continue
        except (Refused, BadInput) as error:
            yield Damage(path, error.message)
            continue
        for name in expected:
            if found[name] != expected[name]:
                yield Damage(path, f"{name} differs", expected[name], found[name])


def _unlisted(folder: Path, inventory: Inventory) -> Iterator[Damage]:
    listed = {OBJECT_DECLARATION, INVENTORY, SIDECAR, *inventory.content}
    for version in inventory.versions:
        listed |= {f"v{version.number}/{INVENTORY}", f"v{version.number}/{SIDECAR}"}
    for place, folders, names in os.walk(folder):
        for name in (*(each for each in folders if os.path.islink(os.path.join(place, each))), *names):
            path = Path(place, name).relative_to(folder).as_posix()
            if path not in listed:
                yield Damage(path, "a link" if os.path.islink(folder / path) else "not in the inventory")


def _read(folder: Path, name: str) -> bytes:
    try:
        return below.read(folder, name)
    except NotFound:
        return b""
