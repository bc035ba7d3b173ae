"""Claiming in the tree: one `multi` that takes the deployed lock, raises our token, and checks that nothing changed.

Other services see the lock they know. That they live is ZooKeeper's own judgement, by their session; a job whose
record still names a holder but whose lock is gone was left behind, and is taken over. What is to be thought of it then
is written into the entry of the claim: writing the record would raise the token.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from custody.ingest.states import STEPS
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Check, Create, Delete, Op, Set, lock, unlock
from custody.ingest.zookeeper.follower import follow
from custody.ingest.zookeeper.holds import Holds, read_holds
from custody.ingest.zookeeper.rows import Listed, Seen, Tree, as_job, pages, read, read_one
from custody.ingest.zookeeper.sidecar import Record
from custody.ingest.zookeeper.verbs import move as moving
from custody.ingest.zookeeper.why import blockers, hold_on
from custody.kernel.model.job import Claim
from custody.kernel.model.suspicion import after_death

SOON, LATER = 0.2, 1.0  # seconds before something that cannot be claimed is worth another look
LONG = 30.0
GLANCE = 0.01
RELIED_ON = 10  # times as long as listing a queue took, its list is good for
QUEUES = tuple(STEPS)


def claim(at: Tree, batches: bool, state: str, holder: str, limit: int, move: str) -> list[Claim]:
    """The first that can be claimed, by priority and then by age, as every service of the fleet sorts them."""
    names = _batch_names(at) if batches else _job_entries(at, state)
    first = list(islice(names, limit))
    if not first or not _history_keeps_up(at):
        return []
    holds = read_holds(at.session)
    claims: list[Claim] = []
    while first:
        turn = at.rest.turn
        waiting = _waiting_batches(at, state, first, turn) if batches else _waiting_jobs(at, state, first, turn)
        claims += take(at, [seen for seen in waiting if _is_free(at, seen, holds, turn)], holds, holder, move=move)
        first = list(islice(names, limit - len(claims)))
    return claims


def claim_these(at: Tree, names: Sequence[str], holder: str, move: str) -> list[Claim]:
    """These very ones, as far as they can be claimed, wherever they are pinned to."""
    if not _history_keeps_up(at):
        return []
    holds, now = read_holds(at.session), at.now()
    found = [seen for seen in _or_read(at, names, [at.recent.take(name) for name in names]) if seen is not None]
    free = [seen for seen in found if not blockers(seen, holds, now, seen.record.place, external=at.external)]
    return take(at, free, holds, holder, move=move)


def claim_vanished(at: Tree, serves: Callable[[Seen], bool], holder: str, most: int, move: str) -> list[Claim]:
    """Those whose holder vanished."""
    left = [seen for seen in _left_behind(at) if serves(seen)][:most]
    return take(at, _as_marked(at, left), read_holds(at.session), holder, move=move, vanished=True) if left else []


def _as_marked(at: Tree, left: Sequence[Seen]) -> list[Seen]:
    """With what their holders said last about them."""
    entries = at.session.get_many([tree.held(seen.name, seen.token or 0) for seen in left])
    return [
        replace(seen, record=replace(seen.record, suspect=int(entry.data))) if entry and entry.data else seen
        for seen, entry in zip(left, entries, strict=True)
    ]


def suspect(at: Tree, claims: Sequence[Claim], mark: int) -> int:
    """Into the entry of the claim, which is there as long as it is ours."""
    said = [[Set(tree.held(tree.name_of(claim.id), claim.token), str(mark).encode())] for claim in claims]
    return sum(verdict.done for verdict in at.session.commit_many(said)) if said else 0


def _left_behind(at: Tree) -> list[Seen]:
    under_way = [found for entry in at.session.names(tree.HELD) if (found := _claim_in(entry)) and not at.has(found[0])]
    locks = at.session.get_many([f"{tree.home(name)}/lock" for name, _ in under_way])
    left = [found for found, lock in zip(under_way, locks, strict=True) if lock is None]
    vanished: list[Seen] = []
    for (name, token), seen in zip(left, read(at.session, [name for name, _ in left]), strict=True):
        if seen is None or seen.token != token:
            at.session.commit([Delete(tree.held(name, token))])  # it was settled by another service, or is gone
        elif seen.vanished:
            vanished.append(seen)
    return vanished


def _claim_in(entry: str) -> tuple[str, int] | None:
    name, _, token = entry.rpartition("-")
    return (name, int(token)) if token.isdigit() and name[:3] in ("jid", "bid") else None


def take(at: Tree, wanted: Sequence[Seen], holds: Holds, holder: str, move: str, vanished: bool = False) -> list[Claim]:
    """Ask for all of them at once; those that someone else was quicker with are simply not among the answers."""
    now, turn, session = at.now(), at.rest.turn, at.session.id
    asked = [(seen, _record(seen, holder, now, f"{move}-{seen.name}", vanished=vanished)) for seen in wanted]
    verdicts = at.session.commit_many([_ops(seen, record, holds, vanished) for seen, record in asked])
    claims = []
    for (seen, record), verdict in zip(asked, verdicts, strict=True):
        token = 0 if seen.token is None else seen.token + 1
        if verdict.done or (verdict.answer == "unknown" and _is_ours(at, seen.name, record.move)):
            held = replace(seen, record=record, token=token, session=session)
            at.held[seen.id] = held
            claims.append(Claim(as_job(held, now), token, holder, hold_on(seen, holds)))
        else:
            at.rest.put(_mark(seen.status.state, seen.name), SOON, turn)
    return claims


def _record(seen: Seen, holder: str, now: int, move: str, vanished: bool) -> Record:
    was = seen.record
    if vanished:
        mark, points = after_death(was.suspect)
        was = replace(was, crashes=was.crashes + points, suspect=mark)
    return replace(was, holder=holder, since=now, attempts=was.attempts + 1, due=None, move=move, status=seen.version)


def _ops(seen: Seen, record: Record, holds: Holds, vanished: bool) -> list[Op]:
    at, us = tree.home(seen.name), tree.ours(seen.name)
    return [
        Check(tree.HOLDS, holds.version),
        Check(f"{at}/status", seen.version),
        *lock(at),
        Create(us, record.write()) if seen.token is None else Set(us, record.write(), seen.token),
        *([Delete(tree.held(seen.name, seen.token))] if vanished and seen.token is not None else []),
        Create(tree.held(seen.name, 0 if seen.token is None else seen.token + 1)),
    ]


def _is_ours(at: Tree, name: str, move: str) -> bool:
    """The answer got lost: does its record carry our mark, and is the lock of our session?"""
    found = read_one(at.session, name)
    if found is None or found.lock is None:
        return False
    return found.record.move == move and found.lock.owner == at.session.id


def renew(at: Tree, claims: Sequence[Claim], seconds: float) -> dict[int, str]:
    """Ask whether they are still ours; ZooKeeper's session does the keeping.

    Not patiently: whoever asks has to stop the work in time if there is no answer.
    """
    names = [tree.name_of(claim.id) for claim in claims]
    paths = [*(f"{tree.home(name)}/lock" for name in names), *map(tree.ours, names)]
    nodes = at.session.get_many(paths, patience=seconds / 6)
    locks, records = nodes[: len(names)], nodes[len(names) :]
    session = at.session.id
    lost = {}
    for claim, held, record in zip(claims, locks, records, strict=True):
        if held is None or held.owner != session or record is None or record.version != claim.token:
            lost[claim.id] = "lost"
            at.drop(claim.id, claim.token)
    return lost


def release(at: Tree, claims: Sequence[Claim]) -> int:
    """Give claims back unworked: no event, no attempt."""
    held = [seen for claim in claims if (seen := at.drop(claim.id, claim.token))]
    moves = []
    for seen in held:
        back = replace(seen.record, holder=None, since=0, attempts=seen.record.attempts - 1)
        assert seen.token is not None
        free = [unlock(tree.home(seen.name)), Delete(tree.held(seen.name, seen.token))]
        moves.append([Set(tree.ours(seen.name), back.write(), seen.token), *free])
    count = sum(verdict.done for verdict in at.session.commit_many(moves))
    at.rest.wake(*(_mark(seen.status.state, seen.name) for seen in held))
    return count


# What there is to look at


def is_ready(at: Tree, batches: bool, state: str) -> bool:
    """May there be something to claim? Cheap: how many entries the queue has."""
    if batches:
        return next(_batch_names(at), None) is not None
    return state not in at.external and _length(at, tree.queue_of(state)) > 0


def is_coming(at: Tree, batches: bool, state: str, seconds: float) -> bool:
    """Does something wait for its time alone, which comes within so many seconds? Asked by whoever is about to end."""
    if batches:
        names = [name for name in at.session.names(tree.BATCHES) if tree.is_batch(name)]
    else:
        entries = at.session.names(f"{tree.QUEUES}/{tree.queue_of(state)}") if state not in at.external else []
        names = [job[1] for job in map(tree.job_in, entries) if job]
    holds, now = read_holds(at.session), at.now()
    until = now + int(seconds * 1_000_000)
    waiting = (seen for seen in pages(at.session, iter(names)) if seen.status.state == state and seen.record.due)
    return any(
        now < (seen.record.due or 0) <= until and not blockers(seen, holds, until, at.place, external=at.external)
        for seen in waiting
    )


def _length(at: Tree, queue: str) -> int:
    """How many are in a queue: all queues are asked at once, and what we move ourselves makes us ask again."""
    now, turn = time.monotonic(), at.rest.turn
    seen_at, when, count = at.glance.get(queue, (-1, 0.0, 0))
    if seen_at != turn or now - when > GLANCE:
        looks = at.session.get_many([f"{tree.QUEUES}/{name}" for name in QUEUES])
        found = {name: node.children if node else 0 for name, node in zip(QUEUES, looks, strict=True)}
        at.glance.update({name: (turn, now, length) for name, length in found.items()})
        count = found.get(queue, 0)
    return count


def _waiting_jobs(at: Tree, state: str, entries: Sequence[str], turn: int) -> Iterator[Seen]:
    queue = f"{tree.QUEUES}/{tree.queue_of(state)}"
    names = [entry[3:] for entry in entries]
    left = [at.recent.take(name, f"{queue}/{entry}") for name, entry in zip(names, entries, strict=True)]
    for name, seen in zip(names, _or_read(at, names, left), strict=True):
        if seen is not None and seen.status.state == state:
            yield seen
        else:
            at.rest.put(_mark(state, name), LATER, turn)
            at.odd.add(name)  # half-moved by someone: if it stays so, it is mended


def _or_read(at: Tree, names: Sequence[str], left: Sequence[Seen | None]) -> Iterator[Seen | None]:
    """As we left them, or as they are. Locks are not looked at: whoever of us has a job says so in its record, and
    another service's lock refuses us."""
    unknown = [name for name, seen in zip(names, left, strict=True) if seen is None]
    found = iter(read(at.session, unknown, with_locks=False))
    return (seen or next(found) for seen in left)


