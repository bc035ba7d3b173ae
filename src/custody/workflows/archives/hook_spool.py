"""What hooks have left on disk because nobody listened: notes in a folder of the repository.

Whoever owns the repository can put anything there. The folder and its files are opened from the one above, without
following links, and a note is forgotten in that very folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from custody.workflows.archives.ownership.owned import FOLDER
from custody.workflows.archives.ownership.plain_files import FILE

SPOOL = "custody-spool"
LARGEST = 1 << 20  # of a note: ten thousand branches
MOST = 10_000  # notes at a time
WHOLE = 4 << 20  # bytes of notes at a time; the others are read at the next look


@dataclass(frozen=True, slots=True)
class Note:
    """What a hook wanted to tell: a revision, or (git) old commit, new commit and branch, for each branch."""

    words: tuple[str, ...]
    repository: Path
    name: str

    def forget(self) -> None:
        with suppress(OSError), _spool(self.repository) as here:  # told of again, it is known
            os.unlink(self.name, dir_fd=here)


def spooled(repository: Path) -> list[Note]:
    """Notes that could not be passed on, oldest first. What cannot be read is the server's own business: revisions
    are found by looking."""
    notes: list[tuple[int, Note]] = []
    with suppress(OSError), _spool(repository) as here, os.scandir(here) as entries:
        names = [entry.name for entry in islice(entries, MOST) if not entry.name.endswith(".new")]
        whole = 0
        for name in names:
            if whole > WHOLE:
                break
            with suppress(OSError), open(os.open(name, FILE, dir_fd=here), "rb") as file:  # or passed on just now
                about = os.fstat(file.fileno())
                if stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST:
                    whole += about.st_size
                    words = file.read(LARGEST).decode("utf-8", "surrogateescape").splitlines()
                    notes.append((about.st_mtime_ns, Note(tuple(words), repository, name)))
    return [note for _, note in sorted(notes, key=lambda found: found[0])]


@contextmanager
def _spool(repository: Path) -> Iterator[int]:
    above = os.open(repository, FOLDER)
    try:
        here = os.open(SPOOL, FOLDER, dir_fd=above)
    finally:
        os.close(above)
    try:
        yield here
    finally:
        os.close(here)
