"""Going on with the next of a queue: no look for it, no claim of its own, and nobody kept waiting for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.listeners import Listener
from custody.kernel.engine.pipe.run import IN_A_ROW
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Claim, Job
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.stores.queue import SqlQueue
from kernel.engine.conftest import Bench


def in_line(bench: Bench, count: int, **more: object) -> list[int]:
    made: list[int] = []
    for _ in range(count):
        made.append(bench.submit(needs=[Edge(made[-1])] if made else [], **more))
    return made


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many each claim took."""
    taken: list[int] = []
    claim = SqlQueue.claim

    def counted(self: SqlQueue, queues: Sequence[str], holder: str, seconds: float, limit: int = 1) -> list[Claim]:
        found = claim(self, queues, holder, seconds, limit)
        taken.extend([len(found)] if found else [])
        return found

    monkeypatch.setattr(SqlQueue, "claim", counted)
    return taken


def note(bench: Bench, outcome: Outcome | None = None) -> Kind:
    def handler(work: Work) -> Outcome:
        bench.seen.append(work.job.id)
        return outcome or Passed()

    return Kind("parcel", handler, onward=True)


def test_a_line_is_gone_along_with_one_claim(bench: Bench, claims: list[int]) -> None:
    line = in_line(bench, 5)
    assert bench.worker(note(bench)).run_until_idle() == 5
    assert bench.seen == line
    assert claims == [1]
    assert [bench.job(number).attempts for number in line] == [bench.job(line[0]).attempts] * 5


def test_other_kinds_are_claimed_one_by_one(bench: Bench, claims: list[int]) -> None:
    in_line(bench, 5)
    bench.run(lambda work: Passed())
    assert claims == [1] * 5


def test_after_so_many_others_have_their_turn(bench: Bench, claims: list[int]) -> None:
    line = in_line(bench, 2 * (IN_A_ROW + 1))
    bench.worker(note(bench)).run_until_idle()
    assert bench.seen == line
    assert claims == [1, 1]


def test_one_that_was_asked_for_a_few_does_no_more(bench: Bench) -> None:
    line = in_line(bench, 5)
    bench.worker(note(bench)).run_until_idle(2)
    assert bench.seen == line[:2]
    assert [bench.job(number).holder for number in line] == [None] * 5


def test_a_kind_that_is_limited_stays_so(bench: Bench) -> None:
    line = in_line(bench, 5)
    kind = Kind("parcel", lambda work: bench.seen.append(work.job.id) or Passed(), onward=True, at_most=3)
    bench.worker(kind).run_until_idle()
    assert bench.seen == line[:3]


def test_a_failure_leads_on_to_what_waited_for_it(bench: Bench, claims: list[int]) -> None:
    first = bench.submit()
    second = bench.submit(needs=[Edge(first, "failure")])
    bench.worker(note(bench, Failed("torn"))).run_until_idle()
    assert bench.seen == [first, second]
    assert claims == [1]


def test_a_lost_answer_costs_neither_the_end_nor_the_next_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    line = in_line(bench, 3)
    settle, answers = SqlQueue.settle, 0

    def lossy(self: SqlQueue, changes: Sequence[Change]) -> list[Answer]:
        nonlocal answers
        said, answers = settle(self, changes), answers + 1
        if answers == 1:
            raise Unavailable("the answer is lost")
        return said

    monkeypatch.setattr(SqlQueue, "settle", lossy)
    monkeypatch.setattr("custody.kernel.engine.pipe.settler.RETRY_SECONDS", 0.0)
    bench.worker(note(bench)).run_until_idle()
    assert bench.seen == line
    assert [bench.job(number).attempts for number in line] == [bench.job(line[0]).attempts] * 3


class Stops(Listener):
    """Asks the worker to stop between the end of one and the beginning of the next."""

    worker: Worker

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        self.worker.stop()
        until = time.monotonic() + 5
        while not self.worker._threads._stopping and time.monotonic() < until:
            time.sleep(0.001)


def test_one_that_is_told_to_stop_just_then_gives_the_next_one_back(bench: Bench) -> None:
    line = in_line(bench, 3)
    watch = Stops()
    watch.worker = Worker(bench.store, Serving((note(bench),)), Settings(threads=1, grace=30), watch)
    thread = threading.Thread(target=watch.worker.run_forever)
    began = time.monotonic()
    thread.start()
    thread.join(60)
    assert time.monotonic() - began < 25, "nobody waited for what is not begun any more"
    assert bench.seen == line[:1]
    assert [bench.job(number).holder for number in line] == [None] * 3
    assert bench.job(line[1]).attempts == 0
