"""Finding robots: Python files, labels of programs, folders of both, installed modules, and entry points.

A Python file is imported, as whoever runs this and outside of any sandbox. So labels are read first: a file that one
of them names in its command (or in what it needs) is that program's own and is never imported, by whatever name it is
asked for: its path, a link to it, the name of a module or of a package around it.
"""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path

from custody.errors import BadInput
from custody.robots.programs.label import SUFFIX, read_label
from custody.robots.programs.program import Program
from custody.robots.robot import Robot

GROUP = "custody.robots"
"""The group of entry points in which an installed package offers robots."""
INSTALLED = "installed"
"""The place that stands for all of them; `installed:NAME` is one."""


def find_robots(places: Iterable[str]) -> list[Robot]:
    """Every robot in these places; two of one name are refused."""
    found: dict[str, Robot] = {}
    places = list(places)
    labels = {label: read_label(label) for label in _labels(places)}
    for place in places:
        robots = list(_in(place, labels))
        if not robots:
            raise BadInput(
                f"there is no robot in {place}", code="robot.none", hint=f"a function under @robot(…), or *{SUFFIX}"
            )
        for robot in robots:
            if robot.name in found and found[robot.name] != robot:
                raise BadInput(f"there are two robots named {robot.name}", code="robot.twice", where=place)
            found[robot.name] = robot
    return list(found.values())


def _labels(places: Iterable[str]) -> list[Path]:
    """Those that are asked for, and those that lie beside a Python file that is."""
    found = [Path(place) for place in places if place.endswith(SUFFIX) and Path(place).is_file()]
    for place in map(Path, places):
        if place.is_dir() or place.suffix == ".py":
            found += _beside(place)
    return found


def _beside(place: Path) -> Iterator[Path]:
    """The labels in a folder, or beside a file; beside what it is a link to, too."""
    for path in dict.fromkeys((place, place.resolve())):
        folder = path if path.is_dir() else path.parent
        if folder.is_dir():
            yield from (file for file in sorted(folder.iterdir()) if file.name.endswith(SUFFIX) and file.is_file())


def must_not_be_a_program(file: Path, labels: Mapping[Path, Robot] | None = None) -> None:
    """Refuse to import what a label beside it, or one of these, names as its program."""
    known = {**(labels or {}), **{label: read_label(label) for label in _beside(file)}}
    if label := _program_of(file, known):
        raise BadInput(
            f"it is the program of {label}, and is not imported",
            code="robot.file",
            where=str(file),
            hint=f"name {label}: then it runs as its label says",
        )


def _in(place: str, labels: Mapping[Path, Robot]) -> Iterator[Robot]:
    path = Path(place)
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.name.endswith(SUFFIX) or (file.suffix == ".py" and not _program_of(file, labels)):
                yield from _in_file(file, labels)
    elif place.endswith((".py", SUFFIX)):
        if path.suffix == ".py" and path.is_file():
            must_not_be_a_program(path, labels)
        yield from _in_file(path, labels)
    elif place == INSTALLED or place.startswith(f"{INSTALLED}:"):
        yield from _installed(place.removeprefix(INSTALLED).removeprefix(":"), labels)
    else:
        yield from _in_module(place, labels)


def _program_of(file: Path, labels: Mapping[Path, Robot]) -> Path | None:
    """The label whose command names this file, by whatever path or link, alone or within a line for a shell."""
    return next((label for label, robot in labels.items() if _names_it(robot.work, file)), None)


def _names_it(work: object, file: Path) -> bool:
    if not isinstance(work, Program):
        return False
    words = [*work.command, *(work.confined.needs if work.confined else ())]
    for word in words:
        for part in (word, *re.split(r"[\s;&|<>()'\"=]+", word)):
            if part and "\0" not in part and _same(work.folder / part, file):
                return True
    module = work.folder / f"{file.stem}.py"
    return any(pair == ("-m", file.stem) for pair in pairwise(words)) and _same(module, file)


def _same(named: Path, file: Path) -> bool:
    try:
        return named.samefile(file)
    except OSError:  # it is not there, or no path at all
        return False


def _in_file(path: Path, labels: Mapping[Path, Robot]) -> Iterator[Robot]:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", code="robot.none")
    if path.name.endswith(SUFFIX):
        yield labels[path]
        return
    try:
        names = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"it cannot be run: {type(error).__name__}: {error}", code="robot.file", where=str(path)
        ) from error
    yield from _of(names)


def _in_module(place: str, labels: Mapping[Path, Robot]) -> Iterator[Robot]:
    for file in _files_of(place):
        must_not_be_a_program(file, labels)
    try:
        yield from _of(vars(importlib.import_module(place)))
    except ImportError as error:
        raise BadInput(
            f"cannot import {place}: {error}",
            code="robot.none",
            hint="a .py file, a folder, a module, *.robot.toml, or `installed`",
        ) from error


def _files_of(module: str) -> Iterator[Path]:
    """What importing it would run: its file, and those of the packages that it is in. Nothing is run to find them."""
    within: Sequence[str] | None = None
    for end in range(1, len(parts := module.split(".")) + 1):
        name = ".".join(parts[:end])
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        spec = next((found for finder in finders if (found := finder.find_spec(name, within))), None)
        if spec is None:
            return
        if spec.origin and spec.has_location:
            yield Path(spec.origin)
        within = list(spec.submodule_search_locations or ())


def _installed(name: str, labels: Mapping[Path, Robot]) -> Iterator[Robot]:
    """What packages offer: a robot, several, or a module of them."""
    for entry in entry_points(group=GROUP):
        if name in ("", entry.name):
            for file in _files_of(entry.module):
                must_not_be_a_program(file, labels)
            offered = entry.load()
            yield from _of({"it": offered} if isinstance(offered, Robot) else _names(offered))


def _names(offered: object) -> dict[str, object]:
    if isinstance(offered, list | tuple):
        return {str(number): each for number, each in enumerate(offered)}
    return dict(vars(offered))


def _of(names: dict[str, object]) -> Iterator[Robot]:
    return (value for value in names.values() if isinstance(value, Robot))
