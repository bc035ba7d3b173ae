"""The way from a folder of ours to something below it: no link is on it, and where we write nobody else may put one.

A folder that the configuration names is looked at when it is opened (`modes.py`), and that says nothing of what is
below it: somebody could write there once, or may still. So every path below one is looked at part by part. What is
read may be where others can write, and is opened step by step; where we write, each folder on the way is ours.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from custody.border import modes
from custody.border.roots import check_relative
from custody.errors import BadInput, NotFound, Refused, Unsafe

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK = (errno.ELOOP, errno.ENOTDIR)


def link(where: Path | str) -> Refused:
    return Refused(
        "a link is in the way",
        code="place.link",
        where=str(where),
        hint="put the folder or file itself there, and look who could put a link there",
    )


def must_be_plain(top: Path, path: Path) -> None:
    """`Refused` if a link is on the way. What is not there yet is nobody's."""
    for step, about in _way(top, path):
        if stat.S_ISLNK(about.st_mode):
            raise link(step)


def must_be_ours(top: Path, path: Path) -> None:
    """The same before something is written there; `Unsafe` if somebody else may put a link on the way."""
    for step, about in _way(top, path):
        if stat.S_ISLNK(about.st_mode):
            raise link(step)
        if stat.S_ISDIR(about.st_mode) and (trouble := modes.not_ours(step, about)):
            raise Unsafe(trouble[0], code="folder.closed", where=str(step), hint=trouble[1])


def _way(top: Path, path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    if not path.is_relative_to(top) or ".." in path.parts:
        raise BadInput(f"{path} is not below {top}", code="place.path", where=str(top))
    step = top
    for part in path.relative_to(top).parts:
        step /= part
        try:
            yield step, os.lstat(step)
        except (FileNotFoundError, NotADirectoryError):
            return


def opened(top: Path, name: str) -> int:
    """A file below it, opened step by step: whoever swaps a part for a link afterwards changes nothing."""
    check_relative(name, where=str(top))
    try:
        here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = opened_at(here, name)
        finally:
            os.close(here)
    except FileNotFoundError:
        raise NotFound("there is nothing of this name", code="place.missing", where=str(top / name)) from None
    except OSError as error:
        if error.errno in _LINK:
            raise link(top / name) from None
        raise
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    raise Refused("it is no file", code="place.kind", where=str(top / name))


def opened_at(top: int, name: str) -> int:
    """The same from an open folder, as the system says it: `OSError`. Whatever is there is opened but a link."""
    *above, last = name.split("/")
    here = os.dup(top)
    try:
        for part in above:
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return os.open(last, FILE, dir_fd=here)
    finally:
        os.close(here)


def read(top: Path, name: str) -> bytes:
    with open(opened(top, name), "rb") as file:
        return file.read()
