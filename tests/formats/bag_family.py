"""A family of bags: sound ones of every version, and the same ones damaged in each way that a bag can be.

Made file by file, not with the program that is asked about them afterwards. `bagit-python` is the umpire (`umpire`);
where it is more lenient than the standard, the member says so, with the words of the standard that it passes over.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import bagit

VERSIONS = ("0.93", "0.94", "0.95", "0.96", "0.97", "1.0")
ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
ENCODINGS = ("UTF-8", "utf-8", "ISO-8859-1", "UTF-16", "UTF-16BE", "windows-1252")
PAYLOAD = {"data/hello.txt": b"hello", "data/a folder/b \u00e9.txt": b"bee", "data/empty": b""}


@dataclass
class Made:
    """A bag that is being made; damage is done to it, and its tag manifests are right again afterwards."""

    folder: Path
    version: str = "1.0"
    algorithms: tuple[str, ...] = ("sha256",)
    encoding: str = "UTF-8"

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_bytes(text.encode(self.encoding))

    def add(self, name: str, text: str) -> None:
        path = self.folder / name
        before = path.read_bytes().decode(self.encoding) if path.exists() else ""
        self.write(name, before + text)

    def make(self) -> Made:
        for name, data in PAYLOAD.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(data)
        declaration = f"BagIt-Version: {self.version}\nTag-File-Character-Encoding: {self.encoding}\n"
        (self.folder / "bagit.txt").write_bytes(declaration.encode())
        size = sum(map(len, PAYLOAD.values()))
        self.write(self.info, f"Payload-Oxum: {size}.{len(PAYLOAD)}\nContact-Name: Ad\u00e8le\n")
        for name in self.algorithms:
            self.write(f"manifest-{name}.txt", "".join(self.line(name, path) for path in sorted(PAYLOAD)))
        return self.retag()

    @property
    def info(self) -> str:
        return "package-info.txt" if self.version < "0.96" else "bag-info.txt"

    def line(self, algorithm: str, path: str) -> str:
        return f"{hashlib.new(algorithm, (self.folder / path).read_bytes()).hexdigest()}  {path}\n"

    def retag(self) -> Made:
        for name in self.algorithms:
            tags = [path.name for path in sorted(self.folder.glob("*.txt")) if not path.name.startswith("tagmanifest-")]
            self.write(f"tagmanifest-{name}.txt", "".join(self.line(name, tag) for tag in tags))
        return self


Damage = Callable[[Made], object]


def rewritten(name: str, old: str, new: str) -> Damage:
    def damage(bag: Made) -> None:
        text = (bag.folder / name).read_bytes().decode(bag.encoding)
        assert old in text
        bag.write(name, text.replace(old, new))

    return damage


def declared(text: str) -> Damage:
    return lambda bag: (bag.folder / "bagit.txt").write_bytes(text.encode())


def in_both(one: Damage, other: Damage) -> Damage:
    return lambda bag: (one(bag), other(bag))


HELLO = hashlib.sha256(b"hello").hexdigest()
MANIFEST = "manifest-sha256.txt"
FETCH = "https://archive.example/hello 5 data/hello.txt\n"
TWO = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

SOUND: dict[str, Damage] = {
    "as it is": lambda bag: None,
    "fetch.txt of files that are all there": lambda bag: bag.write("fetch.txt", FETCH),
    "fetch.txt without a length": lambda bag: bag.write("fetch.txt", FETCH.replace(" 5 ", " - ")),
    "no totals": lambda bag: bag.write(bag.info, "Contact-Name: somebody\n"),
    "no bag-info.txt": lambda bag: (bag.folder / bag.info).unlink(),
    "labels twice": lambda bag: bag.add(bag.info, "Contact-Name: another\n"),
    "folded values": lambda bag: bag.add(bag.info, "Note: a\n  b\n\tc\n"),
    "another tag file": lambda bag: bag.write("notes.txt", "any text"),
    "another folder of tags": lambda bag: (bag.folder / "metadata").mkdir() or bag.write("metadata/x.xml", "<x/>"),
    "paths with ./": rewritten(MANIFEST, " data/", " ./data/"),
    "binary marks": rewritten(MANIFEST, "  data/", " *data/"),
    "tabs": rewritten(MANIFEST, "  data/", "\tdata/"),
    "digests in capitals": rewritten(MANIFEST, HELLO, HELLO.upper()),
    "carriage returns": rewritten(MANIFEST, "\n", "\r\n"),
    "blank lines": lambda bag: bag.add(MANIFEST, "\n\n"),
    "a comment": lambda bag: bag.add(MANIFEST, "# made with a program\n"),
    "a byte order mark in a manifest": lambda bag: bag.write(
        MANIFEST, "\ufeff" + (bag.folder / MANIFEST).read_text(encoding=bag.encoding)
    ),
}
UNSOUND: dict[str, Damage] = {
    "a changed byte": lambda bag: (bag.folder / "data/hello.txt").write_bytes(b"hallo"),
    "a file that is gone": lambda bag: (bag.folder / "data/hello.txt").unlink(),
    "an empty file that is gone": lambda bag: (bag.folder / "data/empty").unlink(),
    "a file too many": lambda bag: (bag.folder / "data/more").write_bytes(b""),
    "no payload": lambda bag: shutil.rmtree(bag.folder / "data"),
    "a wrong digest": rewritten(MANIFEST, HELLO, "0" * 64),
    "a digest of the wrong length": rewritten(MANIFEST, HELLO, HELLO[:-1]),
    "other totals": rewritten("bag-info.txt", "Payload-Oxum: 8", "Payload-Oxum: 9"),
    "totals that are none": rewritten("bag-info.txt", "Payload-Oxum: 8.3", "Payload-Oxum: many.3"),
    "no manifest": lambda bag: (bag.folder / MANIFEST).unlink(),
    "a manifest in capitals": lambda bag: (bag.folder / MANIFEST).rename(bag.folder / "manifest-SHA256.txt"),
    "a path upwards": lambda bag: bag.add(MANIFEST, f"{HELLO}  ../hello.txt\n"),
    "an absolute path": lambda bag: bag.add(MANIFEST, f"{HELLO}  /etc/hostname\n"),
    "a home folder": lambda bag: bag.add(MANIFEST, f"{HELLO}  ~/hello.txt\n"),
    "a path upwards in fetch.txt": lambda bag: bag.write("fetch.txt", "https://archive.example/x - ../x\n"),
    "fetch.txt without addresses": lambda bag: bag.write("fetch.txt", "hello - data/hello.txt\n"),
    "fetch.txt of a file that is missing": in_both(
        lambda bag: bag.write("fetch.txt", FETCH), lambda bag: (bag.folder / "data/hello.txt").unlink()
    ),
    "a file listed twice, differently": lambda bag: bag.add(MANIFEST, f"{'0' * 64}  data/hello.txt\n"),
    "a file listed twice, in 1.0": lambda bag: bag.add(MANIFEST, f"{HELLO}  data/hello.txt\n"),
    "a tag manifest that lists what is not there": lambda bag: bag.write(
        "tagmanifest-sha1.txt", f"{'0' * 40}  x.txt\n"
    ),
    "no declaration": lambda bag: (bag.folder / "bagit.txt").unlink(),
    "an empty declaration": declared(""),
    "another declaration": declared("hello: world\n"),
    "no encoding": declared("BagIt-Version: 1.0\nContact: me\n"),
    "no version": declared("Tag-File-Character-Encoding: UTF-8\nContact: me\n"),
    "an unknown version": declared(TWO.replace("1.0", "9.9")),
    "half a version": declared(TWO.replace("1.0", ".97")),
    "an unknown encoding": declared(TWO.replace("UTF-8", "klingon")),
    "a byte order mark in the declaration": declared(f"\ufeff{TWO}"),
    "a manifest that is no text": lambda bag: (bag.folder / MANIFEST).write_bytes(b"\xff\xfe\xff"),
    "no labels": lambda bag: bag.write("bag-info.txt", "hello\n"),
}
LENIENT: dict[str, Damage] = {
    # unsound by the standard, and not by the umpire
    "a version in front of a space": declared(TWO.replace("BagIt-Version: ", "BagIt-Version :")),
    "a third line in the declaration": declared(f"{TWO}Contact: me\n"),
    "a line that is no entry": lambda bag: bag.add(MANIFEST, "hello\n"),
    "a second manifest without all files": lambda bag: bag.write("manifest-sha1.txt", bag.line("sha1", "data/empty")),
    "fetch.txt of a file that nobody lists": lambda bag: bag.write("fetch.txt", "https://archive.example/x - data/x\n"),
    "a link": lambda bag: (bag.folder / "link").symlink_to("/etc/hostname"),
}


def members(folder: Path) -> Iterator[tuple[str, Path, bool]]:
    """Every member, made below the folder: what it is, where, and whether it is sound."""

    numbers = count(1)

    def new(**about: object) -> Made:
        place = folder / f"{next(numbers)}"
        place.mkdir()
        return Made(place, **about).make()  # type: ignore[arg-type]

    for version in VERSIONS:
        for algorithm in ALGORITHMS:
            yield f"{version} {algorithm}", new(version=version, algorithms=(algorithm,)).folder, True
        for encoding in ENCODINGS:
            yield f"{version} in {encoding}", new(version=version, encoding=encoding).folder, True
        yield f"{version}, two manifests", new(version=version, algorithms=("md5", "sha512")).folder, True
        for what, change in SOUND.items():
            bag = new(version=version)
            change(bag)
            yield f"{version}, {what}", bag.retag().folder, True
    for version in ("0.97", "1.0"):
        for what, change in UNSOUND.items():
            bag = new(version=version)
            change(bag)
            keep = what.startswith("a tag manifest")
            folder_ = bag.folder if keep else bag.retag().folder
            yield f"{version}, {what}", folder_, what == "a file listed twice, in 1.0" and version == "0.97"


def lenient(folder: Path) -> Iterator[tuple[str, Path]]:
    for number, (what, change) in enumerate(LENIENT.items()):
        place = folder / f"lenient-{number}"
        place.mkdir()
        bag = Made(place).make()
        change(bag)
        bag.retag()
        yield what, place


def umpire(folder: Path) -> bool:
    """What the Library of Congress's own program says of a bag."""
    try:
        bag = bagit.Bag(str(folder))
        bag.validate()
        bag.validate_fetch()
    except (bagit.BagError, ValueError, UnicodeError):
        return False
    return True
