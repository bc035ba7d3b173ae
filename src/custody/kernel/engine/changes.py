"""What can happen to a job, as a table; and the one place where a move is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from custody.kernel.model.job import Change, Claim, Job
from custody.kernel.model.machine import Machine
from custody.kernel.model.quick import quick

TOLD: Final[Mapping[str, tuple[str, str]]] = {
    # a signal: the type of the event that tells of it, and its outcome
    "pass": ("passed", "success"),
    "fail": ("failed", "failure"),
    "retry": ("retried", "failure"),
    "wait": ("waited", "none"),
    "hold": ("held", "none"),
    "release": ("released", "none"),
    "cancel": ("cancelled", "none"),
    "supersede": ("superseded", "none"),
    "resume": ("resumed", "none"),
    "accept": ("accepted", "none"),
    "report": ("asked", "none"),
    "prioritise": ("prioritised", "none"),
}
STAYS: Final = frozenset({"retry", "wait", "prioritise"})
"""Signals that leave a job in its state, whatever its table says."""
new_change = quick(Change)  # one is made for every job


def change(job: Job, machine: Machine, signal: str, *, agent: str, move: str, to: str = "", **more: Any) -> Change:
    """Make the move that a signal leads to, by the job's table or to the state that is named; `more` are fields of
    `Change`."""
    type_, outcome = TOLD[signal]
    to = to or (job.state if signal in STAYS else machine.next(job.state, signal, job.last_passed))
    return new_change(
        id=job.id,
        frm=job.state,
        to=to,
        type=type_,
        outcome=more.pop("outcome", outcome),
        agent=agent,
        runnable=machine.is_working(to),
        ended=machine.end(to),
        token=more.pop("token", None),
        move=move,
        **more,
    )


def claimed_change(claim: Claim, machine: Machine, signal: str, *, move: str, **more: Any) -> Change:
    """Make a move that carries its claim, so that nobody else can write it."""
    job = claim.job
    return change(job, machine, signal, agent=claim.holder, move=move, token=claim.token, claimed=job.move, **more)
