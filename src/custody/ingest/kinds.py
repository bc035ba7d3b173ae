"""What a worker can do for ingest: every step of a job and of a batch, the pass that gives out room, deliveries."""

from __future__ import annotations

from collections.abc import Sequence

from custody.ingest.adapters import Adapters
from custody.ingest.batch import batch, cleanup, notices
from custody.ingest.makers import BATCH_MAKER, DELIVER_MAKER, JOB_MAKER
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.steps import steps
from custody.ingest.steps.provision import Provisioner
from custody.ingest.storage.nodes import look_after
from custody.kernel.engine.kinds import Backoff, Chore, Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.machine import Machine
from custody.kernel.model.outcome import Outcome

ASK_NODES = 5.0  # seconds
CLEAN_EVERY = 3600.0
PATIENT = Backoff(first=2, most=900)

BATCH_STEPS = {
    "pending": batch.pending,
    "reporting": batch.reporting,
    "update-reporting": batch.update_reporting,
}


def kinds(world: Adapters, backoff: Backoff = PATIENT) -> Sequence[Kind]:
    """The ten daemons of the queue, and storing: run them in one worker or spread them over many."""
    return (
        *(
            _step(JOB_KIND, JOB, name, step, world=world, backoff=backoff)
            for name, step in steps.STEPS.items()
            if name not in world.external
        ),
        Kind(
            JOB_KIND,
            state="provisioning",
            machine=JOB,
            every=0.5,
            decide=Provisioner(world.store, world.disk).decide,
            maker=JOB_MAKER,
        ),
        *(_step(BATCH_KIND, BATCH, name, step, world=world, backoff=backoff) for name, step in BATCH_STEPS.items()),
        Kind(
            DELIVER_MAKER.kind,
            lambda work: notices.deliver(work, world),
            tries=20,
            backoff=Backoff(most=3600),
            maker=DELIVER_MAKER,
        ),
    )


def chores(world: Adapters) -> Sequence[Chore]:
    """Storage nodes that were away are asked whether they are back; what is over and done with is cleaned up."""
    nodes = Chore("ingest nodes", ASK_NODES, lambda: look_after(world.store, world.nodes))
    clean = Chore("ingest clean", CLEAN_EVERY, lambda: cleanup.clean_up(world, world.keep_days or None))
    return nodes, clean


def _step(kind: str, machine: Machine, state: str, step: steps.Step, world: Adapters, backoff: Backoff) -> Kind:
    def handler(work: Work) -> Outcome:
        return step(work, world)

    tries = batch.TRIES_BEFORE_FINAL if step is batch.pending else steps.TRIES
    maker = JOB_MAKER if kind == JOB_KIND else BATCH_MAKER
    return Kind(kind, handler, state=state, machine=machine, tries=tries, backoff=backoff, maker=maker)
