"""OCFL validation: an object's folder is what the specification says, file by file; digests are fixity's business."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import folder_of

DECLARATIONS = ("0=ocfl_object_1.0", "0=ocfl_object_1.1")
INVENTORY = "inventory.json"
NEEDED = {"id": str, "type": str, "digestAlgorithm": str, "head": str, "manifest": dict, "versions": dict}
VERSION = re.compile(r"v(0*)([1-9]\d*)\Z")
LENGTHS = {"sha512": 128, "sha256": 64}

Fault = tuple[str, str]


@robot(
    name="ocfl",
    version="1.0",
    event="ocfl validated",
    when=Trigger(types=frozenset({"object"}), past=frozenset({"ingested"}), old=frozenset({"ocfl validated"})),
    at_once=2,
)
def ocfl(item: Item, report: Report) -> None:
    found = list(faults(folder_of(item)))
    for code, reason in found:
        report.add(code, reason)


def faults(folder: Path) -> Iterator[Fault]:
    """Everything in one object that is not as OCFL wants it."""
    yield from _declaration(folder)
    inventory = _read(folder / INVENTORY)
    if inventory is None:
        yield "ocfl.inventory", "inventory.json is no JSON object"
        return
    shape = list(_shape(inventory))
    yield from shape
    yield from _sidecar(folder, inventory)
    if shape:
        return  # the rest would only repeat it
    yield from _versions(inventory)
    yield from _states(inventory)
    yield from _content(folder, inventory)
    yield from _copies(folder, inventory)


def _declaration(folder: Path) -> Iterator[Fault]:
    found = [path for path in folder.iterdir() if path.name.startswith("0=")]
    if len(found) != 1 or found[0].name not in DECLARATIONS:
        yield "ocfl.declaration", "there is not exactly one 0=ocfl_object_ declaration of a known version"
    elif found[0].read_text().strip() != found[0].name.removeprefix("0="):
        yield "ocfl.declaration", f"{found[0].name} does not say what its name says"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _shape(inventory: Mapping[str, Any]) -> Iterator[Fault]:
    for key, kind in NEEDED.items():
        if not isinstance(inventory.get(key), kind) or not inventory[key]:
            yield "ocfl.inventory", f"its {key} is missing, or not what it must be"
    if inventory.get("digestAlgorithm") not in LENGTHS:
        yield "ocfl.inventory", "its digestAlgorithm is neither sha512 nor sha256"


def _sidecar(folder: Path, inventory: Mapping[str, Any], where: str = "") -> Iterator[Fault]:
    algorithm = str(inventory.get("digestAlgorithm"))
    if algorithm not in LENGTHS:
        return
    path = folder / f"{INVENTORY}.{algorithm}"
    if not path.is_file():
        yield "ocfl.sidecar", f"{where}{path.name} is missing"
    elif path.read_text(errors="replace").split() != [_digest(folder / INVENTORY, algorithm), INVENTORY]:
        yield "ocfl.sidecar", f"{where}{INVENTORY} is not what {path.name} says"


def _versions(inventory: Mapping[str, Any]) -> Iterator[Fault]:
    names = list(inventory["versions"])
    numbers = sorted(int(found[2]) for name in names if (found := VERSION.match(name)))
    if numbers != list(range(1, len(names) + 1)) or len({len(name) for name in names if name.startswith("v0")}) > 1:
        yield "ocfl.versions", f"its versions are not v1 to v{len(names)}"
    elif inventory["head"] not in names or int(inventory["head"].lstrip("v")) != numbers[-1]:
        yield "ocfl.head", f"its head is {inventory['head']}, its last version v{numbers[-1]}"


def _states(inventory: Mapping[str, Any]) -> Iterator[Fault]:
    known = {str(digest).lower() for digest in inventory["manifest"]}
    for version, block in inventory["versions"].items():
        state = block.get("state") if isinstance(block, dict) else None
        if not isinstance(state, dict) or not block.get("created"):
            yield "ocfl.version", f"{version} has no state, or does not say when it was made"
            continue
        for digest in state:
            if str(digest).lower() not in known:
                yield "ocfl.state", f"{version} names a digest that is not in the manifest: {str(digest)[:16]}…"
        names = [name for each in state.values() for name in each]
        if len(set(names)) < len(names) or not all(_is_plain(name) for name in names):
            yield "ocfl.names", f"{version} has a name twice, or one that leaves its folder"


def _content(folder: Path, inventory: Mapping[str, Any]) -> Iterator[Fault]:
    content = str(inventory.get("contentDirectory", "content"))
    listed = {str(path) for paths in inventory["manifest"].values() for path in paths}
    there = {
        str(path.relative_to(folder))
        for version in inventory["versions"]
        for path in (folder / version / content).rglob("*")
        if not path.is_dir() or path.is_symlink()
    }
    for name in sorted(listed - there):
        yield "ocfl.missing", f"{name} is in the manifest and not in the folder"
    for name in sorted(there - listed):
        yield "ocfl.extra", f"{name} is in the folder and not in the manifest"
    allowed = {INVENTORY, f"{INVENTORY}.{inventory['digestAlgorithm']}", "extensions", "logs", *DECLARATIONS}
    for path in sorted(folder.iterdir()):
        if path.name not in allowed | set(inventory["versions"]):
            yield "ocfl.extra", f"{path.name} does not belong into an object"


def _copies(folder: Path, inventory: Mapping[str, Any]) -> Iterator[Fault]:
    """Each version may keep the inventory of its time; that of the head is the object's own."""
    for version in inventory["versions"]:
        copy = folder / version / INVENTORY
        if not copy.is_file():
            continue
        found = _read(copy)
        if found is None or found.get("id") != inventory["id"] or found.get("head") != version:
            yield "ocfl.copy", f"{version}/{INVENTORY} is not the inventory of {version} of this object"
            continue
        yield from _sidecar(folder / version, found, f"{version}/")
        if version == inventory["head"] and copy.read_bytes() != (folder / INVENTORY).read_bytes():
            yield "ocfl.copy", f"{version}/{INVENTORY} is not the object's own"


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and not any(part in ("", ".", "..") for part in name.split("/"))


def _digest(path: Path, algorithm: str) -> str:
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()
