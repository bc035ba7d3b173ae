"""Faults that once stopped a worker, lost its work or said too much: each by itself, small enough to read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from custody.engine import Kind, Serving, Settings, Work, Worker
from custody.engine.commands import Operator
from custody.engine.keeper import Keeper
from custody.engine.run import run
from custody.engine.settler import Finished, Settler
from custody.model.errors import CustodyError, Unavailable
from custody.model.job import Answer, Change, Claim, Job, NewJob
from custody.model.machine import PLAIN
from custody.model.outcome import Failed, Outcome, Passed
from custody.stores import Store, open_store
from faults.audit import audit
from faults.processes import until
from faults.verbs import VerbDatabase
from stores.clock import HandClock

T = TypeVar("T")
Trouble = Callable[[str], Exception | None]


class Troubled(VerbDatabase):
    """Asks before and after each verb whether there is trouble."""

    before: Trouble = staticmethod(lambda verb: None)
    after: Trouble = staticmethod(lambda verb: None)

    def verb(self, act: Callable[[], T], name: str = "write") -> T:
        if error := self.before(name):
            raise error
        value = act()
        if error := self.after(name):
            raise error
        return value

    def look(self, act: Callable[[], T]) -> T:
        if error := self.before("read"):
            raise error
        return act()

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        name = f"claim {queues[0].partition('|')[0]}"
        return self.verb(lambda: self._db.claim(queues, holder, lease, limit, move), name)

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        return self.verb(lambda: self._db.renew(claims, lease), "renew")

    def settle(self, changes: list[Change]) -> list[Answer]:
        said = "settle " + " ".join(str(change.detail.get("say", "")) for change in changes)
        return self.verb(lambda: self._db.settle(changes), said)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> Iterator[Store]:
    with open_store("sqlite://:memory:", clock) as store:
        yield store
        assert audit(store) == []


@pytest.fixture
def troubled(store: Store) -> Troubled:
    return Troubled(store.db)


def serving(handler: Callable[[Work], Any], kind: str = "parcel", **options: Any) -> Serving:
    return Serving((Kind(kind, handler, **options),))


def submit(store: Store, kind: str = "parcel", **fields: Any) -> int:
    return store.queue.submit_one(NewJob(kind, **fields)).id


def passes(work: Work) -> Outcome:
    return Passed()


def in_thread(worker: Worker) -> threading.Thread:
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    return thread


# Work that can no longer be settled


def test_a_worker_forgets_work_it_could_not_settle_in_time_and_goes_on(troubled: Troubled) -> None:
    real = open_store("sqlite://:memory:")  # by the real clock: leases really end
    away = threading.Event()
    troubled = Troubled(real.db)
    troubled.before = lambda verb: Unavailable("away") if away.is_set() and verb[:6] in ("settle", "renew") else None
    begun: list[int] = []

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        return Passed()

    worker = Worker(
        Store.over("troubled", troubled), serving(handler, at_once=1), Settings(lease=0.6, poll=0.05, threads=1)
    )
    away.set()
    first = submit(real)
    thread = in_thread(worker)
    until(lambda: worker._keeper.losses == 1, why="two thirds of the lease pass unconfirmed")
    away.clear()
    second = submit(real)
    until(lambda: real.queue.get(first).ended and real.queue.get(second).ended, why="both are done all the same")
    worker.stop()
    thread.join()
    assert begun.count(second) == 1
    assert not any(worker._busy.values())
    assert audit(real) == []
    real.close()


def test_a_refusal_that_cannot_be_written_down_stops_nobody(store: Store, troubled: Troubled) -> None:
    heard: list[str] = []
    settler = Settler(
        Store.over("troubled", troubled), serving(passes), lambda work, change, answer: heard.append(answer.code), print
    )
    submit(store)
    (claim,) = store.queue.claim(["parcel|queued||"], "ann", 30)
    work = Work(claim, store.queue)
    change = run(Kind("parcel", passes), work, 0.5, "move-1")
    assert change is not None
    store.queue.release([claim])
    troubled.before = lambda verb: Unavailable("away") if verb == "write" else None
    assert settler.attempt([Finished(work, change)]) == []
    assert heard == ["lease.lost"]


def settle_together(store: Store, troubled: Troubled, outcomes: Sequence[Outcome]) -> list[Job]:
    """Claimed together, worked on, and settled in one batch."""
    jobs = [submit(store) for _ in outcomes]
    kind = Kind("parcel", lambda work: outcomes[jobs.index(work.job.id)])
    settler = Settler(Store.over("troubled", troubled), Serving((kind,)), lambda *_: None, lambda work: None)
    works = [Work(claim, store.queue) for claim in store.queue.claim(["parcel|queued||"], "ann", 30, len(jobs))]
    changes = [(work, run(kind, work, 0.5, f"move-{work.job.id}")) for work in works]
    settler.settle([Finished(work, change) for work, change in changes if change])
    return [store.queue.get(job) for job in jobs]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (Passed(then=[NewJob("no|such")]), "job.field"),
        (Passed(keep={"thing": object()}), "value.json"),
        (Failed("odd", detail={"thing": object()}), "value.json"),
    ],
)
def test_words_that_cannot_be_written_fail_their_own_job_and_no_other(
    store: Store, troubled: Troubled, bad: Outcome, code: str
) -> None:
    first, odd, last = settle_together(store, troubled, [Passed(), bad, Passed()])
    assert (first.state, odd.state, odd.code, last.state) == ("done", "failed", code, "done")


def test_words_over_which_the_store_stumbles_cost_their_own_job_a_try_and_the_others_nothing(
    store: Store, troubled: Troubled
) -> None:
    troubled.before = lambda verb: RuntimeError("a bug in the store") if "trip" in verb else None
    first, odd, last = settle_together(store, troubled, [Passed(), Passed({"say": "trip"}), Passed()])
    assert (first.state, odd.state, odd.code, last.state) == ("done", "queued", "surprise", "done")


def test_if_nothing_at_all_can_be_said_the_lease_is_left_to_end(store: Store, troubled: Troubled) -> None:
    troubled.before = lambda verb: RuntimeError("broken") if verb.startswith("settle") else None
    (job,) = settle_together(store, troubled, [Passed()])
    assert (job.state, job.holder) == ("queued", "ann")


# Handlers that behave oddly


def test_a_handler_that_leaves_the_process_ends_only_itself() -> None:
    with open_store("sqlite://:memory:") as store:

        def handler(work: Work) -> Outcome:
            if work.payload.get("leaves"):
                raise SystemExit(3)
            return Passed()

        leaver, other = submit(store, payload={"leaves": True}), submit(store)
        worker = Worker(store, serving(handler), Settings(threads=1, poll=0.05))
        thread = in_thread(worker)
        until(lambda: store.queue.get(other).ended, why="the only hand is still there")
        worker.stop()
        thread.join()
        assert store.records.events(f"job/{leaver}")[-1].detail["reason"] == "SystemExit: 3"


def test_what_is_no_outcome_is_a_failure_that_says_so(store: Store) -> None:
    job = submit(store)
    Worker(store, serving(lambda work: "fine")).run_until_idle()
    assert "returned a str; it must return an outcome" in store.records.events(f"job/{job}")[-1].detail["reason"]


@pytest.mark.parametrize("reason", ["lost", "unconfirmed", "shutdown"])
def test_work_that_was_stopped_while_it_waited_for_its_turn_is_not_begun(
    store: Store, clock: HandClock, reason: str
) -> None:
    submit(store)
    store.queue.claim(["parcel|queued||"], "vanished", 30)
    clock.advance(31)
    claim = store.queue.claim_expired(["parcel|"], "ann", 30)
    assert claim is not None
    done: list[str] = []

    def handler(work: Work) -> Outcome:
        done.append("begun")
        return Passed()

    work = Work(claim, store.queue)
    work.stop(reason)
    kind = Kind("parcel", handler, confirm_dead=lambda job: done.append("looked for survivors"))
    assert run(kind, work, 0.5, "move") is None
    assert done == ([] if work.lost else ["looked for survivors"])


@pytest.mark.parametrize("revoked", [False, True])
def test_while_the_death_of_an_earlier_attempt_cannot_be_confirmed_nothing_is_begun_or_said(
    store: Store, clock: HandClock, revoked: bool
) -> None:
    job = submit(store)
    store.queue.claim(["parcel|queued||"], "vanished", 30)
    if revoked:
        Operator(store, PLAIN, "ada").cancel(job, "stop")
    begun: list[int] = []
    alive = True

    def confirm_dead(_: Job) -> None:
        if alive:
            raise Unavailable("the container engine does not answer")

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        return Passed()

    for _ in range(2):
        clock.advance(31)
        Worker(store, serving(handler, confirm_dead=confirm_dead)).run_until_idle()
        assert (store.queue.get(job).state, begun) == ("queued", [])
    alive = False
    clock.advance(31)
    Worker(store, serving(handler, confirm_dead=confirm_dead)).run_until_idle()
    assert (store.queue.get(job).state, begun) == (("cancelled", []) if revoked else ("done", [job]))


# Answers that get lost


def test_facts_whose_answer_was_lost_are_not_overwritten(store: Store, troubled: Troubled, clock: HandClock) -> None:
    job = submit(store)
    lost = [Unavailable("it was done, and nobody heard")]
    troubled.after = lambda verb: lost.pop() if verb == "write" and keeping and lost else None
    keeping: list[bool] = []

    def handler(work: Work) -> Outcome:
        keeping.append(True)
        for row in range(work.facts.get("rows", 0), 3):
            work.spawn([NewJob("letter", {"row": row})], rows=row + 1)
        return Passed(keep={"rows_in_all": work.facts["rows"]})

    Worker(Store.over("troubled", troubled), serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"rows": 1}, "it was kept, whatever its keeper believes"
    clock.advance(10)
    Worker(store, serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"rows": 3, "rows_in_all": 3}
    assert sorted(letter.payload["row"] for letter in store.queue.every() if letter.kind == "letter") == [0, 1, 2]


def test_a_handler_that_goes_on_after_a_lost_answer_is_told_what_was_kept(store: Store, troubled: Troubled) -> None:
    job = submit(store)
    lost = [Unavailable("it was done, and nobody heard")]
    keeping: list[bool] = []
    troubled.after = lambda verb: lost.pop() if verb == "write" and keeping and lost else None

    def handler(work: Work) -> Outcome:
        keeping.append(True)
        try:
            work.keep(ark="ark:/1/x")
        except Unavailable:
            pass
        return Passed(keep={"title": "maps"})

    Worker(Store.over("troubled", troubled), serving(handler)).run_until_idle()
    assert store.queue.get(job).facts == {"ark": "ark:/1/x", "title": "maps"}


def test_a_claim_that_fails_does_not_make_a_worker_forget_the_claims_before_it(
    store: Store, troubled: Troubled
) -> None:
    first = submit(store, "letter")
    submit(store, "parcel")
    troubled.before = lambda verb: Unavailable("away") if verb == "claim parcel" else None
    worker = Worker(Store.over("troubled", troubled), Serving((Kind("letter", passes), Kind("parcel", passes))))
    with pytest.raises(Unavailable):
        worker.run_until_idle()
    assert [work.job.id for work in worker._ready] == [work.job.id for work in worker._keeper.held()] == [first]


# Passes


def test_a_pass_that_falls_over_does_not_stop_the_others(store: Store) -> None:
    told: list[CustodyError] = []

    class Watch:
        def started(self, job: Job) -> None: ...

        def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

        def lost(self, job: Job, reason: str) -> None: ...

        def trouble(self, error: CustodyError) -> None:
            told.append(error)

    def decide(jobs: Sequence[Job]) -> dict[int, Outcome]:
        raise ZeroDivisionError("no disk at all")

    submit(store, "space")
    parcel = submit(store)
    kinds = Serving((Kind("space", decide=decide), Kind("parcel", passes)))
    assert Worker(store, kinds, watch=Watch()).run_until_idle() == 1
    assert store.queue.get(parcel).state == "done"
    assert "ZeroDivisionError: no disk at all" in str(told[0])


def test_a_pass_whose_words_about_one_job_cannot_be_written_still_moves_the_others(store: Store) -> None:
    jobs = [submit(store, "space") for _ in range(3)]

    def decide(waiting: Sequence[Job]) -> dict[int, Outcome]:
        return {job.id: Passed(then=[NewJob("no|such")] if job.id == jobs[1] else []) for job in waiting}

    Worker(store, Serving((Kind("space", decide=decide),))).run_until_idle()
    assert [store.queue.get(job).state for job in jobs] == ["done", "failed", "done"]


def test_a_job_whose_pass_died_between_claim_and_settle_is_decided_again(store: Store, clock: HandClock) -> None:
    job = submit(store, "space")
    store.queue.claim_jobs([job], "vanished", 30)
    clock.advance(31)
    kind = Kind("space", decide=lambda jobs: {each.id: Passed() for each in jobs})
    Worker(store, Serving((kind,))).run_until_idle()
    assert store.queue.get(job).state == "done"


# The loop, and what it keeps


def test_a_surprise_in_the_loop_is_told_and_the_loop_goes_on() -> None:
    with open_store("sqlite://:memory:") as store:
        troubled, trouble = Troubled(store.db), [ValueError("a row that cannot be read")]
        troubled.before = lambda verb: trouble.pop() if trouble and verb.startswith("claim") else None
        job = submit(store)
        worker = Worker(Store.over("troubled", troubled), serving(passes), Settings(poll=0.05))
        thread = in_thread(worker)
        until(lambda: store.queue.get(job).ended)
        worker.stop()
        thread.join()


def test_a_keeper_survives_a_surprise_and_asks_again(store: Store) -> None:
    submit(store)
    now, surprises = [100.0], [RuntimeError("odd")]

    class Odd:
        def renew(self, claims: object, seconds: float) -> dict[int, str]:
            if surprises:
                raise surprises.pop()
            return {}

    keeper = Keeper(Odd(), 30.0, lambda: now[0])  # type: ignore[arg-type]
    work = Work(store.queue.claim(["parcel|queued||"], "ann", 30)[0], store.queue)
    keeper.add([work], asked_at=now[0])
    for _ in range(2):
        now[0] += 11
        keeper.beat()
    assert not work.stopped


def test_what_the_keeper_finds_lost_is_written_down(store: Store, clock: HandClock) -> None:
    job = submit(store)

    def handler(work: Work) -> Outcome:
        clock.advance(31)
        Worker(store, serving(passes)).run_until_idle()
        worker._keeper._renew([work])
        return Passed()

    worker = Worker(store, serving(handler))
    worker.run_until_idle()
    (note,) = store.records.events(f"worker/{worker.holder}")
    assert (note.type, note.detail["job"], note.detail["code"]) == ("refused", job, "lease.lost")


def test_those_left_behind_are_taken_over_one_after_the_other_without_waiting_for_wake_ups() -> None:
    with open_store("sqlite://:memory:") as store:
        jobs = [submit(store) for _ in range(30)]
        store.queue.claim(["parcel|queued||"], "vanished", 0.01, 30)
        time.sleep(0.02)
        worker = Worker(store, serving(passes), Settings(poll=20, wake=False))
        thread = in_thread(worker)
        until(lambda: all(store.queue.get(job).ended for job in jobs), 10)
        worker.stop()
        thread.join()


def test_another_priority_does_not_bring_a_job_forward_in_time_nor_forget_its_failure(store: Store) -> None:
    operator = Operator(store, PLAIN, "ada")
    late = submit(store, delay=60)
    operator.prioritise(late, 3)
    job = store.queue.get(late)
    assert (job.priority, job.unmet, job.due is not None) == (3, 1, True)

    torn = submit(store)
    Worker(store, serving(lambda work: Failed("torn"))).run_until_idle()
    operator.prioritise(torn, 4)
    assert (store.queue.get(torn).code, store.queue.get(torn).priority) == ("torn", 4)
