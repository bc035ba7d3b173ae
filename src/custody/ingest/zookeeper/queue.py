"""The queue on ZooKeeper: ingest's batches and jobs are in the tree, and every other kind of work in the database.

The same verbs as the queue on SQL; no step can tell them apart. What is claimed here is locked for every service of the
fleet; what is moved here is one `multi`, and its event reaches the history exactly once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from custody.errors import NotFound, Unavailable
from custody.ingest.states import BATCH_KIND, JOB, JOB_KIND
from custody.ingest.zookeeper import holds as holding
from custody.ingest.zookeeper import repair, tree
from custody.ingest.zookeeper.follower import follow
from custody.ingest.zookeeper.lists import KINDS, TreeView
from custody.ingest.zookeeper.rows import Seen, Tree, as_job, read_one
from custody.ingest.zookeeper.verbs import claim as claiming
from custody.ingest.zookeeper.verbs import create
from custody.ingest.zookeeper.verbs import delete as removing
from custody.ingest.zookeeper.verbs import move as moving
from custody.ingest.zookeeper.why import why as why_in_tree
from custody.kernel.model.authority.acting import PROGRAM, Acting
from custody.kernel.model.job import Answer, Change, Claim, Failures, FanOut, Filter, HeldBy, Job, NewJob
from custody.kernel.model.names.job_keys import Asked, IsFree
from custody.kernel.model.why import Reason
from custody.kernel.stores.queue import SqlQueue
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.rules.submit import Submitted

FOLLOW_SECONDS, MEND_SECONDS = 1.0, 30.0


class TreeQueue:
    fan_out = FanOut(at_once=100, most=10_000)

    def __init__(self, at: Tree, sql: SqlQueue) -> None:
        self._at, self._sql, self.view = at, sql, TreeView(at)
        self._next_follow = self._next_mend = time.monotonic()
        self._news = False
        self._suspected: list[repair.Orphan] = []
        self.mend_seconds = MEND_SECONDS

    # submit

    def submit(self, jobs: Sequence[NewJob], acting: Acting = PROGRAM) -> list[Submitted]:
        """Batches into the tree, one `multi` each; other kinds of work into the database, together."""
        checked = [job.checked() for job in jobs]
        others = iter(self._sql.submit([job for job in checked if job.kind not in KINDS], acting))
        made = [self._submit(job, acting) if job.kind in KINDS else next(others) for job in checked]
        self._follow()
        self._at.db.bell.ring()
        return made

    def _submit(self, job: NewJob, acting: Acting) -> Submitted:
        if job.kind == JOB_KIND:
            raise NotFound("a job of ingest is made by its batch", code="tree.job", hint="submit a batch")
        return create.submit_batch(self._at, job, acting)

    def submit_one(self, job: NewJob, acting: Acting = PROGRAM) -> Submitted:
        return self.submit([job], acting)[0]

    def submit_once(self, job: NewJob, acting: Acting, request: Asked | None, is_free: IsFree) -> Submitted:
        """What is asked for in this way is never a deposit: those have keys of their own
        (ingest/submission/idempotency.py)."""
        return self._sql.submit_once(job, acting, request, is_free)

    def answered(self, request: Asked) -> int:
        return self._sql.answered(request)

    def full(self, batch: int) -> str:
        return str(create.too_full(self._at, tree.name_of(batch)) or "")

    # claim

    def ready_queues(self, prefix: str, after: str = "", limit: int = 64) -> list[str]:
        kind, _, state = prefix.strip("|").partition("|")
        if kind not in KINDS:
            if self._news:  # what came of it may be what is looked for
                self._follow()
            return self._sql.ready_queues(prefix, after, limit)
        queue = f"{kind}|{state}||"
        return [queue] if queue > after and claiming.is_ready(self._at, kind == BATCH_KIND, state) else []

    def coming_queues(self, prefix: str, seconds: float, limit: int = 64) -> list[str]:
        kind, _, state = prefix.strip("|").partition("|")
        if kind not in KINDS:
            return self._sql.coming_queues(prefix, seconds, limit)
        return [f"{kind}|{state}||"] if claiming.is_coming(self._at, kind == BATCH_KIND, state, seconds) else []

    def claim(self, queues: Sequence[str], holder: str, seconds: float, limit: int = 1, place: str = "") -> list[Claim]:
        mine = [queue for queue in queues if queue.partition("|")[0] in KINDS]
        claims = self._sql.claim([queue for queue in queues if queue not in mine], holder, seconds, limit)
        for queue in mine:
            kind, state, _, _ = queue.split("|", 3)
            left, move = limit - len(claims), self._at.db.new_move()
            if left > 0:
                claims += claiming.claim(self._at, kind == BATCH_KIND, state, holder, limit=left, move=move)
        return claims

    def claim_expired(
        self, serves: Sequence[str], holder: str, seconds: float, place: str | None = None, most: int = 1
    ) -> list[Claim]:
        """Jobs whose holder vanished."""
        mine = tuple(prefix for prefix in serves if prefix.partition("|")[0] in KINDS)
        others = [prefix for prefix in serves if prefix not in mine]
        found = self._sql.claim_expired(others, holder, seconds, place, most=most) if others else []
        if found or not mine:
            return found

        def is_served(seen: Seen) -> bool:
            kind = BATCH_KIND if seen.is_batch else JOB_KIND
            here = place is None or seen.record.place in ("", place)
            return here and f"{kind}|{seen.status.state}|{seen.record.place}|".startswith(mine)

        return claiming.claim_vanished(self._at, is_served, holder, most, move=self._at.db.new_move())

    def claim_jobs(self, ids: Sequence[int], holder: str, seconds: float) -> list[Claim]:
        """These very jobs, as far as they are ready."""
        names = [tree.name_of(number) for number in ids if tree.in_tree(number)]
        claims = self._sql.claim_jobs([number for number in ids if not tree.in_tree(number)], holder, seconds)
        return claims + claiming.claim_these(self._at, names, holder, self._at.db.new_move())

    # renew

    def renew(self, claims: Sequence[Claim], seconds: float) -> dict[int, str]:
        mine = [claim for claim in claims if tree.in_tree(claim.id)]
        answers = self._sql.renew([claim for claim in claims if not tree.in_tree(claim.id)], seconds)
        return answers | (claiming.renew(self._at, mine, seconds) if mine else {})

    def release(self, claims: Sequence[Claim]) -> int:
        mine = [claim for claim in claims if tree.in_tree(claim.id)]
        count = self._sql.release([claim for claim in claims if not tree.in_tree(claim.id)])
        return count + claiming.release(self._at, mine)

    # settle

    def suspect(self, claims: Sequence[Claim], mark: int) -> int:
        """Say what is to be thought of them if their leases end without a word; how many are ours."""
        mine = [claim for claim in claims if tree.in_tree(claim.id)]
        count = self._sql.suspect([claim for claim in claims if not tree.in_tree(claim.id)], mark)
        return count + claiming.suspect(self._at, mine, mark)

    def settle(self, changes: Sequence[Change]) -> list[Answer]:
        """Each is done or refused by itself; what one brings with it is saved with it."""
        mine = [change for change in changes if tree.in_tree(change.id)]
        answers = {a.id: a for a in self._sql.settle([change for change in changes if not tree.in_tree(change.id)])}
        if mine:
            answers |= {answer.id: answer for answer in moving.settle(self._at, mine)}
            self._news = True  # followed with the next look for work, together with what else was settled by then
            self._at.db.bell.ring()
        return [answers[change.id] for change in changes]

    def keep(
        self,
        claim: Claim,
        facts: Mapping[str, Any],
        new: Mapping[str, Any],
        children: Sequence[NewJob],
        agent: str,
    ) -> list[Submitted]:
        """Save facts, and children, at once, under the claim's token."""
        if not tree.in_tree(claim.id):
            return self._sql.keep(claim, facts, new, children, agent=agent)
        made = create.keep(self._at, claim, facts, new, children=children, agent=agent)
        if children:
            self._at.rest.wake()
            self._at.db.bell.ring()
        return made

    def _follow(self) -> None:
        """Into the history at once, if the database is there; otherwise whoever follows next does it."""
        self._news = False
        try:
            follow(self._at)
        except Unavailable:
            pass

    # move

    def move(self, change: Change) -> Answer:
        """An administrator's move of a job that nobody is working on."""
        answer = self.settle([change])[0]
        self._follow()
        return answer

    def revoke(self, job_id: int, how: str, agent: str, why: str) -> bool:
        """Ask the holder to stop. Nothing in the tree can be cancelled: its tables have no such move."""
        return not tree.in_tree(job_id) and self._sql.revoke(job_id, how, agent, why)

    def supersede(self, line: str, task: str, before: int, by: int) -> int:
        return self._sql.supersede(line, task, before, by)

    def delete(self, job_id: int, agent: str, why: str, state: str = "") -> bool:
        if not tree.in_tree(job_id):
            return self._sql.delete(job_id, agent, why, state)
        name = tree.name_of(job_id)
        deleted = removing.delete(self._at, name, agent, why, state=state)
        seen = read_one(self._at.session, name)
        moving.promote_emptied(self._at, {seen.batch} if seen else set())
        self._follow()
        self._at.db.bell.ring()
        return deleted

    # get, list, why

    def get(self, job_id: int) -> Job:
        if not tree.in_tree(job_id):
            return self._sql.get(job_id)
        seen = read_one(self._at.session, tree.name_of(job_id))
        if seen is None:
            raise NotFound(
                f"there is no {tree.name_of(job_id)}", code="job.unknown", hint="`custody job list` shows what there is"
            )
        return as_job(seen, self._at.now())

    def failures_before(self, job: Job) -> int:
        """As its history says. What the follower has not written yet is one try more."""
        return self._sql.failures_before(job)

    def reason(self, job: Job) -> str:
        """Why it failed, in the words of whoever worked on it."""
        if not tree.in_tree(job.id):
            return self._sql.reason(job)
        seen = read_one(self._at.session, tree.name_of(job.id))
        return seen.status.message if seen else ""

    def by_key(self, kind: str, key: str) -> Job | None:
        if kind != BATCH_KIND:
            return self._sql.by_key(kind, key)
        node = self._at.session.get(f"{tree.UUIDS}/{tree.batch_uuid(key)}")
        return self.get(tree.id_of(node.data.decode())) if node else None

    def list(self, where: Filter | None = None, after: int = 0, limit: int = 100) -> Sequence[Job]:
        return list(islice(self._all(where or Filter(), after), limit))

    def every(self, where: Filter | None = None, size: int = 500) -> Iterator[Job]:
        """All that match, a page at a time."""
        return self._all(where or Filter(), 0)

    def _all(self, where: Filter, after: int) -> Iterator[Job]:
        """First what is in the database, then batches, then jobs: the order of their numbers."""
        if where.kind not in KINDS and not tree.in_tree(where.parent):
            while page := self._sql.list(where, after, 500):
                yield from page
                after = page[-1].id
        yield from self.view.every(where, after)

    def why(self, job_id: int, place: str = "") -> Sequence[Reason]:
        if not tree.in_tree(job_id):
            return self._sql.why(job_id, place)
        return why_in_tree(self._at, tree.name_of(job_id), place)

    def counts(self) -> Sequence[tuple[str, str, int]]:
        states = [state for state in (*JOB.states(), "deleted") if state != "rejected"]
        looks = self._at.session.get_many([f"{tree.QUEUES}/{state}" for state in states])
        jobs = [
            (JOB_KIND, state, node.children)
            for state, node in zip(states, looks, strict=True)
            if node and node.children
        ]
        batches = Counter(job.state for job in self.every(Filter(kind=BATCH_KIND)))
        return [*self._sql.counts(), *((BATCH_KIND, state, count) for state, count in batches.items()), *jobs]

    def children(self, parent: int) -> Sequence[tuple[str, int]]:
        """How many of a batch's jobs are in which state."""
        if not tree.in_tree(parent):
            return self._sql.children(parent)
        return sorted(Counter(job.state for job in self.every(Filter(parent=parent))).items())

    def failures(self, limit: int = 100) -> Sequence[Failures]:
        """Failed jobs grouped by cause, the largest group first."""
        groups: dict[tuple[str, str, str | None], list[Job]] = {}
        for job in self.view.every(Filter(ended="failed")):
            groups.setdefault((job.kind, job.state, job.code), []).append(job)
        mine = [
            Failures(*group, len(jobs), jobs[0].id, jobs[-1].id, max(job.changed for job in jobs))
            for group, jobs in groups.items()
        ]
        return sorted([*self._sql.failures(limit), *mine], key=lambda group: -group.count)[:limit]

    # time

    def tick(self, limit: int = 500) -> int:
        """In the tree nothing has to be done when a time comes: a claim compares it. But others may need help."""
        self._tend()
        return self._sql.tick(limit)

    def _tend(self) -> None:
        """Now and then: what a killed process left for the history, and what other services left half-done."""
        now = time.monotonic()
        if now >= self._next_follow:
            self._next_follow = now + FOLLOW_SECONDS
            self._follow()
        if now >= self._next_mend:
            self._next_mend = now + self.mend_seconds
            odd, external = set(self._at.odd), self._at.external
            self._at.odd.clear()
            found = repair.find(self._at.session, closely=False, also=odd, queues=external)
            found = [orphan for orphan in found if orphan.code in repair.HARMLESS]
            repair.mend(self._at.session, [orphan for orphan in found if orphan in self._suspected])
            self._suspected = found
            self._at.rest.wake(*(f"{state}/{name}" for name in odd for state in JOB.working))

    # holds

    def hold(self, scope: str, name: str, who: str, why: str) -> bool:
        """Pause a collection, a batch, the queue of ingest or a lane. False when it was held already."""
        if not holding.in_tree(scope, name):
            return self._sql.hold(scope, name, who, why)
        new = holding.set_hold(self._at.session, scope, name, who, why=why, now=self._at.now())
        if new:
            self._at.db.write(lambda tx: write_note(tx, f"hold/{scope}/{name}", "held", who, detail={"why": why}))
        return new

    def lift(self, scope: str, name: str, who: str, why: str = "") -> bool:
        if not holding.in_tree(scope, name):
            return self._sql.lift(scope, name, who, why)
        lifted = holding.lift_hold(self._at.session, scope, name)
        if lifted:
            self._at.db.write(lambda tx: write_note(tx, f"hold/{scope}/{name}", "lifted", who, detail={"why": why}))
        self._at.db.bell.ring()
        return lifted

    def holds(self) -> Sequence[HeldBy]:
        return [*self._sql.holds(), *holding.read_holds(self._at.session).all.values()]
