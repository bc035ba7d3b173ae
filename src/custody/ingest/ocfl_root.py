"""Opens an OCFL storage root, making it if need be, and checks what is in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from custody.ingest.digests import digest_file
from custody.ingest.durable import Durable, lock_folder, unlock_folder
from custody.ingest.ocfl import INVENTORY, SIDECAR, OcflRoot
from custody.ingest.ocfl_inventory import LAYOUT, LAYOUT_CONFIG, Inventory, from_json
from custody.model.errors import CustodyError, NotFound, Refused, Unavailable, Unsafe

DECLARATION, DECLARED = "0=ocfl_1.1", b"ocfl_1.1\n"
OBJECT_DECLARATION, OBJECT_DECLARED = "0=ocfl_object_1.1", b"ocfl_object_1.1\n"
LAYOUT_FILE = "ocfl_layout.json"
CUSTODY = ("Custody", "info:custody/ingest")


def open_root(
    path: Path, *, staging: Path | None = None, disk: Durable | None = None, user: tuple[str, str] = CUSTODY
) -> OcflRoot:
    """The storage root at `path`. Versions are staged beside it, in `path-staging`, or where `staging`
    says, which must be the same file system: only there can a version appear in one step."""
    disk = disk or Durable()
    staging = staging or path.with_name(f"{path.name}-staging")
    for folder in (path.parent, staging):
        disk.folder(folder)
    if (path if path.exists() else path.parent).stat().st_dev != staging.stat().st_dev:
        raise Unsafe(
            f"{staging} is not on the file system of {path}",
            code="storage.staging",
            hint="put the storage root one folder below the mount point, or give a staging folder beside it",
        )
    give_up = time.monotonic() + 30
    while not (path / DECLARATION).exists():
        if not _make(path, staging / "root", disk) and time.monotonic() > give_up:
            raise Unavailable(f"{path} is being made by another process, for too long", code="storage.root")
    _check(path)
    return OcflRoot(path, staging, disk, user)


def _make(path: Path, bench: Path, disk: Durable) -> bool:
    """Make an empty root, whole, in one step; False if another process is about it."""
    if path.exists() and any(path.iterdir()):
        raise Refused(f"{path} has something in it that is no OCFL root", code="storage.root")
    lock = lock_folder(bench, disk)
    if lock is None:
        time.sleep(0.01)
        return False
    try:
        if not (path / DECLARATION).exists():
            _build(bench / "new", disk)
            disk.rename(bench / "new", path)
    finally:
        unlock_folder(bench, lock, disk)
    return True


def _build(new: Path, disk: Durable) -> None:
    disk.remove(new)
    disk.folder(new / "extensions" / LAYOUT)
    disk.write(new / DECLARATION, DECLARED)
    layout = {"extension": LAYOUT, "description": "hash of the identifier, then the identifier"}
    disk.write(new / LAYOUT_FILE, _json(layout))
    disk.write(new / "extensions" / LAYOUT / "config.json", _json(LAYOUT_CONFIG))
    disk.sync_folders(new)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _check(path: Path) -> None:
    try:
        layout = json.loads((path / LAYOUT_FILE).read_bytes())["extension"]
        config = json.loads((path / "extensions" / LAYOUT / "config.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"the layout of {path} cannot be read: {error}", code="storage.layout") from error
    if layout != LAYOUT or config != LAYOUT_CONFIG:
        raise Refused(f"{path} has another layout than {LAYOUT}", code="storage.layout")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of an object that is not as it was stored."""

    path: str
    problem: str
    expected: str = ""
    found: str = ""


def verify(root: OcflRoot, identifier: str) -> list[Damage]:
    """Read every byte of an object again; an empty list means it is as it was stored."""
    folder = root.folder(identifier)
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
    if _read(folder / OBJECT_DECLARATION) != OBJECT_DECLARED:
        yield Damage(OBJECT_DECLARATION, "missing or changed")
    for version in inventory.versions:
        where = f"v{version.number}/{INVENTORY}"
        try:
            data, sidecar = _read(folder / where), _read(folder / f"v{version.number}" / SIDECAR)
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
            found = digest_file(folder / path, expected)
        except FileNotFoundError:
            yield Damage(path, "missing")
            continue
        for name in expected:
            if found[name] != expected[name]:
                yield Damage(path, f"{name} differs", expected[name], found[name])


def _unlisted(folder: Path, inventory: Inventory) -> Iterator[Damage]:
    listed = {OBJECT_DECLARATION, INVENTORY, SIDECAR, *inventory.content}
    for version in inventory.versions:
        listed |= {f"v{version.number}/{INVENTORY}", f"v{version.number}/{SIDECAR}"}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name).relative_to(folder).as_posix()
            if path not in listed:
                yield Damage(path, "not in the inventory")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
