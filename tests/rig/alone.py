"""Several processes may share the tests of a run (`-n 3`); a test marked `alone` runs while the others hold still.

For what measures time or memory: a neighbour's test would be measured too. The others hold a lock together, one that
wants to be alone holds it by itself. All pass through a door first, which whoever waits to be alone keeps shut, or the
others would never all be out at once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """One's own turn, in company or alone, among all who name this folder."""
    door = _locked(folder / "door", fcntl.LOCK_EX)
    try:
        room = _locked(folder / "room", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    finally:
        _unlocked(door)
    try:
        yield
    finally:
        _unlocked(room)


def _locked(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, how)
    return descriptor


def _unlocked(descriptor: int) -> None:
    """Give the lock back, also where a process that a test has forked and left behind still has it open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
