"""Jobs and batches as they stand in the tree, many at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.session import Node, Session
from custody.ingest.zookeeper.sidecar import Record, read_record
from custody.ingest.zookeeper.tree import Status
from custody.kernel.model.authority.acting import SYSTEM
from custody.kernel.model.job import Job
from custody.kernel.model.machine import End
from custody.kernel.stores.sql.database import Database

ELSEWHERE: Final = "another service"
PAGE = 200
KEPT = 30_000_000  # a lock is good for as long as it is there: by now it has not ended, that is all there is to tell


@dataclass(frozen=True, slots=True)
class Limits:
    """How full the tree may become. A folder's list must fit into one packet, for services in any language."""

    jobs: int = 30_000  # below /jobs: no new ones are made while there are more
    last: int = 9_900  # beyond that, for what is missing of one batch when all wait for each other
    moves: int = 20_000  # not yet in the history: nothing is claimed while there are more


@dataclass(frozen=True, slots=True)
class Seen:
    """A job or a batch as it was found."""

    name: str
    batch: str  # its own name, for a batch
    status: Status
    version: int  # of the status
    record: Record
    token: int | None  # the version of the record; None where there is none
    facts: Mapping[str, Any]
    kept_back: str | None  # a queue entry that is made with the next piece of the fan-out; None: there are no facts yet
    payload: Mapping[str, Any]
    priority: int
    made: int
    changed: int
    lock: Node | None = None
    open: int = 0  # of a batch: its jobs that have not ended
    taken: bool = True  # of a batch: someone began to make jobs of it
    lists: bool = True  # of a batch: its lists are there
    uuid: str = ""
    session: int = 0  # under which we claimed it

    @property
    def id(self) -> int:
        return tree.id_of(self.name)

    @property
    def is_batch(self) -> bool:
        return tree.is_batch(self.name)

    @property
    def collection(self) -> str:
        return str(self.payload.get("profile", ""))

    @property
    def lane(self) -> str:
        return self.record.lane or self.collection

    @property
    def vanished(self) -> bool:
        """Whoever had it is gone without a word."""
        return self.record.holder is not None and self.lock is None


class Rest:
    """What is not worth a look before some time; and what we move ourselves is worth one at once.

    A look takes a while. If something was moved meanwhile, what the look found may be out of date: so whoever looks
    says at which turn it began, and after a move nothing of that turn is put to rest any more.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()
        self.turn = 0

    def put(self, mark: str, seconds: float, turn: int) -> None:
        with self._lock:
            if turn == self.turn:
                self._until[mark] = time.monotonic() + seconds

    def wake(self, *marks: str) -> None:
        with self._lock:
            self.turn += 1
            for mark in marks:
                self._until.pop(mark, None)

    def is_over(self, mark: str) -> bool:
        return self._until.get(mark, 0.0) <= time.monotonic()


class Recent:
    """Jobs that we moved on ourselves, as they are since: who claims one again need not read it. If anyone has touched
    it meanwhile the claim is refused, and the next look reads it."""

    most = 30_000  # as many as there are jobs in a full tree; each is a few thousand bytes

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def put(self, seen: Seen) -> None:
        self._seen.pop(seen.name, None)
        self._seen[seen.name] = seen
        while len(self._seen) > self.most:
            self._seen.pop(next(iter(self._seen)), None)  # the oldest: others have it now, perhaps

    def take(self, name: str, entry: str = "") -> Seen | None:
        """As we left it; where it was found in a queue, only if that is where we left it."""
        seen = self._seen.get(name)
        if seen is None or (entry and entry != tree.entry(seen.status.state, seen.priority, name)):
            return None
        return self._seen.pop(name, None)


@dataclass(frozen=True, slots=True)
class Listed:
    """The rest of a queue, as it was listed; whoever takes a name from it has it for himself."""

    names: deque[str]
    until: float  # when it has to be listed anew


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree, the database beside it, and what this process has claimed."""

    session: Session
    db: Database
    limits: Limits = field(default_factory=Limits)
    external: frozenset[str] = frozenset()  # states that other services work on
    place: str = ""  # this machine's working disk: what is pinned elsewhere is left alone
    held: dict[int, Seen] = field(default_factory=dict)  # claimed by us, as it was then
    recent: Recent = field(default_factory=Recent)
    rest: Rest = field(default_factory=Rest)
    odd: set[str] = field(default_factory=set)  # found in a queue that is not that of its status
    known: set[str] = field(default_factory=set)  # folders that are there
    glance: dict[str, tuple[int, float, int]] = field(default_factory=dict)  # turn, time, and how long a queue was then
    lists: dict[str, Listed] = field(default_factory=dict)  # queues as they were listed a moment ago
    following: threading.Lock = field(default_factory=threading.Lock)  # two threads would only do the same twice

    def now(self) -> int:
        return self.db.now()

    def has(self, name: str) -> bool:
        """Is it claimed by this process? Whatever was claimed under a session that has ended is nobody's."""
        held = self.held.get(tree.id_of(name))
        return held is not None and held.session == self.session.id

    def drop(self, number: int, token: int | None) -> Seen | None:
        """What was claimed under this token; a newer claim of the same job is none of its business."""
        held = self.held.get(number)
        return self.held.pop(number) if held is not None and held.token == token else None