def _job_entries(at: Tree, state: str) -> Iterator[str]:
    for entry in _entries(at, f"{tree.QUEUES}/{tree.queue_of(state)}"):
        found = tree.job_in(entry)
        if found and not at.has(found[1]) and at.rest.is_over(_mark(state, found[1])):
            yield entry


def _entries(at: Tree, queue: str) -> Iterator[str]:
    """What is in a queue, in its order. Listing costs as much as the queue is long, however few are wanted of it: so a
    list is used up before it is asked for again, for some time; and whoever comes to its end sees all there is."""
    listed = at.lists.get(queue)
    if listed is not None and time.monotonic() < listed.until:
        while listed.names:
            yield listed.names.popleft()
    begun = time.monotonic()
    names = deque(at.session.names(queue, at.db.bell.ring))
    at.lists[queue] = Listed(names, time.monotonic() + RELIED_ON * (time.monotonic() - begun))
    while names:
        yield names.popleft()


def _batch_names(at: Tree) -> Iterator[str]:
    for name in at.session.names(tree.BATCHES, at.db.bell.ring):
        if tree.is_batch(name) and at.rest.is_over(name):
            yield name


def _waiting_batches(at: Tree, state: str, names: Sequence[str], turn: int) -> Iterator[Seen]:
    """Batches in a state; on the way, those whose last job has ended are moved on to reporting."""
    for seen in filter(None, read(at.session, names)):
        now = moving.promote(at, seen) if seen.status.state == "processing" and not seen.open else seen
        if now.status.state == state:
            yield now
        else:
            at.rest.put(seen.name, _patience(now), turn)


