"""Whose it is: what one process has claimed is not another's, though a fork copies it."""

from __future__ import annotations

import os

from custody.errors import Refused


def must_be_at_home(pid: int, what: str) -> None:
    """Refuse what was made in another process: it would be a second voice under one token."""
    if pid != os.getpid():
        raise Refused(
            f"this {what} was made in another process ({pid}) and belongs to it",
            code="fork.foreign",
            hint="make one in this process: a store may be opened before a fork, but claims and workers stay behind",
        )
