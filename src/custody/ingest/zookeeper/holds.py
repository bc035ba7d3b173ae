"""Holds on the tree: nodes that exist or not, as the deployed services look for them; who and why stand beside.

The version of `/custody/holds` moves with every hold that is set or lifted through us, and every claim checks it:
once a hold is acknowledged, no claim that was under way slips through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from custody.errors import BadInput, Refused
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Create, Delete, Op, Set
from custody.ingest.zookeeper.client.session import Node, Session
from custody.kernel.model.job import HeldBy

OTHERS = "another service"
QUEUE, WHOLE = "kind", "ingest"
SCOPES = ("collection", "batch", "lane", QUEUE)


@dataclass(frozen=True, slots=True)
class Holds:
    """What is held at one moment."""

    version: int  # of /custody/holds
    all: Mapping[tuple[str, str], HeldBy]

    def on(self, collection: str, batch: int) -> HeldBy | None:
        """Told to whoever claims: a pending job becomes held."""
        return self.all.get(("batch", str(batch))) or self.all.get(("collection", collection))

    def pause(self, kind: str, lane: str) -> HeldBy | None:
        """Nothing is claimed at all."""
        return self.all.get((QUEUE, WHOLE)) or self.all.get((QUEUE, kind)) or self.all.get(("lane", lane))


def read_holds(session: Session) -> Holds:
    top, queue, held = session.get_many([tree.HOLDS, tree.QUEUE_LOCK, tree.COLLECTION_LOCKS])
    if not (top and top.children) and queue is None and not (held and held.children):
        return Holds(top.version if top else 0, {})
    ours, collections = session.names_many([tree.HOLDS, tree.COLLECTION_LOCKS])
    told = session.get_many([f"{tree.HOLDS}/{name}" for name in ours])
    found = {_key(name): _told(name, node) for name, node in zip(ours, told, strict=True) if node}
    if queue is not None and (QUEUE, JOB_KIND) not in found:
        found.setdefault(
            (QUEUE, WHOLE), HeldBy(scope=QUEUE, name=WHOLE, who=OTHERS, why="it paused the queue", since=queue.made)
        )
    for name in map(unquote, collections):
        found.setdefault(
            ("collection", name),
            HeldBy(scope="collection", name=name, who=OTHERS, why="it holds the collection", since=0),
        )
    return Holds(top.version if top else 0, found)


def set_hold(session: Session, scope: str, name: str, who: str, why: str, now: int) -> bool:
    """False when it was held already."""
    scope, name = _normal(scope, name)
    lock = _lock(scope, name)
    ops: list[Op] = [Set(tree.HOLDS, b""), *([Create(lock)] if lock else [])]
    about = tree.dump({"who": who, "why": why, "since": now})
    verdict = session.commit([*ops, Create(_node(scope, name), about)])
    return verdict.done or (verdict.answer == "unknown" and _is_mine(session, scope, name, about))


def lift_hold(session: Session, scope: str, name: str) -> bool:
    """False when it was not held."""
    scope, name = _normal(scope, name)
    paths = [path for path in (_lock(scope, name), _node(scope, name)) if path]
    there = [path for path, node in zip(paths, session.get_many(paths), strict=True) if node]
    if not there:
        return False
    verdict = session.commit([Set(tree.HOLDS, b""), *(Delete(path) for path in there)])
    if verdict.answer == "refused":
        raise Refused(f"the hold on {scope} {name} changed at the same moment", code="hold.changed", hint="try again")
    return True


def in_tree(scope: str, name: str) -> bool:
    """Is this hold about what the tree holds? Other kinds of work are paused in the database."""
    return scope in ("collection", "batch", "lane") or name in (JOB_KIND, BATCH_KIND, WHOLE)


def _normal(scope: str, name: str) -> tuple[str, str]:
    if scope not in SCOPES:
        raise BadInput(f"a {scope} cannot be held", code="hold.scope", hint=f"one of {', '.join(SCOPES)}")
    if scope == "batch":
        return scope, name if name.isdigit() else str(tree.id_of(name))
    return scope, name


def _lock(scope: str, name: str) -> str:
    """What other services look for; they know one queue, and pause batches with it, too."""
    if scope == QUEUE:
        return "" if name == BATCH_KIND else tree.QUEUE_LOCK
    return tree.collection_lock(name) if scope == "collection" else ""


def _node(scope: str, name: str) -> str:
    return f"{tree.HOLDS}/{scope}:{quote(name, safe='')}"


def _key(node: str) -> tuple[str, str]:
    scope, _, name = node.partition(":")
    return scope, unquote(name)


def _told(node: str, found: Node) -> HeldBy:
    scope, name = _key(node)
    about = tree.load(found.data)
    return HeldBy(
        scope=scope,
        name=name,
        who=str(about.get("who", "")),
        why=str(about.get("why", "")),
        since=int(about.get("since", 0)),
    )


def _is_mine(session: Session, scope: str, name: str, about: bytes) -> bool:
    node = session.get(_node(scope, name))
    return node is not None and node.data == about
