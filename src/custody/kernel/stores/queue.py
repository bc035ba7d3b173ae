"""The queue: eight verbs over jobs. Every answer is done, refused, or found out; never assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from custody.errors import BadInput, NotFound, Refused, StateConflict
from custody.kernel.model.authority.acting import PROGRAM, Acting
from custody.kernel.model.home import must_be_at_home
from custody.kernel.model.job import Answer, Change, Claim, Failures, FanOut, Filter, HeldBy, Job, NewJob
from custody.kernel.model.names.job_keys import Asked, IsFree
from custody.kernel.model.why import Reason
from custody.kernel.stores.job_list import page
from custody.kernel.stores.rows import Tx, hold_from, job_from
from custody.kernel.stores.rules import claim as moves
from custody.kernel.stores.rules import graph
from custody.kernel.stores.rules.events import last_move, write_note
from custody.kernel.stores.rules.once import answered, submit_once
from custody.kernel.stores.rules.submit import MICROSECONDS, Submitted
from custody.kernel.stores.sql.database import Database
from custody.kernel.stores.why import why

SCOPES = ("collection", "batch", "kind", "lane")
"""What a hold may name. The first two are told to whoever claims; the others keep everyone from claiming."""


class SqlQueue:
    fan_out = FanOut()

    def __init__(self, db: Database) -> None:
        self._db = db

    # submit

    def submit(self, jobs: Sequence[NewJob], acting: Acting = PROGRAM) -> list[Submitted]:
        """All of them, or none. The same key and payload again give the same job."""
        checked = [job.checked() for job in jobs]
        answer = self._db.submit(checked, self._db.new_move(), acting)
        self._db.bell.ring()
        return answer

    def full(self, batch: int) -> str:
        """A table takes any number of rows."""
        return ""

    def submit_one(self, job: NewJob, acting: Acting = PROGRAM) -> Submitted:
        return self.submit([job], acting)[0]

    def submit_once(self, job: NewJob, acting: Acting, request: Asked | None, is_free: IsFree) -> Submitted:
        """What somebody outside asks for, by the rule of once.py."""
        checked, move = job.asked_for(), self._db.new_move()

        def work(tx: Tx) -> Submitted:
            return submit_once(
                tx, checked, request, is_free, make=lambda: self._db.submit_in(tx, [checked], move, acting)[0]
            )

        if request is None and checked.key is None:
            return self.submit_one(checked, acting)
        made = self._db.write(work)
        self._db.acknowledged([made])
        self._db.bell.ring()
        return made

    def answered(self, request: Asked) -> int:
        """The job that was the answer to the request with this key; 0 when it is new. Refuses another request."""
        return self._db.glance(lambda tx: answered(tx, request))

    # claim

    def ready_queues(self, prefix: str, after: str = "", limit: int = 64) -> list[str]:
        """Queues below a prefix ("kind|state|") that have something ready."""
        return self._db.glance(lambda tx: moves.ready_queues(tx, prefix, after, limit))

    def coming_queues(self, prefix: str, seconds: float, limit: int = 64) -> list[str]:
        """Queues below a prefix in which something becomes ready by itself within so many seconds."""
        given = {"within": int(seconds * MICROSECONDS), "after": prefix, "before": prefix + moves.LAST, "limit": limit}
        return [str(row[0]) for row in self._db.glance(lambda tx: tx.run("coming_queues", **given))]

    def claim(self, queues: Sequence[str], holder: str, seconds: float, limit: int = 1) -> list[Claim]:
        if not queues or limit < 1:
            return []
        return self._db.claim(list(queues), holder, int(seconds * MICROSECONDS), limit, move=self._db.new_move())

    def claim_expired(
        self, serves: Sequence[str], holder: str, seconds: float, place: str | None = None, most: int = 1
    ) -> list[Claim]:
        """Jobs whose holder vanished. With a place, none that is pinned elsewhere."""
        lease, move = int(seconds * MICROSECONDS), self._db.new_move()
        if not self._db.glance(lambda tx: moves.expired(tx, serves, place, limit=1)):
            return []
        return self._db.write(
            lambda tx: moves.claim_expired(tx, serves, place, holder, lease=lease, most=most, move=move)
        )

    def claim_jobs(self, ids: Sequence[int], holder: str, seconds: float) -> list[Claim]:
        """These very jobs, as far as they are ready."""
        lease, move = int(seconds * MICROSECONDS), self._db.new_move()
        return self._db.write(lambda tx: moves.claim_jobs(tx, ids, holder, lease, move=move))

    # renew

    def renew(self, claims: Sequence[Claim], seconds: float) -> dict[int, str]:
        """For each claim that is not simply renewed: "lost", or how it was revoked."""
        _must_be_ours(claims)
        return self._db.renew(list(claims), int(seconds * MICROSECONDS)) if claims else {}

    def release(self, claims: Sequence[Claim]) -> int:
        """Give claims back unworked: no event, no attempt."""
        _must_be_ours(claims)

        def work(tx: Tx) -> int:
            return sum(len(tx.run("release", **moves.fence(claim), holder=claim.holder)) for claim in claims)

        count = self._db.write(work) if claims else 0
        self._db.bell.ring()
        return count

    def suspect(self, claims: Sequence[Claim], mark: int) -> int:
        """Say what is to be thought of them if their leases end without a word (kernel/model/suspicion.py)."""
        _must_be_ours(claims)

        def work(tx: Tx) -> int:
            said = [tx.run("suspect", **moves.fence(claim), holder=claim.holder, suspect=mark) for claim in claims]
            return sum(map(len, said))

        return self._db.write(work) if claims else 0

    # settle

    def settle(self, changes: Sequence[Change]) -> list[Answer]:
        """Each is done or refused by itself; what one brings with it is saved with it."""
        if not changes:
            return []
        answers = self._db.settle(list(changes))
        self._db.bell.ring()
        return answers

    def keep(
        self,
        claim: Claim,
        facts: Mapping[str, Any],
        new: Mapping[str, Any],
        children: Sequence[NewJob],
        agent: str,
    ) -> list[Submitted]:
        """Save facts, and children, at once, under the claim's token."""
        _must_be_ours((claim,))
        move = self._db.new_move()
        made = self._db.write(
            lambda tx: moves.keep(
                tx,
                claim,
                dict(facts),
                dict(new),
                children=children,
                move=move,
                agent=agent,
                submit_in=self._db.submit_in,
            )
        )
        if children:
            self._db.bell.ring()
        return made

    # move

    def move(self, change: Change) -> Answer:
        """An administrator's move of a job that nobody is working on."""
        return self.settle([change])[0]

    def revoke(self, job_id: int, how: str, agent: str, why: str) -> bool:
        """Ask the holder of a leased job to stop. False when nobody holds it."""

        def work(tx: Tx) -> bool:
            rows = tx.run("lock_job", id=job_id)
            return bool(rows) and graph.revoke(tx, job_from(rows[0]), how, agent, why=why) is not None

        return self._db.write(work)

    def supersede(self, line: str, task: str, before: int, by: int) -> int:
        """Make older instances of another task pointless; answers how many still run and were asked to stop."""

        def work(tx: Tx) -> int:
            older = [job_from(row) for row in tx.run("older_instances", line=line, task=task, position=before)]
            for job in older:
                graph.supersede(tx, job, by)
            return sum(job.holder is not None for job in older)

        return self._db.write(work)

    def delete(self, job_id: int, agent: str, why: str, state: str = "") -> bool:
        """Remove a job that nobody is working on, if it is still in this state; its events stay. False when it is not
        there any more."""
        move = self._db.new_move()

        def work(tx: Tx) -> bool:
            rows = tx.run("lock_job", id=job_id)
            if not rows:
                return False
            job = job_from(rows[0])
            if job.holder is not None:
                moves.must(Answer(job_id, False, code="leased", why=f"job {job_id} is being worked on by {job.holder}"))
            if state and job.state != state:
                raise StateConflict(f"job {job_id} is {job.state} by now, not {state}", hint="look again")
            return moves.delete(tx, job, agent, why, move=move)

        deleted = self._db.write(work)
        self._db.bell.ring()
        return deleted

    # get, list, why

    def get(self, job_id: int, move: str = "") -> Job:
        """The job; with the move of its receipt, that very job and no other that was given its number."""
        if move and self.missing([(job_id, move)]):
            raise Refused(
                f"job {job_id} is not the one of this receipt: history went back, and its number may be another's now",
                code="store.went_back",
                hint="submit it again",
            )
        rows = self._db.glance(lambda tx: tx.run("job", id=job_id))
        if not rows:
            raise NotFound(
                f"there is no job {job_id}", code="job.unknown", hint="`custody job list` shows what there is"
            )
        return job_from(rows[0])

    def missing(self, receipts: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Of these receipts (a job's id and the move that made it, or moved it), those that nobody here knows."""

        def look(tx: Tx) -> list[tuple[int, str]]:
            return [
                (job, move) for job, move in receipts if not tx.run("event_of_move", subject=f"job/{job}", move=move)
            ]

        return self._db.read(look)

    def reason(self, job: Job) -> str:
        """Why it failed, as its last event says."""
        last = self._db.read(lambda tx: last_move(tx, job.subject, job.seq))
        return str(last.detail.get("reason", "")) if last else ""

    def failures_before(self, job: Job) -> int:
        """How often it has failed, to be tried again, since it came to its state."""
        rows = self._db.glance(lambda tx: tx.run("failures_before", subject=job.subject))
        return int(rows[0][0])

    def by_key(self, kind: str, key: str) -> Job | None:
        rows = self._db.glance(lambda tx: tx.run("job_by_key", kind=kind, key=key))
        return job_from(rows[0]) if rows else None

    def list(self, where: Filter | None = None, after: int = 0, limit: int = 100) -> Sequence[Job]:
        asked = where or Filter()
        return self._db.read(lambda tx: page(tx, asked, after, limit))

    def every(self, where: Filter | None = None, size: int = 500) -> Iterator[Job]:
        """All that match, a page at a time: constant memory whatever their number."""
        after = 0
        while jobs := self.list(where, after, size):
            yield from jobs
            after = jobs[-1].id

    def why(self, job_id: int, place: str = "") -> Sequence[Reason]:
        return self._db.read(lambda tx: why(tx, job_id, place))

    def counts(self) -> Sequence[tuple[str, str, int]]:
        rows = self._db.read(lambda tx: tx.run("counts"))
        return [(kind, state, count) for kind, state, count in rows]

    def children(self, parent: int) -> Sequence[tuple[str, int]]:
        """How many of a job's children are in which state."""
        rows = self._db.read(lambda tx: tx.run("children_counts", parent=parent))
        return [(state, count) for state, count in rows]

    def failures(self, limit: int = 100) -> Sequence[Failures]:
        """Failed jobs grouped by cause, the largest group first."""
        rows = self._db.read(lambda tx: tx.run("failure_groups", limit=limit))
        return [Failures(*row) for row in rows]

    # time

    def tick(self, limit: int = 500) -> int:
        """Let those whose time has come be claimed; answers how many."""
        if not self._db.glance(lambda tx: tx.run("due_jobs", limit=1)):
            return 0
        count = self._db.write(lambda tx: moves.tick(tx, limit))
        self._db.bell.ring()
        return count

    # holds

    def hold(self, scope: str, name: str, who: str, why: str) -> bool:
        """Pause a collection, a batch, a kind or a lane. False when it was held already."""
        if scope not in SCOPES:
            raise BadInput(f"a {scope} cannot be held", code="hold.scope", hint=f"one of {', '.join(SCOPES)}")

        def work(tx: Tx) -> bool:
            if not tx.run("set_hold", scope=scope, name=name, who=who, why=why):
                return False
            write_note(tx, f"hold/{scope}/{name}", "held", who, detail={"why": why})
            return True

        return self._db.write(work)

    def lift(self, scope: str, name: str, who: str, why: str = "") -> bool:
        def work(tx: Tx) -> bool:
            if not tx.run("lift_hold", scope=scope, name=name):
                return False
            write_note(tx, f"hold/{scope}/{name}", "lifted", who, detail={"why": why})
            return True

        lifted = self._db.write(work)
        self._db.bell.ring()
        return lifted

    def holds(self) -> Sequence[HeldBy]:
        return [hold_from(row) for row in self._db.read(lambda tx: tx.run("holds"))]


def _must_be_ours(claims: Sequence[Claim]) -> None:
    for pid in {claim.pid for claim in claims}:
        must_be_at_home(pid, "claim")
