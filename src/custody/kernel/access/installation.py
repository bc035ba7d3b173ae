"""The secret of an installation: workers sign with it what others are to believe, and `custody serve` checks it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from custody.errors import BadInput

LEAST = 32


def read_secret(path: Path) -> bytes:
    """The secret of an installation, made at the first start and readable by its owner only."""
    if not path.exists():
        _make_secret(path)
    kept = path.read_bytes().strip()
    if len(kept) < LEAST:
        raise BadInput("this is too short for a secret", code="web.secret", where=str(path))
    return kept


def _make_secret(path: Path) -> None:
    """Whole under its name or not there: of several processes that start at once, one makes it and all read it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(LEAST).encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        pass  # another was quicker: its secret is the one
    finally:
        scratch.unlink()
