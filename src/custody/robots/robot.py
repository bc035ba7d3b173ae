"""A robot is one function with a label on it. The label says when; the function says what; the report says how it went.

    @robot(name="checksum-checker", version="1.2", event="Checksums_Verified",
           when=Trigger(past={"Data_Received"}, absent={"Checksums_Verified"}))
    def verify(item: Item, report: Report) -> None:
        if not sound(item.id):
            report.add("R104", "the checksum is wrong")

No finding is a success, a finding is a failure with its reasons, an exception is a surprise and is tried again.
In a test you call the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from custody.errors import BadInput
from custody.kernel.engine.kinds import Backoff
from custody.kernel.model.item import Item, NewItem
from custody.kernel.model.names.reserved import check_detail, check_event, check_finding, check_note
from custody.kernel.model.trigger import Trigger

RESERVED_CODE = "robot.reserved"
LONGEST = 10 * 366 * 86_400.0
"""Seconds for which an item can be put off."""
Work = Callable[[Item, "Report"], None]


@dataclass(slots=True)
class Report:
    """How it went."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)  # what whoever runs it tells of the run, never the robot
    postponed: tuple[float, str] | None = None
    edited: NewItem | None = None

    def add(self, code: str, reason: str = "", **more: Any) -> None:
        """Something is wrong: the event will be a failure."""
        check_finding(more, "a finding", RESERVED_CODE)
        self.findings.append({"code": code, "reason": reason, **more})

    def warn(self, code: str, reason: str = "", **more: Any) -> None:
        """Someone should look, but the line moves on."""
        check_finding(more, "a warning", RESERVED_CODE)
        self.warnings.append({"code": code, "reason": reason, **more})

    def note(self, **facts: Any) -> None:
        """Facts for the history, in words of its own: those that the system says itself in an event are refused
        (`robot.reserved`)."""
        check_note(facts, "a note", RESERVED_CODE)
        self.facts |= facts

    def postpone(self, seconds: float, why: str) -> None:
        """Not now: nothing is recorded, and the item stays ready after the delay."""
        if not 0 < seconds < LONGEST:
            raise BadInput(
                f"it is put off for {seconds} seconds",
                code="robot.postpone",
                hint="more than none, else it would be tried again and again, and less than ten years",
            )
        self.postponed = (seconds, why)

    def changed(self, item: Item, fingerprint: str, **detail: Any) -> None:
        """The work changed the item's content; this does not wake the robot itself again. In words of its own: those
        that the system reads are refused (`robot.reserved`)."""
        check_detail(detail, item.id, RESERVED_CODE)
        self.edited = NewItem(
            id=item.id, types=item.types, collection=item.collection, fingerprint=fingerprint, detail=detail
        )

    @property
    def outcome(self) -> str:
        return "failure" if self.findings else "warning" if self.warnings else "success"

    def detail(self) -> dict[str, Any]:
        """What the event says; none of what was noted is left out, be it 0."""
        lists = {"findings": self.findings[:100], "warnings": self.warnings[:100]}
        told = {name: each for name, each in lists.items() if each}
        return self.facts | told | self.ours | ({"edited": self.edited.fingerprint} if self.edited else {})


@dataclass(frozen=True, slots=True)
class Robot:
    """The function and its label."""

    name: str
    version: str
    event: str  # the type of the event it records
    when: Trigger
    work: Work
    at_once: int = 1  # items at once in one process
    at_most: int = 0  # items in one run-once cycle; 0: all that are ready
    timeout: float | None = None  # seconds for one item
    hosts: int = 1  # more than one: several processes may run it at once
    tries: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    priority: int = 50
    edits: bool = False  # it changes items: the linter and the guard against loops look at these
    rounds: int = 10  # edits of one item without any change from outside, after which the item is stopped
    within: float | None = None  # seconds after `since` by which its event should be there
    since: str = ""  # the event from which `within` counts; the one in `past` unless told

    @property
    def kind(self) -> str:
        return f"robot/{self.name}"

    @property
    def agent(self) -> str:
        return f"{self.name} {self.version}"

    def __call__(self, item: Item, report: Report) -> None:
        self.work(item, report)


def robot(
    name: str, version: str, event: str, when: Trigger | Mapping[str, Any], **options: Any
) -> Callable[[Work], Robot]:
    """The label."""
    trigger = when if isinstance(when, Trigger) else Trigger.from_dict(when)
    trigger = Trigger(**{part: frozenset(getattr(trigger, part)) for part in Trigger.__slots__})
    for part, value in (("name", name), ("version", version), ("event", event)):
        if not value or "|" in value:
            raise BadInput(f"a robot needs a {part} without '|'", code="robot.label", where=f"robot {name or '?'}")
    check_event(event, f"robot {name}", "robot.label", form="robot.label")

    def label(work: Work) -> Robot:
        return _checked(Robot(name=name, version=version, event=event, when=trigger, work=work, **options))

    return label


def _checked(labelled: Robot) -> Robot:
    where = f"robot {labelled.name}"
    for name in ("within", "timeout"):
        seconds = getattr(labelled, name)
        if seconds is not None and seconds <= 0:
            raise BadInput(f"{name} is a number of seconds, more than none", code="robot.label", where=where)
    if labelled.within is not None and not labelled.since:
        if len(labelled.when.past) != 1:
            raise BadInput(
                "a deadline counts from one event", code="robot.label", where=where, hint='say since="EVENT"'
            )
        return replace(labelled, since=next(iter(labelled.when.past)))
    return labelled


def sentence(trigger: Trigger) -> str:
    """A trigger as one would say it."""
    words = {
        "types": "of type {}",
        "past": "that have had {}",
        "failed": "whose {} failed",
        "absent": "without {}",
        "old": "whose {} is older than their last change",
        "items": "among {}",
    }
    parts = [
        text.format(" and ".join(sorted(getattr(trigger, name))))
        for name, text in words.items()
        if getattr(trigger, name)
    ]
    return "items " + ", ".join(parts) if parts else "every item"
