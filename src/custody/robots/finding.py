"""Finding robots: Python files, labels of programs, folders of both, installed modules, and entry points."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

from custody.model.errors import BadInput
from custody.robots.label import SUFFIX, read_label
from custody.robots.robot import Robot

GROUP = "custody.robots"
"""The group of entry points in which an installed package offers robots."""
INSTALLED = "installed"
"""The place that stands for all of them; `installed:NAME` is one."""


def find_robots(places: Iterable[str]) -> list[Robot]:
    """Every robot in these places; two of one name are refused."""
    found: dict[str, Robot] = {}
    for place in places:
        robots = list(_in(place))
        if not robots:
            raise BadInput(
                f"there is no robot in {place}", code="robot.none", hint=f"a function under @robot(…), or *{SUFFIX}"
            )
        for robot in robots:
            if robot.name in found and found[robot.name] != robot:
                raise BadInput(f"there are two robots named {robot.name}", code="robot.twice", where=place)
            found[robot.name] = robot
    return list(found.values())


def _in(place: str) -> Iterator[Robot]:
    path = Path(place)
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.name.endswith((".py", SUFFIX)):
                yield from _in_file(file)
    elif place.endswith((".py", SUFFIX)):
        yield from _in_file(path)
    elif place == INSTALLED or place.startswith(f"{INSTALLED}:"):
        yield from _installed(place.removeprefix(INSTALLED).removeprefix(":"))
    else:
        yield from _in_module(place)


def _in_file(path: Path) -> Iterator[Robot]:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", code="robot.none")
    if path.name.endswith(SUFFIX):
        yield read_label(path)
        return
    try:
        names = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"it cannot be run: {type(error).__name__}: {error}", code="robot.file", where=str(path)
        ) from error
    yield from _of(names)


def _in_module(place: str) -> Iterator[Robot]:
    try:
        yield from _of(vars(importlib.import_module(place)))
    except ImportError as error:
        raise BadInput(
            f"cannot import {place}: {error}",
            code="robot.none",
            hint="a .py file, a folder, a module, *.robot.toml, or `installed`",
        ) from error


def _installed(name: str) -> Iterator[Robot]:
    """What packages offer: a robot, several, or a module of them."""
    for entry in entry_points(group=GROUP):
        if name in ("", entry.name):
            offered = entry.load()
            yield from _of({"it": offered} if isinstance(offered, Robot) else _names(offered))


def _names(offered: object) -> dict[str, object]:
    if isinstance(offered, list | tuple):
        return {str(number): each for number, each in enumerate(offered)}
    return dict(vars(offered))


def _of(names: dict[str, object]) -> Iterator[Robot]:
    return (value for value in names.values() if isinstance(value, Robot))
