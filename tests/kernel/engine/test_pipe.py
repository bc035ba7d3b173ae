"""A worker is a pipe: its parts return values, none calls back into it, and what was claimed is never left lying."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Kind, Serving, Work
from custody.kernel.engine.pipe.settler import Settler
from custody.kernel.engine.pipe.threads import MOST_UNSETTLED
from custody.kernel.engine.pipe.values import End, Finished, Lost, Settled
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from kernel.engine.conftest import Bench
from kernel.engine.test_leases import until


def parts_of(part: object, seen: set[int]) -> Iterator[object]:
    """Everything of the engine that a part holds on to, however far."""
    if id(part) in seen:
        return
    seen.add(id(part))
    for value in vars(part).values() if hasattr(part, "__dict__") else ():
        yield value
        if type(value).__module__.startswith("custody.kernel.engine"):
            yield from parts_of(value, seen)


def test_no_part_of_the_pipe_knows_the_worker(bench: Bench) -> None:
    worker = bench.worker(Kind("parcel", lambda work: Passed()))
    own = {name: part for name, part in vars(worker).items() if type(part).__module__.startswith("custody.kernel")}
    assert {"_fetcher", "_rescuer", "_held", "_runner", "_threads", "_settler", "_maintenance"} <= own.keys()
    for name, part in own.items():
        for value in parts_of(part, set()):
            assert getattr(value, "__self__", value) is not worker, name


def test_what_was_fetched_is_worked_on_although_the_next_claim_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel, letter = bench.submit(), bench.submit("letter")
    kinds = Kind("parcel", lambda work: Passed()), Kind("letter", lambda work: Passed())
    worker = bench.worker(*kinds)
    claim, troubles = bench.store.queue.claim, [Unavailable("away", code="store.down")]

    def fails_once(queues: Sequence[str], holder: str, seconds: float, limit: int = 1) -> list[Claim]:
        if queues[0].startswith("letter") and troubles:
            raise troubles.pop()
        return claim(queues, holder, seconds, limit)

    monkeypatch.setattr(bench.store.queue, "claim", fails_once)
    with pytest.raises(Unavailable):
        worker._cycle()
    assert [work.job.id for work in worker._threads.ready] == [parcel]
    assert worker._held.busy == {"parcel|queued|": 1}
    worker.run_until_idle()
    assert (bench.job(parcel).state, bench.job(letter).state) == ("done", "done")
    assert worker._held.busy == {}


def test_what_was_settled_is_let_go_before_the_others_are_said_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its lease would be renewed meanwhile, refused, and its end taken for a loss."""
    first, odd = bench.submit(), bench.submit()
    worker = bench.worker(Kind("parcel", lambda work: Passed({"say": "odd"} if work.job.id == odd else {})))
    settle = bench.store.queue.settle

    def stumbles(changes: Sequence[Change]) -> list[Answer]:
        if any(change.id == odd and change.type == "passed" for change in changes):
            raise RuntimeError("a bug in the store")
        return settle(changes)

    worker._fetch(2)
    done = [worker._runner.run(work) for work in iter(worker._threads.next_one, None)]
    monkeypatch.setattr(bench.store.queue, "settle", stumbles)
    ends = worker._settler.settle(done)
    (end,) = next(ends)
    assert isinstance(end, Settled)
    assert end.work.job.id == first
    assert bench.job(odd).state == "queued", "nothing is said about it yet"
    (end,) = next(ends)
    assert isinstance(end, Settled)
    assert (end.work.job.id, end.change.type) == (odd, "retried")
    assert [*ends] == []


def test_a_lost_one_does_not_wait_for_what_is_settled_with_it(bench: Bench) -> None:
    bench.submit()
    (claim,) = bench.store.queue.claim(["parcel|queued||"], "ann", 30)
    work, other = Work(claim, bench.store.queue), Work(claim, bench.store.queue)
    other.trusted_until = math.inf
    told = bench.worker(Kind("parcel", lambda work: Passed()))._runner.run(other)
    assert isinstance(told, Finished)
    ends: Iterator[list[End]] = Settler(bench.store, Serving(())).settle([told, Lost(work, "lost")])
    assert next(ends) == [Lost(work, "lost")]
    assert [type(end) for end in next(ends)] == [Settled]


def test_what_goes_onward_does_not_wait_for_the_main_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    line = [bench.submit()]
    line += [bench.submit(needs=[Edge(line[0])])]
    line += [bench.submit(needs=[Edge(line[1])])]
    worker = bench.worker(Kind("parcel", lambda work: Passed(), onward=True), threads=1, schedules=False)
    look, busy, looks = worker._maintenance.look, threading.Event(), list[bool]()

    def busy_after_the_first(holder: str, now: bool = False) -> None:
        looks.append(now)
        if len(looks) > 1:
            busy.wait(30)
        look(holder, now)

    monkeypatch.setattr(worker._maintenance, "look", busy_after_the_first)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        until(lambda: all(bench.job(job).ended for job in line))
        assert len(looks) <= 2, "the loop has claimed the first one, and nothing since"
    finally:
        worker.stop()
        busy.set()
        thread.join()


def test_bodies_do_not_run_far_ahead_of_what_is_settled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed has said nothing of those whose end waits to be written: they run again."""
    count, threads = 4 * MOST_UNSETTLED, 4
    bench.store.queue.submit([NewJob("parcel") for _ in range(count)])
    begun, may_settle = list[int](), threading.Event()

    def handler(work: Work) -> Outcome:
        begun.append(work.job.id)
        return Passed()

    settle = bench.store.queue.settle

    def waits(changes: Sequence[Change]) -> list[Answer]:
        may_settle.wait(60)
        return settle(changes)

    monkeypatch.setattr(bench.store.queue, "settle", waits)
    worker = bench.worker(Kind("parcel", handler), threads=threads, schedules=False)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        until(lambda: len(begun) >= MOST_UNSETTLED)
        time.sleep(0.5)
        assert len(begun) <= 2 * MOST_UNSETTLED + 2 * threads
        may_settle.set()
        until(lambda: len(begun) == count and not worker._held.count)
    finally:
        may_settle.set()
        worker.stop()
        thread.join()
    assert len(set(begun)) == count
