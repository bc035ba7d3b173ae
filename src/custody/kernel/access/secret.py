"""Secrets of tokens and sessions: how they are made, told from typing errors, and kept: by their digest alone."""

from __future__ import annotations

import hashlib
import secrets
import zlib
from typing import Final

PREFIX: Final = "custody_"


def new_secret() -> str:
    random = secrets.token_urlsafe(32)
    return f"{PREFIX}{random}{_checksum(random)}"


def looks_right(secret: str) -> bool:
    """Refuses typing errors without asking the store."""
    body = secret.removeprefix(PREFIX)
    return secret.startswith(PREFIX) and secret.isascii() and len(body) == 51 and _checksum(body[:-8]) == body[-8:]


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def csrf_of(secret: str) -> str:
    """What a form must bring along: known to the session's own pages only, and worthless elsewhere."""
    return hashlib.sha256(f"form {secret}".encode()).hexdigest()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
