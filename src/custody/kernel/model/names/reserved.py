"""The words in an item's detail, and in an event's, that the system itself reads, and the types of events that it
records: nobody else may set or record them.

Work of one's own, sandboxed or not, tells what it found out about an item in words of its own. Had it these as well, it
would decide where an item is read from, whose turn comes first or what counts as kept; and in what it notes for the
history, who is to blame for a loop, what a person did or why. Each word stands here with who reads it, or with the
application that brings it (parts/); a test looks through the sources for words that are read and missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from custody.errors import BadInput
from custody.kernel.applications import merged, when_changed
from custody.kernel.model.names import event_names
from custody.kernel.model.names.names import reading

FOLDER = "folder"
"""Never kept: a worker that sees the item's place tells whoever works on it where that is, while it works."""

_DETAILS: dict[str, str] = {
    FOLDER: "is told by the worker, from the item's place",
    "place": "says where the item is",
    "item": "is how the item's own name is shown",
    "id": "is how the item's own name is shown",
    "collection": "is a part of every item: who may see it",
    "types": "is a part of every item, told with each change",
    "fingerprint": "is a part of every item, told with each change",
    "seen": "says in the history which change somebody had seen",
    "title": "is how pages, lists and searches call the item",
}

_NOTES: dict[str, str] = {
    **{word: _DETAILS[word] for word in (FOLDER, "place", "types", "fingerprint", "seen")},
    "until": "says what a job waits for",
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
"""In what is noted for the history."""

_EVENTS: dict[str, str] = {
    **dict.fromkeys(("changed", "described"), "the store, of every change of an item"),
    **dict.fromkeys(("stopped", "withdrawn", "prioritised"), "people, by acts that the system reads again"),
    **dict.fromkeys(("approved", "rejected", "overridden", "restarted", "undone"), "people: what only they can give"),
    "late": "the line, of what becomes of its items",
    "went-back": "the store, of what was lost",
    "body-erased": "the history, of what was erased",
}
"""Types of events that the system, or a person by a command of it, records about items, and who does: nobody else's. A
test looks through the sources for one that is recorded and missing here."""
_EVENTS_WITH = {"imported": "an import, of what another system says"}
"""The same of types that begin with such a word: `imported letter`."""


@dataclass(frozen=True, slots=True)
class Words:
    """The system's words, those of all applications among them; each by how it looks as well."""

    told: Mapping[str, str]
    looks: Mapping[str, str]  # how a word reads: the word

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Words:
        return cls(told, {reading(each): each for each in told})

    def like(self, word: str) -> str:
        """Who reads or records what this would be read as; empty: nobody."""
        return self.told.get(self.looks.get(reading(word), ""), "")


@cache
def details() -> Words:
    """In an item's detail."""
    return Words.of(merged(_DETAILS, lambda part: part.details))


@cache
def notes() -> Words:
    """In what is noted for the history."""
    return Words.of(merged(_NOTES, lambda part: part.notes))


@cache
def events() -> Words:
    """Types of events."""
    return Words.of(merged(_EVENTS, lambda part: part.events))


@cache
def events_with() -> Words:
    """The first words of types of events."""
    return Words.of(merged(_EVENTS_WITH, lambda part: part.events_with))


@lru_cache(1024)
def recorded_by(type_: str) -> str:
    """Who of the system records events of this type, or of one that looks like it; empty if nobody does."""
    if who := events().like(type_):
        return who
    firsts = [re.split(each, type_.strip(), maxsplit=1) for each in (r"\s+", r"[^\w]+", r"[\W_]+")]
    found = (events_with().like(first) for first, *more in firsts if more and more[0])
    return next(filter(None, found), "")


def is_recorded(type_: str) -> bool:
    """Would an event of this type be read as one that the system itself records? In any spelling that looks like it."""
    return bool(recorded_by(type_))


def check_event(type_: str, where: str, code: str = "event.reserved", form: str = "event.type") -> None:
    """Refuse a type of event that is not theirs to record, and one that could be read as another. Every way in of what
    subscribers, work of one's own and people say happened asks here."""
    if who := recorded_by(type_):
        raise BadInput(
            f"{type_} is recorded by the system itself: by {who}",
            code=code,
            where=where,
            hint="choose another event, such as one that says what was done",
        )
    if wrong := event_names.fault_of(type_):
        raise BadInput(
            f"{type_!r} cannot be an event: its name {wrong}",
            code=form,
            where=where,
            hint="words such as 'pages counted'; docs/reference has the form, under events",
        )


def noted(detail: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an event from outside says, parted: in words of its own, and in words that are the system's."""
    theirs = {word for word in detail if (looks := reading(word)) in notes().looks or looks in details().looks}
    own = {word: value for word, value in detail.items() if word not in theirs}
    return own, {word: value for word, value in detail.items() if word in theirs}


def check_detail(words: Iterable[str], where: str, code: str = "item.reserved") -> None:
    """Refuse the first word that is not theirs to set, or that would be read as one of those."""
    _check(words, details(), where, code)


def check_note(words: Iterable[str], where: str, code: str) -> None:
    """Refuse the first word with which a note would pass for what the system itself says in an event."""
    _check(words, notes(), where, code)


def check_finding(words: Iterable[str], where: str, code: str) -> None:
    """Refuse the first word beside a finding that would be read as a second code or reason of it."""
    _check(words, FOUND, where, code)


def _check(words: Iterable[str], reserved: Words, where: str, code: str) -> None:
    for word in sorted(set(words)):
        if known := reserved.looks.get(reading(word)):
            does = reserved.told[known]
            told = does if word == known else f"looks like {known!r}, which {does}"
            raise BadInput(
                f"{word!r} is not theirs to set: it {told}",
                code=code,
                where=where,
                hint="choose another word, such as one that begins with a name of its own",
            )


FOUND = Words.of({"code": "is the finding's own", "reason": "is the finding's own"})
"""Beside a finding or a warning."""
for _each in (details, notes, events, events_with, recorded_by):
    when_changed(_each.cache_clear)
