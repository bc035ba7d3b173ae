"""A robot's label as a file, NAME.robot.toml, for robots that are not Python.

name = "pages"
version = "1.0"
event = "pages counted"
command = ["./count-pages.sh"]
timeout = 60
keep = "pages"              # where what it makes is kept, beside this file; left out, it is thrown away

[when]
types = ["object"]
past = ["ingested"]
old = ["pages counted"]

[sandbox]                   # or, above: sandbox = false, for a program that must see all that the worker sees
network = false             # or ["data.example.org"]: `custody robot grant`; this and the next three are what is usual
memory = 2048               # MiB
disk = 4096                 # MiB
processes = 256
needs = ["words.txt"]       # files and folders beside this one; the command's own are there anyway
variables = ["TESSDATA"]    # of the worker's environment, handed on
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from custody.errors import BadInput
from custody.kernel.model.trigger import Trigger
from custody.robots.programs.outputs import place_beside
from custody.robots.programs.program import program
from custody.robots.programs.sandboxed import confinement
from custody.robots.robot import Robot, robot

SUFFIX = ".robot.toml"
NEEDED: dict[str, type] = {"name": str, "version": str, "event": str, "command": list, "when": dict}
OPTIONS: dict[str, type | tuple[type, ...]] = {
    "at_once": int,
    "at_most": int,
    "timeout": (int, float),
    "hosts": int,
    "tries": int,
    "priority": int,
    "edits": bool,
    "rounds": int,
    "within": (int, float),
    "since": str,
    "sandbox": (bool, dict),
    "keep": str,
}
PROGRAMS = ("sandbox", "keep")
"""For programs only, not for functions."""


def read_label(path: Path) -> Robot:
    """The robot that a file describes; every mistake in it is named with its key."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", code="robot.label", where=str(path)) from error
    except (ValueError, RecursionError) as error:  # TOML, its encoding, or a number of thousands of digits
        raise BadInput(f"this is not TOML: {error}", code="robot.label", where=str(path)) from error
    return robot_of(given, path.parent.resolve(), str(path))


NEEDED_AS = {
    "name": 'name = "counter"',
    "version": 'version = "1.0"',
    "event": 'event = "counted", which it records',
    "command": 'command = ["./counter"], beside this file',
    "when": "[when], with past, absent, old, failed or types",
}


def robot_of(given: dict[str, Any], folder: Path, where: str) -> Robot:
    for key, kind in NEEDED.items():
        if not isinstance(given.get(key), kind) or not given[key]:
            raise BadInput(
                f"{key} is missing, or not what it must be", code="robot.label", where=where, hint=NEEDED_AS[key]
            )
    for key, value in given.items():
        if key in NEEDED:
            continue
        if key not in OPTIONS:
            known = ", ".join([*NEEDED, *OPTIONS])
            raise BadInput(f"unknown key {key}", code="robot.label", where=where, hint=f"known: {known}")
        if not isinstance(value, OPTIONS[key]) or (
            isinstance(value, bool) and OPTIONS[key] not in (bool, (bool, dict))
        ):
            raise BadInput(f"{key} = {value!r} is not what it must be", code="robot.label", where=where)
    if not all(isinstance(word, str) for word in given["command"]):
        raise BadInput("command is a list of words", code="robot.label", where=where)
    options = {key: value for key, value in given.items() if key in OPTIONS and key not in PROGRAMS}
    confined = confinement(given.get("sandbox", True), where)
    kept = place_beside(folder, given["keep"], where) if given.get("keep") else None
    label = robot(given["name"], given["version"], given["event"], _trigger(given["when"], where), **options)
    return label(program(given["command"], folder, confined, kept))


def _trigger(given: dict[str, Any], where: str) -> Trigger:
    for part, names in given.items():
        if part not in Trigger.__slots__:
            hint = f"known: {', '.join(Trigger.__slots__)}"
            raise BadInput(f"unknown key when.{part}", code="robot.label", where=where, hint=hint)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadInput(f"when.{part} is a list of names", code="robot.label", where=where)
    return Trigger.from_dict(given)
