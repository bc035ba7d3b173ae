"""Reads the property files of the old framework (`autonomous.*`), as labels of ours, with remarks on the rest.

A property file does not name the robot or its event (they were in the program); the event is the one that the
robot must not have had yet, where there is only one such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from custody.errors import BadInput
from custody.robots.lint import Remark
from custody.robots.programs.label import robot_of
from custody.robots.robot import Robot

SUFFIX = ".properties"
OURS = "autonomous."

EVENTS = {
    "autonomous.pastSuccessfulEvents": "past",
    "autonomous.futureEvents": "absent",
    "autonomous.oldEvents": "old",
    "autonomous.itemTypes": "types",
}
NUMBERS: Mapping[str, tuple[str, Callable[[int], float]]] = {
    "autonomous.maxThreads": ("at_once", int),
    "autonomous.workQueueSize": ("at_most", int),
    "autonomous.maxRuntimeForWorkers": ("timeout", lambda milliseconds: milliseconds / 1000),
}
WITHOUT_PLACE = {
    "autonomous.lockserver.url": "locks are leases in the store; or `custody robot run --locks zookeeper://…`",
    "autonomous.sboi.url": "there is no index to ask: events wake robots",
    "autonomous.sboi.pageSize": "there is no index to page through",
    "autonomous.component.maxResults": "a report keeps its first hundred findings",
    "autonomous.component.threadsPerBatch": "inside one item a robot is its own master",
    "autonomous.component.fedoraRetries": "a surprise is tried again with growing pauses: `tries`",
    "autonomous.component.fedoraDelayBetweenRetries": "a surprise is tried again with growing pauses: `tries`",
}
DEFAULT_TIMEOUT = 3600.0


@dataclass(slots=True)
class Read:
    """What a property file says."""

    label: dict[str, Any]
    remarks: list[Remark] = field(default_factory=list)
    robot: Robot | None = None


def labels_of(path: Path, name: str = "", event: str = "", command: str = "./work", version: str = "1.0") -> Read:
    """One file as a label; what has no place here is remarked on, never dropped in silence."""
    try:
        text = path.read_text(encoding="latin-1")  # as the format demands; others are written as escapes
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", code="robot.properties", where=str(path)) from error
    values = dict(pairs(text))
    name = name or path.name.removesuffix(SUFFIX)
    when = {part: names for key, part in EVENTS.items() if (names := _list(values.get(key, "")))}
    read = Read({"name": name, "version": version, "event": event, "command": command.split(), "when": when})
    read.remarks += _remarks(name, values, path)
    for key, (option, read_number) in NUMBERS.items():
        if key in values:
            read.label[option] = read_number(_number(values[key], key, path))
    read.label.setdefault("timeout", DEFAULT_TIMEOUT)
    read.label["event"] = event or _own_event(when)
    if not read.label["event"]:
        read.remarks.append(
            Remark(name, "no-event", "which of its future or old events is its own? say --event")
            if when.get("absent") or when.get("old")
            else Remark(name, "no-brake", "it has neither future nor old events: it would never stop")
        )
    elif when:
        read.robot = robot_of(read.label, path.parent.resolve(), str(path))
    return read


OPEN = "# sandbox = false    # if the program must see all that the worker sees, the network among it"


def converted(read: Read) -> str:
    """The label as TOML."""
    when = read.label["when"]
    options = {key: value for key, value in read.label.items() if key != "when"}
    lines = [f"{key} = {_toml(value)}" for key, value in options.items()]
    lines += [OPEN, "", "[when]", *(f"{part} = {_toml(names)}" for part, names in when.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=True)  # a JSON text, list or number is a TOML one as well


def _own_event(when: Mapping[str, list[str]]) -> str:
    """The one event that keeps it from running again; a brake that others set is not its own."""
    own = when.get("old") or [name for name in when.get("absent", []) if not name.casefold().startswith("manually")]
    return own[0] if len(own) == 1 else ""


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _number(text: str, key: str, path: Path) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        number = -1
    if number < 0:
        raise BadInput(f"{key} = {text.strip()!r} is not a number", code="robot.properties", where=str(path))
    return number


def _remarks(name: str, values: Mapping[str, str], path: Path) -> Iterator[Remark]:
    known = {*EVENTS, *NUMBERS, *WITHOUT_PLACE}
    if not any(key.startswith(OURS) for key in values):
        yield Remark(name, "no-keys", f"there is no key {OURS}* in {path.name}")
    for key in values:
        if key in WITHOUT_PLACE:
            yield Remark(name, "no-place", f"{key}: {WITHOUT_PLACE[key]}")
        elif key not in known:
            near = next((word for word in known if word.casefold() == key.casefold()), "")
            hint = f"is {near} meant?" if near else "nobody reads it here"
            yield Remark(name, "unknown-key", f"{key}: {hint}")
    for key in EVENTS:
        names = _list(values.get(key, ""))
        if len(set(names)) < len(names):
            yield Remark(name, "twice", f"{key} names an event twice")


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values of a property file: comments, continued lines, escapes, `=`, `:` or a space between."""
    for line in _logical(text):
        found = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if found:
            yield _plain(found[1]), _plain(found[2])


def _logical(text: str) -> Iterator[str]:
    begun = ""
    for given in re.split(r"\r\n|\r|\n", text):
        line = given.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        whole = begun + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = whole[:-1]
            continue
        begun = ""
        yield whole
    if begun:
        yield begun


def _plain(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _LETTERS.get(code, code)

    return _ESCAPE.sub(letter, text)
