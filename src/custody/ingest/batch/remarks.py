"""What a depositor is told of an object that was deposited all the same: bags in it that were not taken for the whole,
and folders that are not kept.

A bag that is all of a container is checked, and must be sound (`steps/download.py`). Any other is kept as plain files:
it is checked too, and what is wrong with it is said, also where its declaration got lost; one whose declaration is
misspelt, or that lies in another bag, is not checked by itself, and that is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from custody.formats.bagit import DECLARATION, check_bag, find_bags
from custody.formats.names import folded

FACT = "remarks"
MOST_CHECKED = 100
NAMED = 5
LONGEST = 500


def remarks(producer: Path, names: Sequence[str], whole: Path | None = None) -> list[str]:
    """Of the files of an object, by name; `whole` is the bag that was checked already."""
    return [each[:LONGEST] for each in (*_bags(producer, names, whole), *_empty(producer), *_alike(names))]


def _bags(producer: Path, names: Sequence[str], whole: Path | None) -> Iterator[str]:
    spelt = {str(PurePosixPath(name).parent): name for name in names if PurePosixPath(name).name.lower() == DECLARATION}
    spelt |= {str(PurePosixPath(name).parent): name for name in names if PurePosixPath(name).name == DECLARATION}
    done = [] if whole is None else [PurePosixPath(whole.relative_to(producer).as_posix())]
    left, unsound = list[str](), list[str]()
    for bag in map(PurePosixPath, find_bags(names)):
        declared = spelt.get(str(bag), "")
        is_inside = any(bag.is_relative_to(each) for each in done)
        if bag in done or (is_inside and not declared):  # each of its files is in a manifest already
            continue
        if is_inside or len(done) >= MOST_CHECKED or (declared and PurePosixPath(declared).name != DECLARATION):
            left.append(declared or str(bag))
            continue
        done.append(bag)
        if faults := check_bag(producer / bag).faults:
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            unsound.append(f"{_folder(bag)}: {faults[0]}{more}")
    if unsound:
        yield f"{_counted(unsound, 'bag')} not sound inside, and kept as plain files: {_some(unsound)}"
    if left:
        yield f"{_counted(left, 'bag')} kept inside as plain files and not checked: {_some(left)}"


def _folder(bag: PurePosixPath) -> str:
    return "the folder itself" if str(bag) == "." else str(bag)


def _empty(producer: Path) -> Iterator[str]:
    """An object is its files: a folder without any is nowhere afterwards."""
    empty = [
        Path(place).relative_to(producer).as_posix()
        for place, folders, files in os.walk(producer)
        if not folders and not files and Path(place) != producer
    ]
    if empty:
        yield f"{_counted(empty, 'empty folder')} not kept: {_some(sorted(empty))}"


def alike(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Names that differ only in case: one file, on many disks."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(folded(name), []).append(name)
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


def _alike(names: Sequence[str]) -> Iterator[str]:
    if groups := [" and ".join(group) for group in alike(names)]:
        yield f"names that differ only in case, and are one file on many disks, are kept: {_some(groups)}"


def _counted(found: Sequence[str], what: str) -> str:
    return f"1 {what} was" if len(found) == 1 else f"{len(found)} {what}s were"


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(found[:NAMED]) + more
