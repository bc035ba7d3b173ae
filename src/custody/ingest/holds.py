"""What people pause, and what the queue knows it by: a storage node is a lane, the queue of ingest its two kinds."""

from __future__ import annotations

from collections.abc import Sequence

from custody.errors import BadInput
from custody.ingest.states import QUEUE, QUEUE_KINDS
from custody.ingest.storage.nodes import lane_of

SCOPES = ("node", "queue")
"""Besides those that every queue has."""


def known_as(scope: str, name: str) -> Sequence[tuple[str, str]]:
    """Every hold that pauses it."""
    if scope == "node":
        return [("lane", lane_of(name))]
    if scope != "queue":
        return [(scope, name)]
    if name != QUEUE:
        raise BadInput(
            f"there is no queue {name!r}",
            code="hold.name",
            where="name",
            hint=f"{QUEUE} is one; other work is paused by its kind: custody hold set kind NAME",
        )
    return [("kind", kind) for kind in QUEUE_KINDS]
