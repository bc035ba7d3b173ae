"""Recognises and checks BagIt bags (RFC 8493, and its older forms back to 0.93) among payloads.

A bag brings its own digests, so they are checked: every file against every manifest, nothing missing,
nothing unlisted, the totals as declared. A `fetch.txt` names files that are elsewhere; it is refused
unless the caller says that it may fetch. Links and special files have no place in a bag.

Written here rather than borrowed: paths must be safe by construction, and a depositor wants every fault,
not the first.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput
from custody.formats.digest_table import ALGORITHMS, digest_file

DECLARATION = "bagit.txt"
LITTER = ("__macosx", ".ds_store", "thumbs.db", "desktop.ini")
"""What macOS and Windows put into folders and containers."""
VERSIONS = ("0.93", "0.94", "0.95", "0.96", "0.97", "1.0")
_VERSION = re.compile(r"BagIt-Version: (?P<version>[0-9]+\.[0-9]+)")
_ENCODING = re.compile(r"Tag-File-Character-Encoding: (?P<encoding>\S+)")
_MANIFEST = re.compile(r"(?P<tag>tag)?manifest-(?P<algorithm>[a-z0-9]+)\.txt")
_ENTRY = re.compile(r"(?P<digest>[0-9A-Fa-f]+)[ \t]+\*?(?P<path>.+)")
_FETCH = re.compile(r"(?P<url>\S+)[ \t]+(?P<length>[0-9]+|-)[ \t]+(?P<path>.+)")
_ESCAPED = re.compile("%(0A|0D|25)", re.IGNORECASE)
_LINE_MOST = 64 << 10


@dataclass(frozen=True, slots=True)
class Fetch:
    """A file of the bag that is elsewhere."""

    url: str
    length: int | None
    path: str


@dataclass(frozen=True, slots=True)
class BagFault:
    code: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Bag:
    """A bag and what is wrong with it; no faults means that it is complete and valid."""

    folder: Path
    version: str = ""
    payload: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """path (`data/…`) -> algorithm -> digest, as the manifests say"""
    size: int = 0
    info: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fetch: tuple[Fetch, ...] = ()
    faults: tuple[BagFault, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults


def find_bag(folder: Path) -> Path | None:
    """The bag that a folder is, or that is the only thing in it, as most containers have it; what systems leave
    beside it of their own accord does not count."""
    if (folder / DECLARATION).is_file():
        return folder
    inner = [each for each in folder.iterdir() if not _is_litter(each.name)]
    if len(inner) == 1 and inner[0].is_dir() and (inner[0] / DECLARATION).is_file():
        return inner[0]
    return None


def _is_litter(name: str) -> bool:
    return name.lower() in LITTER or name.startswith("._")


def check_bag(folder: Path, *, allow_fetch: bool = False) -> Bag:
    """Read every file of a bag and compare it with what the bag says."""
    faults: list[BagFault] = []
    version = _declared(folder, faults)
    files = dict(_files(folder, faults))
    manifests = _manifests(folder, files, version, faults)
    payload = _listed(manifests, "", faults)
    tags = _listed(manifests, "tag", faults)
    fetch = _fetch(folder, files, version, allow_fetch, faults=faults)
    if not any(not tag for tag, _ in manifests):
        faults.append(BagFault("bag.manifest", "manifest-sha512.txt", "the bag has no payload manifest"))
    _complete(files, payload, manifests, version, elsewhere={each.path for each in fetch}, faults=faults)
    _compare(folder, files, payload, faults)
    _compare(folder, files, tags, faults)
    info = _info(folder, files, faults)
    data = [path for path in files if path.startswith("data/")]
    size = sum(files[path] for path in data)
    _oxum(info, size, len(data), fetch, faults=faults)
    return Bag(folder=folder, version=version, payload=payload, size=size, info=info, fetch=fetch, faults=tuple(faults))


def _declared(folder: Path, faults: list[BagFault]) -> str:
    lines = list(_lines(folder / "bagit.txt", "bagit.txt", faults))
    first = _VERSION.fullmatch(lines[0]) if lines else None
    second = _ENCODING.fullmatch(lines[1]) if len(lines) > 1 else None
    if not first or not second or len(lines) != 2:
        faults.append(BagFault("bag.declaration", "bagit.txt", "not the two lines of a bag declaration"))
        return VERSIONS[-1]
    if first["version"] not in VERSIONS:
        faults.append(BagFault("bag.version", "bagit.txt", f"BagIt {first['version']} is unknown"))
    if second["encoding"].upper() != "UTF-8":
        faults.append(BagFault("bag.encoding", "bagit.txt", f"tag files in {second['encoding']} are not read"))
    return first["version"]


def _files(folder: Path, faults: list[BagFault]) -> Iterator[tuple[str, int]]:
    """Regular files and their sizes, by path. Whatever else there is, is a fault."""
    if not (folder / "data").is_dir():
        faults.append(BagFault("bag.data", "data", "the bag has no data folder"))
    for place, folders, names in os.walk(folder):
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(place, each)))]:
            path = Path(place, name)
            shown = path.relative_to(folder).as_posix()
            state = path.lstat()
            if stat.S_ISREG(state.st_mode):
                yield shown, state.st_size
            else:
                faults.append(BagFault("bag.special", shown, "only regular files may be in a bag"))


Manifests = dict[tuple[str, str], dict[str, str]]
"""("" or "tag", algorithm) -> path -> digest"""


def _manifests(folder: Path, files: Mapping[str, int], version: str, faults: list[BagFault]) -> Manifests:
    found: Manifests = {}
    on_disk = {unicodedata.normalize("NFC", path): path for path in files}
    for name in sorted(files):
        named = _MANIFEST.fullmatch(name)
        if not named:
            continue
        algorithm = ALGORITHMS.get(named["algorithm"])
        if algorithm is None:
            faults.append(BagFault("bag.algorithm", name, "an algorithm that cannot be checked here"))
            continue
        entries = found.setdefault((named["tag"] or "", algorithm.name), {})
        for line in _lines(folder / name, name, faults):
            entry = _ENTRY.fullmatch(line)
            if not entry or len(entry["digest"]) != algorithm.length:
                faults.append(BagFault("bag.manifest", name, f"not a digest and a path: {line[:80]!r}"))
                continue
            path = _path(entry["path"], version, name, faults)
            # Disks and tools disagree on how an accent is spelt; the file that is meant is beyond doubt.
            path = path if path in files else on_disk.get(unicodedata.normalize("NFC", path), path)
            if path in entries:
                faults.append(BagFault("bag.duplicate", name, f"{path!r} is listed twice"))
            elif path:
                entries[path] = entry["digest"].lower()
    return found


def _path(given: str, version: str, where: str, faults: list[BagFault]) -> str:
    """A path below the bag, by construction; anything else is a fault, and empty."""
    path = given.removeprefix("./")
    if version == "1.0":
        path = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), path)
    if any(part in {"", ".", ".."} for part in path.split("/")) or "\\" in path:
        faults.append(BagFault("bag.path", where, f"{given!r} is not a path below the bag"))
        return ""
    return path


def _listed(manifests: Manifests, tag: str, faults: list[BagFault]) -> dict[str, dict[str, str]]:
    listed: dict[str, dict[str, str]] = {}
    for (kind, algorithm), entries in manifests.items():
        for path, digest in entries.items() if kind == tag else ():
            if not tag and not path.startswith("data/"):
                faults.append(BagFault("bag.path", path, "a payload manifest lists only data/"))
            else:
                listed.setdefault(path, {})[algorithm] = digest
    return listed


def _complete(
    files: Mapping[str, int],
    payload: Mapping[str, Mapping[str, str]],
    manifests: Manifests,
    version: str,
    elsewhere: set[str],
    faults: list[BagFault],
) -> None:
    for path in sorted(set(payload) - set(files) - elsewhere):
        faults.append(BagFault("bag.missing", path, "listed and not there"))
    for path in sorted(path for path in files if path.startswith("data/") and path not in payload):
        faults.append(BagFault("bag.unlisted", path, "in no manifest"))
    algorithms = {algorithm for tag, algorithm in manifests if not tag}
    if version == "1.0":
        for path in sorted(path for path, digests in payload.items() if set(digests) != algorithms):
            faults.append(BagFault("bag.unlisted", path, "not in every payload manifest"))


def _compare(
    folder: Path, files: Mapping[str, int], listed: Mapping[str, Mapping[str, str]], faults: list[BagFault]
) -> None:
    for path, expected in sorted(listed.items()):
        if path not in files:
            if not path.startswith("data/"):
                faults.append(BagFault("bag.missing", path, "listed and not there"))
            continue
        found = digest_file(folder / path, expected)
        for name, digest in expected.items():
            if found[name] != digest:
                faults.append(BagFault("bag.digest", path, f"its {name} is {found[name]}, not {digest}"))


def _fetch(
    folder: Path, files: Mapping[str, int], version: str, allowed: bool, faults: list[BagFault]
) -> tuple[Fetch, ...]:
    if "fetch.txt" not in files:
        return ()
    if not allowed:
        faults.append(BagFault("bag.fetch", "fetch.txt", "a bag with parts elsewhere is not accepted here"))
        return ()
    found = []
    for line in _lines(folder / "fetch.txt", "fetch.txt", faults):
        entry = _FETCH.fullmatch(line)
        path = _path(entry["path"], version, "fetch.txt", faults) if entry else ""
        if not entry or not path.startswith("data/"):
            faults.append(BagFault("bag.fetch", "fetch.txt", f"not a URL, a length and a path: {line[:80]!r}"))
            continue
        length = None if entry["length"] == "-" else int(entry["length"])
        found.append(Fetch(entry["url"], length, path))
    return tuple(found)


def _info(folder: Path, files: Mapping[str, int], faults: list[BagFault]) -> dict[str, tuple[str, ...]]:
    name = next((each for each in ("bag-info.txt", "package-info.txt") if each in files), "")
    found: dict[str, list[str]] = {}
    last = ""
    for line in _lines(folder / name, name, faults) if name else ():
        label, colon, value = line.partition(":")
        if line[:1].isspace() and last:
            found[last][-1] = f"{found[last][-1]} {line.strip()}"
        elif colon and label.strip():
            last = label.strip()
            found.setdefault(last, []).append(value.strip())
        else:
            faults.append(BagFault("bag.info", name, f"not a label and a value: {line[:80]!r}"))
    return {label: tuple(values) for label, values in found.items()}


def _oxum(
    info: Mapping[str, tuple[str, ...]],
    size: int,
    count: int,
    fetch: tuple[Fetch, ...],
    faults: list[BagFault],
) -> None:
    for label, values in info.items():
        if label.lower() == "payload-oxum" and not fetch and values != (f"{size}.{count}",):
            message = f"says {' '.join(values)}, found {size}.{count}"
            faults.append(BagFault("bag.oxum", "bag-info.txt", f"Payload-Oxum {message}"))


def _lines(path: Path, name: str, faults: list[BagFault]) -> Iterator[str]:
    """Lines of a tag file, without their ends; blank ones left out."""
    try:
        with path.open("rb") as file:
            while raw := file.readline(_LINE_MOST + 1):
                if len(raw) > _LINE_MOST:
                    raise BadInput("a line is too long")
                line = raw.decode().rstrip("\r\n")
                if line.strip():
                    yield line
    except (BadInput, UnicodeDecodeError, OSError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        faults.append(BagFault("bag.unreadable", name, f"cannot be read: {reason}"))
