"""What a worker can do: a handler for a kind of job in a state, with its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from custody.errors import BadInput
from custody.kernel.engine.makers import Maker
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Job
from custody.kernel.model.machine import WORK, Machine
from custody.kernel.model.outcome import Outcome
from custody.kernel.model.schedule import Schedule
from custody.kernel.model.suspicion import ENOUGH

Handler = Callable[[Work], Outcome]
Decide = Callable[[Sequence[Job]], Mapping[int, Outcome]]


def _nothing_to_kill(_: Job) -> None:
    """Work in a worker's own thread dies with the worker."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing pauses between tries, with some chance in them so that many do not come back at once."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 600.0
    jitter: float = 0.2

    def seconds(self, attempt: int, chance: float) -> float:
        """The pause after the n-th attempt; `chance` is between 0 and 1."""
        plain: float = min(self.most, self.first * self.factor ** max(0, min(attempt - 1, 60)))
        return plain * (1 + self.jitter * (2 * chance - 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """How jobs of one kind, in one state, are worked on."""

    kind: str  # or a prefix with * at its end
    handler: Handler | None = None
    state: str = WORK.start
    machine: Machine = WORK
    at_once: int = 0  # at most so many at once in one worker; 0: as many as it has threads
    at_most: int = 0  # at most so many claimed in the whole life of one worker; 0: no end
    spare: int = 0  # leave so many of a worker's threads to other kinds; the only thread there is may be used
    tries: int = 5  # attempts at a transient failure before it counts as a failure
    crashes: int = ENOUGH  # points against it by which it is put aside
    backoff: Backoff = field(default_factory=Backoff)
    decide: Decide | None = None  # a pass: looks at all waiting jobs at once and says what becomes of some
    every: float = 5.0  # seconds between passes
    confirm_dead: Callable[[Job], None] = _nothing_to_kill  # make sure that nothing of an earlier attempt runs
    onward: bool = False  # whoever ends one goes on with the next of its queue that this makes ready
    prepare: Callable[[Sequence[Work]], None] | None = None  # look at what was claimed together, in one go
    maker: Maker | None = None  # who may make them, and what they look like

    prefix: str = field(init=False)  # which queues this serves: see the generated column `queue`

    def __post_init__(self) -> None:
        prefix = self.kind[:-1] if self.kind.endswith("*") else f"{self.kind}|{self.state}|"
        object.__setattr__(self, "prefix", prefix)

    @property
    def may_survive(self) -> bool:
        """Something of it may still run when its worker is gone."""
        return self.confirm_dead is not _nothing_to_kill

    def serves(self, job: Job) -> bool:
        return f"{job.kind}|{job.state}|".startswith(self.prefix) and job.state == self.state


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to look after every now and then, by one process at a time: ask a repository, seal the history."""

    name: str
    every: float  # seconds
    do: Callable[[], object]
    finds: bool = False  # whether it may find work: nobody ends for lack of work before it has looked


@dataclass(frozen=True, slots=True)
class Serving:
    """All that one worker serves."""

    kinds: tuple[Kind, ...]
    chores: tuple[Chore, ...] = ()
    ended: Callable[[Schedule], str] | None = None  # why a schedule makes nothing any more
    _known: dict[tuple[str, str], Kind] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for kind in self.kinds:
            if kind.prefix in seen:
                raise BadInput(f"two handlers for {kind.prefix}", code="worker.kinds")
            seen.add(kind.prefix)

    def of(self, job: Job) -> Kind:
        if known := self._known.get((job.kind, job.state)):
            return known
        for kind in self.kinds:
            if kind.serves(job):
                self._known[job.kind, job.state] = kind
                return kind
        raise BadInput(f"nothing here serves {job.kind} in state {job.state}", code="worker.kinds")

    def prefixes(self) -> tuple[str, ...]:
        return tuple(kind.prefix for kind in self.kinds)

    def offers(self) -> tuple[str, ...]:
        """The kinds that may be asked for from outside."""
        return tuple(sorted({kind.kind for kind in self.kinds if kind.maker is not None and kind.maker.is_open}))

    def handled(self) -> Iterator[Kind]:
        return (kind for kind in self.kinds if kind.handler)

    def passes(self) -> Iterator[Kind]:
        return (kind for kind in self.kinds if kind.decide)

    def only(self, names: Sequence[str]) -> Serving:
        """The part of it that is named: kinds, or kind:state."""
        chosen = tuple(kind for kind in self.kinds if {kind.kind, f"{kind.kind}:{kind.state}"} & set(names))
        unknown = set(names) - {name for kind in self.kinds for name in (kind.kind, f"{kind.kind}:{kind.state}")}
        if unknown:
            known = ", ".join(sorted({kind.kind for kind in self.kinds}))
            raise BadInput(f"nothing serves {', '.join(sorted(unknown))}", code="worker.kinds", hint=f"known: {known}")
        return Serving(chosen, self.chores, self.ended)
