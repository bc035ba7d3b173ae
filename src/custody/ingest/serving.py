"""What a worker can do for ingest: every step of a job and of a batch, the pass that gives out room, deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custody.engine.kinds import Backoff, Kind
from custody.engine.work import Work
from custody.ingest import batch, cleaning, notices, steps
from custody.ingest.disk import Room, WorkingDisk, admit, promised
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.world import World
from custody.model.job import Filter, Job
from custody.model.machine import Machine
from custody.model.outcome import Outcome

ADMITTED = ("downloading", "processing", "storing", "recording", "notify")
"""States in which a job has, or will soon have, bytes on the working disk."""

PATIENT = Backoff(first=2, most=900)

BATCH_STEPS = {
    "pending": batch.pending,
    "reporting": batch.reporting,
    "update-reporting": batch.update_reporting,
}


def kinds(world: World, backoff: Backoff = PATIENT) -> Sequence[Kind]:
    """The ten daemons of the queue, and storing: run them in one worker or spread them over many."""
    return (
        *(
            _step(JOB_KIND, JOB, name, step, world, backoff)
            for name, step in steps.STEPS.items()
            if name not in world.external
        ),
        Kind(JOB_KIND, state="provisioning", machine=JOB, decide=lambda jobs: provision(jobs, world), every=0.5),
        *(_step(BATCH_KIND, BATCH, name, step, world, backoff) for name, step in BATCH_STEPS.items()),
        Kind(notices.DELIVER, lambda work: notices.deliver(work, world), tries=20, backoff=Backoff(most=3600)),
        Kind(cleaning.CLEAN, lambda work: cleaning.clean(work, world)),
    )


def _step(kind: str, machine: Machine, state: str, step: steps.Step, world: World, backoff: Backoff) -> Kind:
    def handler(work: Work) -> Outcome:
        return step(work, world)

    return Kind(kind, handler, state=state, machine=machine, backoff=backoff)


def provision(waiting: Sequence[Job], world: World) -> Mapping[int, Outcome]:
    """Who may have room on this machine's working disk."""
    disk = world.disk
    free, total = disk.free()
    free -= promised((job, disk.used_by(job)) for job in _admitted(world, disk))
    return admit(waiting, Room(free, total, disk.threshold), disk.place, world.store.now())


def _admitted(world: World, disk: WorkingDisk) -> Sequence[Job]:
    return [
        job
        for state in ADMITTED
        for job in world.store.queue.every(Filter(kind=JOB_KIND, state=state))
        if job.place == disk.place
    ]
