"""Reserved words: all that the system reads of an item's detail, and nothing that a robot may set."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import custody
from custody.channels.condition.refusals import TROUBLES
from custody.cli.nouns.event import acts
from custody.errors import BadInput
from custody.kernel.model.names.reserved import (
    FOLDER,
    check_detail,
    check_event,
    check_note,
    details,
    events,
    events_with,
    is_recorded,
    noted,
    notes,
)
from custody.kernel.model.trigger import STOPPED, Trigger
from custody.kernel.operations.as_of import WITHDRAWN
from custody.kernel.stores.rules.items import CHANGED, SEEN
from custody.robots.declaration import Report, robot
from custody.robots.items.actions import APPROVED
from custody.robots.items.priority import PRIORITISED
from custody.robots.items.restart import BY_PEOPLE
from custody.robots.loop_guard import EDITED, LEFT
from custody.robots.part import PRIORITY
from kernel.model.test_event_names import likenesses

Check = Callable[[list[str], str, str], None]
RESERVED, NOTED, RECORDED, RECORDED_WITH = details().told, notes().told, events().told, events_with().told

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
OF_OTHERS = {
    "added",
    "anew",
    "ended",
    "event",
    "guild",
    "item",
    "kind",
    "knows",
    "missing",
    "note",
    "noted",
    "restored",
    "subjects",
    "thread",
    "timeline",
}
"""Read of events of jobs, of orphans and of the store, of channels and of imports, where no robot's note ever stands."""
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
    check_note(["pages", "files", "version", "Edition"], "map-1", "robot.reserved")
    for word in NOTED:
        with pytest.raises(BadInput, match=f"'{word}' is not theirs to set: it (is|says|stands) "):
            check_note([word, "pages"], "map-1", "robot.reserved")


def test_words_of_ones_own_are_free() -> None:
    check_detail(
        ["pages", "my-folder", "Folders", "subtitle", "file_1", "file 5", "file-9", "type_5", "mp3", "1st"], "x"
    )
    check_note(["robot_5", "round 5", "fact 5", "sha256", "3d", "7z", "size in MB", "5"], "x", "robot.reserved")


@pytest.mark.parametrize(
    ("check", "word"), [*((check_detail, each) for each in RESERVED), *((check_note, each) for each in NOTED)]
)
def test_nothing_that_looks_like_a_reserved_word_is_a_fact(check: Check, word: str) -> None:
    """The same rule as for events, with the words that it looks like in the answer."""
    for way in likenesses(word):
        with pytest.raises(BadInput, match="is not theirs to set: it ") as caught:
            check([way, "pages"], "map-1", "robot.reserved")
        assert caught.value.code == "robot.reserved"
        assert noted({way: 1, "pages": 2}) == ({"pages": 2}, {way: 1})


@pytest.mark.parametrize("word", ["Code", "c0de", "co-de", "соԁе", "REASON", "rea5on"])
def test_nothing_beside_a_finding_passes_for_its_code_or_reason(word: str) -> None:
    for say in (Report().add, Report().warn):
        with pytest.raises(BadInput) as caught:
            say("R1", "torn", **{word: "R2"})
        assert caught.value.code == "robot.reserved"
    Report().add("R1", "torn", codes=2, file="3.tif")


@pytest.mark.parametrize("word", RESERVED)
def test_a_reserved_word_is_refused_and_it_is_said_whose_it_is(word: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_detail([word, "pages"], "map-1", "robot.reserved")
    assert (caught.value.code, caught.value.where) == ("robot.reserved", "map-1")
    assert f"'{word}' is not theirs to set: it {RESERVED[word]}" in caught.value.message
    assert RESERVED[word].split(" ")[0] in ("is", "says"), "one sentence"


def recorded_types() -> dict[str, set[str]]:
    """Every type of event that the sources record about an item, and where. What is no literal is named as it stands."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        where = str(path.relative_to(SOURCES))
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            at = {"NewEvent": 1, "_append": 2}.get(called)
            if called == "_append" and not where.startswith("robots/"):
                continue
            if called == "write_event" and "item_subject" in ast.unparse(node.args[1]):
                at = 3
            if at is None or len(node.args) <= at:
                continue
            for type_ in _types_of(node.args[at]):
                found.setdefault(type_, set()).add(where)
    return found


def _types_of(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_types_of(node.body), *_types_of(node.orelse)]
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        begins = node.values[0]
        return [f"{begins.value}…" if isinstance(begins, ast.Constant) else ast.unparse(node)]
    return [f"<{ast.unparse(node)}>"]


TOLD_BY_NAME: dict[str, tuple[str, ...]] = {
    "<what>": (*TROUBLES.values(), "failing"),
    "<word>": ("believed", "disbelieved"),
    "<said>": ("blank believed", "blank disbelieved"),
    "<STOPPED>": (STOPPED,),
    "<WITHDRAWN>": (WITHDRAWN,),
    "<PRIORITISED>": (PRIORITISED,),
    "<how>": (CHANGED, "described"),
    "<event.type>": (),  # the store appends what it is given
    "<type_>": (),  # people's acts, each of which is found itself; what PREMIS says is held against the list
    "<event>": (),  # what a person says by `event add`, `approve` or `override`
    "<robot.event>": (),  # held against the list when its label is read, and when it is recorded
}
"""Where a type stands in a variable: what it may be."""


def test_every_event_that_the_system_records_about_an_item_is_refused_to_robots() -> None:
    found = recorded_types()
    assert {"ingested", "planned", "synced", "task …", "<STOPPED>", "counts again"} <= set(found), (
        "the search finds them"
    )
    unknown = {type_: where for type_, where in found.items() if type_.startswith("<") and type_ not in TOLD_BY_NAME}
    assert unknown == {}, "say in TOLD_BY_NAME what it may be"
    types = {type_ for type_ in found if not type_.startswith("<")} | {
        each for told in TOLD_BY_NAME.values() for each in told
    }
    assert {type_ for type_ in types | {APPROVED, *acts()} if not is_recorded(type_)} == set()


@pytest.mark.parametrize(
    "type_", [*RECORDED, "task build", "run nightly", "Approved", "ｉｎｇｅｓｔｅｄ", "approved ", "TASK  x"]
)
def test_no_label_names_an_event_that_the_system_records(type_: str) -> None:
    with pytest.raises(BadInput, match="is recorded by the system itself: by ") as caught:
        robot(name="r", version="1", event=type_, when=Trigger(types=frozenset({"object"})))
    assert caught.value.code == "robot.label"


@pytest.mark.parametrize(
    "type_", ["pages counted", "virus checked", "task", "runs", "Checksums_Verified", "text extracted"]
)
def test_events_of_ones_own_are_free(type_: str) -> None:
    check_event(type_, "robot r")


def test_the_reference_lists_every_event_that_is_not_a_robots() -> None:
    text = (SOURCES.parents[1] / "docs" / "reference" / "robots.md").read_text()
    assert [type_ for type_ in RECORDED if f"`{type_}`" not in text] == []
    assert [word for word in RECORDED_WITH if f"`{word} …`" not in text] == []
