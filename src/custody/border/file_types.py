"""What lies in a folder that a sandbox has left: only files are kept of it, and the rest is told."""

from __future__ import annotations

import stat
from pathlib import Path


def sort_of(path: Path) -> str:
    """Say what it is, if it is neither a file nor a folder: such are never kept, as they may lead anywhere."""
    return sort(path.lstat().st_mode)


def sort(mode: int) -> str:
    """The same, of a file's mode."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a link" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"
