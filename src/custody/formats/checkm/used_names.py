"""Remembers the names a manifest has used, so that no two files land on one place.

Two names clash when they are the same after Unicode composition and case folding (they would be one file
on many disks), or when one needs a folder where the other is a file. Whether they differ in case is said: some
disks tell such names apart. A million names must not cost hundreds of megabytes, so only fingerprints of a name, of
64 bits and of 32 for its spelling, and a line number are kept of each.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

from custody.formats.names import folded, spelling

_SHORT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Clash:
    line: int
    """where the other name is"""
    folder: bool
    """one is a folder of the other, rather than the same name"""
    case: bool = False
    """they are two names that differ only in case"""


class SeenNames:
    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._last_folder = ""
        self._keys = array("Q", [0]) * 1024
        self._lines = array("I", [0]) * 1024
        self._spelt = array("I", [0]) * 1024

    @property
    def full(self) -> bool:
        return self._used >= self._most

    def add(self, name: str, line: int) -> Clash | None:
        """Remember a name, or say which line has it already."""
        spelt, name = spelling(name), folded(name)
        key, short = _fingerprint("file", name), _fingerprint("spelt", spelt)
        if other := self._line_of(key):
            return self._same(key, short, other, line)
        if other := self._line_of(_fingerprint("folder", name)):
            return Clash(other, folder=True)
        if clash := self._folders_of(name, line):
            return clash
        self._keep(key, line, short)
        return None

    def _same(self, key: int, short: int, other: int, line: int) -> Clash:
        """The same name once more, or one that is written with other capitals, which is remembered too."""
        if self._spelt[self._slot(key)] == short & _SHORT:
            return Clash(other, folder=False)
        if again := self._line_of(short):
            return Clash(again, folder=False)
        self._keep(short, line)
        return Clash(other, folder=False, case=True)

    def _folders_of(self, name: str, line: int) -> Clash | None:
        folder, _, _ = name.rpartition("/")
        if folder == self._last_folder:  # manifests list folder by folder: most rows need no look-up
            return None
        ancestor, new = folder, []
        while ancestor and not self._line_of(key := _fingerprint("folder", ancestor)):
            if other := self._line_of(_fingerprint("file", ancestor)):
                return Clash(other, folder=True)
            new.append(key)
            ancestor, _, _ = ancestor.rpartition("/")
        for each in new:
            self._keep(each, line)
        self._last_folder = folder
        return None

    def _slot(self, key: int) -> int:
        mask = len(self._keys) - 1
        slot = key & mask
        while self._keys[slot] not in (0, key):
            slot = (slot + 1) & mask
        return slot

    def _line_of(self, key: int) -> int:
        return self._lines[self._slot(key)]

    def _keep(self, key: int, line: int, short: int = 0) -> None:
        if self._used * 3 >= len(self._keys) * 2:
            self._grow()
        slot = self._slot(key)
        self._keys[slot], self._lines[slot], self._spelt[slot] = key, line, short & _SHORT
        self._used += 1

    def _grow(self) -> None:
        keys, lines, spelt = self._keys, self._lines, self._spelt
        self._keys = array("Q", [0]) * (2 * len(keys))
        self._lines = array("I", [0]) * (2 * len(lines))
        self._spelt = array("I", [0]) * (2 * len(spelt))
        for key, line, short in zip(keys, lines, spelt, strict=True):
            if key:
                slot = self._slot(key)
                self._keys[slot], self._lines[slot], self._spelt[slot] = key, line, short


def _fingerprint(what: str, name: str) -> int:
    digest = hashlib.blake2b(f"{what}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) or 1  # 0 marks a free slot
