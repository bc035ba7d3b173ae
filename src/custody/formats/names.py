"""Which file names may cross the border, and which two names are one.

A name arrives from a manifest, a container or a URL. It is allowed by what it is made of: parts between
slashes, each of them harmless by itself on the systems an archive is read on. Nothing is repaired or
normalised: a name is kept as it was given, or refused with the reason.

Two names are the same when a file system somewhere would give them one place: equal after Unicode
normalisation and case folding, or one of them a folder of the other.

Opening what a name names is `folder.py`'s business; this module touches no disk.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from custody.errors import BadInput

PART_BYTES = 255
NAME_BYTES = 4096
DEPTH = 64

# Control characters, surrogates, line and paragraph separators. Private-use characters are allowed: a Mac
# writes them into names on foreign disks, and so do medievalists' fonts.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They turn the reading direction, or cannot be seen: what is shown is then not what is stored.
_FORBIDDEN_CHARACTERS = frozenset("\u061c\u200b\u200e\u200f\u2060\ufeff\ufffe\uffff") | {
    chr(code) for span in (range(0x202A, 0x202F), range(0x2066, 0x206A), range(0xFDD0, 0xFDF0)) for code in span
}
_PLAIN = re.compile(r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*(?<!\.)", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICES = frozenset({"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}) | {
    f"{port}{number}" for port in ("COM", "LPT") for number in "0123456789"
}


def safe_parts(name: str, where: str = "") -> tuple[str, ...]:
    """Split a name into its parts, or refuse it. The parts joined with `/` are the name."""
    if len(name) > NAME_BYTES or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        raise _unsafe(name, where, f"is longer than {NAME_BYTES} bytes")
    parts = tuple(name.split("/"))
    if len(parts) > DEPTH:
        raise _unsafe(name, where, f"is more than {DEPTH} folders deep")
    # The shell's home folder; Office's owner files (`~$report.docx`) are ordinary names.
    if name.startswith("~") and not name.startswith("~$"):
        raise _unsafe(name, where, "begins with ~, which a shell reads as a home folder")
    for part in parts:
        fault = _fault(part)
        if fault:
            raise _unsafe(name, where, fault)
    return parts


def folded(name: str) -> str:
    """The form under which two names are compared; never stored, never shown."""
    if name.isascii():
        return name.casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def shown(text: str, at_most: int = 120) -> str:
    """Foreign text for a message: nothing that moves a cursor or turns a line around, and not too long."""
    cut = text if len(text) <= at_most else text[: at_most - 1] + "…"
    return "".join(c if c == " " or (c.isprintable() and not _hidden(c)) else _escaped(c) for c in cut)


class Names:
    """The names of one object or container so far. Each one added must have a place of its own.

    `place` is what a message shall call the name's origin, such as a line number.
    """

    def __init__(self, code: str = "name.duplicate") -> None:
        self._code = code
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def add(self, name: str, place: str = "", where: str = "") -> None:
        """Add a file."""
        key = folded(name)
        if key in self._files:
            raise self._clash(name, self._files[key], place, where, how="is the same name as")
        if key in self._folders:
            raise self._clash(name, self._folders[key], place, where, how="is a file here and a folder in")
        self._add_parents(key, name, place, where)
        self._files[key] = place or name

    def add_folder(self, name: str, place: str = "", where: str = "") -> None:
        """Add a folder; unlike a file, it may come twice."""
        key = folded(name)
        if key in self._files:
            raise self._clash(name, self._files[key], place, where, how="is a folder here and a file in")
        self._add_parents(key, name, place, where)
        self._folders.setdefault(key, place or name)

    def _add_parents(self, key: str, name: str, place: str, where: str) -> None:
        for parent in _parents(key):
            if parent in self._folders:
                return  # and so are all the folders above it
            if parent in self._files:
                raise self._clash(name, self._files[parent], place, where, how="needs a folder where a file is:")
            self._folders[parent] = place or name

    def _clash(self, name: str, other: str, place: str, where: str, how: str) -> BadInput:
        return BadInput(
            f"'{shown(name)}' {how} '{shown(other)}'",
            code=self._code,
            where=where,
            hint="names must differ by more than case or Unicode form",
            name=shown(name),
            places=[shown(place or name), shown(other)],
        )


def _parents(key: str) -> Iterator[str]:
    """The folders of a name, the nearest first."""
    end = key.rfind("/")
    while end > 0:
        yield key[:end]
        end = key.rfind("/", 0, end)


def _fault(part: str) -> str:
    """What is wrong with one part of a name, or nothing."""
    if _PLAIN.fullmatch(part) is None:
        fault = _shape_fault(part) or _character_fault(part) or _disguise_fault(part)
        if fault:
            return fault
    if len(part.encode("utf-8")) > PART_BYTES:
        return f"has a part longer than {PART_BYTES} bytes"
    if _is_device(part):
        return "has a part that is a device on Windows"
    return ""


def _shape_fault(part: str) -> str:
    if part == "":
        return "has an empty part (begins or ends with a slash, or has two together)"
    if part in (".", ".."):
        return f"has the part {part!r}"
    if part[-1] in ". ":
        return "has a part that ends with a dot or a space"
    if _DRIVE.match(part):
        return "has a part that begins like a drive letter"
    return ""


def _character_fault(part: str) -> str:
    if "\\" in part:
        return "has a backslash"
    for character in part:
        if _hidden(character):
            return f"has the character U+{ord(character):04X}"
    return ""


def _disguise_fault(part: str) -> str:
    """Some later reader may decode `%2e` or widen `．`; it must not arrive at another place then."""
    plain = unicodedata.normalize("NFKC", _decoded(part))
    if plain.strip(". ") == "" or "/" in plain or "\\" in plain or "\0" in plain or _DRIVE.match(plain):
        return "would be another name once decoded"
    return ""


def _decoded(part: str) -> str:
    """Percent-decoded until nothing changes; each round is shorter, so this ends."""
    while "%" in part:
        decoded = unquote_to_bytes(part).decode("utf-8", "replace")
        if decoded == part:
            break
        part = decoded
    return part


def _is_device(part: str) -> bool:
    stem = part.partition(".")[0].rstrip(" ")
    if not stem.isascii():
        stem = unicodedata.normalize("NFKC", stem)  # COM¹ is a port, too
    return stem.upper() in _DEVICES


def _hidden(character: str) -> bool:
    if " " <= character <= "~":
        return False
    return character in _FORBIDDEN_CHARACTERS or unicodedata.category(character) in _FORBIDDEN_CATEGORIES


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unsafe(name: str, where: str, fault: str) -> BadInput:
    return BadInput(
        f"the name '{shown(name)}' {fault}",
        code="name.unsafe",
        where=where,
        hint="give a relative path of ordinary names, such as images/page-001.tif",
        name=shown(name),
    )
