"""What passes through the pipe: each part returns one of these, and the worker hands it on.

fetch, rescue → Claimed → admit → Work → run → Finished or Lost → settle → Settled or Lost → leave
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Answer, Change, Claim


class Claimed(NamedTuple):
    """Jobs that the store has given to this worker together."""

    kind: Kind
    claims: list[Claim]
    asked_at: float  # on the monotonic clock, before the claim was sent: from then on the lease is trusted
    rescued: bool = False  # from a worker that vanished


@dataclass(slots=True)
class Finished:
    """A piece of work and what is to be said about it."""

    work: Work
    change: Change
    rephrased: bool = False  # its first words could not be written


class Lost(NamedTuple):
    """A piece of work about which nothing can be said any more."""

    work: Work
    why: str  # it was stopped; empty where it was refused something


class Settled(NamedTuple):
    """A piece of work, the last word about it, and what the store answered: done, or refused for good."""

    work: Work
    change: Change
    answer: Answer
    asked_at: float  # when the settle was sent that may have claimed the next one


End: TypeAlias = Settled | Lost
