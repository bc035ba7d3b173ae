"""What may be written in a workflow file: `FILE` and `TASK` are the tables of its keys, each with what reads its value.

What is here is said of workflows only: what runs, what waits for what, when. The plain values are in `fields.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from custody.border.egress.allowance import read_named
from custody.errors import CustodyError, Refused
from custody.formats.text.strict_yaml import Listing, Node, Table, Text
from custody.workflows.definition.fields import (
    NAME,
    Fields,
    Wrong,
    flag,
    many,
    name,
    one_of,
    seconds,
    size,
    some_seconds,
    text,
    whole,
)
from custody.workflows.definition.task import COMMIT, FAILURE, FINISHED, PREV, READY, SHELLS, SUCCESS, Cancels, Depends

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_IMAGE = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?/)?"  # registry
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"  # path
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?\Z"  # tag, digest
)
_CRON_FROM, _CRON_WITHIN = datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=5 * 366)


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
