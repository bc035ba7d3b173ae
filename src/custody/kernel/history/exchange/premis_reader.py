"""Reading PREMIS that others wrote: versions 2.2 and 3, alone or inside METS, in all its habits.

Liberal with what can be understood, and never at the cost of the rest: one event with a date nobody can read
is told as a problem, and the other events are still there. Strict with what is dangerous: no DTD, no
entities, no network, limits on size and depth. A time in a document is somebody's claim, so it becomes part
of the detail of a new event, whose own time is the store's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from io import BytesIO
from typing import Any, Final, TypeAlias

from lxml import etree

from custody.errors import BadInput
from custody.kernel.history.event_body import canonical
from custody.kernel.history.exchange.premis_writer import JSON_XML, OURS
from custody.kernel.history.head import EPOCH
from custody.kernel.model.event import NewEvent, Outcome
from custody.kernel.model.names import event_names
from custody.kernel.model.names.reserved import is_recorded, noted

NAMESPACES: Final = (
    "http://www.loc.gov/premis/v3",
    "info:lc/xmlns/premis-v2",
    "http://www.loc.gov/standards/premis/v1",
    "http://www.loc.gov/standards/premis",
)
ENCODINGS: Final = {"UTF-8", "UTF-16", "UTF-16LE", "UTF-16BE", "ASCII", "US-ASCII", "ISO-8859-1"}
DECLARATION: Final = re.compile(rb"""<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._-]+)""")
MOST_BYTES: Final = 16 * 2**20
DEEPEST: Final = 200

OUTCOME_WORDS: Final[Mapping[str, Outcome]] = {
    **dict.fromkeys(("success", "successful", "succeeded", "pass", "passed", "ok", "valid"), "success"),
    **dict.fromkeys(("positive", "true", "complete", "completed", "well-formed"), "success"),
    **dict.fromkeys(("fail", "failure", "failed", "failing", "error", "invalid", "negative", "false"), "failure"),
    **dict.fromkeys(("warning", "warn", "partial", "partial success"), "warning"),
}
"""Words for outcomes seen in the wild; an archive adds its own."""

IMPORTED: Final = "imported"
LONGEST_AGENT: Final = 500
GRAVITY: Final[tuple[Outcome, ...]] = ("none", "success", "warning", "failure")

Identifier: TypeAlias = tuple[str, str]
"""(type, value), as PREMIS identifies everything."""


@dataclass(frozen=True, slots=True)
class PremisEvent:
    """An event as somebody else recorded it."""

    identifier: Identifier
    type: str
    at: int | None  # microseconds since 1970; None if `at_text` cannot be read
    at_text: str
    outcome: Outcome
    outcome_text: str
    agents: tuple[str, ...] = ()
    objects: tuple[Identifier, ...] = ()
    notes: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)  # as we exported it, if we did


@dataclass(frozen=True, slots=True)
class Premis:
    """What a document says, and what in it could not be understood."""

    events: tuple[PremisEvent, ...]
    objects: tuple[Identifier, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Habits:
    """How the writer of a document uses PREMIS."""

    outcomes: Mapping[str, Outcome] = field(default_factory=lambda: OUTCOME_WORDS)
    unknown: Outcome = "failure"  # a word we do not know must not open a gate
    types: Mapping[str, str] = field(default_factory=dict)  # their event types → ours
    zone: tzinfo = UTC  # of times that name none


def read_premis(data: bytes, habits: Habits | None = None) -> Premis:
    """Everything a document says about events. `BadInput` if it is not XML, or dangerous XML."""
    root = _parsed(data)
    reader = _Reader(habits or Habits(), _agent_names(root))
    events = tuple(filter(None, map(reader.event, _outermost(root, "event"))))
    objects = tuple(filter(None, (_identifier(each, "object") for each in _outermost(root, "object"))))
    reader.check_identifiers(events)
    return Premis(events, objects, tuple(reader.problems))


def new_events(event: PremisEvent) -> list[NewEvent]:
    """What to append to the items concerned; the original's identifier and time are kept in the detail.

    What somebody else's document says is never what this system itself records: a type that the system reads, or that
    could be read as another, becomes `imported …` (once, however often it travels), words that it reads are quoted
    below `premis`, and who did it is said to be somebody elsewhere."""
    source: dict[str, Any] = {
        "identifier": list(event.identifier),
        "at": event.at_text,
        "outcome": event.outcome_text,
    }
    own, quoted = noted(event.detail)
    if quoted:
        source["said"] = quoted
    type_ = event.type
    if event_names.fault_of(type_) or (is_recorded(type_) and not type_.startswith(f"{IMPORTED} ")):
        source["type"], type_ = type_, f"{IMPORTED} {event_names.plain(type_) or 'event'}"
    detail = {**own, "premis": source}
    if event.notes and not event.detail:
        detail["note"] = "\n".join(event.notes)
    agent = event.agents[0] if event.agents else ""
    items = [value for kind, value in event.objects if kind != OURS]  # those are jobs, holds, schedules
    return [
        NewEvent(item=item, type=type_, outcome=event.outcome, agent=_foreign(agent), detail=detail) for item in items
    ]


def _foreign(agent: str) -> str:
    """Somebody of another system, who may be called like a part or a caller of ours."""
    return f"{IMPORTED}: {agent}"[:LONGEST_AGENT] if agent else ""


# --- safe parsing ---


def _parsed(data: bytes) -> etree._Element:
    if len(data) > MOST_BYTES:
        raise BadInput(f"more than {MOST_BYTES >> 20} MiB of XML", code="premis.large")
    _check_encoding(data)
    steps = etree.iterparse(
        BytesIO(data),
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    root, depth = None, 0
    try:
        for step, element in steps:
            if root is None:
                root = _harmless(element)
            depth += 1 if step == "start" else -1
            if depth > DEEPEST:
                raise BadInput(f"XML nested more than {DEEPEST} deep", code="premis.deep")
    except etree.XMLSyntaxError as error:
        raise BadInput(f"this is not XML: {error}", code="premis.xml") from error
    if root is None:
        raise BadInput("this is not XML: it has no element", code="premis.xml")
    return root


def _check_encoding(data: bytes) -> None:
    """Only encodings in which a bracket is a bracket: others have hidden markup from many a filter."""
    declared = DECLARATION.search(data[:400].replace(b"\0", b""))
    encoding = declared[1].decode() if declared else "UTF-8"
    if encoding.upper() not in ENCODINGS:
        raise BadInput(f"XML in {encoding} is refused", code="premis.encoding", hint="use UTF-8")


def _harmless(root: etree._Element) -> etree._Element:
    """Seen when the root begins: a DTD was read by then, but nothing in it was used."""
    if root.getroottree().docinfo.internalDTD is not None:
        raise BadInput("XML with a DTD is refused", code="premis.dtd", hint="remove the <!DOCTYPE …>")
    return root


# --- reading ---


def _local(element: etree._Element) -> str:
    """The name of a PREMIS element of any version; empty for foreign ones."""
    name = etree.QName(element)
    return name.localname if not name.namespace or name.namespace in NAMESPACES else ""


def _outermost(root: etree._Element, name: str) -> Iterator[etree._Element]:
    """Elements of this name, but not those quoted inside an extension of another event."""
    for element in root.iter(f"{{*}}{name}"):
        inside = any(_local(above) == "event" for above in element.iterancestors())
        if _local(element) == name and not inside:
            yield element


def _all(parent: etree._Element, name: str) -> list[etree._Element]:
    return [child for child in parent if _local(child) == name]


def _text(parent: etree._Element, name: str) -> str:
    return next(("".join(child.itertext()).strip() for child in _all(parent, name)), "")


def _identifier(parent: etree._Element, what: str) -> Identifier | None:
    return next((_pair(each, what) for each in _all(parent, f"{what}Identifier")), None)


def _pair(element: etree._Element, what: str) -> Identifier:
    return _text(element, f"{what}IdentifierType"), _text(element, f"{what}IdentifierValue")


def _agent_names(root: etree._Element) -> dict[Identifier, str]:
    """Many writers link agents by a number; the name is elsewhere in the document."""
    agents = ((_identifier(each, "agent"), _text(each, "agentName")) for each in _outermost(root, "agent"))
    return {found: name for found, name in agents if found and name and found[0] != OURS}


class _Reader:
    """One document: the habits to read it with, and the problems met so far."""

    def __init__(self, habits: Habits, agents: Mapping[Identifier, str]) -> None:
        self.habits = habits
        self.agents = agents
        self.problems: list[str] = []

    def problem(self, element: etree._Element, message: str) -> None:
        self.problems.append(f"line {element.sourceline}: {message}")

    def event(self, element: etree._Element) -> PremisEvent | None:
        type_text = _text(element, "eventType")
        identifier = _identifier(element, "event")
        if not type_text:
            self.problem(element, "an event without a type; left out")
            return None
        if identifier is None or not identifier[1]:
            self.problem(element, f"an event without an identifier ({type_text})")
        at_text = _text(element, "eventDateTime")
        outcome, outcome_text = self.outcome(element)
        return PremisEvent(
            identifier=identifier or ("", ""),
            type=self.habits.types.get(type_text, type_text),
            at=self.time(element, at_text),
            at_text=at_text,
            outcome=outcome,
            outcome_text=outcome_text,
            agents=self.linked_agents(element),
            objects=tuple(_pair(each, "linkingObject") for each in _all(element, "linkingObjectIdentifier")),
            notes=tuple(_notes(element)),
            detail=self.detail(element),
        )

    def linked_agents(self, element: etree._Element) -> tuple[str, ...]:
        pairs = [_pair(each, "linkingAgent") for each in _all(element, "linkingAgentIdentifier")]
        return tuple(self.agents.get(pair, pair[1]) for pair in pairs)

    def outcome(self, element: etree._Element) -> tuple[Outcome, str]:
        """The gravest of all that are given; the first text of that gravity."""
        worst: Outcome = "none"
        said = ""
        for information in _all(element, "eventOutcomeInformation"):
            word = _text(information, "eventOutcome")
            if not word:
                continue
            outcome = self.habits.outcomes.get(word.casefold())
            if outcome is None:
                self.problem(element, f"the outcome {word[:80]!r} is not known; taken as {self.habits.unknown}")
                outcome = self.habits.unknown
            if GRAVITY.index(outcome) > GRAVITY.index(worst):
                worst, said = outcome, word
        return worst, said

    def time(self, element: etree._Element, text: str) -> int | None:
        try:
            return _microseconds(text, self.habits.zone)
        except (ValueError, OverflowError):
            self.problem(element, f"the time {text[:80]!r} cannot be read")
            return None

    def detail(self, element: etree._Element) -> Mapping[str, Any]:
        """What an export of ours put there; foreign extensions are not ours to interpret."""
        for found in element.iter(f"{{{JSON_XML}}}map"):
            try:
                value = from_json_xml(found)
                canonical(value)  # what history could not keep must not come in
            except (ValueError, LookupError, BadInput) as error:
                self.problem(found, f"an extension that cannot be read: {error}")
                return {}
            return value if isinstance(value, dict) else {}
        return {}

    def check_identifiers(self, events: tuple[PremisEvent, ...]) -> None:
        """The schema lets two events have one identifier; whoever keys by it would lose one."""
        seen: set[Identifier] = set()
        for event in events:
            if event.identifier[1] and event.identifier in seen:
                self.problems.append(f"two events have the identifier {event.identifier[1][:80]!r}")
            seen.add(event.identifier)


def _notes(element: etree._Element) -> Iterator[str]:
    """Everything said in words: details (version 2 has them bare, version 3 wrapped) and outcome notes."""
    for name in ("eventDetail", "eventOutcomeDetailNote"):
        for found in element.iter(f"{{*}}{name}"):
            text = "".join(found.itertext()).strip()
            if _local(found) and text:
                yield text


PERIOD: Final = re.compile(r"(\d{4})(?:-(\d\d))?")


def _microseconds(text: str, zone: tzinfo) -> int:
    """Any ISO 8601 time, with or without fractions, colons and zone; a year or month means its beginning."""
    period = PERIOD.fullmatch(text)
    found = datetime.fromisoformat(f"{period[1]}-{period[2] or '01'}-01" if period else text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    return (found - EPOCH) // timedelta(microseconds=1)


def from_json_xml(element: etree._Element) -> Any:
    """The JSON value that premis.json_xml wrote, or XPath's json-to-xml."""
    kind, text = etree.QName(element).localname, element.text or ""
    match kind:
        case "map":
            return {_key(child): from_json_xml(child) for child in element}
        case "array":
            return [from_json_xml(child) for child in element]
        case "string":
            return _unescaped(text) if element.get("escaped") == "true" else text
        case "number":
            return json.loads(text)
        case "boolean":
            return {"true": True, "1": True, "false": False, "0": False}[text.strip()]
        case "null":
            return None
    raise ValueError(f"JSON has no {kind}")


def _key(element: etree._Element) -> str:
    key = element.attrib["key"]
    return _unescaped(key) if element.get("escaped-key") == "true" else key


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))