def _patience(seen: Seen) -> float:
    """Batches that have ended stay for weeks: they must not cost a look at every turn."""
    rests = {"completed": LONG, "deleted": LONG, "failed": LATER, "held": LATER, "processing": SOON}
    return rests.get(seen.status.state, 0.0)


def _is_free(at: Tree, seen: Seen, holds: Holds, turn: int) -> bool:
    now = at.now()
    found = blockers(seen, holds, now, at.place, external=at.external)
    if not found:
        return True
    due = seen.record.due
    pause = (due - now) / 1e6 if due and due > now else LATER if found[0].code == "place" else SOON
    at.rest.put(_mark(seen.status.state, seen.name), min(pause, LATER * 5), turn)
    return False


def _mark(state: str, name: str) -> str:
    return name if tree.is_batch(name) else f"{state}/{name}"


def _history_keeps_up(at: Tree) -> bool:
    """While the database is away, moves pile up in the tree: so far, and no further."""
    now = time.monotonic()
    _, when, count = at.glance.get(tree.MOVES, (0, 0.0, 0))
    if now - when > SOON:
        (moves,) = at.session.get_many([tree.MOVES])
        count = moves.children if moves else 0
        at.glance[tree.MOVES] = (0, now, count)
    if count > at.limits.moves:
        follow(at)
    return count <= at.limits.moves
