"""Every command that a page, a hint or the demo tells people to type is one that there is, with these words."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import typer

import custody
from custody.cli import all_nouns, app_of
from web.house import House
from web.test_pages import HTML, NAMES, addresses

SOURCES = sorted(Path(custody.__file__).parent.rglob("*.py")) + sorted(Path(custody.__file__).parent.rglob("*.html"))
NAMED = re.compile(r"custody (" + "|".join(all_nouns()) + r") ([a-z][a-z-]+)\b(?! *[a-z]*:)")


def command_of(noun: str) -> Any:
    return typer.main.get_command(app_of(noun))


def fault_of(line: str) -> str:
    """What the command line would answer instead of doing it."""
    words = shlex.split(line.split(" > ")[0])
    command, rest = command_of(words[1]), [word.replace("NUMBER", "7") for word in words[2:]]
    context = command.context_class(command, info_name=words[1])
    try:
        if hasattr(command, "commands"):
            name, command, rest = command.resolve_command(context, rest)
            context = command.context_class(command, info_name=name, parent=context)
        command.parse_args(context, rest)
    except Exception as error:  # typer has its own click, with its own errors
        return str(getattr(error, "message", "") or error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_says_to_type_can_be_typed(house: House, name: str) -> None:
    page = house.client("admin").get(addresses(house)[name][0], headers=HTML).text
    shown = {unescape(line) for line in re.findall(r'data-copy="(custody [^"]*)"', page)}
    assert {line: fault for line in shown if (fault := fault_of(line))} == {}


@pytest.mark.parametrize("line", ["custody event list --subject job/1", "custody job wyh 1", "custody hold set kind x"])
def test_what_cannot_be_typed_is_noticed(line: str) -> None:
    assert fault_of(line)


def test_hints_and_the_demo_name_commands_that_there_are() -> None:
    wrong, seen = [], 0
    for file in SOURCES:
        for noun, verb in NAMED.findall(file.read_text()):
            verbs = getattr(command_of(noun), "commands", {verb: None})
            seen += 1
            if verb not in verbs:
                wrong.append(f"{file.name}: custody {noun} {verb}")
    assert seen > 100
    assert wrong == []