def read(session: Session, names: Sequence[str], with_locks: bool = True) -> list[Seen | None]:
    """Those that exist and can be read; None for the others."""
    batches = [name for name in names if tree.is_batch(name)]
    jobs = [name for name in names if not tree.is_batch(name)]
    found = {
        **dict(zip(jobs, _read_jobs(session, jobs, with_locks), strict=True)),
        **dict(zip(batches, _read_batches(session, batches), strict=True)),
    }
    return [found[name] for name in names]


def read_one(session: Session, name: str) -> Seen | None:
    return read(session, [name])[0]


def pages(session: Session, names: Iterator[str]) -> Iterator[Seen]:
    """One after the other, in constant memory."""
    while page := list(islice(names, PAGE)):
        yield from (seen for seen in read(session, page) if seen is not None)


def _read_jobs(session: Session, names: Sequence[str], with_locks: bool) -> list[Seen | None]:
    parts = ("status", "configuration", "bid", "priority", *(["lock"] if with_locks else []))
    paths = [
        path
        for name in names
        for path in (tree.ours(name), f"{tree.ours(name)}/facts", *(f"{tree.home(name)}/{part}" for part in parts))
    ]
    nodes = iter(session.get_many(paths))
    return [_job(name, *islice(nodes, len(parts) + 2)) for name in names]


def _job(
    name: str,
    record: Node | None,
    facts: Node | None,
    status_node: Node | None,
    configuration: Node | None,
    bid: Node | None,
    priority: Node | None,
    lock: Node | None = None,
) -> Seen | None:
    status = tree.read_status(status_node.data, of_batch=False) if status_node else None
    if status_node is None or status is None or bid is None:
        return None  # half-made by someone, or gone
    given = tree.read_configuration(configuration.data if configuration else b"")
    number = priority.data.decode() if priority else ""
    told, token, kept, back = _ours(record, facts, status_node)
    return Seen(
        name=name,
        batch=bid.data.decode(),
        status=status,
        version=status_node.version,
        record=told,
        token=token,
        facts=kept,
        kept_back=back,
        payload=given,
        priority=int(number) if number.isdigit() else 99,
        made=status_node.made,
        changed=status_node.changed,
        lock=lock,
    )


def _ours(
    record: Node | None, facts: Node | None, status: Node
) -> tuple[Record, int | None, Mapping[str, Any], str | None]:
    told = read_record(record.data).beside(status.version) if record else Record()
    kept = tree.load(facts.data) if facts else {}
    back = str(kept.get("kept_back", "")) if facts else None
    return told, record.version if record else None, kept.get("facts", {}), back


def _read_batches(session: Session, names: Sequence[str]) -> list[Seen | None]:
    homes = [(tree.home(name), tree.ours(name)) for name in names]
    parts = ("status", "submission", "lock", "states", "states/batch-processing")
    paths = [path for at, us in homes for path in (us, f"{us}/facts", *(f"{at}/{part}" for part in parts))]
    nodes = iter(session.get_many(paths))
    return [_batch(name, *islice(nodes, len(parts) + 2)) for name in names]


def _batch(
    name: str,
    record: Node | None,
    facts: Node | None,
    status_node: Node | None,
    submission: Node | None,
    lock: Node | None,
    states: Node | None,
    working: Node | None,
) -> Seen | None:
    status = tree.read_status(status_node.data, of_batch=True) if status_node else None
    if status_node is None or status is None or submission is None:
        return None
    told, token, kept, back = _ours(record, facts, status_node)
    return Seen(
        name=name,
        batch=name,
        status=status,
        version=status_node.version,
        record=told,
        token=token,
        facts=kept,
        kept_back=back,
        payload=tree.read_submission(submission.data),
        priority=5,
        made=status_node.made,
        changed=status_node.changed,
        lock=lock,
        open=working.children if working else 0,
        taken=states is not None,
        lists=working is not None,
        uuid=str(tree.load(submission.data).get("batchID", "")),
    )


def as_job(seen: Seen, now: int) -> Job:
    """The engine's view of it."""
    machine, record, state = (BATCH if seen.is_batch else JOB), seen.record, seen.status.state
    ended: End | None = "deleted" if state == "deleted" else machine.end(state)
    due = record.due  # until someone claims it
    holder = record.holder or (ELSEWHERE if seen.lock else None)
    code = record.code or (f"{ELSEWHERE.replace(' ', '-')}" if ended == "failed" else None)
    return Job(
        id=seen.id,
        kind=BATCH_KIND if seen.is_batch else JOB_KIND,
        key=record.key,
        state=state,
        runnable=machine.is_working(state),
        ended=ended,
        lane=seen.lane,
        place=record.place,
        collection=seen.collection,
        priority=seen.priority,
        unmet=int(due is not None and due > now),
        due=due,
        payload=seen.payload,
        facts=seen.facts,
        attempts=record.attempts,
        crashes=record.crashes,
        retries=seen.status.retries,
        last_passed=seen.status.last_passed,
        parent=None if seen.is_batch else tree.id_of(seen.batch),
        open=seen.open,
        when_empty="reporting" if seen.is_batch else None,
        line=None,
        task=None,
        position=0,
        supersedes=False,
        token=seen.token or 0,
        seq=seen.version + 1,
        move=record.move,
        holder=holder,
        until=now + KEPT if seen.lock else 0,
        suspect=record.suspect,
        revoked=None,
        code=code,
        created=seen.made,
        changed=seen.changed,
        by=record.by or SYSTEM,  # what another service of the fleet made, the fleet answers for
    )
