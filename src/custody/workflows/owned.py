"""Everything of a repository that is looked at for whose it is: the folder, what is read of it, and what is below.

A ref is believed, so each one's owner counts. An object is hashed: of those the folders and the packs count, since
whoever owns them decides which there are. Nothing is followed, and what cannot be looked at is left to the reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEP = 32  # folders of branches


@dataclass(frozen=True, slots=True)
class Looked:
    """Which parts of a repository are looked at; and of which folders, what is in them."""

    parts: Sequence[str]
    inside: Sequence[str] = ()  # each after the folder it is in
    below: str = ""  # at any depth
    newest: Sequence[str] = ()  # folders of numbered folders, of which the last is looked into


GIT = Looked(
    ("config", "HEAD", "packed-refs", "objects", "refs", "hooks"),
    ("refs", "objects", "objects/pack", "objects/info"),
    below="refs/heads",
)
SVN = Looked(
    ("conf", "db", "hooks", "locks", "format"), ("db", "db/revs", "db/revprops"), newest=("db/revs", "db/revprops")
)


@dataclass(frozen=True, slots=True)
class Part:
    name: str  # `.` is the repository itself
    uid: int
    open_to: str  # who besides its owner may write to it: gid:N, anyone; empty: nobody
    through: str  # who may write to a folder of ours above it, and so may have put it there


def parts(here: int, looked: Looked) -> Iterator[Part]:
    """All that is looked at, outer ones first."""
    me, above = os.geteuid(), dict[str, str]()
    for name, about in _found(here, looked):
        through = above.get(os.path.dirname(name) or ".", "") if name != "." else ""
        open_to = _open_to(about)
        if stat.S_ISDIR(about.st_mode):
            above[name] = through or (open_to if about.st_uid == me else "")
        yield Part(name, about.st_uid, open_to, through)


Found = tuple[str, os.stat_result]


def _found(here: int, looked: Looked) -> Iterator[Found]:
    yield ".", os.fstat(here)
    for name in looked.parts:
        with suppress(OSError):
            yield name, os.stat(name, dir_fd=here, follow_symlinks=False)
    for folder in looked.inside:
        yield from _inside(here, folder)
    if looked.below:
        yield from _below(here, looked.below, DEEP)
    for folder in looked.newest:
        numbers = [name for name, about in _inside(here, folder) if stat.S_ISDIR(about.st_mode)]
        numbers = [name for name in numbers if os.path.basename(name).isdecimal()]
        if numbers:
            yield from _inside(here, max(numbers, key=lambda name: int(os.path.basename(name))))


def _below(here: int, folder: str, deep: int) -> Iterator[Found]:
    for name, about in _inside(here, folder):
        yield name, about
        if deep and stat.S_ISDIR(about.st_mode):
            yield from _below(here, name, deep - 1)


def _open_to(about: os.stat_result) -> str:
    if stat.S_ISLNK(about.st_mode):
        return ""  # it says so of every link, and nobody writes to one
    if about.st_mode & stat.S_IWOTH:
        return "anyone"
    return f"gid:{about.st_gid}" if about.st_mode & stat.S_IWGRP else ""


def _inside(here: int, folder: str) -> list[Found]:
    """What is in a folder, none of whose ways there is a link."""
    held, found = os.dup(here), list[Found]()
    try:
        for step in folder.split("/"):
            below = os.open(step, FOLDER, dir_fd=held)
            os.close(held)
            held = below
        with os.scandir(held) as entries:
            for entry in entries:
                with suppress(OSError):
                    found.append((f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)))
    except OSError:
        return []  # there is none, or it was removed just now
    finally:
        os.close(held)
    return found
