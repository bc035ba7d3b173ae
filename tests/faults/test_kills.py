"""Real processes are killed, frozen and asked to leave while they work; real servers crash under them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from faults.audit import audit
from faults.checker import Entry, check
from faults.processes import PATIENCE, Disk, Fleet, Watchman, share, until
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres
from rig.program import CannotStart

pytestmark = [pytest.mark.kills, pytest.mark.slow]

WORKERS = 3


def late(standstill: float) -> float:
    """Seconds after the end of a lease within which the work is in other hands: two, as row G6 promises, on a machine
    that does nothing else. To take over and to begin are a few commits, each of which may find the disk standing still."""
    others = max(os.getloadavg()[:2]) / (os.cpu_count() or 1)
    return 2.0 * max(1.0, others) + 4 * standstill


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    url = f"sqlite:///{tmp_path}/custody.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    with Fleet(url, tmp_path) as fleet:
        yield fleet


def parcels(count: int, seconds: float = 0.01) -> list[NewJob]:
    """Mostly plain; some stumble, some have children."""
    rng = random.Random(count)
    return [
        NewJob(
            "parcel",
            {
                "seconds": seconds * rng.random() * 2,
                **({"stumbles": True} if number % 40 == 0 else {}),
                **({"children": 3} if number % 50 == 7 else {}),
            },
            key=f"parcel {number}",
        )
        for number in range(count)
    ]


def submit_all(fleet: Fleet, jobs: list[NewJob], size: int = 50) -> None:
    """In chunks; the last of each chunk is needed by one more."""
    for start in range(0, len(jobs), size):
        made = fleet.submit(*jobs[start : start + size])
        fleet.submit(NewJob("parcel", key=f"after chunk {start}", needs=[Edge(made[-1])]))


def in_background(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def check_all(fleet: Fleet, jobs: int) -> None:
    # Who kills at random hits some job more often than one that kills could: nobody is put aside here (work.py).
    assert [wrong for wrong in fleet.wrong() if not wrong.startswith("E6")] == []
    assert audit(fleet.store) == []
    ends = Counter[int]()
    final = fleet.final()
    for job, events in final.events.items():
        ends[job] = sum(event.detail.get("ended") is not None for event in events)
    assert len(final.jobs) == jobs
    assert set(ends.values()) == {1}, "each job ended exactly once"
    assert {job.state for job in final.jobs.values()} == {"done"}


@pytest.mark.proves("G4", "G6")
def test_workers_killed_at_random_lose_nothing_and_settle_nothing_twice(
    fleet: Fleet, tell: Tell, scaled: Scaled[tuple[int, int, float]], seed: int
) -> None:
    rng = random.Random(11 + seed)
    kills, count, seconds = scaled((6, 1_500, 0.01), (500, 10_000, 0.08), (50_000, 1_000_000, 0.08))
    fleet.start("--no-wake", threads=2)
    for _ in range(1, WORKERS):
        fleet.start(threads=2)
    until(lambda: len(fleet.alive()) == WORKERS)
    watchman, disk = Watchman(fleet.store), Disk(fleet.folder)
    watchman.start()
    disk.start()
    client = in_background(lambda: submit_all(fleet, parcels(count, seconds)))
    until(lambda: len(fleet.begun()) > 50)
    for _ in range(kills):
        until(lambda: len(fleet.alive()) >= 2, why="someone is left who can take over")
        time.sleep(rng.uniform(0.05, 0.3))
        fleet.signal(rng.choice(fleet.alive()), signal.SIGKILL)
        fleet.start(threads=2)
    client.join()
    until(fleet.is_done, PATIENCE + count * seconds, why="everything is done")
    late_ones, standstill = watchman.stop(), disk.stop()
    half, most, nearly_all = (share(late_ones, part) for part in (0.5, 0.9, 0.99))
    begun = fleet.begun()
    tell(
        f"{kills} kills on {fleet.store.db.dialect}: {count} jobs, {len(begun) - len(set(begun))} bodies run again, "
        f"{len(late_ones)} times taken over: half within {half:.2f} s of the end of the lease, 90 % within {most:.2f} s, "
        f"99 % within {nearly_all:.2f} s, the last after {max(late_ones, default=0.0):.2f} s",
        kills=kills,
        jobs=count,
        seconds_late=nearly_all,
    )
    check_all(fleet, count + count // 50 + 3 * count // 50)
    assert nearly_all <= late(standstill)


@pytest.mark.proves("G4")
def test_a_database_that_crashes_and_crashes_again_while_it_recovers_costs_nothing_but_time(
    postgres: Postgres, postgres_url: str, tmp_path: Path, tell: Tell, scaled: Scaled[int]
) -> None:
    rounds = scaled(1, 17, 1_700)
    count = 800 * rounds
    with Fleet(postgres_url, tmp_path) as fleet:
        for _ in range(2):
            fleet.start()
        until(lambda: len(fleet.alive()) == 2)
        client = in_background(lambda: submit_all(fleet, parcels(count)))
        for _ in range(rounds):
            crash_thrice(postgres, fleet)
        client.join()
        until(fleet.is_done, PATIENCE * rounds, why="everything is done")
        begun = fleet.begun()
        tell(
            f"{3 * rounds} crashes of PostgreSQL: {count} jobs, {len(begun) - len(set(begun))} bodies run again",
            database_crashes=3 * rounds,
            jobs=count,
        )
        assert len(fleet.alive()) == 2, "no worker gave up"
        check_all(fleet, count + count // 50 + 3 * count // 50)


def crash_thrice(postgres: Postgres, fleet: Fleet) -> None:
    """Under work, while it recovers, and under work again."""
    done = len(fleet.begun())
    until(lambda: len(fleet.begun()) > done + 50 or fleet.is_done())
    postgres.stop("immediate")
    crash_while_starting(postgres)
    postgres.start()
    done = len(fleet.begun())
    until(lambda: len(fleet.begun()) > done + 50 or fleet.is_done(), why="work goes on after two crashes")
    postgres.stop("immediate")
    postgres.start()


def crash_while_starting(postgres: Postgres) -> None:
    def start() -> None:
        try:
            postgres.start()
        except CannotStart:
            pass

    starting = in_background(start)
    until(lambda: postgres.program.running)
    time.sleep(0.05)
    postgres.stop("immediate")
    starting.join()


@pytest.mark.proves("G5")
def test_a_sleeper_that_wakes_after_its_lease_is_refused_and_it_is_written_down(
    fleet: Fleet, tell: Tell, scaled: Scaled[tuple[int, int]]
) -> None:
    rounds, size = scaled((1, 4), (5, 40), (100, 100))
    if rounds == 1:
        fleet.lease = 4.0  # a disk that stands still must not end it before its holder is stopped
    for _ in range(rounds):
        lull_and_wake(fleet, size)
    tell(f"{rounds * size} sleepers refused on {fleet.store.db.dialect}", resumes=rounds * size)
    check_all(fleet, rounds * size)


def lull_and_wake(fleet: Fleet, size: int) -> None:
    fleet.go.unlink(missing_ok=True)
    known = len(fleet.begun())
    sleepers = fleet.submit(*(NewJob("sleeper", key=f"sleeper {known} {number}") for number in range(size)))
    zombie = fleet.start(threads=size)
    holder = fleet.holder(zombie)
    until(lambda: len(fleet.begun()) == known + size)
    fleet.signal(zombie, signal.SIGSTOP)
    other = fleet.start(threads=1)
    until(fleet.is_done, why="someone else has taken over")
    fleet.go.touch()
    fleet.signal(zombie, signal.SIGCONT)

    def refused() -> set[int]:
        notes = fleet.store.records.events(f"worker/{holder}")
        assert {note.type for note in notes} <= {"refused"}
        return {note.detail["job"] for note in notes if note.detail["code"] == "lease.lost"}

    until(lambda: refused() == set(sleepers), why="every late word is written down")
    final = fleet.final()
    assert {final.events[job][-1].detail["by"] for job in sleepers} == {"the second"}
    for process in (zombie, other):
        fleet.signal(process, signal.SIGKILL)


@pytest.mark.proves("G11")
def test_asked_to_leave_a_worker_finishes_what_it_began_and_charges_nobody(
    fleet: Fleet, scaled: Scaled[tuple[int, int]], tell: Tell
) -> None:
    rounds, crew = scaled((1, 1), (10, 10), (250, 10))
    fleet.lease = 60.0  # none is to be taken for dead because forty hands are slow on a small machine
    jobs = set[int]()
    for _ in range(rounds):
        leave_under_work(fleet, crew, jobs)
    tell(f"{rounds * crew} workers left when asked, {crew} at a time", stops=rounds * crew)


def leave_under_work(fleet: Fleet, crew: int, jobs: set[int]) -> None:
    workers = [fleet.start() for _ in range(crew)]
    names = {f"worker-{worker.pid}" for worker in workers}
    until(lambda: len(fleet.alive()) == crew)

    def are_at_work() -> bool:
        return names <= {who for who, _ in fleet.begun_by()}

    while True:
        known = len(jobs)
        jobs |= set(fleet.submit(*(NewJob("parcel", {"seconds": 0.3}, key=f"{known} {n}") for n in range(100 * crew))))
        until(lambda: are_at_work() or fleet.is_done())
        if are_at_work():
            break
    for worker in workers:
        fleet.signal(worker, signal.SIGTERM)
    for worker in workers:
        assert worker.wait(60) == 0, fleet.last_words()
        fleet.running.remove(worker)
    final = fleet.final()
    begun = set(fleet.begun())
    assert len(begun) == len(fleet.begun()), "nothing was begun twice"
    assert {job.id for job in final.jobs.values() if job.ended} == begun, "what was begun was finished"
    assert begun < jobs, "and nothing new was begun"
    assert {(job.holder, job.attempts) for job in final.jobs.values()} == {(None, 0)}
    assert [str(wrong) for wrong in check([*fleet.history(), *stopped(fleet)], final) if wrong.invariant != "E5"] == []


def stopped(fleet: Fleet) -> list[Entry]:
    """Every worker left when asked."""
    return [Entry(process, "ok", "stop") for process in {e.process for e in fleet.history() if e.act == "begin"}]


def test_what_cannot_finish_within_the_grace_is_killed_and_given_back_and_has_not_failed(fleet: Fleet) -> None:
    (nap,) = fleet.submit(NewJob("nap", key="nap"))
    worker = fleet.start("--exec", "nap=sleep 60", "--grace", "0.2")
    until(lambda: fleet.store.queue.get(nap).holder)
    fleet.signal(worker, signal.SIGTERM)
    assert worker.wait(60) == 0, fleet.last_words()
    job = fleet.store.queue.get(nap)
    assert (job.state, job.holder, job.attempts, job.code) == ("queued", None, 0, None)
    assert [event.type for event in fleet.store.records.events(job.subject)] == ["submitted"]
    assert audit(fleet.store) == []


def work_off(fleet: Fleet) -> tuple[float, int]:
    """With workers that are started again when they die: seconds from when all work until all is done, and deaths."""
    deaths, workers = 0, [fleet.start() for _ in range(WORKERS)]
    until(lambda: len(fleet.alive()) == WORKERS or any(worker.poll() is not None for worker in workers))
    began = looked = time.monotonic()
    while True:
        dead = [worker for worker in workers if worker.poll() is not None]
        deaths += sum(worker.returncode == -signal.SIGKILL for worker in dead)
        workers = [worker for worker in workers if worker not in dead] + [fleet.start() for _ in dead]
        if time.monotonic() - looked > 0.2:  # all jobs are counted for it, which would slow down what is measured
            if fleet.is_done():
                return time.monotonic() - began, deaths
            looked = time.monotonic()
        time.sleep(0.01)


def without_poison(folder: Path, count: int, lease: float) -> float:
    folder.mkdir()
    with Fleet(f"sqlite:///{folder}/custody.db", folder, lease) as fleet:
        fleet.submit(*parcels(count, 0.02))
        return work_off(fleet)[0]


def with_poison(folder: Path, count: int, lease: float) -> tuple[float, int]:
    """Seconds, and how many workers died; all that must be true of the others is looked at here."""
    folder.mkdir()
    with Fleet(f"sqlite:///{folder}/custody.db", folder, lease) as fleet:
        (poison,) = fleet.submit(NewJob("poison", key="poison", priority=40))
        others = fleet.submit(*parcels(count, 0.02))
        seconds, deaths = work_off(fleet)
        final = fleet.final()
        assert (final.jobs[poison].state, final.jobs[poison].code) == ("failed", "poison")
        assert {final.jobs[job].state for job in others} == {"done"}
        assert max(final.jobs[job].crashes for job in others) == 0
        assert fleet.wrong() == []
        assert audit(fleet.store) == []
    return seconds, deaths


@pytest.mark.proves("G12")
@pytest.mark.alone
def test_a_job_that_kills_its_workers_is_put_aside_and_the_others_are_done(
    tmp_path: Path, tell: Tell, scaled: Scaled[tuple[int, int, float]]
) -> None:
    # A disk that stands still for longer than a lease would make neighbours look as if they had killed.
    rounds, count, lease = scaled((1, 60, 3.0), (3, 10_000, 1.0), (9, 200_000, 1.0))
    plain, poisoned = list[float](), list[tuple[float, int]]()
    for number in range(rounds):  # in turns: what else the machine does in the meantime befalls both
        plain.append(without_poison(tmp_path / f"plain-{number}", count, lease))
        poisoned.append(with_poison(tmp_path / f"poisoned-{number}", count, lease))
    seconds, deaths = median(seconds for seconds, _ in poisoned), max(deaths for _, deaths in poisoned)
    slower = max(0.0, seconds / median(plain) - 1)
    tell(
        f"a job that kills its worker: put aside after {deaths} deaths; {count} others in {seconds:.1f} s, without it "
        f"in {median(plain):.1f} s (median of {rounds}): {seconds - median(plain):.1f} s for {deaths} new workers",
        deaths=deaths,
        slower=slower,
    )
    # A worker too slow to keep its lease is taken for a dead one: on a busy machine fewer need to die.
    assert 1 <= deaths <= 3, "among many, among few, alone"


POLL = 2.0


@pytest.mark.proves("G13")
@pytest.mark.alone
def test_without_wake_ups_a_job_waits_for_the_next_look_and_no_longer(
    fleet: Fleet, scaled: Scaled[int], tell: Tell, seed: int
) -> None:
    rng, waited = random.Random(13 + seed), list[float]()
    worker, disk = fleet.start("--no-wake", "--poll", str(POLL)), Disk(fleet.folder)
    fleet.holder(worker)
    disk.start()
    for number in range(scaled(2, 8, 200)):
        time.sleep(rng.uniform(0, POLL / 4))  # at any moment between two looks
        (job,) = fleet.submit(NewJob("parcel", key=f"lonely {number}"))
        submitted = time.monotonic()
        until(fleet.is_done)
        (begun,) = [entry.at for entry in fleet.history() if entry.act == "begin" and entry.job == job]
        waited.append(begun - submitted)
    standstill = disk.stop()
    most = share(sorted(waited), 0.9) / POLL
    tell(f"without wake-ups on {fleet.store.db.dialect}: begun after {most:.2f} polls at most", polls_waited=most)
    assert min(waited) <= 1.1 * POLL + 4 * standstill


@pytest.mark.proves("G13")
def test_without_wake_ups_everything_is_done_all_the_same(fleet: Fleet, scaled: Scaled[int], tell: Tell) -> None:
    count = scaled(100, 1_000, 100_000)
    for _ in range(2):
        fleet.start("--no-wake")
    until(lambda: len(fleet.alive()) == 2)
    submit_all(fleet, parcels(count))
    until(fleet.is_done, PATIENCE + count * 0.1, why="everything is done")
    tell("", jobs=count)
    check_all(fleet, count + count // 50 + 3 * count // 50)
