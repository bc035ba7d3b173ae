"""Reserved words: all that the system reads of an item's detail, and nothing that a robot may set."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import custody
from custody.model.errors import BadInput
from custody.model.reserved import FOLDER, NOTED, PRIORITY, RESERVED, check_detail, check_note, taken
from custody.robots.guard import EDITED, LEFT
from custody.robots.restart import BY_PEOPLE
from custody.stores.items import SEEN

ELSEWHERE: dict[str, object] = {
    "FOLDER": FOLDER,
    "PRIORITY": PRIORITY,
    "EDITED": EDITED,
    "LEFT": LEFT,
    "SEEN": SEEN,
    "BY_PEOPLE": BY_PEOPLE,
}
SOURCES = Path(custody.__file__).parent
ITEMS = {"item", "known", "now", "row"}
"""What an item is called where its detail is read."""
EVENTS = {"event", "one", "last"}
"""What an event is called where its detail is read."""
OF_OTHERS = {"added", "ended", "event", "guild", "item", "kind", "missing", "subjects", "timeline"}
"""Read of events of jobs, of orphans and of the store, and of channels, where no robot's note ever stands."""
NOT_OURS = {"robots/ready/text_extraction.py"}
"""A program that runs in the sandbox: it reads what it is told."""


def read_words(called: set[str]) -> dict[str, set[str]]:
    """Every word that is read of the detail of what is called so, and where."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        where = str(path.relative_to(SOURCES))
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            word = _word(node, called, ELSEWHERE | constants)
            if word and where not in NOT_OURS:
                found.setdefault(word, set()).add(where)
    return found


def _word(node: ast.AST, called: set[str], constants: dict[str, object]) -> str:
    """The key of `item.detail.get(KEY)`, `item.detail[KEY]`, `row[0].detail.get(KEY)`, `KEY in item.detail`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        of, key = node.func.value, node.args[0]
    elif isinstance(node, ast.Subscript):
        of, key = node.value, node.slice
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
        of, key = node.comparators[0], node.left
    else:
        return ""
    if not (isinstance(of, ast.Attribute) and of.attr == "detail"):
        return ""
    who = of.value.value if isinstance(of.value, ast.Subscript) else of.value  # the first of a row
    if isinstance(who, ast.Name) and who.id not in called:
        return ""
    if isinstance(who, ast.Attribute) and who.attr in (ITEMS | EVENTS) - called:
        return ""
    if isinstance(key, ast.Constant):
        return str(key.value)
    return str(constants.get(key.id, "")) if isinstance(key, ast.Name) else ""


def test_every_word_that_the_system_reads_of_an_item_is_reserved() -> None:
    found = read_words(ITEMS)
    assert {"title", "mirrored", FOLDER, PRIORITY} <= set(found), "the search finds what there is"
    assert {word: where for word, where in found.items() if word not in RESERVED} == {}


def test_every_word_that_the_system_reads_of_an_event_is_refused_in_a_note() -> None:
    found = read_words(EVENTS)
    assert {EDITED, LEFT, SEEN, BY_PEOPLE, "why", "withdraws"} <= set(found), "the search finds what there is"
    assert {word: where for word, where in found.items() if word not in NOTED.keys() | OF_OTHERS} == {}


def test_a_note_in_words_of_ones_own_is_free_and_one_in_the_systems_is_refused() -> None:
    check_note(["pages", "files", "version", "Edited"], "map-1", "robot.reserved")
    for word in NOTED:
        with pytest.raises(BadInput, match=f"'{word}' is not theirs to set: it (is|says|stands) "):
            check_note([word, "pages"], "map-1", "robot.reserved")


def test_words_of_ones_own_are_free() -> None:
    check_detail(["pages", "my-folder", "Folder"], "x")
    assert taken(["pages", "folder", "title"]) == ["folder", "title"]


@pytest.mark.parametrize("word", RESERVED)
def test_a_reserved_word_is_refused_and_it_is_said_whose_it_is(word: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_detail([word, "pages"], "map-1", "robot.reserved")
    assert (caught.value.code, caught.value.where) == ("robot.reserved", "map-1")
    assert f"'{word}' is not theirs to set: it {RESERVED[word]}" in caught.value.message
    assert RESERVED[word].split(" ")[0] in ("is", "says"), "one sentence"
