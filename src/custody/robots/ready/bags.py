"""BagIt validation: every bag inside an object is complete and valid, by its own manifests (RFC 8493)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import current, folder_of

DECLARATION = "bagit.txt"
ALGORITHMS = {
    "md5": "md5",
    "sha1": "sha1",
    "sha224": "sha224",
    "sha256": "sha256",
    "sha384": "sha384",
    "sha512": "sha512",
}
PIECE = 1 << 20


@robot(
    name="bags",
    version="1.0",
    event="bags validated",
    when=Trigger(types=frozenset({"object"}), past=frozenset({"ingested"}), old=frozenset({"bags validated"})),
    at_once=2,
)
def bags(item: Item, report: Report) -> None:
    files = dict(current(folder_of(item)))
    roots = [
        name.removesuffix(DECLARATION) for name in files if name == DECLARATION or name.endswith(f"/{DECLARATION}")
    ]
    for root in sorted(roots):
        inside = {name.removeprefix(root): path for name, path in files.items() if name.startswith(root)}
        for code, reason, file in faults(inside):
            report.add(code, f"{root}{reason}", file=f"{root}{file}")
    report.note(bags=len(roots))


Fault = tuple[str, str, str]
"""A code, a sentence that begins with the file's name, and the file."""


def faults(files: Mapping[str, Path]) -> Iterator[Fault]:
    """What is wrong with one bag, given its files by name."""
    declared = dict(_tags(files[DECLARATION].read_text(errors="replace")))
    if set(declared) < {"BagIt-Version", "Tag-File-Character-Encoding"}:
        yield "bag.declaration", f"{DECLARATION} does not declare a version and an encoding", DECLARATION
    manifests = [name for name in files if re.fullmatch(r"manifest-\w+\.txt", name)]
    if not manifests:
        yield "bag.manifest", "there is no manifest-ALGORITHM.txt", DECLARATION
    payload = {name for name in files if name.startswith("data/")}
    for manifest in manifests:
        listed = dict(_entries(files, manifest))
        for name in sorted(payload - set(listed)):
            yield "bag.unlisted", f"{name} is not in {manifest}", name
        yield from _compared(files, manifest, listed)
    for manifest in [name for name in files if re.fullmatch(r"tagmanifest-\w+\.txt", name)]:
        yield from _compared(files, manifest, dict(_entries(files, manifest)))
    yield from _oxum(files, payload)


def _compared(files: Mapping[str, Path], manifest: str, listed: Mapping[str, str]) -> Iterator[Fault]:
    algorithm = ALGORITHMS.get(manifest.split("-", 1)[1].removesuffix(".txt").lower())
    if algorithm is None:
        yield "bag.algorithm", f"{manifest} uses an algorithm that nobody knows here", manifest
        return
    for name, digest in listed.items():
        if name not in files:
            yield "bag.missing", f"{name} is in {manifest} and not in the bag", name
        elif _digest(files[name], algorithm) != digest.lower():
            yield "bag.digest", f"{name} is not what {manifest} says", name


def _oxum(files: Mapping[str, Path], payload: set[str]) -> Iterator[Fault]:
    if "bag-info.txt" not in files:
        return
    said = dict(_tags(files["bag-info.txt"].read_text(errors="replace"))).get("Payload-Oxum")
    found = f"{sum(files[name].stat().st_size for name in payload)}.{len(payload)}"
    if said is not None and said != found:
        yield "bag.oxum", f"bag-info.txt says {said} bytes and files, there are {found}", "bag-info.txt"


def _tags(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        name, colon, value = line.partition(":")
        if colon and not line[:1].isspace():
            yield name.strip(), value.strip()


def _entries(files: Mapping[str, Path], manifest: str) -> Iterator[tuple[str, str]]:
    for line in files[manifest].read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        digest, _, rest = line.strip().partition(" ")
        name = rest.strip().removeprefix("*").removeprefix("./")
        if name:  # many writers do not escape what the standard wants escaped: as it is written goes first
            yield name if name in files else re.sub(r"%(0[aAdD]|25)", lambda found: unquote(found[0]), name), digest


def _digest(path: Path, algorithm: str) -> str:
    found = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()
