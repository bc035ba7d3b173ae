"""What a job printed, as pages show it: by lines, searchable; and the files of a stored object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border.ocfl_object import current
from custody.border.roots import Roots
from custody.errors import CustodyError
from custody.kernel.model.item import Item
from custody.web.sections import File

PAGE = 500  # lines
CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Lines:
    """A page of a log: numbered lines, and how many there are and match in all of it, not only here."""

    rows: Sequence[tuple[int, str]]
    total: int
    matched: int
    first: int
    more: int | None  # where the next page begins


def lines(data: bytes, first: int, find: str) -> Lines:
    """From a line on; with something to find, only the lines that have it."""
    text = [CONTROL.sub("", line) for line in data.decode("utf-8", "replace").splitlines()]
    wanted = find.casefold()
    matching = [(number, line) for number, line in enumerate(text, start=1) if wanted in line.casefold()]
    shown = [row for row in matching if row[0] >= first][: PAGE + 1]
    return Lines(
        rows=shown[:PAGE],
        total=len(text),
        matched=len(matching) if wanted else 0,
        first=first,
        more=shown[PAGE][0] if len(shown) > PAGE else None,
    )


def stored(item: Item, roots: Roots) -> Sequence[File]:
    """The files of a stored object, by the names the depositor knows, where this process can see them."""
    try:
        folder = roots.source(item.place).path if item.place else None
        if folder is None:
            return []
        return sorted((_stored(name, path) for name, path in current(folder)), key=lambda file: file.name)[:1000]
    except CustodyError:
        return []  # it is not here, or not where it should be: its robots say so


def _stored(name: str, path: Path) -> File:
    return File(name, path.stat().st_size if path.is_file() else 0)
