"""Turns the text of workflow fields into values, or says what is wrong with it and where.

One small function per kind of value; `TASK` and `FILE` are the tables of what may be written. A value that is
wrong is reported and left out, so that the rest of the file is still read and all of its faults are told
together.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from custody.border.egress import read_named
from custody.model.errors import CustodyError, Refused
from custody.workflows.reading import Faults, Listing, Node, Spot, Table, Text
from custody.workflows.task import (
    COMMIT,
    FAILURE,
    FINISHED,
    PREV,
    READY,
    SHELLS,
    SUCCESS,
    Cancels,
    Depends,
    Place,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_DURATION = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s?)?\Z")
_SIZE = re.compile(r"(\d{1,12})\s*(|[KMG]i?)B?\Z")
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_IMAGE = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?/)?"  # registry
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"  # path
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?\Z"  # tag, digest
)
_LONGEST = 30 * 24 * 3600
_CRON_FROM, _CRON_WITHIN = datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=5 * 366)

T = TypeVar("T")


class Wrong(Exception):
    """This value cannot be used."""

    def __init__(self, node: Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node, self.message, self.hint = node, message, hint


class Fields:
    """Reads the fields of one table."""

    def __init__(self, table: Table, faults: Faults, known: Mapping[str, Callable[[Fields, Node], Any]]) -> None:
        self.table = table
        self.faults = faults
        self._known = known
        self._nodes = {key.value: value for key, value in table.pairs}

    def read(self) -> dict[str, Any]:
        """The values of all fields that are right."""
        values = {}
        for key, node in self.table.pairs:
            reader = self._known.get(key.value)
            if reader is None:
                self.faults.add(key.at, f"unknown key {key.value!r}", self._guess(key.value))
            elif isinstance(node, Text) and node.plain and node.value in ("", "~", "null"):
                self.faults.add(key.at, f"{key.value!r} has no value")
            else:
                try:
                    values[key.value] = reader(self, node)
                except Wrong as error:
                    self.tell(error)
        return values

    def at(self, key: str) -> Spot:
        """Where the value of a key stands; where the table begins if there is none."""
        return self._nodes[key].at if key in self._nodes else self.table.at

    def place(self, at: Spot) -> Place:
        return Place(self.faults.file, at.line, at.column)

    def tell(self, error: Wrong) -> None:
        self.faults.add(error.node.at, error.message, error.hint)

    def _guess(self, key: str) -> str:
        if key == "on":
            return "did you mean 'when'?"
        close = difflib.get_close_matches(key, self._known, n=1)
        return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(self._known))}"


# Plain values.


def text(fields: Fields, node: Node) -> str:
    if isinstance(node, Text):
        return node.value
    raise Wrong(node, "text was expected")


def name(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    if NAME.match(value):
        return value
    raise Wrong(node, f"{value!r} is not a name", "letters, digits, '.', '_', '-'; up to 128")


def flag(fields: Fields, node: Node) -> bool:
    if isinstance(node, Text) and node.plain and node.value in ("true", "false"):
        return node.value == "true"
    raise Wrong(node, "true or false was expected")


def whole(low: int, high: int) -> Callable[[Fields, Node], int]:
    def read(fields: Fields, node: Node) -> int:
        if isinstance(node, Text) and node.plain and re.fullmatch(r"0|[1-9]\d{0,9}", node.value):
            value = int(node.value)
            if low <= value <= high:
                return value
        raise Wrong(node, f"a whole number from {low} to {high} was expected")

    return read


def seconds(fields: Fields, node: Node) -> int:
    found = _DURATION.match(node.value) if isinstance(node, Text) and node.value else None
    if found:
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        value = days * 86400 + hours * 3600 + minutes * 60 + rest
        if value <= _LONGEST:
            return value
    raise Wrong(node, "a length of time was expected", "such as 90s, 30m, 2h or 1h30m; at most 30d")


def some_seconds(fields: Fields, node: Node) -> int:
    if value := seconds(fields, node):
        return value
    raise Wrong(node, "a second at least was expected", "leave it out for no limit")


def size(fields: Fields, node: Node) -> int:
    found = _SIZE.match(node.value) if isinstance(node, Text) else None
    value = int(found.group(1)) * _UNITS[found.group(2)] if found else 0
    if 4096 <= value <= 1024**4:
        return value
    raise Wrong(node, "a size was expected", "such as 64MiB; from 4KiB to 1TiB")


def one_of(*words: str) -> Callable[[Fields, Node], str]:
    def read(fields: Fields, node: Node) -> str:
        value = text(fields, node)
        if value in words:
            return value
        raise Wrong(node, f"{value!r} is not one of {', '.join(words)}")

    return read


def many(item: Callable[[Fields, Node], T]) -> Callable[[Fields, Node], tuple[T, ...]]:
    """A list; a single value is a list of one."""

    def read(fields: Fields, node: Node) -> tuple[T, ...]:
        nodes = node.items if isinstance(node, Listing) else (node,)
        found = []
        for one in nodes:
            try:
                found.append(item(fields, one))
            except Wrong as error:
                fields.tell(error)
        return tuple(found)

    return read


# What runs.


def command(fields: Fields, node: Node) -> tuple[str, ...]:
    """A list is taken as it is, a text is split as a shell would split it, but no shell sees it."""
    if isinstance(node, Listing):
        words = tuple(text(fields, item) for item in node.items)
    else:
        try:
            words = tuple(shlex.split(text(fields, node)))
        except ValueError as error:
            raise Wrong(node, f"cannot be split into words: {str(error).lower()}") from None
    if not words or not words[0]:
        raise Wrong(node, "a command was expected")
    if any("\0" in word for word in words):
        raise Wrong(node, "a command cannot contain a NUL")
    return words


def script(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    if not value.strip() or "\0" in value:
        raise Wrong(node, "a script was expected")
    return value


def network(fields: Fields, node: Node) -> bool | tuple[str, ...]:
    """`true`, for all that is granted; or the hosts."""
    if isinstance(node, Text) and node.plain and node.value in ("true", "false"):
        return node.value == "true"
    return many(_place)(fields, node)


def _place(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    try:
        return str(read_named(value))
    except Refused as error:
        raise Wrong(node, error.message, error.hint) from None
    except CustodyError:
        hint = "true, false or a list of HOST, HOST:PORT, http://HOST and *.DOMAIN"
        raise Wrong(node, f"{value!r} is not a host", hint) from None


def image(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    if len(value) <= 255 and _IMAGE.match(value):
        return value
    raise Wrong(node, f"{value!r} is not the name of an image", "such as pandoc/latex:3.1")


def env(fields: Fields, node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Table):
        raise Wrong(node, "variables were expected", "NAME: value")
    for key, _ in node.pairs:
        if not _VARIABLE.match(key.value) or key.value.startswith("CUSTODY_"):
            raise Wrong(key, f"{key.value!r} is not a name for a variable", "CUSTODY_… are ours")
    found = tuple((key.value, text(fields, value)) for key, value in node.pairs)
    if any("\0" in value for _, value in found):
        raise Wrong(node, "a variable cannot contain a NUL")
    return found


def path(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    parts = value.split("/")
    if "" not in parts and not {".", ".."} & set(parts) and "\0" not in value:
        return value
    raise Wrong(node, f"{value!r} is not a path below the work folder", "such as dist/*.pdf")


# Edges.


def depends(fields: Fields, node: Node) -> Depends:
    given = _edge(fields, node, {"task": reference, "if": one_of(SUCCESS, FINISHED, FAILURE)})
    task, earlier = given["task"]
    return Depends(task, earlier, given.get("if", SUCCESS), at=fields.place(node.at))


def cancels(fields: Fields, node: Node) -> Cancels:
    known = {"task": reference, "max_in_a_row": whole(1, 1000), "max_age": seconds}
    given = _edge(fields, node, known)
    task, earlier = given["task"]
    bounds = {key: given[key] for key in ("max_in_a_row", "max_age") if key in given}
    return Cancels(task, earlier, **bounds, at=fields.place(node.at))


def _edge(fields: Fields, node: Node, known: Mapping[str, Callable[[Fields, Node], Any]]) -> dict[str, Any]:
    """A name, or a table with the name under `task`."""
    if not isinstance(node, Table):
        return {"task": reference(fields, node)}
    given = Fields(node, fields.faults, known).read()
    if "task" not in given:
        raise Wrong(node, "'task' is missing or wrong")
    return given


def reference(fields: Fields, node: Node) -> tuple[str, bool]:
    """PREV, PREV:name, COMMIT or a name. PREV alone has an empty name until its task is known."""
    value = text(fields, node)
    first, _, rest = value.partition(":")
    if value == PREV:
        return "", True
    if first == PREV and NAME.match(rest) and rest != PREV:
        return rest, True
    if NAME.match(value):
        return value, False
    raise Wrong(node, f"{value!r} is not a task", f"a name, {PREV}, {PREV}:name or {COMMIT}")


# Schedules.


def cron(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    if len(value) > 100 or len(value.split()) != 5:
        raise Wrong(node, f"{value[:100]!r} is not a cron expression", "minute hour day month weekday")
    try:
        first = next(CronSim(value, _CRON_FROM))
    except (CronSimError, StopIteration) as error:
        why = str(error).lower() or "it never fires"
        raise Wrong(node, f"{value!r} is not a cron expression: {why}") from None
    if first - _CRON_FROM > _CRON_WITHIN:
        raise Wrong(node, f"{value!r} never fires")
    return value


def timezone(fields: Fields, node: Node) -> str:
    value = text(fields, node)
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise Wrong(node, f"{value!r} is not a time zone", "such as UTC or Europe/Copenhagen") from None
    return value


def untouched(fields: Fields, node: Node) -> Node:
    """Read by somebody else."""
    return node


TASK: Mapping[str, Callable[[Fields, Node], Any]] = {
    "name": name,
    "depends": many(depends),
    "cancels": many(cancels),
    "image": image,
    "command": command,
    "script": script,
    "shell": one_of(*SHELLS),
    "env": env,
    "network": network,
    "timeout": some_seconds,
    "grace": seconds,
    "retries": whole(0, 20),
    "lane": name,
    "blocking": flag,
    "outputs": many(path),
    "output_limit": size,
    "reentrant": flag,
    "secrets": many(name),
    "ready": one_of(*READY),
}
FILE: Mapping[str, Callable[[Fields, Node], Any]] = {
    "when": one_of("commit", "manual", "schedule"),
    "cron": cron,
    "timezone": timezone,
    "overlap": one_of("skip", "allow"),
    "order": one_of("strict", "explicit"),
    "lines": many(path),
    "tasks": untouched,
}
