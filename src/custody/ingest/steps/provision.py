"""Who may have room on a working disk: decided over all that wait at once, and asked by `why` in the same words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from custody.ingest.states import JOB_KIND
from custody.ingest.storage.working_disk import Room, WorkingDisk, admit, promised, space_needed
from custody.kernel.model.job import Filter, Job
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.model.why import Reason
from custody.kernel.stores import Store

ADMITTED = ("downloading", "processing", "storing", "recording", "notify")
"""States in which a job has, or will soon have, bytes on the working disk."""
LASTS = 10
A_TURN = 2
"""What claiming and giving back a lease adds to its token."""


class Provisioner:
    """Gives out the room of this machine's working disk.

    What admitted jobs were promised is not counted anew by each pass: that would read every job under way to let in
    the next. A count is good for ten times as long as it took, with what was given away since added to it, and only
    while nobody else gives anything away. Between two counts promises only shrink: it errs on the safe side.
    """

    def __init__(self, store: Store, disk: WorkingDisk, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._disk, self._clock = store, disk, clock
        self._promised, self._until, self._turn = 0, 0.0, 0

    def decide(self, waiting: Sequence[Job]) -> Mapping[int, Outcome]:
        turn = self._whose_turn()
        if turn != self._turn + A_TURN or self._clock() >= self._until:
            started = self._clock()
            self._promised = _promised(self._store, self._disk)
            self._until = self._clock() + LASTS * (self._clock() - started)
        self._turn = turn
        chosen = admit(waiting, _room(self._disk, self._promised), self._disk.place, self._store.now())
        self._promised += sum(space_needed(job) or 0 for job in waiting if isinstance(chosen.get(job.id), Passed))
        return chosen

    def _whose_turn(self) -> int:
        """The token of the pass's lease: it tells whether another worker has decided since we did."""
        lease = self._store.leases.get(f"pass/{JOB_KIND}/provisioning")
        return lease.token if lease else 0


def why_no_room(job: Job, store: Store, disk: WorkingDisk) -> Reason | None:
    """Why a job that waits for room has none, by asking for all that wait; None when it will have some."""
    waiting = [each for each in store.queue.every(Filter(kind=JOB_KIND, state="provisioning")) if each.unmet == 0]
    room = _room(disk, _promised(store, disk))
    if job.id in admit(waiting, room, disk.place, store.now()):
        return None
    needed = space_needed(job)
    wanted = "its size is not known" if needed is None else f"it needs {needed} bytes"
    kept = int(room.total * room.threshold)
    return Reason(
        "space",
        f"there is no room for it: {wanted}, {max(0, room.free)} are free on the working disk, {kept} must stay free",
        "jobs ahead of it end and give back their room, or someone makes room on the working disk",
        job.changed,
    )


def _room(disk: WorkingDisk, given_away: int) -> Room:
    free, total = disk.free()
    return Room(free - given_away, total, disk.threshold)


def _promised(store: Store, disk: WorkingDisk) -> int:
    return promised((job, disk.used_by(job)) for job in _admitted(store, disk))


def _admitted(store: Store, disk: WorkingDisk) -> Sequence[Job]:
    return [
        job
        for state in ADMITTED
        for job in store.queue.every(Filter(kind=JOB_KIND, state=state))
        if job.place == disk.place
    ]
