"""State machines are tables you can read aloud.

A `Machine` is a value: rows of moves. The engine asks it where a signal leads, the CLI which signals a person
may give, the docs draw their diagram from it, and the tests walk all of it. Most kinds of work use `WORK`;
only ingest needs tables of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from custody.errors import BadInput, StateConflict

End = Literal["passed", "failed", "cancelled", "superseded", "skipped", "deleted"]
By = Literal["worker", "admin", "engine"]

AFTER_LAST_PASSED: Final = "(after the last passed state)"


@dataclass(frozen=True, slots=True)
class Move:
    """From a state, on a signal, to a state."""

    frm: str
    signal: str
    to: str
    by: By = "worker"


@dataclass(frozen=True, slots=True)
class Machine:
    """A table of moves; which states hold work to do; how each final state counts."""

    name: str
    start: str
    moves: tuple[Move, ...]
    working: frozenset[str]  # states in which a worker has something to do
    ends: Mapping[str, End]  # states in which the job counts as ended, and how
    instead: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """what to do where a state does not allow a signal that people are likely to give"""
    _to: dict[tuple[str, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for move in reversed(self.moves):  # the first of two rows counts; asked for every move of every job
            self._to[move.frm, move.signal] = move.to

    def next(self, state: str, signal: str, last_passed: str | None = None) -> str:
        """Where `signal` leads from `state`."""
        to = self._to.get((state, signal))
        if to is not None:
            return self._after(last_passed) if to == AFTER_LAST_PASSED else to
        nothing = "nothing" if state in self.ends else "nothing, until it has ended"
        possible = f"possible from {state}: {', '.join(self.signals(state)) or nothing}"
        raise StateConflict(f"a job that is {state} cannot {signal}", hint=self.instead.get((state, signal), possible))

    def allows(self, state: str, signal: str) -> bool:
        return (state, signal) in self._to

    def signals(self, state: str) -> list[str]:
        """What a person may say to it. Passing and failing are its own to say."""
        return [
            move.signal for move in self.moves if move.frm == state and (move.by == "admin" or move.signal == "hold")
        ]

    def states(self) -> Iterator[str]:
        """Every state once, in the order of the table."""
        return iter(dict.fromkeys(name for move in self.moves for name in (move.frm, move.to) if name[0] != "("))

    def is_working(self, state: str) -> bool:
        return state in self.working

    def end(self, state: str) -> End | None:
        return self.ends.get(state)

    def _after(self, last_passed: str | None) -> str:
        return self.start if last_passed is None else self.next(last_passed, "pass")

    def diagram(self) -> str:
        """The table as a Mermaid state diagram, for the docs."""
        rows = [f"    {m.frm} --> {m.to.strip('()').replace(' ', '_')}: {m.signal}" for m in self.moves]
        return "\n".join(["stateDiagram-v2", f"    [*] --> {self.start}", *rows])


def _rows(frm: str, by: By, **signals: str) -> list[Move]:
    return [Move(frm, signal, to, by) for signal, to in signals.items()]


WORK: Final = Machine(
    name="work",
    start="queued",
    working=frozenset({"queued"}),
    ends={
        "done": "passed",
        "failed": "failed",
        "cancelled": "cancelled",
        "superseded": "superseded",
        "skipped": "skipped",
    },
    moves=(
        Move("queued", "pass", "done"),
        Move("queued", "fail", "failed"),
        Move("queued", "hold", "held", by="admin"),
        Move("queued", "cancel", "cancelled", by="admin"),
        Move("queued", "supersede", "superseded", by="engine"),
        Move("queued", "skip", "skipped", by="engine"),
        Move("held", "release", "queued", by="admin"),
        Move("held", "cancel", "cancelled", by="admin"),
        Move("held", "supersede", "superseded", by="engine"),
        Move("held", "skip", "skipped", by="engine"),
        Move("failed", "resume", "queued", by="admin"),
        Move("failed", "accept", "done", by="admin"),
        Move("cancelled", "resume", "queued", by="admin"),
        Move("cancelled", "accept", "done", by="admin"),  # a later one waits for it as for one that failed
        Move("skipped", "rearm", "queued", by="engine"),
        Move("skipped", "resume", "queued", by="admin"),
    ),
)


@dataclass(frozen=True, slots=True)
class Machines:
    """Which table a kind of job follows. Kinds not named here follow `WORK`."""

    by_kind: Mapping[str, Machine]

    def of(self, kind: str) -> Machine:
        return self.by_kind.get(kind, WORK)


PLAIN: Final = Machines({})


def check(machine: Machine) -> Sequence[str]:
    """What is wrong with a table: unreachable states, double rows, ends that still work."""
    states = set(machine.states())
    reached, frontier = {machine.start}, [machine.start]
    while frontier:
        here = frontier.pop()
        for move in machine.moves:
            if move.frm == here and move.to in states and move.to not in reached:
                reached.add(move.to)
                frontier.append(move.to)
    pairs = [(m.frm, m.signal) for m in machine.moves]
    return [
        *(f"{state} cannot be reached" for state in sorted(states - reached)),
        *(f"{frm} has two rows for {signal}" for frm, signal in sorted({p for p in pairs if pairs.count(p) > 1})),
        *(f"{state} is an end and a working state" for state in sorted(machine.working & set(machine.ends))),
        *(f"{state} is not in the table" for state in sorted(machine.working - states)),
    ]


def merged(*parts: Mapping[str, Machine]) -> Machines:
    """One table of tables for a process that runs several applications."""
    seen: dict[str, Machine] = {}
    for part in parts:
        for kind, machine in part.items():
            if kind in seen:
                raise BadInput(f"two applications claim the kind {kind!r}")
            seen[kind] = machine
    return Machines(seen)
