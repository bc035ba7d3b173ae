"""Making batches and jobs: all nodes of one, by explicit name, in one `multi`, so that no half-made one is ever seen.

The names are those that a sequential create would give next; when another service was quicker, the next ones are
tried. While a batch becomes jobs, the last of each piece is kept out of the queue until the next piece is there: so its
list is never empty, and no service of the fleet can take it for finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

from custody.errors import BadInput, KeyConflict, LeaseLost, Refused, Unavailable
from custody.ingest.states import BATCH_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import OUR_LOCK_VERSION, Check, Create, Op, created
from custody.ingest.zookeeper.client.session import Verdict
from custody.ingest.zookeeper.journal import Entry, Happened, of_birth
from custody.ingest.zookeeper.rows import Seen, Tree, read, read_one
from custody.ingest.zookeeper.sidecar import Record
from custody.ingest.zookeeper.verbs import delete
from custody.ingest.zookeeper.verbs.move import facts_ops, lists_ops
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.model.names.job_keys import named
from custody.kernel.stores.rules.submit import Submitted

TRIES = 50


def submit_batch(at: Tree, new: NewJob, acting: Acting) -> Submitted:
    """One batch. The same key again gives the same one; so does the same submit after a lost answer."""
    uuid = tree.batch_uuid(new.key) if new.key else f"bid-{uuid4()}"
    for _ in range(TRIES):
        earlier = at.session.get(f"{tree.UUIDS}/{uuid}")
        if earlier is not None:
            return _the_earlier(at, new, earlier.data.decode(), uuid)
        name = tree.batch_name(_next(at, tree.BATCHES))
        entry = Entry(at.db.new_move(), [of_birth(tree.id_of(name), new, acting.agent)])
        verdict = at.session.commit([*_batch_ops(at, name, new, uuid, move=entry.move, by=acting.by), entry.op()])
        if verdict.done:
            return Submitted(tree.id_of(name), True)
    raise Unavailable("other services make batches faster than we can", code="tree.names")


def _the_earlier(at: Tree, new: NewJob, name: str, uuid: str) -> Submitted:
    seen = read_one(at.session, name)
    if (
        new.key is None
        or seen is None
        or dict(seen.payload) == tree.read_submission(tree.write_submission(new.payload, uuid))
    ):
        return Submitted(tree.id_of(name), new.key is None)
    raise KeyConflict(
        f"{named(new.key)} was used before, for {name} with another payload",
        hint="a new piece of work needs a new key",
    )


def _batch_ops(at: Tree, name: str, new: NewJob, uuid: str, move: str, by: str) -> list[Op]:
    submission = tree.write_submission(new.payload, uuid)
    if len(submission) > tree.MOST_BYTES:
        raise BadInput(
            "a submission of this size does not fit into a node", code="tree.size", hint="hand in a URL to the list"
        )
    nodes = tree.born_batch(name, new.payload, uuid, at.now())
    return [*created(nodes), *_our_nodes(name, move, by, new.key)]


def _our_nodes(name: str, move: str, by: str, key: str | None = None) -> list[Op]:
    return [Create(tree.ours(name), Record(key=key, move=move, by=by, status=0).write())]


def keep(
    at: Tree, claim: Claim, facts: Mapping[str, Any], new: Mapping[str, Any], children: Sequence[NewJob], agent: str
) -> list[Submitted]:
    """Save facts, and children, at once, under the claim's token."""
    seen = at.held.get(claim.id)
    if seen is None or seen.token != claim.token:
        raise LeaseLost(f"{tree.name_of(claim.id)} was claimed or moved by someone else: nothing was kept")
    jobs = [child for child in children if child.kind != BATCH_KIND]
    if jobs and (full := too_full(at, seen.name, len(jobs))):
        raise full
    move = at.db.new_move()
    for _ in range(TRIES):
        names = _names_for(at, children)
        back = _last_entry(names, children) if jobs else seen.kept_back or ""
        told = {"facts": dict(new)} | ({"children": len(children)} if children else {})
        kept = Happened(
            job=seen.id, type="kept", outcome="none", agent=agent, detail=told, token=claim.token, status=seen.version
        )
        births = [of_birth(tree.id_of(name), child, agent) for name, child in zip(names, children, strict=True)]
        ops = [
            Check(tree.ours(seen.name), claim.token),
            Check(f"{tree.home(seen.name)}/lock", OUR_LOCK_VERSION),
            *facts_ops(seen, facts, new, move, back=back),
            *_children_ops(at, seen, names, children, move=move, by=claim.job.by),
            Entry(move, [kept, *births]).op(),
        ]
        verdict = at.session.commit(ops)
        if _is_kept(at, seen, move, verdict):
            kept_now = replace(seen, facts=dict(facts), kept_back=back)
            at.held[claim.id] = replace(kept_now, lists=True, taken=True) if jobs else kept_now
            return [Submitted(tree.id_of(name), True) for name in names]
    raise Unavailable("other services make jobs faster than we can", code="tree.names")


