"""PREMIS 3: what happened to items, as XML that other archives understand.

Objects, events and agents (conformance level 2B of the data dictionary): outcomes in the words of the Library
of Congress, identifiers that stay the same in every export, and the detail of an event as structured XML
beside it, in the form that XPath gives to JSON, not as text with escaped brackets. Reading, also of
version 2.2 and of other people's habits, is in premis_reader.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lxml import etree

from custody.errors import BadInput
from custody.kernel.history.chain import Place
from custody.kernel.history.head import moment
from custody.kernel.history.verify import place_name
from custody.kernel.model.event import Event, Outcome

PREMIS3: Final = "http://www.loc.gov/premis/v3"
JSON_XML: Final = "http://www.w3.org/2005/xpath-functions"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
VOCABULARY: Final = "http://id.loc.gov/vocabulary/preservation"
OURS: Final = "custody"

# LoC's term and the last part of its address; an event without an outcome simply has none
OUTCOMES: Final[Mapping[Outcome, tuple[str, str]]] = {
    "success": ("success", "suc"),
    "failure": ("fail", "fai"),
    "warning": ("warning", "war"),
}

SCHEMES: Final = (("ark:", "ARK"), ("doi:", "DOI"), ("urn:", "URN"), ("http:", "URI"), ("https:", "URI"))
LOCAL: Final = "local"
ROLES: Final = {"software": "executing program", "person": "implementer", "organization": "implementer"}
NOTES: Final = ("reason", "note", "message")  # in a detail, what is worth reading without our extension


@dataclass(frozen=True, slots=True)
class Agent:
    """Who did it, as PREMIS describes agents. `kind` is software, person, organization, or not known."""

    name: str
    kind: str = ""
    version: str = ""


def agent_by_its_name(agent: str) -> Agent:
    """A name that ends in a version ("checksum-checker 1.2") is a program's; of others nothing is known."""
    found = re.fullmatch(r"(.+?)[ /](v?\d[\w.+-]*)", agent)
    return Agent(found[1], "software", found[2]) if found else Agent(agent)


def premis_document(
    events: Iterable[Event],
    *,
    origin: str,
    subjects: Iterable[str] = (),
    agents: Callable[[str], Agent] = agent_by_its_name,
    types: Mapping[str, str] | None = None,
    erased: Mapping[Place, str] | None = None,
) -> bytes:
    """One PREMIS document with the events of one item or of many.

    `types` gives an event type the word to be used for it outside (LoC's, say); `erased` says which bodies
    were erased, by which event; `subjects` adds objects to which nothing happened yet.
    """
    happened = list(events)
    named = dict.fromkeys((*subjects, *(event.subject for event in happened)))
    if not named:
        raise BadInput("a PREMIS document needs at least one object", code="premis.empty")
    document = etree.Element(f"{{{PREMIS3}}}premis", nsmap={None: PREMIS3, "xsi": XSI}, version="3.0")
    document.extend(_object(subject) for subject in named)
    words, gone = types or {}, erased or {}
    document.extend(_event(event, origin, agents, words, erased=gone) for event in happened)
    document.extend(_agent(name, agents(name)) for name in dict.fromkeys(e.agent for e in happened) if name)
    return etree.tostring(document, encoding="UTF-8", xml_declaration=True, pretty_print=True)


def premis_event(event: Event, *, origin: str) -> bytes:
    """One event as a document of its own, which PREMIS allows: for streams, and one file per event."""
    return etree.tostring(_event(event, origin, agent_by_its_name, {}, erased={}), encoding="UTF-8")


def object_identifier(subject: str) -> tuple[str, str]:
    """What kind of identifier an object has, and its value. Items are known outside by their own names."""
    kind, _, name = subject.partition("/")
    if kind != "item":
        return OURS, subject
    return next((scheme for start, scheme in SCHEMES if name.lower().startswith(start)), LOCAL), name


def event_identifier(origin: str, event: Event) -> str:
    """The same in every export, in any database: the history's name, the subject, its place."""
    return f"{origin}/{place_name(event.subject, event.seq)}"


