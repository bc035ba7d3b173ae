"""Looks over a line of robots for what would stop it, repeat it or never let it begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from custody.errors import BadInput
from custody.kernel.model.graph import cycle
from custody.robots.declaration import Robot
from custody.robots.programs.program import Program
from custody.robots.programs.sandboxed import beside

BEGINNINGS = frozenset({"ingested", "changed", "planned", "approved"})
"""Events that the applications themselves record, and the one that `custody robot approve` gives."""


@dataclass(frozen=True, slots=True)
class Remark:
    robot: str
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.robot}: {self.text} [{self.code}]"


def lint(robots: Sequence[Robot], known: frozenset[str] = BEGINNINGS) -> list[Remark]:
    """Everything that is probably not meant. `known` are events that come from elsewhere."""
    return [
        *_brakes(robots),
        *_requirements(robots, known),
        *_unreachable(robots, known),
        *_forgotten_brakes(robots, known),
        *_spellings(robots, known),
        *_contradictions(robots),
        *_circles(robots),
        *_editors(robots),
        *_needs(robots),
    ]


def _brakes(robots: Sequence[Robot]) -> Iterator[Remark]:
    for robot in robots:
        if robot.event not in robot.when.absent | robot.when.old:
            yield Remark(
                robot.name, "no-brake", f"its own event {robot.event} is in neither absent nor old: it would never stop"
            )


def _requirements(robots: Sequence[Robot], known: frozenset[str]) -> Iterator[Remark]:
    made = {robot.event for robot in robots} | known
    for robot in robots:
        for event in sorted((robot.when.past | robot.when.failed) - made):
            yield Remark(robot.name, "nobody", f"it waits for {event}, which nobody records")


def _unreachable(robots: Sequence[Robot], known: frozenset[str]) -> Iterator[Remark]:
    """Those whose turn never comes, although somebody would record what they wait for."""
    made = {robot.event for robot in robots} | known
    come, seen = set(known), set[str]()
    while new := [each for each in robots if each.name not in seen and each.when.past | each.when.failed <= come]:
        seen |= {robot.name for robot in new}
        come |= {robot.event for robot in new}
    for robot in robots:
        if robot.name not in seen and robot.when.past | robot.when.failed <= made:
            late = ", ".join(sorted((robot.when.past | robot.when.failed) - come))
            yield Remark(robot.name, "unreachable", f"it waits for {late}, whose own robot never gets its turn")


def _forgotten_brakes(robots: Sequence[Robot], known: frozenset[str]) -> Iterator[Remark]:
    """An event that no robot records and that most must not have had is a brake; who forgets it does not stop."""
    made = {robot.event for robot in robots} | known
    for brake in sorted({event for robot in robots for event in robot.when.absent} - made):
        without = [robot.name for robot in robots if brake not in robot.when.absent]
        if without and len(without) * 2 <= len(robots):
            yield Remark(", ".join(without), "brake", f"{brake} stops the others of this line, but not this one")


def _spellings(robots: Sequence[Robot], known: frozenset[str]) -> Iterator[Remark]:
    names: dict[str, set[str]] = {}
    for name in {event for robot in robots for event in {robot.event, *robot.when.mentions()}} | known:
        names.setdefault(name.casefold(), set()).add(name)
    for spellings in names.values():
        if len(spellings) > 1:
            users = sorted(robot.name for robot in robots if spellings & {robot.event, *robot.when.mentions()})
            yield Remark(", ".join(users), "spelling", f"{' and '.join(sorted(spellings))} differ only by case")


def _contradictions(robots: Sequence[Robot]) -> Iterator[Remark]:
    for robot in robots:
        when = robot.when
        for event in sorted((when.past | when.failed) & when.absent | (when.past & when.failed)):
            yield Remark(robot.name, "never", f"{event} cannot be both: it would never wake")


def _circles(robots: Sequence[Robot]) -> Iterator[Remark]:
    makers: dict[str, list[str]] = {}
    for robot in robots:
        makers.setdefault(robot.event, []).append(robot.name)
    needs = {robot.name: [maker for event in robot.when.past for maker in makers.get(event, [])] for robot in robots}
    found = cycle(needs)
    if found:
        yield Remark(found[0], "circle", f"they wait for each other: {' → '.join(found)}")


def _editors(robots: Sequence[Robot]) -> Iterator[Remark]:
    editors = [robot.name for robot in robots if robot.edits and robot.when.old]
    if len(editors) > 1:
        yield Remark(
            ", ".join(editors), "editors", "each changes items and wakes on changes: they would wake each other"
        )


def _needs(robots: Sequence[Robot]) -> Iterator[Remark]:
    """What a program could not be given: every run of it would fail."""
    for robot in robots:
        if not isinstance(robot.work, Program) or robot.work.confined is None:
            continue
        for need in robot.work.confined.needs:
            try:
                beside(robot.work.folder.resolve(), need)
            except BadInput as error:
                yield Remark(robot.name, "needs", f"{error.message}: every run would fail")
