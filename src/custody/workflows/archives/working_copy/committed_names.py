"""Which names of files may come out of a repository and go into one.

Any bytes are a name in git. But `..` leads out of the working copy, a slash inside a name makes two of one, and `.git`
or `.svn`, however a file system may fold it, is where the tools of whoever checks it out look for what to run.
"""

from __future__ import annotations

import re
import unicodedata

from custody.errors import BadInput, Refused
from custody.formats.names import shown

LONGEST = 255
THEIRS = (".git", ".svn")
_PLAIN = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}\Z")  # nothing can be wrong with these
_SHORT = re.compile(r"(?:git|svn)~\d+\Z")  # how Windows spells it in eight letters
# What the file system of a Mac leaves away when it compares names; git does the same.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def must_be_safe(name: bytes, where: str) -> None:
    """`Refused` if this cannot be one part of a path, or is where tools of a working copy look."""
    if why := _fault(name):
        raise _refused(name, why, where)


def must_be_one_part(name: bytes, where: str) -> None:
    """`Refused` if this cannot be one part of a path."""
    if _leads_elsewhere(name):
        raise _refused(name, "is no name of one file", where)


def _refused(name: bytes, why: str, where: str) -> Refused:
    text = name.decode("utf-8", "surrogateescape")
    return Refused(
        f"the archive has a file whose name '{shown(text)}' {why}",
        code="archive.name",
        where=where,
        hint="commit a revision without it; no working copy is made of this one",
    )


def _leads_elsewhere(name: bytes) -> bool:
    return name in (b"", b".", b"..") or b"/" in name or b"\0" in name or len(name) > LONGEST


def is_safe(name: bytes) -> bool:
    return not _fault(name)


def _fault(name: bytes) -> str:
    if _PLAIN.match(name):
        return ""
    if _leads_elsewhere(name):
        return "is no name of one file"
    return "belongs to the repository itself" if belongs_to_them(name.decode("utf-8", "surrogateescape")) else ""


def must_be_committable(path: str) -> None:
    """`BadInput` if any part of a path is not for committing."""
    for part in path.split("/"):
        if "\n" in part or "\r" in part:
            hint = "give it another name; not every archive can keep this one"
            raise BadInput(f"'{shown(path)}' has a line break in its name", code="commit.path", hint=hint)
        if part in ("", ".", "..") or "\0" in part:
            raise BadInput(f"'{shown(path)}' is no path of a file", code="commit.path")
        if belongs_to_them(part):
            raise BadInput(f"{shown(path)} belongs to the repository itself", code="commit.path")


def belongs_to_them(part: str) -> bool:
    """Whether some file system takes this name for the folder of a version control system."""
    plain = part.partition(":")[0]  # a stream of it, on Windows
    plain = unicodedata.normalize("NFKC", plain.translate(_IGNORED)).casefold().rstrip(". ")
    return plain in THEIRS or bool(_SHORT.match(plain))
