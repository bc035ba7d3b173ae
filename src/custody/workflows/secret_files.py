"""Files that only the worker may read: secrets of tasks, and who we are to a server."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from custody.errors import NotFound, Unsafe

LARGEST = 64 * 1024


def read_private(path: Path, what: str, code: str) -> bytes:
    """Its content, if it is a file of ours alone. What is wrong is told without a word of what is in it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        hint = f"put it into {path}, readable by the worker only"
        raise NotFound(f"there is no {what} on this machine", code=f"{code}.missing", hint=hint) from None
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            raise Unsafe(f"others can read the {what}", code=f"{code}.open", hint=f"chmod 600 {path}")
        return file.read(LARGEST)
