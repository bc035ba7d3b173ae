"""Leases of blobs on a disk: a file beside each, with who has it and until when. Whoever calls has the blob locked."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from custody.channels.blobs import durable
from custody.channels.blobs.layout import Shelf
from custody.channels.blobs.port import Leased


def check(shelf: Shelf, lease: str, now: Callable[[], float]) -> None:
    """Refuse whoever has not the lease, or none where there is one."""
    if holder(shelf, now) != lease:
        raise Leased("not the current lease" if lease else "the blob is leased", where=shelf.name)


def holder(shelf: Shelf, now: Callable[[], float]) -> str:
    lease = found(shelf)
    return str(lease["id"]) if lease and now() < lease["until"] else ""


def write(shelf: Shelf, lease: str, seconds: int, now: Callable[[], float]) -> str:
    written = json.dumps({"id": lease, "until": now() + seconds, "seconds": seconds})
    durable.replace(shelf.path("lease"), written.encode())
    return lease


def found(shelf: Shelf) -> dict[str, Any]:
    with suppress(FileNotFoundError):
        return dict(json.loads(shelf.path("lease").read_bytes()))
    return {}
