"""Edges between jobs, and what each kind of end does to those who wait.

    needs       waits for success (or what `wants` says)
    follows     waits for any end
    supersedes  is not an edge to one job but to every older instance of the same task on the same line

An edge points at a job that exists. Whether it is met is decided when the job it points at ends, in the same
transaction, from one small table: `SATISFIES`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from custody.kernel.model.machine import End

Wants = Literal["success", "finished", "failure", "passable"]
Otherwise = Literal["wait", "skip"]

SATISFIES: Final[Mapping[Wants, frozenset[End]]] = {
    "success": frozenset({"passed"}),
    "finished": frozenset({"passed", "failed", "cancelled", "superseded", "skipped", "deleted"}),
    "failure": frozenset({"failed"}),
    # What a revision asks of the one before it: superseded and skipped work is no obstacle.
    "passable": frozenset({"passed", "superseded", "skipped"}),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """This job waits for `on`; if `on` ends otherwise, it goes on waiting, visibly, or is skipped."""

    on: int
    wants: Wants = "success"
    otherwise: Otherwise = "wait"


def satisfied(wants: Wants, end: End | None) -> bool:
    return end is not None and end in SATISFIES[wants]


T = TypeVar("T", bound=Hashable)


def cycle(needs: Mapping[T, Iterable[T]]) -> list[T]:
    """One cycle in a graph of needs, as a walk that ends where it began; empty when there is none."""
    state: dict[T, Literal["open", "closed"]] = {}
    for start in needs:
        if found := _walk(start, needs, state):
            return found
    return []


def _walk(start: T, needs: Mapping[T, Iterable[T]], state: dict[T, Literal["open", "closed"]]) -> list[T]:
    # Depth first, with the path kept by hand: graphs of needs may be deeper than Python's stack.
    if start in state:
        return []
    path, branches = [start], [iter(needs.get(start, ()))]
    state[start] = "open"
    while path:
        for child in branches[-1]:
            if state.get(child) == "open":
                return [*path[path.index(child) :], child]
            if child not in state:
                state[child] = "open"
                path.append(child)
                branches.append(iter(needs.get(child, ())))
                break
        else:
            state[path.pop()] = "closed"
            branches.pop()
    return []
