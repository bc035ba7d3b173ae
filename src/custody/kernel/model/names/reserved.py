"""The words in an item's detail, and in an event's, that the system itself reads, and the types of events that it
records: no robot may set or record them.

A robot, sandboxed or not, tells what it found out about an item in words of its own. Had it these as well, it would
decide where an item is read from, whose turn comes first or what counts as mirrored; and in what it notes for the
history, who is to blame for a loop, what a person did or why. Each word stands here with who reads it; a test looks
through the sources for words that are read and missing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from custody.errors import BadInput
from custody.kernel.model.names import event_names
from custody.kernel.model.names.names import reading

PRIORITY = "robot_priority"
"""Goes before what an item's robots say."""
FOLDER = "folder"
"""Never kept: a worker that sees the item's place tells the robot where that is while it works."""

RESERVED: dict[str, str] = {
    FOLDER: "is told by the worker, from the item's place",
    PRIORITY: "says whose turn comes first",
    "place": "says where the item is",
    "item": "is how the item's own name is shown",
    "id": "is how the item's own name is shown",
    "collection": "is a part of every item: who may see it",
    "types": "is a part of every item, told with each change",
    "fingerprint": "is a part of every item, told with each change",
    "seen": "says in the history which change somebody had seen",
    "title": "is how pages, lists and searches call the item",
    "version": "is ingest's",
    "node": "is ingest's: where it is stored",
    "files": "is ingest's",
    "archived": "is the channels'",
    "believed": "is the channels'",
    "brake": "is the channels'",
    "deleted": "is the channels'",
    "disbelieved": "is the channels'",
    "doubted": "is the channels'",
    "hint": "is the channels'",
    "look_again": "is the channels'",
    "no_intent": "is the channels'",
    "round": "is the channels'",
    "set_aside": "is the channels'",
    "trouble": "is the channels'",
    "unread": "is the channels'",
    "files_due": "is the channels'",
    "files_wanted": "is the channels'",
    "by_number": "is the channels'",
    "guild": "is the channels'",
    "guild_sure": "is the channels'",
    "kind": "is the channels'",
    "kind_said": "is the channels'",
    "kind_sure": "is the channels'",
    "mirrored": "is the channels': whether anything is kept at all",
    "parent": "is the channels'",
    "removed_with": "is the channels'",
    "threads_upto": "is the channels'",
}

NOTED: dict[str, str] = {
    **{word: RESERVED[word] for word in (FOLDER, PRIORITY, "place", "types", "fingerprint", "seen")},
    "edited": "says which content a robot left, for the guard against loops",
    "left": "says which content a robot left, for the guard against loops",
    "rounds": "is the guard's against loops",
    "until": "says what a job waits for",
    "robots": "is the guard's against loops",
    "findings": "is how findings are told",
    "warnings": "is how warnings are told",
    "output": "is what a program printed",
    "kept": "says where what a program made is kept",
    "made": "says what a program made",
    "left_out": "says what a program made and what was not kept",
    "reason": "is shown as the event's reason",
    "why": "is shown as the event's reason",
    "noticed": "says what was noticed of a store that went back",
    "wait": "is shown as the event's reason",
    "state": "is a job's",
    "facts": "is a job's",
    "job": "is a task's",
    "run": "is a task's",
    "agent": "says who did it, and stands beside the event",
    "by": "says who did it, and stands beside the event",
    "robot": "says who did it, and stands beside the event",
    "outcome": "stands beside the event",
    "token": "stands beside the event",
    "move": "stands beside the event",
    "by hand": "says what a person did",
    "overrides": "says what a person did",
    "was": "says what a person did",
    "withdrawn": "says what a person took back",
    "withdraws": "says what a person took back",
    "undoes": "says what a person took back",
    "only": "says what a person took back",
    "erased": "says what was erased",
    "premis": "says where an event was taken over from",
}
"""In what a robot notes for the history."""

FOUND: dict[str, str] = {"code": "is the finding's own", "reason": "is the finding's own"}
"""Beside a finding or a warning."""

