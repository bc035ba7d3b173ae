"""Giving out room on the working disk costs as much as what waits, not as what is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.ingest.states import JOB, JOB_KIND
from custody.ingest.steps.provision import LASTS, Provisioner
from custody.ingest.storage.working_disk import WorkingDisk
from custody.kernel.model.job import Change, Filter, Job, NewJob
from custody.kernel.stores import Store, open_store

LEASE = f"pass/{JOB_KIND}/provisioning"


class Disk(WorkingDisk):
    """Of a hundred bytes, all of them free, with a tally of who was asked what it has written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "", 0.0)
        self.asked = 0

    def free(self) -> tuple[int, int]:
        return 100, 100

    def used_by(self, job: Job) -> int:
        self.asked += 1
        return 0


class Clock:
    """A second passes whenever someone looks."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "work")


def jobs_in(store: Store, state: str, count: int, needed: int) -> list[Job]:
    """Jobs that have come as far as this state, each of which needs so many bytes."""
    made = store.queue.submit([NewJob(JOB_KIND, {}, machine=JOB) for _ in range(count)])
    claims = {claim.id: claim for claim in store.queue.claim_jobs([each.id for each in made], "w", 60)}
    moves = [
        Change(
            id_,
            "pending",
            state,
            "passed",
            "success",
            "w",
            True,
            None,
            claim.token,
            store.new_move(),
            claimed=claim.move,
            keep={"space_needed": needed},
            facts={"space_needed": needed},
        )
        for id_, claim in claims.items()
    ]
    assert all(answer.done for answer in store.queue.settle(moves))
    return [job for job in store.queue.every(Filter(kind=JOB_KIND, state=state)) if job.id in claims]


def turn(store: Store, provisioner: Provisioner, waiting: list[Job], holder: str = "we") -> set[int]:
    lease = store.leases.claim(LEASE, holder, 60)
    assert lease is not None
    try:
        return set(provisioner.decide(waiting))
    finally:
        store.leases.settle(lease)


def test_jobs_under_way_are_counted_now_and_then_and_not_by_every_pass(store: Store, disk: Disk) -> None:
    jobs_in(store, "downloading", 40, 1)
    waiting, clock = jobs_in(store, "provisioning", 1, 1), Clock()
    provisioner = Provisioner(store, disk, clock)
    assert turn(store, provisioner, waiting)
    assert disk.asked == 40
    for _ in range(5):
        turn(store, provisioner, waiting)
    assert disk.asked == 40, "another five passes asked nobody"
    clock.now += LASTS * 2
    turn(store, provisioner, waiting)
    assert disk.asked == 80


def test_what_was_given_away_since_the_count_is_not_given_away_again(store: Store, disk: Disk) -> None:
    first, second = jobs_in(store, "provisioning", 2, 60)
    provisioner = Provisioner(store, disk, Clock())
    assert turn(store, provisioner, [first]) == {first.id}
    assert turn(store, provisioner, [second]) == set()


def test_when_another_worker_has_given_room_away_it_is_counted_anew(store: Store, disk: Disk) -> None:
    (job,) = jobs_in(store, "provisioning", 1, 60)
    provisioner = Provisioner(store, disk, Clock())
    turn(store, provisioner, [])
    jobs_in(store, "downloading", 1, 60)  # let in by the other
    turn(store, Provisioner(store, disk, Clock()), [], "the other")
    assert turn(store, provisioner, [job]) == set()