def _object(subject: str) -> etree._Element:
    made = _part(None, "object")
    made.set(f"{{{XSI}}}type", "intellectualEntity")
    _identify(made, "object", *object_identifier(subject))
    return made


def _event(
    event: Event,
    origin: str,
    agents: Callable[[str], Agent],
    types: Mapping[str, str],
    erased: Mapping[Place, str],
) -> etree._Element:
    made = _part(None, "event")
    _identify(made, "event", OURS, event_identifier(origin, event))
    _part(made, "eventType", types.get(event.type, event.type))
    _part(made, "eventDateTime", moment(event.at))
    eraser = erased.get((event.subject, event.seq))
    if eraser:
        told = f"agent and detail were erased, as {eraser} says"
        _part(_part(made, "eventDetailInformation"), "eventDetail", told)
    _outcome(made, event)
    if event.agent:
        linked = _identify(made, "linkingAgent", OURS, event.agent)
        role = ROLES.get(agents(event.agent).kind)
        if role:
            _part(linked, "linkingAgentRole", role)
    _identify(made, "linkingObject", *object_identifier(event.subject))
    return made


def _outcome(made: etree._Element, event: Event) -> None:
    term = OUTCOMES.get(event.outcome)
    if not term and not event.detail:
        return
    told = _part(made, "eventOutcomeInformation")
    if term:
        outcome = _part(told, "eventOutcome", term[0])
        outcome.set("authority", "eventOutcome")
        outcome.set("authorityURI", f"{VOCABULARY}/eventOutcome")
        outcome.set("valueURI", f"{VOCABULARY}/eventOutcome/{term[1]}")
    if event.detail:
        detail = _part(told, "eventOutcomeDetail")
        note = next((event.detail[key] for key in NOTES if isinstance(event.detail.get(key), str)), "")
        if note:
            _part(detail, "eventOutcomeDetailNote", note)
        _part(detail, "eventOutcomeDetailExtension").append(json_xml(dict(event.detail)))


def _agent(name: str, agent: Agent) -> etree._Element:
    made = _part(None, "agent")
    _identify(made, "agent", OURS, name)
    _part(made, "agentName", agent.name)
    if agent.kind:
        _part(made, "agentType", agent.kind)
    if agent.version:
        _part(made, "agentVersion", agent.version)
    return made


def _identify(made: etree._Element, what: str, kind: str, value: str) -> etree._Element:
    identifier = _part(made, f"{what}Identifier")
    _part(identifier, f"{what}IdentifierType", kind)
    _part(identifier, f"{what}IdentifierValue", value)
    return identifier


def _part(parent: etree._Element | None, name: str, text: str | None = None) -> etree._Element:
    tag = f"{{{PREMIS3}}}{name}"
    made = etree.Element(tag, nsmap={None: PREMIS3}) if parent is None else etree.SubElement(parent, tag)
    if text is not None:
        made.text = _fit(text)
    return made


# --- JSON as XML: the form of XPath's json-to-xml, so that other people's tools can turn it back ---

NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _fit(text: str) -> str:
    """Text for people: what XML has no character for is written out."""
    return NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_xml(value: Any, key: str | None = None) -> etree._Element:
    """A JSON value as an element; its name among its neighbours goes into the attribute `key`."""
    made = etree.Element(f"{{{JSON_XML}}}{_json_kind(value)}", nsmap={None: JSON_XML})
    if key is not None:
        made.set("key", _escaped(made, key, "escaped-key"))
    match value:
        case str():
            made.text = _escaped(made, value, "escaped")
        case bool() | int() | float():
            made.text = json.dumps(value)
        case list():
            made.extend(json_xml(part) for part in value)
        case dict():
            made.extend(json_xml(part, name) for name, part in value.items())
    return made


def _json_kind(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "map"}
    if value is None:
        return "null"
    if type(value) not in kinds:
        raise BadInput(f"an event's detail cannot have a {type(value).__name__}", code="premis.not-json")
    return kinds[type(value)]


def _escaped(made: etree._Element, text: str, attribute: str) -> str:
    """Text as it is if XML can carry it; or as JSON writes it, and an attribute says so."""
    if not NOT_XML.search(text):
        return text
    made.set(attribute, "true")
    return json.dumps(text)[1:-1]
