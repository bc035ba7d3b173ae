"""Jobs: rows that say something remains to be done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from custody.errors import BadInput
from custody.kernel.model.authority.acting import SYSTEM, Acting
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.machine import WORK, End, Machine
from custody.kernel.model.names.job_keys import LONGEST_KEY, OwnKey, check_key

LOWEST, MIDDLE, HIGHEST = 99, 50, 0
"""Priorities: low numbers go first."""
EVERYWHERE = "*"
"""All collections, where a token or a filter names some."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be submitted."""

    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None  # unique within kind and collection: the same key and payload again give the same job
    machine: Machine = WORK
    state: str = ""  # where it starts; the machine's start unless told
    priority: int = MIDDLE
    lane: str = ""  # lanes take turns: an archive, a collection, a storage node
    place: str = ""  # only workers of this place may claim it; empty: anyone
    collection: str = ""  # what a hold may name
    delay: float = 0  # seconds before it may be claimed
    needs: Sequence[Edge] = ()
    parent: int | None = None  # the job that counts this one among its open children
    open: int = 0  # open children, for a job that has some
    when_empty: str | None = None  # the state it moves to when the last child has ended
    line: str | None = None  # instances of one task on one line may supersede each other …
    task: str | None = None
    position: int = 0  # … by their position on it
    supersedes: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    def start(self) -> str:
        return self.state or self.machine.start

    @property
    def key_within(self) -> str:
        return key_within(self.kind, self.collection)

    def checked(self) -> NewJob:
        """Itself, or a typed error that names the field."""
        if not self.kind:
            raise _bad("kind", "a job needs a kind")
        if "|" in self.kind or "|" in self.place:
            name = "kind" if "|" in self.kind else "place"
            raise _bad(name, f"{name} must not contain '|'")
        check_key(self.key)
        if self.collection == EVERYWHERE:
            raise _bad("collection", f"no collection is called {EVERYWHERE}: it stands for all of them")
        if not HIGHEST <= self.priority <= LOWEST:
            raise _bad("priority", f"priority {self.priority} is outside 0 to 99", hint="low goes first")
        if not 0 <= self.delay <= A_HUNDRED_YEARS:
            raise _bad("delay", f"a delay of {self.delay} seconds is less than nothing or more than a hundred years")
        if (self.line is None) != (self.task is None):
            raise _bad("line", "line and task go together")
        if self.needs and len({edge.on for edge in self.needs}) < len(self.needs):
            raise _bad("needs", "two needs of one and the same job", hint="one edge says what is wanted of it")
        names = f"{self.kind}{self.key}{self.lane}{self.place}{self.collection}{self.line}{self.task}"
        if "\0" in names or not is_text(names):
            raise _bad("names", "a name holds a character that cannot be stored", hint="no NUL, no half of a pair")
        return self

    def asked_for(self) -> NewJob:
        """The same of what comes from outside, by whichever door; what is in a store already may be longer."""
        if self.key is not None and len(self.key) > LONGEST_KEY and not isinstance(self.key, OwnKey):
            raise _bad("key", f"a key of {len(self.key)} characters is too long", hint=f"at most {LONGEST_KEY}")
        if len(self.lane) > LONGEST_LANE:
            raise _bad("lane", f"a lane of {len(self.lane)} characters is too long", hint=f"at most {LONGEST_LANE}")
        return self.checked()


LONGEST_LANE = 200


def key_within(kind: str, collection: str) -> str:
    """Where a key is the only one of its kind: its collection; for what is ready for a robot, everywhere."""
    return "" if kind.startswith("robot/") else collection


A_HUNDRED_YEARS = 100 * 366 * 24 * 3600


def _bad(field_: str, message: str, hint: str = "") -> BadInput:
    return BadInput(message, where=f"job {field_}", code="job.field", hint=hint)


def is_text(value: str) -> bool:
    """Can it be written down? Python's strings may hold half a character, as files with broken names show."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its row stands."""

    id: int
    kind: str
    key: str | None
    state: str
    runnable: bool  # a worker has something to do in this state
    ended: End | None
    lane: str
    place: str
    collection: str
    priority: int
    unmet: int  # needs not yet met; a future `due` counts as one
    due: int | None  # not before this time, while that is still ahead
    payload: Mapping[str, Any]
    facts: Mapping[str, Any]  # what its steps have kept
    attempts: int  # claims that were not given back
    crashes: int  # what the deaths of its workers say against it: see kernel/model/suspicion.py
    retries: int  # resumes by people
    last_passed: str | None
    parent: int | None
    open: int
    when_empty: str | None
    line: str | None
    task: str | None
    position: int
    supersedes: bool
    token: int
    seq: int
    move: str
    holder: str | None
    until: int
    suspect: int  # what is to be thought of it if its lease ends without a word: see kernel/model/suspicion.py
    revoked: str | None  # "cancel" or "supersede", while its holder has not confirmed the end
    code: str | None  # why it failed
    created: int
    changed: int
    by: str = ""  # who asked for it, or on whose behalf it was made: see kernel/model/authority/acting.py; written once

    @property
    def subject(self) -> str:
        return f"job/{self.id}"

    @property
    def queue(self) -> str:
        """Where it waits to be claimed: as the column of that name."""
        return f"{self.kind}|{self.state}|{self.place}|{self.lane}"