def _is_kept(at: Tree, seen: Seen, move: str, verdict: Verdict) -> bool:
    """Done; or refused, and then whether to try again with other names; or unknown, and then our mark tells."""
    if verdict.done:
        return True
    if verdict.why == "NodeExistsError" and isinstance(verdict.op, Create):
        return False
    if verdict.answer == "unknown":
        facts = at.session.get(f"{tree.ours(seen.name)}/facts")
        return facts is not None and tree.load(facts.data).get("move") == move
    at.drop(seen.id, seen.token)
    raise LeaseLost(f"{seen.name} was claimed or moved by someone else: nothing was kept")


def _children_ops(
    at: Tree, seen: Seen, names: Sequence[str], children: Sequence[NewJob], move: str, by: str
) -> list[Op]:
    ops: list[Op] = []
    jobs = [(name, child) for name, child in zip(names, children, strict=True) if not tree.is_batch(name)]
    if jobs:
        ops += lists_ops(seen)
        if seen.kept_back:
            ops.append(Create(f"{tree.QUEUES}/pending/{seen.kept_back}"))
    now = at.now()
    for name, child in jobs:
        nodes = tree.born_job(
            name, seen.name, child.payload, seen.uuid, priority=child.priority, now=now, queued=name != jobs[-1][0]
        )
        ops += [*created(nodes), *_our_nodes(name, move, by)]
    for name, child in zip(names, children, strict=True):
        if tree.is_batch(name):
            ops += _batch_ops(at, name, child, tree.batch_uuid(f"{seen.uuid}/{child.key}"), move=move, by=by)
    return ops


def _last_entry(names: Sequence[str], children: Sequence[NewJob]) -> str:
    name, child = [pair for pair in zip(names, children, strict=True) if not tree.is_batch(pair[0])][-1]
    return tree.entry("pending", child.priority, name).rpartition("/")[2]


def _names_for(at: Tree, children: Sequence[NewJob]) -> list[str]:
    if not children:
        return []
    jobs, batches = count(_next(at, tree.JOBS)), count(_next(at, tree.BATCHES))
    return [
        tree.batch_name(next(batches)) if child.kind == BATCH_KIND else tree.job_name(next(jobs)) for child in children
    ]


def _next(at: Tree, folder: str) -> int:
    (found,) = at.session.get_many([folder])
    return found.births if found else 0


def too_full(at: Tree, batch: str, more: int = 1) -> Refused | None:
    """So many, and no more: a list that does not fit into one packet would be the end of every other service."""
    (jobs,) = at.session.get_many([tree.JOBS])
    there = jobs.children if jobs else 0
    if there + more <= at.limits.jobs:
        return None
    if not delete.make_room(at) and there + more <= at.limits.jobs + at.limits.last and _is_the_last_hope(at, batch):
        return None
    return Refused(
        f"there are {there:,} jobs in the tree, and no more than {at.limits.jobs:,} may be",
        code="queue.full",
        hint="it goes on by itself when batches have completed; failed ones must be resumed or deleted",
    )


def _is_the_last_hope(at: Tree, batch: str) -> bool:
    """Several batches are half made into jobs, the tree is full, and none that could end is left to make room: then the
    first of them is made to its end all the same, or all would wait for each other for ever."""
    names = [name for name in at.session.names(tree.BATCHES) if tree.is_batch(name)]
    batches = [seen for seen in read(at.session, names) if seen is not None]
    if any(seen.status.state in ("processing", "reporting", "update-reporting", "completed") for seen in batches):
        return False
    begun = [seen.name for seen in batches if seen.status.state == "pending" and seen.taken]
    return begun[:1] == [batch]
