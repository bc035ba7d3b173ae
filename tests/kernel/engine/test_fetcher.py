"""Where to claim: full queues are relied on for a moment, and nothing ready is ever overlooked."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.pipe.fetcher import FULL_SECONDS, Fetcher
from custody.kernel.engine.pipe.prefetch import MOST_HELD, Prefetch
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from kernel.engine.conftest import Bench

PARCEL, LETTER = Kind("parcel", lambda work: Passed()), Kind("letter", lambda work: Passed())


class Desk:
    """A queue that counts the looks."""

    def __init__(self, bench: Bench, place: str = "", seconds: float = 0.0) -> None:
        self._seconds = seconds  # which a look takes
        self.queue, self.at, self.looks, self.taken, self.kinds = bench.store.queue, 0.0, 0, list[str](), list[str]()
        self._look = self.queue.ready_queues
        self.fetcher = Fetcher(
            self,  # type: ignore[arg-type]
            Serving((PARCEL, LETTER)),
            holder="ann",
            settings=Settings(place=place),
            clock=lambda: self.at,
        )

    def ready_queues(self, prefix: str, after: str = "", limit: int = 64) -> list[str]:
        self.looks += 1
        self.at += self._seconds
        return self._look(prefix, after, limit)

    def claim(self, queues: Sequence[str], holder: str, seconds: float, limit: int = 1) -> list[Claim]:
        return self.queue.claim(queues, holder, seconds, limit)

    def fetch(self, share: int) -> int:
        claims = [claim for claimed in self.fetcher.fetch(share, lambda kind: share) for claim in claimed.claims]
        self.taken += [claim.job.lane for claim in claims]
        self.kinds += [claim.job.kind for claim in claims]
        return len(claims)


def test_a_queue_that_was_full_is_claimed_from_without_another_look(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel") for _ in range(30)])
    desk = Desk(bench)
    assert [desk.fetch(10), desk.fetch(10)] == [10, 10]
    assert desk.looks == 1


def test_what_is_missing_is_looked_for_at_once_elsewhere(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel", lane="maps") for _ in range(12)])
    desk = Desk(bench)
    assert desk.fetch(10) == 10
    bench.store.queue.submit([NewJob("parcel", lane="prints") for _ in range(5)])
    assert desk.fetch(10) == 7, "two that were left, and five that nobody knew of"
    assert sorted(desk.taken) == ["maps"] * 12 + ["prints"] * 5


def test_a_full_queue_is_relied_on_for_a_moment_only(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel", lane="maps") for _ in range(30)])
    desk = Desk(bench)
    desk.fetch(10)
    bench.store.queue.submit([NewJob("parcel", lane="prints") for _ in range(30)])
    desk.at += FULL_SECONDS
    desk.fetch(10)
    assert desk.looks == 3, "one for each kind, as it is the turn of the other"
    assert "prints" in desk.taken[10:], "who came meanwhile has its turn"


def test_lanes_take_turns_while_they_are_full(bench: Bench) -> None:
    for lane in ("maps", "prints", "scores"):
        bench.store.queue.submit([NewJob("parcel", lane=lane) for _ in range(10)])
    desk = Desk(bench)
    for _ in range(6):
        desk.fetch(1)
    assert {lane: desk.taken.count(lane) for lane in set(desk.taken)} == {"maps": 2, "prints": 2, "scores": 2}


def test_kinds_take_turns_however_long_the_line_of_one_is(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel") for _ in range(40)])
    bench.store.queue.submit([NewJob("letter") for _ in range(3)])
    desk = Desk(bench)
    desk.fetch(5)
    desk.fetch(5)
    assert set(desk.kinds) == {"parcel"}, "for a moment one is enough, and the others are not looked at"
    looks, desk.at = desk.looks, desk.at + FULL_SECONDS
    desk.fetch(5)
    assert desk.kinds[10:] == ["letter"] * 3 + ["parcel"] * 2
    desk.fetch(5)
    desk.fetch(5)
    assert desk.looks == looks + 2, "one look for each of them, once in a while"


def test_what_is_pinned_elsewhere_is_not_asked_for(bench: Bench) -> None:
    bench.store.queue.submit([NewJob("parcel", place="shelf-2")])
    assert Desk(bench, place="shelf-1").fetch(5) == 0
    assert Desk(bench, place="shelf-2").fetch(5) == 1


@pytest.mark.parametrize("what", ["paused", "pinned elsewhere"])
def test_one_that_is_ready_behind_very_many_that_are_not_for_us_is_found_in_the_same_look(
    bench: Bench, what: str
) -> None:
    for number in range(200):
        lane = f"a{number:03}"
        if what == "paused":
            bench.submit(lane=lane)
            bench.store.queue.hold("lane", lane, "ada", "full")
        else:
            bench.submit(place=f"cellar-{number:03}", lane=lane)
    bench.submit(place="" if what == "paused" else "shelf-1", lane="z")
    desk = Desk(bench, place="shelf-1")
    assert desk.fetch(5) == 1
    assert desk.taken == ["z"]


def test_a_long_look_in_vain_is_not_repeated_before_ten_times_as_long_has_passed(bench: Bench) -> None:
    for number in range(200):
        bench.submit(place=f"cellar-{number:03}")
    desk = Desk(bench, place="shelf-1", seconds=0.01)
    desk.fetch(5)
    assert desk.looks == 5, "four for the one kind, and one for the other"
    desk.fetch(5)
    assert desk.looks == 5 + 3, "not beyond the first few"
    desk.at += 1
    desk.fetch(5)
    assert desk.looks == 5 + 3 + 5


def test_short_looks_meanwhile_do_not_put_off_the_next_long_one(bench: Bench) -> None:
    """As a worker makes them that has other work to claim, many times a second."""
    for number in range(200):
        bench.submit(place=f"cellar-{number:03}")
    desk = Desk(bench, place="shelf-1", seconds=0.01)
    desk.fetch(5)
    bench.submit(place="shelf-1")
    for _ in range(100):
        desk.fetch(5)
    assert desk.kinds == ["parcel"]


def test_slow_work_is_claimed_one_at_a_time_and_quick_work_in_heaps() -> None:
    slow, quick = Prefetch(4, 10.0), Prefetch(4, 1e-6)
    assert slow.room(held=3, finished=0) == (1, 1), "a free hand is never left waiting for company"
    assert slow.room(held=4, finished=0)[0] == 0
    room, wanted = quick.room(held=500, finished=500)
    assert room > wanted > 300, "what is being written does not keep others from being claimed"
    assert quick.room(held=MOST_HELD, finished=MOST_HELD)[0] == 0, "but there is an end to it"


def test_a_few_quick_ones_do_not_tempt_a_worker_to_claim_hundreds() -> None:
    prefetch = Prefetch(2)
    for _ in range(3):
        prefetch.add(0.00001)
    assert prefetch.buffer() < 20
    for _ in range(300):
        prefetch.add(0.00001)
    assert prefetch.buffer() > 1000, "many quick ones do"


def test_what_would_lie_at_hand_for_long_is_given_back(bench: Bench) -> None:
    jobs = [bench.submit() for _ in range(300)]
    worker = bench.worker(Kind("parcel", lambda work: Passed()), threads=2)
    worker._prefetch.seconds = 1e-6  # as if the work had been quick so far
    worker._fetch(300)
    assert worker._held.count == 300
    for _ in range(20):
        worker._prefetch.add(1.0)
    worker._cycle()
    assert worker._held.count == len(worker._threads.ready) == worker._prefetch.buffer()
    assert [work.job.id for work in worker._threads.ready] == jobs[: worker._prefetch.buffer()], (
        "those that are next stay"
    )
    left = [bench.job(job) for job in jobs if bench.job(job).holder is None]
    assert len(left) == 300 - worker._prefetch.buffer()
    assert {job.attempts for job in left} == {0}
    worker._fetch(300)
    assert worker._held.count == 300, "they can be claimed again"


def test_a_worker_that_waits_for_its_own_hands_looks_when_they_are_done_and_rarely_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, looks = bench.store.queue, list[str]()
    look = queue.ready_queues

    def counted(prefix: str, after: str = "", limit: int = 64) -> list[str]:
        looks.append(prefix)
        return look(prefix, after, limit)

    def slow(work: Work) -> Outcome:
        time.sleep(0.4)
        return Passed()

    monkeypatch.setattr(queue, "ready_queues", counted)
    queue.submit([NewJob("parcel")])
    began = time.monotonic()
    Worker(bench.store, Serving((Kind("parcel", slow),)), Settings(threads=1, schedules=False)).run_until_quiet()
    seconds = time.monotonic() - began
    assert [job.state for job in queue.list()] == ["done"]
    assert len(looks) < 250 * seconds, "a look every two milliseconds would be five hundred a second"