RECORDED: dict[str, str] = {
    **dict.fromkeys(("changed", "described"), "the store, of every change of an item"),
    **dict.fromkeys(("stopped", "withdrawn", "prioritised"), "people, by acts that the system reads again"),
    **dict.fromkeys(("approved", "rejected", "overridden", "restarted", "undone"), "people: what only they can give"),
    "late": "the line, of what becomes of its items",
    "went-back": "the store, of what was lost",
    "body-erased": "the history, of what was erased",
    **dict.fromkeys(("ingested", "stored"), "ingest, of what it has stored"),
    "planned": "workflows, of each revision",
    **dict.fromkeys(
        (
            "added",
            "not added",
            "removed",
            "swept",
            "synced",
            "verified",
            "tiered",
            "mended",
            "policy",
            "brake",
            "erased",
            "believed",
            "disbelieved",
            "set aside",
            "counts again",
            "came back",
            "seen again",
            "readable again",
            "unreadable",
            "gone",
            "hidden",
            "token",
            "failing",
            "unreadable element",
            "message reviewed",
            "message not shown",
            "files lost",
            "files refused",
            "damaged",
            "parts lost",
            "loss accepted",
            "blank believed",
            "blank disbelieved",
            "described otherwise",
            "unknown kind",
        ),
        "channels, of what was mirrored",
    ),
}
"""Types of events that the system, or a person by a command of it, records about items, and who does: no robot's. A
test looks through the sources for one that is recorded and missing here."""
RECORDED_WITH = {
    "task": "workflows, of each task",
    "run": "workflows, of each run",
    "imported": "an import, of what another system says",
}
"""The same of types that begin with a word of these: `task build`."""


_LOOKS_RECORDED = {reading(each): who for each, who in RECORDED.items()}
_LOOKS_RECORDED_WITH = {reading(each): who for each, who in RECORDED_WITH.items()}
_LOOKS_RESERVED, _LOOKS_NOTED, _LOOKS_FOUND = ({reading(each): each for each in of} for of in (RESERVED, NOTED, FOUND))


@lru_cache(1024)
def recorded_by(type_: str) -> str:
    """Who of the system records events of this type, or of one that looks like it; empty if nobody does."""
    if who := _LOOKS_RECORDED.get(reading(type_)):
        return who
    firsts = [re.split(each, type_.strip(), maxsplit=1) for each in (r"\s+", r"[^\w]+", r"[\W_]+")]
    found = (_LOOKS_RECORDED_WITH.get(reading(first), "") for first, *more in firsts if more and more[0])
    return next(filter(None, found), "")


def is_recorded(type_: str) -> bool:
    """Would an event of this type be read as one that the system itself records? In any spelling that looks like it."""
    return bool(recorded_by(type_))


def check_event(type_: str, where: str, code: str = "event.reserved", form: str = "event.type") -> None:
    """Refuse a type of event that is not theirs to record, and one that could be read as another. Every way in of what
    robots, work of one's own and people say happened asks here."""
    if who := recorded_by(type_):
        raise BadInput(
            f"{type_} is recorded by the system itself: by {who}",
            code=code,
            where=where,
            hint="choose another event, such as one that says what the robot does",
        )
    if wrong := event_names.fault_of(type_):
        raise BadInput(
            f"{type_!r} cannot be an event: its name {wrong}",
            code=form,
            where=where,
            hint="words such as 'pages counted'; docs/reference/robots.md has the form",
        )


def noted(detail: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an event from outside says, parted: in words of its own, and in words that are the system's."""
    theirs = {word for word in detail if (looks := reading(word)) in _LOOKS_NOTED or looks in _LOOKS_RESERVED}
    own = {word: value for word, value in detail.items() if word not in theirs}
    return own, {word: value for word, value in detail.items() if word in theirs}


def check_detail(words: Iterable[str], where: str, code: str = "item.reserved") -> None:
    """Refuse the first word that is not theirs to set, or that would be read as one of those."""
    _check(words, RESERVED, _LOOKS_RESERVED, where, code=code)


def check_note(words: Iterable[str], where: str, code: str) -> None:
    """Refuse the first word with which a note would pass for what the system itself says in an event."""
    _check(words, NOTED, _LOOKS_NOTED, where, code=code)


def check_finding(words: Iterable[str], where: str, code: str) -> None:
    """Refuse the first word beside a finding that would be read as a second code or reason of it."""
    _check(words, FOUND, _LOOKS_FOUND, where, code=code)


def _check(words: Iterable[str], reserved: Mapping[str, str], looks: Mapping[str, str], where: str, code: str) -> None:
    for word in sorted(set(words)):
        if known := looks.get(reading(word)):
            told = reserved[known] if word == known else f"looks like {known!r}, which {reserved[known]}"
            raise BadInput(
                f"{word!r} is not theirs to set: it {told}",
                code=code,
                where=where,
                hint="choose another word, such as one that begins with the robot's name",
            )
