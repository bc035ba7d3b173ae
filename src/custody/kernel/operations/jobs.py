"""What an operator may do to a job: each is one move with one event, allowed or refused by the job's own table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from custody.errors import CustodyError, LeaseLost, NotFound, Refused, StateConflict
from custody.formats.shell import command
from custody.kernel.engine.changes import change
from custody.kernel.engine.judge import FORGED
from custody.kernel.model.job import Answer, Filter, Job
from custody.kernel.model.machine import Machine, Machines
from custody.kernel.ports import Store


@dataclass(frozen=True, slots=True)
class Operator:
    """A person (or a program on their behalf) with a store and the tables of its kinds."""

    store: Store
    machines: Machines
    who: str

    def hold(self, job_id: int, why: str) -> Answer:
        return self._signal(job_id, "hold", why)

    def release(self, job_id: int, why: str = "") -> Answer:
        job = self.store.queue.get(job_id)
        self._refuse_while_held(job)
        return self._signal(job_id, "release", why)

    def resume(self, job_id: int, why: str = "") -> Answer:
        """Go on after the last state that passed; counts as a retry by a person."""
        job = self.store.queue.get(job_id)
        machine = self._machine(job)
        if may_resume(job, machine) and not machine.allows(job.state, "resume"):
            return self._must(job, self._try_signal(job, "resume", why, to=machine.start, retries=1))
        return self._signal(job_id, "resume", why, retries=1)

    def accept(self, job_id: int, why: str) -> Answer:
        """Let those who wait go on although it failed."""
        return self._signal(job_id, "accept", why)

    def cancel(self, job_id: int, why: str) -> Answer:
        """End it. While someone works on it, they are asked to stop and confirm."""
        job = self.store.queue.get(job_id)
        self._machine(job).next(job.state, "cancel")
        if job.holder is None:
            answer = self._try_signal(job, "cancel", why)
            if answer.done:
                return answer
        if self.store.queue.revoke(job_id, "cancel", self.who, why):
            return Answer(job_id, True, code="asked", why=f"{job.holder or 'its worker'} was asked to stop")
        job = self.store.queue.get(job_id)
        return self._must(job, self._try_signal(job, "cancel", why))

    def reported_by(self, job_id: int) -> Job | None:
        """The open batch that would report this job as deleted: who deletes it is asked first whether that is meant."""
        try:
            parent = self.store.queue.get(job_id).parent
            batch = self.store.queue.get(parent) if parent else None
        except NotFound:
            return None  # nothing to do, or nobody is left to be told
        return batch if batch and batch.ended is None else None

    def delete(self, job_id: int, why: str) -> bool:
        """Remove a job that has ended or is held. Its history stays. Again: nothing to do."""
        try:
            job = self.store.queue.get(job_id)
        except NotFound:
            return False
        if job.ended is None and job.state != "held":
            stops = self._machine(job).allows(job.state, "cancel")
            raise StateConflict(
                f"job {job_id} is {job.state}: only jobs that have ended or are held can be deleted",
                hint=f"`custody job cancel {job_id}` first" if stops else "wait until it has ended",
            )
        if instead := self._machine(job).instead.get((job.state, "delete")):
            raise StateConflict(f"job {job_id} is {job.state}: it cannot be deleted", hint=instead)
        return self.store.queue.delete(job_id, self.who, why, job.state)  # or it would go though it was resumed since

    def prioritise(self, job_id: int, priority: int, why: str = "") -> Answer:
        job = self.store.queue.get(job_id)
        return self._must(job, self._try_signal(job, "prioritise", why, priority=max(0, min(99, priority))))

    def may_resume(self, job: Job) -> bool:
        return may_resume(job, self._machine(job))

    def every(
        self, where: Filter, act: Callable[[int], object], fits: Callable[[Job], bool] = lambda job: True
    ) -> Iterator[tuple[int, str]]:
        """Do one thing to all that match and fit: each job's id, and "" or why it was refused."""
        for job in filter(fits, self.store.queue.every(where)):
            try:
                act(job.id)
            except CustodyError as error:
                yield job.id, str(error)
            else:
                yield job.id, ""

    def _refuse_while_held(self, job: Job) -> None:
        names = {("collection", job.collection), ("batch", str(job.parent or ""))}
        for hold in self.store.queue.holds():
            if (hold.scope, hold.name) in names:
                raise Refused(
                    f"{hold.scope} {hold.name} is held by {hold.who}: {hold.why}",
                    code="held",
                    hint=f"`{command('hold lift', hold.scope, hold.name)}` first",
                )

    def _machine(self, job: Job) -> Machine:
        return self.machines.of(job.kind)

    def _signal(self, job_id: int, signal: str, why: str, **more: Any) -> Answer:
        job = self.store.queue.get(job_id)
        return self._must(job, self._try_signal(job, signal, why, **more))

    def _try_signal(self, job: Job, signal: str, why: str, **more: Any) -> Answer:
        detail = {"why": why} if why else {}
        move = self.store.new_move()
        return self.store.queue.move(
            change(job, self._machine(job), signal, agent=self.who, move=move, detail=detail, **more)
        )

    def _must(self, job: Job, answer: Answer) -> Answer:
        if answer.done:
            return answer
        errors = {"lease.lost": LeaseLost, "state.conflict": StateConflict, "not-found": NotFound}
        stops = "cancel it, or " if self._machine(job).allows(job.state, "cancel") else ""
        hint = f"{stops}wait until it has ended" if answer.code == "leased" else ""
        raise errors.get(answer.code, Refused)(answer.why, code=answer.code, hint=hint)


def may_resume(job: Job, machine: Machine) -> bool:
    """Does its table say so? What was refused before anything of it was done begins again, whatever its table says: it
    is not what was handed in that was at fault."""
    refused_at_first = job.ended == "failed" and job.code == FORGED and job.last_passed is None
    return machine.allows(job.state, "resume") or refused_at_first
