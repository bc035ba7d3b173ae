"""Where a job really is, when another service moved it last: that one writes node by node, and may have died between
two of them. Whoever of us moves or claims the job next knows its places by looking, and puts them right in the same
`multi`; nobody else can be about to, as that takes the job's lock."""

from __future__ import annotations

from collections.abc import Sequence

from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.rows import Seen, Tree

QUEUES = tuple(name for name in tree.QUEUE_NAMES if name != "rejected")


def moved_by_others(seen: Seen) -> bool:
    """Our own moves are never half-done; and a job that nobody has moved yet is where it was made."""
    return not seen.is_batch and seen.version > 0 and seen.record.status != seen.version


def found(at: Tree, jobs: Sequence[Seen]) -> dict[str, frozenset[str]]:
    """All places at which these are, of those that others moved last."""
    foreign = [seen for seen in jobs if moved_by_others(seen)]
    paths = {seen.name: _possible(seen) for seen in foreign}
    looks = iter(at.session.get_many([path for each in paths.values() for path in each])) if paths else iter(())
    return {name: frozenset(path for path in each if next(looks) is not None) for name, each in paths.items()}


def wanted(seen: Seen) -> frozenset[str]:
    return tree.places(seen.name, seen.batch, seen.status.state, seen.priority)


def _possible(seen: Seen) -> list[str]:
    """Any queue, under the priority that it has; and any list of its batch."""
    lists = [f"{tree.home(seen.batch)}/states/{which}/{seen.name}" for which in tree.BATCH_LISTS]
    return [*(tree.entry(queue, seen.priority, seen.name) for queue in QUEUES), *lists]