@dataclass(frozen=True, slots=True)
class HeldBy:
    """A hold in force: who set it, and why."""

    scope: str  # "collection", "batch", "kind", "lane"
    name: str
    who: str
    why: str
    since: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A job together with the permission to work on it."""

    job: Job
    token: int
    holder: str
    hold: HeldBy | None = None  # a hold on its collection or batch at the moment of the claim
    pid: int = field(default_factory=os.getpid, compare=False, repr=False)  # of the process that may work on it

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def move(self) -> str:
        """What no two claims share, not even of the same number and token."""
        return self.job.move

    @property
    def acting(self) -> Acting:
        """Whoever holds a job acts on its behalf; for one that is older than the names, as the program itself."""
        return Acting(self.job.by or SYSTEM, self.holder)


@dataclass(frozen=True, slots=True)
class Onward:
    """Whoever ends a job goes on with the next of its queue that this makes ready: claimed with that very move."""

    queue: str
    holder: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """One move of one job, as the store writes it: everything here together, or nothing.

    A worker's move carries its claim's token and that claim's own move; an administrator's carries none, and the
    row must be unleased.
    """

    id: int
    frm: str
    to: str
    type: str  # the event's type: "passed", "failed", "held", …
    outcome: str
    agent: str
    runnable: bool
    ended: End | None
    token: int | None
    move: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    keep: Mapping[str, Any] = field(default_factory=dict)  # the new ones among the facts, for the event
    then: Sequence[NewJob] = ()
    items: Sequence[NewItem] = ()
    events: Sequence[NewEvent] = ()
    needs: Sequence[Edge] = ()  # more to wait for, found out while working
    delay: float = 0
    priority: int | None = None
    lane: str | None = None
    place: str | None = None
    last_passed: str | None = None  # None: as it was
    retries: int = 0  # added
    attempts: int = 0  # added (−1 gives one back); a move to another state starts again at 0
    open: int = 0  # added to its own count of open children
    code: str | None = None  # why it failed
    facts: Mapping[str, Any] | None = None  # all facts after the move; None: as they were
    remove: bool = False  # delete the row after the move; its events stay
    look: tuple[str, str] | None = None  # a robot and an item to be looked at again after that
    onward: Onward | None = None
    by: str = ""  # on whose behalf `then` is made: the job's own
    claimed: str = ""  # the move of the claim: a token alone may be another's, after history went back

    @property
    def acting(self) -> Acting:
        return Acting(self.by or SYSTEM, self.agent)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs; empty fields match everything."""

    kind: str = ""  # a kind, or a prefix with * at its end
    state: str = ""
    ended: str = ""
    lane: str = ""
    collection: str = ""
    code: str = ""
    parent: int = 0


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed jobs with one cause: fixed once, resumed together."""

    kind: str
    state: str
    code: str | None
    count: int
    oldest: int  # a job's number
    newest: int
    at: int  # when the newest failed


@dataclass(frozen=True, slots=True)
class FanOut:
    """How a queue wants a job's children: so many in one transaction, and so many below one parent."""

    at_once: int = 500
    most: int | None = None  # None: any number


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a change: done, or refused with the reason."""

    id: int
    done: bool
    token: int = 0
    code: str = ""
    why: str = ""
    onward: Claim | None = None  # the next one, if there is one and the store could give it at once


@dataclass(frozen=True, slots=True)
class Fold:
    """What a job's events say about it; must equal its row, always."""

    state: str
    ended: str | None
    priority: int
    retries: int
    last_passed: str | None
    lane: str
    place: str
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, job: Job) -> Fold:
        return cls(
            state=job.state,
            ended=job.ended,
            priority=job.priority,
            retries=job.retries,
            last_passed=job.last_passed,
            lane=job.lane,
            place=job.place,
            facts=dict(job.facts),
        )


DELETED = Fold(state="deleted", ended="deleted", priority=0, retries=0, last_passed=None, lane="", place="", facts={})


def fold(events: Iterable[Event]) -> Fold:
    """The row without its lease columns, from its history alone."""
    seen: dict[str, Any] = {}
    for event in events:
        if event.type == "deleted":
            return DELETED
        known = {name: event.detail[name] for name in _FOLDED if name in event.detail}
        facts = {**seen.get("facts", {}), **event.detail.get("facts", {})}
        seen = {**seen, **known, "facts": facts}
    return Fold(**{name: seen.get(name) for name in _FOLDED}, facts=seen.get("facts", {}))  # type: ignore[arg-type]


_FOLDED = ("state", "ended", "priority", "retries", "last_passed", "lane", "place")
