"""What may be done to a job from a page or the API: each one of the operator's moves, for one job.

The table is all there is to it: pages draw their forms from it, the API its choices, bulk actions theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from custody.errors import BadInput, Refused
from custody.kernel.model.job import Job
from custody.kernel.model.machine import Machine
from custody.kernel.operations.jobs import Operator, may_resume


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    title: str
    told: str  # what the page says afterwards
    consequence: str
    act: Callable[[Operator, int, str, int], object]  # who, which job, why, priority
    signal: str = ""  # what the job's table must allow
    needs_why: bool = True

    def fits(self, job: Job, machine: Machine) -> bool:
        """Could it be done now, as far as the row tells?"""
        if self.name == "cancel":
            return machine.allows(job.state, "cancel")
        if self.name == "resume":
            return job.holder is None and may_resume(job, machine)
        return job.holder is None and self.fits_state(job.state, job.ended, machine)

    def fits_state(self, state: str, ended: str | None, machine: Machine) -> bool:
        if self.signal:
            return machine.allows(state, self.signal)
        if self.name == "delete":
            return (ended is not None or state == "held") and (state, "delete") not in machine.instead
        return ended is None

    def command(self, job: int) -> str:
        """The same in a terminal."""
        why = ' --why "…"' if self.needs_why else ""
        return f"custody job {self.name} {job}{' 10' if self.name == 'prioritise' else ''}{why}"


ACTIONS: Final[Mapping[str, Action]] = {
    action.name: action
    for action in (
        Action(
            name="resume",
            title="Resume",
            told="will go on after the last state that passed",
            consequence="It goes on after the last state that passed; nothing that passed is done again.",
            act=lambda operator, job, why, _: operator.resume(job, why),
            signal="resume",
            needs_why=False,
        ),
        Action(
            name="release",
            title="Release",
            told="is released",
            consequence="It may be worked on again.",
            act=lambda operator, job, why, _: operator.release(job, why),
            signal="release",
            needs_why=False,
        ),
        Action(
            name="hold",
            title="Hold",
            told="is held",
            consequence="It will not start until somebody releases it.",
            act=lambda operator, job, why, _: operator.hold(job, why),
            signal="hold",
        ),
        Action(
            name="accept",
            title="Accept",
            told="is accepted",
            consequence="What waits for it goes on although it failed.",
            act=lambda operator, job, why, _: operator.accept(job, why),
            signal="accept",
        ),
        Action(
            name="prioritise",
            title="Change priority",
            told="has another place in its queue",
            consequence="Low numbers go first, from 0 to 99.",
            act=lambda operator, job, why, priority: operator.prioritise(job, priority, why),
            needs_why=False,
        ),
        Action(
            name="cancel",
            title="Cancel",
            told="is cancelled, or its worker was asked to stop",
            consequence="It ends. A worker that has it is asked to stop and to confirm that it did.",
            act=lambda operator, job, why, _: operator.cancel(job, why),
            signal="cancel",
        ),
        Action(
            name="delete",
            title="Delete",
            told="is deleted; its history stays",
            consequence="The job is removed, its history stays. "
            "A batch that is still open reports it; otherwise nobody is told.",
            act=lambda operator, job, why, _: operator.delete(job, why),
        ),
    )
}


def action_of(name: str) -> Action:
    try:
        return ACTIONS[name]
    except KeyError:
        raise BadInput(f"there is no action {name!r}", code="action", hint=", ".join(ACTIONS)) from None


def possible(job: Job, machine: Machine) -> Sequence[Action]:
    return [action for action in ACTIONS.values() if action.fits(job, machine)]


def must_be_meant(operator: Operator, action: Action, job: int, force: bool) -> None:
    """Programs are asked back, as people are: an open batch tells its depositor what was deleted."""
    batch = None if force or action.name != "delete" else operator.reported_by(job)
    if batch:
        raise Refused(
            f"batch {batch.id} is still open, and will report job {job} as deleted",
            code="batch.open",
            hint="repeat it with force=true if that is meant",
            job=job,
            batch=batch.id,
        )


def act(operator: Operator, name: str, job: int, why: str, priority: int = 50) -> Action:
    action = action_of(name)
    if action.needs_why and not why.strip():
        raise BadInput("say why, for the history", code="action.why", where="why")
    action.act(operator, job, why.strip()[:2000], priority)
    return action
