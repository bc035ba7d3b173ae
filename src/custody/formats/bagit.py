"""Recognises and checks BagIt bags (RFC 8493, and its older forms back to 0.93): the one judge of bags, for deposits,
robots and whoever else asks.

A bag brings its own digests, so they are checked: every file against every manifest, nothing missing,
nothing unlisted, the totals as declared. A `fetch.txt` names where files may be had: it is read, nothing is
fetched, and what is not in the bag is missing. Links and special files have no place in a bag.

Written here rather than borrowed: paths must be safe by construction, and a depositor wants every fault,
not the first.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput
from custody.formats.digest_table import ALGORITHMS, digest_file
from custody.formats.tag_files import is_charset, labels_of, lines_of

DECLARATION = "bagit.txt"
LITTER = ("__macosx", ".ds_store", "thumbs.db", "desktop.ini")
"""What macOS and Windows put into folders and containers."""
VERSIONS = ("0.93", "0.94", "0.95", "0.96", "0.97", "1.0")
_VERSION = re.compile(r"BagIt-Version: (?P<version>[0-9]+\.[0-9]+)")
_ENCODING = re.compile(r"Tag-File-Character-Encoding: (?P<encoding>\S+)")
_MANIFEST = re.compile(r"(?P<tag>tag)?manifest-(?P<algorithm>[a-z0-9]+)\.txt")
_ENTRY = re.compile(r"(?P<digest>[0-9A-Fa-f]+)[ \t]+\*?(?P<path>.+)")
_FETCH = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*:\S+)[ \t]+(?P<length>[0-9]+|-)[ \t]+(?P<path>.+)")
_ESCAPED = re.compile("%(0A|0D|25)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BagFault:
    code: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Bag:
    """What a bag says of itself, and what is wrong with it; no faults means that it is complete and valid."""

    version: str = ""
    encoding: str = "UTF-8"
    payload: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """path (`data/…`) -> algorithm -> digest, as the manifests say"""
    size: int = 0
    info: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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


def find_bags(names: Iterable[str]) -> list[str]:
    """The folders among these files that are bags or have all the marks of one, the outermost first: a declaration, in
    any spelling; or, where it got lost, a payload manifest beside `data`. The empty name is the whole."""
    declared, manifests, payloads = set[str](), set[str](), set[str]()
    for name in names:
        folders = name.split("/")
        last = folders.pop()
        where = "/".join(folders)
        if last.lower() == DECLARATION:
            declared.add(where)
        elif (found := _MANIFEST.fullmatch(last)) and not found["tag"]:
            manifests.add(where)
        payloads.update("/".join(folders[:at]) for at, folder in enumerate(folders) if folder == "data")
    return sorted(declared | (manifests & payloads), key=lambda bag: (bag.count("/") + bool(bag), bag))


def check_bag(folder: Path) -> Bag:
    """Read every file of a bag and compare it with what the bag says."""
    faults: list[BagFault] = []
    if not (folder / "data").is_dir():
        faults.append(BagFault("bag.data", "data", "the bag has no data folder"))
    return check_files(dict(_files(folder, faults)), faults)


def check_files(files: Mapping[str, Path], faults: Iterable[BagFault] = ()) -> Bag:
    """The same, of files by their names in the bag, wherever each of them lies."""
    reading = _Reading(files, *_declared(files, told := list(faults)), told)
    manifests = reading.manifests()
    payload = reading.listed(manifests, "")
    reading.complete(payload, manifests, reading.elsewhere())
    reading.compare(payload)
    tags = reading.listed(manifests, "tag")
    for path in sorted(set(tags) - set(files)):
        reading.tell("bag.missing", path, "listed and not there")
    reading.compare(tags)
    size, info = reading.size(), reading.info()
    return Bag(
        version=reading.version, encoding=reading.encoding, payload=payload, size=size, info=info, faults=tuple(told)
    )


def _declared(files: Mapping[str, Path], faults: list[BagFault]) -> tuple[str, str]:
    """Version and encoding; where they cannot be had, those that the rest is read with."""
    lost = VERSIONS[-1], "UTF-8"
    if DECLARATION not in files:
        faults.append(BagFault("bag.declaration", DECLARATION, "missing, so nobody takes it for a bag"))
        return lost
    try:
        lines = list(lines_of(files[DECLARATION], bom=False))
    except BadInput as error:
        faults.append(BagFault("bag.unreadable", DECLARATION, f"cannot be read: {error.message}"))
        return lost
    first = _VERSION.fullmatch(lines[0]) if lines else None
    second = _ENCODING.fullmatch(lines[1]) if len(lines) > 1 else None
    if not first or not second or len(lines) != 2:
        faults.append(BagFault("bag.declaration", DECLARATION, "not the two lines of a bag declaration"))
        return lost
    version, encoding = first["version"], second["encoding"]
    if version not in VERSIONS:
        faults.append(BagFault("bag.version", DECLARATION, f"BagIt {version} is unknown"))
    if not is_charset(encoding):
        faults.append(BagFault("bag.encoding", DECLARATION, f"nobody here reads tag files in {encoding[:40]}"))
        encoding = "UTF-8"
    return version, encoding


def _files(folder: Path, faults: list[BagFault]) -> Iterator[tuple[str, Path]]:
    """Regular files by their names. Whatever else there is, is a fault."""
    for place, folders, names in os.walk(folder):
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(place, each)))]:
            path = Path(place, name)
            shown = path.relative_to(folder).as_posix()
            if stat.S_ISREG(path.lstat().st_mode):
                yield shown, path
            else:
                faults.append(BagFault("bag.special", shown, "only regular files may be in a bag"))


Listed = Mapping[str, Mapping[str, str]]
"""path -> algorithm -> digest"""
Manifests = dict[tuple[str, str], dict[str, str]]
"""("" or "tag", algorithm) -> path -> digest"""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A bag whose declaration was read; what is wrong with the rest is told as it is met."""

    files: Mapping[str, Path]
    version: str
    encoding: str
    faults: list[BagFault]

    def tell(self, code: str, path: str, message: str) -> None:
        self.faults.append(BagFault(code, path, message))

    def lines(self, name: str) -> Iterator[str]:
        try:
            yield from lines_of(self.files[name], self.encoding)
        except BadInput as error:
            self.tell("bag.unreadable", name, f"cannot be read: {error.message}")

    def manifests(self) -> Manifests:
        found: Manifests = {}
        on_disk = {unicodedata.normalize("NFC", path): path for path in self.files}
        for name in sorted(self.files):
            named = _MANIFEST.fullmatch(name)
            if not named:
                continue
            algorithm = ALGORITHMS.get(named["algorithm"])
            if algorithm is None:
                self.tell("bag.algorithm", name, "an algorithm that cannot be checked here")
                continue
            entries = found.setdefault((named["tag"] or "", algorithm.name), {})
            written: dict[str, str] = {}
            for path, digest, line in self._entries(name, algorithm.length, on_disk):
                # Older forms let a file be listed twice, if it is twice the same.
                if path in entries and (self.version == "1.0" or (entries[path], written[path]) != (digest, line)):
                    self.tell("bag.duplicate", name, f"{path!r} is listed twice")
                entries.setdefault(path, digest)
                written[path] = line
        if not any(not tag for tag, _ in found):
            self.tell("bag.manifest", "manifest-sha512.txt", "the bag has no payload manifest")
        return found

    def _entries(self, name: str, length: int, on_disk: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Path, digest, and the path as it is written."""
        for line in self.lines(name):
            entry = _ENTRY.fullmatch(line)
            if line.startswith("#"):  # some writers begin with a word about themselves
                continue
            if not entry or len(entry["digest"]) != length:
                self.tell("bag.manifest", name, f"not a digest and a path: {line[:80]!r}")
            elif path := self._path(entry["path"], name, on_disk):
                yield path, entry["digest"].lower(), entry["path"]

    def _path(self, given: str, where: str, on_disk: Mapping[str, str]) -> str:
        """A path below the bag, by construction; anything else is a fault, and empty."""
        plain = given.removeprefix("./")
        spelt = [_ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain), plain]
        if self.version != "1.0":
            spelt.reverse()
        if any(part in {"", ".", ".."} for each in spelt for part in each.split("/")) or "\\" in plain:
            self.tell("bag.path", where, f"{given!r} is not a path below the bag")
            return ""
        # Disks and tools disagree on how an accent is spelt, and many writers escape nothing, or in forms that do not
        # ask for it; if only one such file is there, it is beyond doubt which is meant.
        there = (on_disk.get(unicodedata.normalize("NFC", each)) for each in spelt)
        return next((each for each in spelt if each in self.files), None) or next(filter(None, there), spelt[0])

    def listed(self, manifests: Manifests, tag: str) -> Listed:
        listed: dict[str, dict[str, str]] = {}
        for (kind, algorithm), entries in manifests.items():
            for path, digest in entries.items() if kind == tag else ():
                if not tag and not path.startswith("data/"):
                    self.tell("bag.path", path, "a payload manifest lists only data/")
                else:
                    listed.setdefault(path, {})[algorithm] = digest
        return listed

    def elsewhere(self) -> Mapping[str, str]:
        """Where the files that are not in the bag may be had, by path."""
        found: dict[str, str] = {}
        on_disk = {unicodedata.normalize("NFC", path): path for path in self.files}
        for line in self.lines("fetch.txt") if "fetch.txt" in self.files else ():
            entry = _FETCH.fullmatch(line)
            path = self._path(entry["path"], "fetch.txt", on_disk) if entry else ""
            if entry and not path:
                continue
            if not entry or not path.startswith("data/"):
                self.tell("bag.fetch", "fetch.txt", f"not a URL, a length and a path below data: {line[:80]!r}")
            elif path not in self.files:
                found[path] = entry["url"]
        return found

    def complete(self, payload: Listed, manifests: Manifests, elsewhere: Mapping[str, str]) -> None:
        for path in sorted((set(payload) | set(elsewhere)) - set(self.files)):
            if url := elsewhere.get(path):
                self.tell("bag.fetch", path, f"not in the bag, only at {url[:200]}: nothing is fetched for a bag here")
            else:
                self.tell("bag.missing", path, "listed and not there")
        for path in sorted(path for path in self.files if path.startswith("data/") and path not in payload):
            self.tell("bag.unlisted", path, "in no manifest")
        algorithms = {algorithm for tag, algorithm in manifests if not tag}
        if self.version == "1.0":
            for path in sorted(path for path, digests in payload.items() if set(digests) != algorithms):
                self.tell("bag.unlisted", path, "not in every payload manifest")

    def compare(self, listed: Listed) -> None:
        for path, expected in sorted(listed.items()):
            found = digest_file(self.files[path], expected) if path in self.files else expected
            for name, digest in expected.items():
                if found[name] != digest:
                    self.tell("bag.digest", path, f"its {name} is {found[name]}, not {digest}")

    def size(self) -> int:
        return sum(path.stat().st_size for name, path in self.files.items() if name.startswith("data/"))

    def info(self) -> Mapping[str, tuple[str, ...]]:
        name = next((each for each in ("bag-info.txt", "package-info.txt") if each in self.files), "")
        found: dict[str, tuple[str, ...]] = {}
        for label, value in labels_of(self.lines(name)) if name else ():
            if label:
                found[label] = (*found.get(label, ()), value)
            else:
                self.tell("bag.info", name, f"not a label and a value: {value[:80]!r}")
        count = sum(path.startswith("data/") for path in self.files)
        for label, values in found.items():
            if label.lower() == "payload-oxum" and values != (total := f"{self.size()}.{count}",):
                self.tell("bag.oxum", name, f"Payload-Oxum says {' '.join(values)}, found {total}")
        return found
