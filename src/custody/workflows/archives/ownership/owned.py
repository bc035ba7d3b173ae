"""Everything of a repository that is looked at for whose it is: the folder, what is read of it, and what is below.

A ref is believed, so each one's owner counts. An object is hashed: of those the folders and the packs count, since
whoever owns them decides which there are. Nothing is followed, and what cannot be looked at is left to the reading.

Whoever may write to a part may change it as its owner may (`writers.py`); and whoever may rename the repository, or a
folder above it, puts another in its place (`above`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from custody.workflows.archives.ownership.writers import NOBODY, covers, writers

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEP = 32  # folders of branches
HOPS = 40  # links on the way to a repository
OLDER_SECONDS = 60.0  # between two looks at what is in the older of numbered folders
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Looked:
    """Which parts of a repository are looked at; and of which folders, what is in them."""

    parts: Sequence[str]
    inside: Sequence[str] = ()  # each after the folder it is in
    below: str = ""  # at any depth
    numbered: Sequence[str] = ()  # folders of numbered folders: into the last at every look, into the others at times


GIT = Looked(
    ("config", "HEAD", "packed-refs", "objects", "refs", "hooks", "custody-spool"),
    ("refs", "objects", "objects/pack", "objects/info", "hooks"),
    below="refs/heads",
)
SVN = Looked(
    ("conf", "db", "hooks", "locks", "format", "custody-spool"),
    ("conf", "hooks", "db", "db/revs", "db/revprops"),
    numbered=("db/revs", "db/revprops"),
)


@dataclass(frozen=True, slots=True)
class Part:
    name: str  # `.` is the repository itself; `..` and so on are the folders above it
    uid: int
    open_to: frozenset[str]  # who besides its owner may write to it: uid:N, gid:N, anyone
    is_theirs: bool = False  # of somebody who may write to the folder that it is in, and so may have put it there


def parts(here: int, looked: Looked) -> Iterator[Part]:
    """All that is looked at, outer ones first."""
    above, members = dict[str, frozenset[str]](), dict[tuple[int, str], bool]()
    for name, about, open_to in _found(here, looked):
        through = above.get(os.path.dirname(name) or ".", NOBODY) if name != "." else NOBODY
        if stat.S_ISDIR(about.st_mode):
            above[name] = through | open_to
        yield Part(name, about.st_uid, open_to, covers(through, about.st_uid, members))


def above(repository: Path) -> Iterator[Part]:
    """The folders on the way to a repository, and who may put another one in the place of what is in them. Where they
    are sticky only owners may; and root may everywhere."""
    place, rest, hops = "/", list(repository.absolute().parts[1:]), HOPS
    real = os.path.realpath(repository)
    while rest:
        with suppress(OSError):  # left to the reading
            about = os.lstat(place)
            open_to = NOBODY if about.st_mode & stat.S_ISVTX else writers(about, place)
            yield Part(os.path.relpath(place, real), about.st_uid, open_to)
        step = os.path.join(place, rest.pop(0))
        if rest and hops and os.path.islink(step):
            hops, target = hops - 1, os.readlink(step)
            place = "/" if os.path.isabs(target) else place
            rest = [part for part in target.split("/") if part] + rest
        else:
            place = os.path.normpath(step)


Found = tuple[str, os.stat_result, frozenset[str]]


def _found(here: int, looked: Looked) -> Iterator[Found]:
    about = os.fstat(here)
    yield ".", about, writers(about, ".", here)
    for name in looked.parts:
        with suppress(OSError):
            about = os.stat(name, dir_fd=here, follow_symlinks=False)
            yield name, about, writers(about, name, here)
    for folder in looked.inside:
        yield from _inside(here, folder)
    if looked.below:
        yield from _below(here, looked.below, DEEP)
    for folder in looked.numbered:
        found = [
            (int(os.path.basename(name)), name, about)
            for name, about, _ in _inside(here, folder)
            if stat.S_ISDIR(about.st_mode) and os.path.basename(name).isdecimal()
        ]
        found.sort(reverse=True)
        for number, (_, name, about) in enumerate(found):
            yield from _older(here, name, about) if number else _inside(here, name)


_known: dict[tuple[int, int, int], tuple[float, list[Found]]] = {}


def _older(here: int, folder: str, about: os.stat_result) -> list[Found]:
    """One for each different owner and right of what is in a folder. Looking at each of a million old revisions takes
    seconds, so a folder in which nothing came or went is looked into once a minute."""
    key, now = (about.st_dev, about.st_ino, about.st_ctime_ns), time.monotonic()
    since, known = _known.get(key, (0.0, []))
    if not since or now - since > OLDER_SECONDS:
        different = {(found[1].st_uid, found[2]): found for found in reversed(_inside(here, folder))}
        known = list(different.values())
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = now, known
    return known


def _below(here: int, folder: str, deep: int) -> Iterator[Found]:
    for found in _inside(here, folder):
        yield found
        if deep and stat.S_ISDIR(found[1].st_mode):
            yield from _below(here, found[0], deep - 1)


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
                    about = entry.stat(follow_symlinks=False)
                    found.append((f"{folder}/{entry.name}", about, writers(about, entry.name, held)))
    except OSError:
        return []  # there is none, or it was removed just now
    finally:
        os.close(held)
    return found
