"""What people pause, and what the queue knows it by: a storage node is a lane, the queue of ingest its two kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from custody.errors import BadInput
from custody.ingest.config import IngestConfig
from custody.ingest.states import QUEUE, QUEUE_KINDS
from custody.ingest.storage.nodes import lane_of
from custody.opening import Scope


def _of_node(name: str) -> Sequence[tuple[str, str]]:
    return [("lane", lane_of(name))]


def _of_queue(name: str) -> Sequence[tuple[str, str]]:
    if name != QUEUE:
        raise BadInput(
            f"there is no queue {name!r}",
            code="hold.name",
            where="name",
            hint=f"{QUEUE} is one; other work is paused by its kind: custody hold set kind NAME",
        )
    return [("kind", kind) for kind in QUEUE_KINDS]


def _unknown_node(config: IngestConfig | None, home: Path, name: str) -> str:
    """A slip of the pen would pause nothing, and look as if it did."""
    from custody.ingest.world import read_profiles

    folder = home / config.profiles if config else None
    if config is None or folder is None or not folder.is_dir():
        return ""
    nodes = sorted({*config.nodes, *(each.storage.node for each in read_profiles(folder).values())})
    return "" if not nodes or name in nodes else f"no collection is stored there (nodes: {', '.join(nodes)})"


NODE = Scope(_of_node, _unknown_node)
QUEUES = Scope(_of_queue)
