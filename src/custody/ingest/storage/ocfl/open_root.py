"""Opens an OCFL storage root, making it if need be."""

from __future__ import annotations

import json
import time
from pathlib import Path

from custody.border import modes
from custody.errors import Refused, Unavailable, Unsafe
from custody.formats.ocfl.inventory import LAYOUT, LAYOUT_CONFIG
from custody.ingest.storage.ocfl.durable import Durable, lock_folder, unlock_folder
from custody.ingest.storage.ocfl.root import OcflRoot

DECLARATION, DECLARED = "0=ocfl_1.1", b"ocfl_1.1\n"
LAYOUT_FILE = "ocfl_layout.json"
CUSTODY = ("Custody", "info:custody/ingest")


def open_root(
    path: Path, *, staging: Path | None = None, disk: Durable | None = None, user: tuple[str, str] = CUSTODY
) -> OcflRoot:
    """The storage root at `path`. Versions are staged beside it, in `path-staging`, or where `staging`
    says, which must be the same file system: only there can a version appear in one step."""
    disk = disk or Durable()
    staging = staging or path.with_name(f"{path.name}-staging")
    disk.folder(path.parent)
    disk.step(f"folder {staging}")
    modes.make_folder(staging)
    if path.is_dir():
        modes.must_be_ours(path)
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
    # Its declaration is looked for last: another process may just have made it.
    if path.exists() and any(path.iterdir()) and not (path / DECLARATION).exists():
        raise Refused(f"{path} has something in it that is no OCFL root", code="storage.root")
    lock = lock_folder(bench, disk)
    if lock is None:
        time.sleep(0.01)
        return False
    try:
        if not (path / DECLARATION).exists():
            _build(bench / "new", disk)
            (bench / "new").chmod(0o755 if disk.shared else modes.of_folder())
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
