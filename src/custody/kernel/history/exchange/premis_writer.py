"""PREMIS 3: what happened to items, as XML that other archives understand.

Objects, events and agents (conformance level 2B of the data dictionary): outcomes in the words of the Library of
Congress, identifiers that stay the same in every export, and the detail of an event as structured XML beside it, in the
form that XPath gives to JSON, not as text with escaped brackets. An event that was taken over from elsewhere leaves as
it came: with its own identifier and time, its agents and roles, outcomes and extensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lxml import etree

from custody.errors import BadInput
from custody.formats.premis import kept, writer
from custody.formats.premis.elements import xml_of
from custody.formats.premis.json_xml import fit, json_xml
from custody.formats.premis.model import Identifier, Link, Passage, PremisAgent, PremisEvent, PremisObject, Result, Term
from custody.kernel.history.chain import Place
from custody.kernel.history.exchange.identity import OURS, object_identifier
from custody.kernel.history.exchange.known_events import IMPORTED, record_of
from custody.kernel.history.head import moment
from custody.kernel.history.verify import place_name
from custody.kernel.model.event import Event, Outcome

VOCABULARY: Final = "http://id.loc.gov/vocabulary/preservation"

# LoC's term and the last part of its address; an event without an outcome simply has none
OUTCOMES: Final[Mapping[Outcome, tuple[str, str]]] = {
    "success": ("success", "suc"),
    "failure": ("fail", "fai"),
    "warning": ("warning", "war"),
}

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

    `types` gives an event type of ours the word to be used for it outside (LoC's, say); `erased` says which bodies
    were erased, by which event; `subjects` adds objects to which nothing happened yet.
    """
    telling = _Telling(origin, agents, types or {}, erased or {})
    for subject in subjects:
        telling.object(subject)
    for event in events:
        telling.event(event)
    if not telling.objects:
        raise BadInput("a PREMIS document needs at least one object", code="premis.empty")
    objects = [PremisObject(tuple(each)) for each in telling.objects.values()]
    made = writer.document(objects, telling.events, telling.agents)
    return etree.tostring(made, encoding="UTF-8", xml_declaration=True, pretty_print=True)


def premis_event(event: Event, *, origin: str) -> bytes:
    """One event as a document of its own, which PREMIS allows: for streams, and one file per event."""
    telling = _Telling(origin, agent_by_its_name, {}, {})
    telling.event(event)
    return etree.tostring(writer.event(telling.events[0]), encoding="UTF-8")


def event_identifier(origin: str, event: Event) -> str:
    """The same in every export, in any database: the history's name, the subject, its place."""
    return f"{origin}/{place_name(event.subject, event.seq)}"


class _Telling:
    """One document in the making: each object, event and agent once."""

    def __init__(
        self,
        origin: str,
        agents: Callable[[str], Agent],
        types: Mapping[str, str],
        erased: Mapping[Place, str],
    ) -> None:
        self.origin, self.known_agents, self.types, self.erased = origin, agents, types, erased
        self.objects: dict[str, dict[Identifier, None]] = {}
        self.events: list[PremisEvent] = []
        self.agents: dict[PremisAgent, None] = {}
        self.told: set[PremisEvent] = set()

    def object(self, subject: str) -> dict[Identifier, None]:
        return self.objects.setdefault(subject, {object_identifier(subject): None})

    def event(self, event: Event) -> None:
        names = self.object(event.subject)
        found = record_of(event)
        if found is None:
            self.events.append(self._own(event))
            return
        told, record = found
        told, agents = _whole(event, told, record), kept.from_json({"type": event.type, **record})[1]
        names.update({(kind, value): None for kind, value in record.get("item", ())})
        if not told.objects:
            told = replace(told, objects=(Link(object_identifier(event.subject)),))
        if told in self.told:
            return  # it is about several of these items
        self.told.add(told)
        self.events.append(told)
        self.agents.update(dict.fromkeys(agents))

    def _own(self, event: Event) -> PremisEvent:
        eraser = self.erased.get((event.subject, event.seq))
        told = f"agent and detail were erased, as {eraser} says" if eraser else ""
        links: tuple[Link, ...] = ()
        if event.agent:
            agent = self.known_agents(event.agent)
            role = ROLES.get(agent.kind)
            links = (Link((OURS, event.agent), (Term(role),) if role else ()),)
            described = PremisAgent(((OURS, event.agent),), (agent.name,), Term(agent.kind), agent.version)
            self.agents[described] = None
        return PremisEvent(
            identifier=(OURS, event_identifier(self.origin, event)),
            type=Term(self.types.get(event.type, event.type)),
            at=moment(event.at),
            details=(Passage(told),) if told else (),
            results=tuple(filter(None, [_result(event.outcome, event.detail)])),
            agents=links,
            objects=(Link(object_identifier(event.subject)),),
        )


def _result(outcome: Outcome, detail: Mapping[str, Any]) -> Result:
    term = OUTCOMES.get(outcome)
    word = Term("")
    if term:
        authority = ("authority", "eventOutcome"), ("authorityURI", f"{VOCABULARY}/eventOutcome")
        word = Term(term[0], (*authority, ("valueURI", f"{VOCABULARY}/eventOutcome/{term[1]}")))
    if not detail:
        return Result(word)
    note = next((detail[key] for key in NOTES if isinstance(detail.get(key), str)), "")
    return Result(word, (Passage(fit(note), (xml_of(json_xml(dict(detail))),)),))


def _whole(event: Event, told: PremisEvent, record: Mapping[str, Any]) -> PremisEvent:
    """An import of before kept only the first agent, the gravest outcome and one note, beside the record."""
    if "objects" in record:
        return told
    agent = event.agent.removeprefix(f"{IMPORTED}: ")
    note = event.detail.get("note")
    word = record.get("outcome") or OUTCOMES.get(event.outcome, ("", ""))[0]
    return replace(
        told,
        details=(Passage(note),) if isinstance(note, str) and note else (),
        results=tuple(filter(None, [Result(Term(str(word)))])),
        agents=(Link((OURS, agent)),) if agent else (),
    )
