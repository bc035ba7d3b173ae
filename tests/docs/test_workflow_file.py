"""The page of the keys of a workflow file is held against the reader: keys, defaults, what is taken, what is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from custody.formats.text.strict_yaml import DEEPEST, LARGEST, MOST_FILES
from custody.workflows.definition import vocabulary
from custody.workflows.definition.checks import MOST_TASKS
from custody.workflows.definition.definition import read
from custody.workflows.definition.task import Cancels, Depends, Schedule, Task, Workflow

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "workflow-file.md"
FILE, TASK, DEPENDS, CANCELS = "The file", "A task", "What it waits for (`depends`)", "What it replaces (`cancels`)"
COLUMNS = ["key", "what", "type", "unless told", "limits", "such as", "refused"]
BESIDE = {"cron": "when: schedule\n", "timezone": "when: schedule\ncron: 0 3 * * *\n"}
BESIDE["overlap"] = BESIDE["timezone"]


def rows(section: str) -> dict[str, dict[str, str]]:
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("| ")]
    assert cells[0] == COLUMNS
    return {cell[0].strip("`"): dict(zip(COLUMNS, cell, strict=True)) for cell in cells[1:]}


def asked(monkeypatch: pytest.MonkeyPatch, what: str) -> set[str]:
    """The keys that the reader knows in an edge written as a table."""
    known: list[Mapping[str, Any]] = []

    class Seen(vocabulary.Fields):
        def __init__(self, table: Any, faults: Any, keys: Mapping[str, Any]) -> None:
            known.append(keys)
            super().__init__(table, faults, keys)

    monkeypatch.setattr(vocabulary, "Fields", Seen)
    assert not faults(TASK, what, f"{what}: [{{task: PREV}}]", fresh="edge")
    return set(known[-1])


def written(section: str, key: str, line: str, fresh: str = "") -> str:
    """A whole file with this line in its place; `fresh` makes it one that was not read before."""
    note = f"# {fresh}\n" if fresh else ""
    if section == FILE:
        rest = "" if key == "tasks" else "tasks: [{name: a}]\n"
        return f"{note}{BESIDE.get(key, '')}{line}\n{rest}"
    if section in (DEPENDS, CANCELS):
        edge = line if key == "task" else f"task: PREV, {line}"
        return f"{note}- name: a\n  {'depends' if section == DEPENDS else 'cancels'}: [{{{edge}}}]\n"
    name = "" if key == "name" else "  name: a\n"
    runs = "" if key in ("name", "command", "script", "ready", "depends", "cancels") else "  script: x\n"
    others = "- {name: index}\n" if key == "depends" else ""
    task = f"{name}{runs}  {line}\n"
    return f"{note}{others}-{task[1:]}"


def parsed(section: str, key: str, line: str, fresh: str = "") -> Any:
    return read({"_workflows/a.yaml": written(section, key, line, fresh).encode()})


def faults(section: str, key: str, line: str, fresh: str = "") -> tuple[Any, ...]:
    return tuple(parsed(section, key, line, fresh).faults)


EVERY = [(section, key) for section in (FILE, TASK, DEPENDS, CANCELS) for key in rows(section)]


def test_the_page_has_every_key_that_is_read_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(rows(FILE)) == set(vocabulary.FILE)
    assert set(rows(TASK)) == set(vocabulary.TASK)
    assert set(rows(DEPENDS)) == asked(monkeypatch, "depends")
    assert set(rows(CANCELS)) == asked(monkeypatch, "cancels")


@pytest.mark.parametrize(("section", "key"), EVERY)
def test_what_the_page_shows_is_taken_and_what_it_says_is_refused_is_refused(section: str, key: str) -> None:
    row = rows(section)[key]
    good, bad = row["such as"].strip("`"), row["refused"].strip("`")
    assert good.startswith(f"{key}: ")
    assert bad.startswith(f"{key}: ")
    assert faults(section, key, good) == ()
    assert faults(section, key, bad)


@pytest.mark.parametrize(("section", "key"), EVERY)
def test_what_a_key_is_unless_told_is_what_the_page_says(section: str, key: str) -> None:
    told = rows(section)[key]["unless told"].strip("`")
    names = {"if": "when", "timezone": "zone"}
    owner = {FILE: Workflow, TASK: Task, DEPENDS: Depends, CANCELS: Cancels}[section]
    known = {field.name: field.default for field in dataclasses.fields(owner)}
    if section == FILE and key in ("timezone", "overlap"):  # the reader's own, where nothing is written
        made = parsed(FILE, "cron", "cron: 0 3 * * *").workflows[0].schedule
        assert isinstance(made, Schedule)
        assert told in dataclasses.astuple(made)
        return
    if section == FILE and key == "order":
        assert (told, known["strict"]) == ("explicit", False)
        return
    default = known.get(names.get(key, key), dataclasses.MISSING)
    if not told:
        assert default in (dataclasses.MISSING, None, "", ())
        return
    if section == TASK:
        (workflow,) = parsed(section, key, f"{key}: {told}").workflows
        assert getattr(workflow.tasks[0], key) == default
    else:
        assert told == default


@pytest.mark.parametrize(("section", "key"), EVERY)
def test_every_word_that_may_be_written_is_named_and_taken(section: str, key: str) -> None:
    row = rows(section)[key]
    if row["type"] == "word":
        words = re.findall(r"`([a-z0-9]+)`", row["limits"].partition(";")[0])
        assert words
        for word in words:
            rest = "\ncron: 0 3 * * *" if word == "schedule" else ""
            assert faults(section, key, f"{key}: {word}{rest}") == ()
        (said,) = [str(fault) for fault in faults(section, key, f"{key}: nonsense")]
        assert said.split(" is not one of ")[1].split(", ") == words


LIMITS = [
    ("timeout", "1s", "30d", "0s", "31d"),
    ("grace", "0s", "30d", None, "31d"),
    ("retries", "0", "20", None, "21"),
    ("output_limit", "4KiB", "1TiB", "4095", "1025GiB"),
]


@pytest.mark.parametrize(("key", "low", "high", "under", "over"), LIMITS)
def test_limits_are_those_of_the_page(key: str, low: str, high: str, under: str | None, over: str) -> None:
    size = {"1TiB": "1024GiB"}  # as it is written
    assert f"from {low} to {high}" in rows(TASK)[key]["limits"]
    assert [faults(TASK, key, f"{key}: {size.get(value, value)}") for value in (low, high)] == [(), ()]
    assert all(faults(TASK, key, f"{key}: {value}") for value in (under, over) if value)


def test_how_large_and_how_deep_a_file_may_be_is_told() -> None:
    assert f"at most {LARGEST // 1024} KiB, nested at most {DEEPEST} deep" in PAGE.read_text()
    assert f"at most {MOST_FILES} such files and {MOST_TASKS} tasks" in PAGE.read_text()
