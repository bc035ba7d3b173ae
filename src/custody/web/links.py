"""Signed links: a depositor's page without an account. Whoever has the link may read that one batch, no more."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from custody.model.errors import BadInput
from custody.model.job import Job

LEAST = 32


def signature(secret: bytes, batch: Job) -> str:
    """Over the number and the moment it was made: a store begun anew does not honour old links."""
    text = f"deposit/{batch.id}/{batch.created}".encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:40]


def is_genuine(secret: bytes, batch: Job, given: str) -> bool:
    return given.isascii() and hmac.compare_digest(signature(secret, batch), given)


def link(secret: bytes, batch: Job) -> str:
    return f"/deposit/{batch.id}/{signature(secret, batch)}"


def read_secret(path: Path) -> bytes:
    """The secret of an installation, made at the first start and readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = path.read_bytes().strip()
        if len(kept) < LEAST:
            raise BadInput("this is too short for a secret", code="web.secret", where=str(path)) from None
        return kept
    with os.fdopen(descriptor, "wb") as file:
        made = secrets.token_hex(LEAST).encode()
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    return made
