"""Finding robots: in a Python file, in a folder of them, or in an installed module."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path

from custody.model.errors import BadInput
from custody.robots.robot import Robot


def find_robots(places: Iterable[str]) -> list[Robot]:
    """Every robot in these places; two of one name are refused."""
    found: dict[str, Robot] = {}
    for place in places:
        robots = list(_in(place))
        if not robots:
            raise BadInput(f"there is no robot in {place}", code="robot.none", hint="a function under @robot(…)")
        for robot in robots:
            if robot.name in found and found[robot.name] != robot:
                raise BadInput(f"there are two robots named {robot.name}", code="robot.twice", where=place)
            found[robot.name] = robot
    return list(found.values())


def _in(place: str) -> Iterator[Robot]:
    path = Path(place)
    if path.is_dir():
        for file in sorted(path.glob("*.py")):
            yield from _of(runpy.run_path(str(file)))
    elif path.suffix == ".py":
        if not path.is_file():
            raise BadInput(f"there is no file {place}", code="robot.none")
        yield from _of(runpy.run_path(str(path)))
    else:
        try:
            yield from _of(vars(importlib.import_module(place)))
        except ImportError as error:
            raise BadInput(
                f"cannot import {place}: {error}", code="robot.none", hint="a file, a folder or a module"
            ) from error


def _of(names: dict[str, object]) -> Iterator[Robot]:
    return (value for value in names.values() if isinstance(value, Robot))
