"""Everything that can be done to a queue, in any order, to a store and to the model at once.

After every step the two must agree about every job; at the end every job must say why it waits, and every value
that is derived from others must be what a recount gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from custody.errors import Refused
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Claim, NewJob, Onward
from custody.kernel.model.suspicion import ALONE, CLEAN, NEAR, ONLY
from custody.kernel.stores import Store
from custody.kernel.stores.fsck import recount
from kernel.stores.acts import BATCH, PARCEL, moved, queue_of, take, worked
from kernel.stores.clock import HandClock
from stateful.model import Queue, Row, seen, stored

SECONDS = 30.0
MOST = 8  # jobs at a time: few enough to meet each other often
ADMIN = {
    "queued": ("hold", "cancel"),
    "held": ("release", "cancel"),
    "failed": ("resume", "accept"),
    "cancelled": ("resume", "accept"),
    "skipped": ("resume",),
}
ENDS = {"pass": "passed", "fail": "failed", "cancel": "cancelled", "supersede": "superseded"}

index = st.integers(0, MOST)
recent = st.integers(0, 2)
wants = st.sampled_from(("success", "finished", "failure", "passable"))
otherwise = st.sampled_from(("wait", "skip"))
needs = st.lists(st.tuples(index, wants, otherwise), max_size=2)


class Comparison(RuleBasedStateMachine):
    """`fresh` gives an empty store with its clock, and takes it back."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.store = self.fresh(self.clock)
        self.model = Queue(self.clock.now())
        self.claims: list[Claim] = []
        self.changes: list[tuple[Change, Answer]] = []  # what was settled, and what was answered
        self.holders = 0

    def fresh(self, clock: HandClock) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        assert recount(self.store) == []
        for job in self.model.rows:
            assert self.store.queue.why(job), "whoever waits says why"
        self.store.close()

    # submit

    @precondition(lambda self: len(self.model.rows) < MOST)
    @rule(
        priority=st.sampled_from((10, 50)),
        delay=st.sampled_from((0, 0, 0, 5)),
        needs=needs,
        parent=st.booleans(),
        line=st.sampled_from((None, "trunk")),
        position=st.integers(1, 3),
        supersedes=st.booleans(),
    )
    def submit(self, **given: Any) -> None:
        ids = sorted(self.model.rows)
        edges = {ids[at % len(ids)]: Edge(ids[at % len(ids)], *how) for at, *how in given["needs"] if ids}
        parents = [row.id for row in self.model.rows.values() if row.when_empty]
        parent = parents[0] if parents and given["parent"] else None
        line = given["line"]
        new = NewJob(
            PARCEL,
            priority=given["priority"],
            delay=given["delay"],
            needs=list(edges.values()),
            parent=parent,
            line=line,
            task=line and "index",
            position=given["position"],
            supersedes=given["supersedes"],
        )
        row = Row(
            self.store.queue.submit_one(new).id,
            priority=given["priority"],
            parent=parent,
            line=line,
            position=given["position"],
            supersedes=given["supersedes"],
            due=self.clock.now() + given["delay"] * 1_000_000 if given["delay"] else None,
        )
        self.model.submit(row, list(edges.values()))

    @precondition(lambda self: not any(row.when_empty for row in self.model.rows.values()))
    @rule()
    def submit_batch(self) -> None:
        new = NewJob("batch", machine=BATCH, state="processing", when_empty="reporting")
        row = Row(self.store.queue.submit_one(new).id, state="processing", when_empty="reporting")
        self.model.submit(row, [])

    # workers

    @precondition(lambda self: self.model.rows)
    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        holder = self._holder()
        claims = take(self.store, holder=holder, seconds=SECONDS, limit=limit)
        assert [claim.id for claim in claims] == self.model.claim(holder, SECONDS, limit)
        self.claims += claims

    @precondition(lambda self: any(row.holder for row in self.model.rows.values()))
    @rule(late=st.booleans(), most=st.integers(1, 3), mark=st.sampled_from((ALONE, ONLY, NEAR, CLEAN)))
    def take_over(self, late: bool, most: int, mark: int) -> None:
        if late:
            self.wait(31)
        holder = self._holder()
        claims = self.store.queue.claim_expired([f"{PARCEL}|"], holder, SECONDS, None, most)
        assert [claim.id for claim in claims] == self.model.take_over(holder, SECONDS, most)
        self.claims += claims
        if self.claims:
            claim = self.claims[-1]
            assert self.store.queue.suspect([claim], mark) == self.model.suspect(claim.id, claim.token, mark)

    @precondition(lambda self: self.claims)
    @rule(at=recent)
    def renew(self, at: int) -> None:
        claim = self._claim(at)
        answer = self.model.renew(claim.id, claim.token, SECONDS)
        assert self.store.queue.renew([claim], SECONDS) == ({claim.id: answer} if answer else {})

    @precondition(lambda self: self.claims)
    @rule(at=recent)
    def release(self, at: int) -> None:
        claim = self._claim(at)
        assert self.store.queue.release([claim]) == self.model.release(claim.id, claim.token)

    @precondition(lambda self: self.claims)
    @rule(at=recent, signal=st.sampled_from((*ENDS, "wait")), delay=st.sampled_from((0, 5)), onward=st.booleans())
    def settle(self, at: int, signal: str, delay: int, onward: bool) -> None:
        claim = self._claim(at)
        change = worked(claim, signal, delay=delay if signal == "wait" else 0)
        if onward:
            change = replace(change, onward=Onward(queue_of(), claim.holder, SECONDS))
        waited = self.model.waiting(claim.id) if onward and signal in ENDS else []
        done = self.model.settle(claim.id, claim.token, ENDS.get(signal), delay if signal == "wait" else 0)
        next_one = self.model.go_on(waited, claim.holder, SECONDS) if done else None
        answer = self.store.queue.settle([change])[0]
        assert (answer.done, answer.onward and answer.onward.id) == (done, next_one)
        self.changes.append((change, answer))
        self.claims += [answer.onward] if answer.onward else []

    @precondition(lambda self: self.changes)
    @rule(at=recent)
    def send_again(self, at: int) -> None:
        """An answer got lost: the same move again is answered as before, and happens once."""
        change, before = self.changes[-1 - at % len(self.changes)]
        answer, given = self.store.queue.settle([change])[0], before.onward
        assert answer.done == before.done
        if given and self.model.renew(given.id, given.token, SECONDS) != "lost":  # and its lease begins anew
            assert answer.onward
            assert (answer.onward.id, answer.onward.token) == (given.id, given.token)
        else:
            assert answer.onward is None

    # administrators

    @precondition(lambda self: any(row.state in ADMIN for row in self.model.rows.values()))
    @rule(at=index, signal=index)
    def order(self, at: int, signal: int) -> None:
        """A person's move; one they may make from where the job is."""
        job = self._one(at, lambda row: row.state in ADMIN)
        row, allowed = self.model.rows[job], ADMIN[self.model.rows[job].state]
        asked = allowed[signal % len(allowed)]
        change = moved(self.store.queue.get(job), asked)
        done = self.model.order(job, change.to)
        row.retries += done and asked == "resume"
        assert self.store.queue.move(change).done == done

    @precondition(lambda self: any(row.holder for row in self.model.rows.values()))
    @rule(at=index, how=st.sampled_from(("cancel", "supersede")))
    def revoke(self, at: int, how: str) -> None:
        job = self._one(at, lambda row: row.holder is not None)
        assert self.store.queue.revoke(job, how, "eva", "not wanted") == self.model.revoke(job, how)

    @precondition(lambda self: len(self.model.rows) > MOST // 2)
    @rule(at=index)
    def delete(self, at: int) -> None:
        job = self._one(at, lambda row: True)
        if self.model.rows[job].holder is None:
            assert self.store.queue.delete(job, "eva", "not wanted") == self.model.delete(job)
            return
        try:
            self.store.queue.delete(job, "eva", "not wanted")
        except Refused:
            return
        raise AssertionError("a job that is being worked on was deleted")

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        change = self.store.queue.hold if paused else self.store.queue.lift
        assert change("kind", PARCEL, "eva", "a new version") == (self.model.paused != paused)
        self.model.paused = paused

    # time

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now = self.clock.now()

    @precondition(lambda self: any(row.due for row in self.model.rows.values()))
    @rule(seconds=st.sampled_from((1, 5)))
    def tick(self, seconds: int) -> None:
        self.wait(seconds)
        assert self.store.queue.tick() == self.model.tick()

    # agreement

    @invariant()
    def the_store_and_the_model_agree(self) -> None:
        found = [stored(job) for job in self.store.queue.list(limit=1000)]
        expected = [seen(row, self.model.open(job)) for job, row in sorted(self.model.rows.items())]
        differing = [(mine, theirs) for mine, theirs in zip(expected, found, strict=False) if mine != theirs]
        assert not differing, f"expected {differing[0][0]}, found {differing[0][1]}"
        assert len(found) == len(expected)

    # choosing

    def _one(self, at: int, fits: Callable[[Row], bool]) -> int:
        ids = [job for job, row in sorted(self.model.rows.items()) if fits(row)]
        return ids[at % len(ids)]

    def _claim(self, at: int) -> Claim:
        """Often the newest, sometimes a stale one."""
        return self.claims[-1 - at % len(self.claims)]

    def _holder(self) -> str:
        self.holders += 1
        return f"worker-{self.holders}"
