"""Taking over what other systems say happened: which items, which events, and what is left out.

A time in a document is somebody's claim: it is kept with all else that was said below `premis`, in an event whose own
time is the store's. What comes twice is taken once: an event is known by its identifier and the item it is about. The
same identifier with other content is a conflict, which is told and not taken.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from custody.errors import BadInput, Refused
from custody.formats.premis import kept
from custody.formats.premis.json_xml import JSON_XML, from_json_xml
from custody.formats.premis.model import NOBODY, Identifier, Link, Premis, PremisAgent, PremisEvent
from custody.formats.text.readers import read_xml
from custody.kernel.history.event_body import canonical
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import OURS, Naming, everywhere, fault
from custody.kernel.history.exchange.known_events import IMPORTED, Known
from custody.kernel.model.event import PREMIS, Event, NewEvent, item_subject, unsealable
from custody.kernel.model.item import NewItem
from custody.kernel.model.names import event_names
from custody.kernel.model.names.reserved import is_recorded, noted

LONGEST_AGENT: Final = 500
LONGEST_NOTE: Final = 500
LARGEST: Final = 4 << 20
"""Bytes of one event, as it is kept."""
TRIES: Final = 10
BY_CONTENT: Final = "sha-256"
"""The type of the identifier of an event that came without one."""


@dataclass(frozen=True, slots=True)
class Source:
    """A document, and what it is called."""

    name: str
    premis: Premis


@dataclass(slots=True)
class Taken:
    """What an import would write, and what it leaves out."""

    events: list[NewEvent] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    """The last event of every item that was looked at; 0 for one that is not there yet."""
    found: int = 0
    new: int = 0
    known: int = 0
    losses: list[str] = field(default_factory=list)
    """Each thing that is left out, with its place."""
    remarks: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[NewItem]:
        return [NewItem(name, changed=False) for name in sorted({event.item for event in self.events})]


class Records(Protocol):
    """Where items and their events are kept."""

    def kept(self, item_id: str) -> str: ...

    def all_events(self, subject: str) -> Iterable[Event]: ...

    def put_after(
        self, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str, seen: Mapping[str, int]
    ) -> bool: ...


def import_documents(
    records: Records, sources: Sequence[Source], *, naming: Naming, habits: Habits, origin: str, agent: str
) -> Taken:
    """Write what is new in these documents, all or nothing. Of two who import the same at once, one finds it known."""
    for _ in range(TRIES):
        taken = take_over(
            sources,
            naming=naming,
            habits=habits,
            kept_name=records.kept,
            origin=origin,
            history=lambda item: records.all_events(item_subject(item)),
        )
        concerned = {event.item for event in taken.events}
        seen = {item: seq for item, seq in taken.seen.items() if item in concerned}
        if not taken.events or records.put_after(taken.items, taken.events, agent, seen):
            return taken
    raise Refused(
        "others keep recording events of these items: nothing was imported",
        code="premis.busy",
        hint="try again when there is less to do",
    )


def take_over(
    sources: Sequence[Source],
    *,
    naming: Naming,
    habits: Habits,
    kept_name: Callable[[str], str],
    history: Callable[[str], Iterable[Event]],
    origin: str = "",
) -> Taken:
    """What is to be appended to which items. `history` tells the events of an item, `origin` is this history's name."""
    importing = _Import(
        sources=sources, naming=naming, habits=habits, kept_name=kept_name, known=Known(history, origin, habits)
    )
    taken = importing.taken
    for source in sources:
        importing.look_at(source)
    told = [(source, event) for source in sources for event in source.premis.events]
    taken.found = len(told)
    if not told and not taken.losses:
        taken.losses.append("no events: nothing is imported")
    for source, event in sorted(told, key=lambda each: _when(habits.time(each[1].at))):
        importing.take(source, event)
    return taken


def _when(at: int | None) -> tuple[bool, int]:
    """Oldest first, so that the newest of its type comes last; one without a time after all."""
    return at is None, at or 0


class _Import:
    """All documents of one import: agents and objects that one describes may be named by another."""

    def __init__(
        self, sources: Sequence[Source], naming: Naming, habits: Habits, kept_name: Callable[[str], str], known: Known
    ) -> None:
        self.naming, self.habits, self.kept_name, self.known = naming, habits, kept_name, known
        self.taken = Taken(seen=known.seen)
        self.files = {PurePosixPath(source.name).name for source in sources}
        self.agents = {source.name: _agents([source]) for source in sources}
        self.objects = {source.name: _objects([source]) for source in sources}
        self.all_agents = {key: found for key, found in _agents(sources).items() if self._is_one(key)}
        self.all_objects = {key: found for key, found in _objects(sources).items() if self._is_one(key)}

    def _is_one(self, identifier: Identifier) -> bool:
        """Does it mean the same in every document of this import?"""
        return bool(self.naming.system or everywhere(identifier))

    def look_at(self, source: Source) -> None:
        """What a document leaves out by itself."""
        premis, taken = source.premis, self.taken
        taken.losses += [f"{source.name}: {each}" for each in premis.losses]
        if not (premis.events or premis.objects or premis.agents or premis.losses):
            taken.losses.append(f"{source.name}: no PREMIS, and nothing else that is understood, in <{premis.root}>")
        missing = [each for each in premis.refers if PurePosixPath(each).name not in self.files]
        taken.losses += [f"{source.name}: {each} is named there and was not given" for each in missing]

    def take(self, source: Source, event: PremisEvent) -> None:
        """Append one event to every item that it is about."""
        place = f"{source.name}: {event.called}"
        if not event.type.text:
            self.taken.losses.append(f"{place}: it does not say what happened; not taken")
            return
        if event.identifier == NOBODY:
            self._remark(f"{place}: from now on it is known by what it says")
        event = _identified(event)
        about = self._about(source, event, place)
        if not event.objects:
            self.taken.losses.append(f"{place}: {event.why or 'it names no object'}; not attached")
        answers = [self._append(source, event, place, item, ids=ids) for item, ids in about.items()]
        self.taken.new += "new" in answers
        self.taken.known += bool(answers) and set(answers) == {"known"}

    def _about(self, source: Source, event: PremisEvent, place: str) -> dict[str, list[Identifier]]:
        """The items, each with all identifiers that it is known by there."""
        found: dict[str, list[Identifier]] = {}
        for link in event.objects:
            described = [each.get(link.identifier, ()) for each in (self.objects[source.name], self.all_objects)]
            known = list(dict.fromkeys(one for each in described for one in each)) or [link.identifier]
            ids = list(dict.fromkeys([link.identifier, *known]))
            item = self.naming.item(known)
            wrong = fault(item) if item else _nobodys(link)
            if wrong:
                called = " ".join(filter(None, link.identifier))
                self.taken.losses.append(f"{place}: not attached to {called[:200]!r}: {wrong}")
                continue
            mine = found.setdefault(self.kept_name(item), [])
            mine += [each for each in ids if each not in mine]
        return found

    def _append(self, source: Source, event: PremisEvent, place: str, item: str, ids: Sequence[Identifier]) -> str:
        answer, differs = self.known.look(item, event)
        if answer == "conflict":
            self.taken.losses.append(f"{place}: {item} has one of this identifier with another {differs}; not taken")
        if answer != "new":
            return answer
        made = self._made(source, event, place, item, ids=ids)
        if wrong := unsealable(dict(made.detail)):
            self.taken.losses.append(f"{place}: it cannot be kept: {wrong}")
            return "left out"
        size = len(canonical(made.detail))
        if size > LARGEST:
            self.taken.losses.append(f"{place}: it has {size:,} bytes, and at most {LARGEST:,} are kept; not taken")
            return "left out"
        self.known.add(item, made.type, event)
        self.taken.events.append(made)
        return "new"

    def _made(self, source: Source, event: PremisEvent, place: str, item: str, ids: Sequence[Identifier]) -> NewEvent:
        """What is appended to an item.

        What somebody else's document says is never what this system itself records: a type that the system reads, or
        that could be read as another, becomes `imported …` (once, however often it travels), and so does what happened
        before an event of its type that the item has already; words that the system reads are quoted below `premis`,
        and who did it is said to be somebody elsewhere."""
        agents = ChainMap(self.agents[source.name], self.all_agents)  # elsewhere, a number may be another's
        record = kept.to_json(event, agents)
        record["item"] = [list(each) for each in ids]
        own, quoted = noted(self._detail(event, place))
        if quoted:
            record["said"] = quoted
        detail: dict[str, Any] = {**own, PREMIS: record}
        passages = (*event.details, *(each for result in event.results for each in result.details))
        words = "\n".join(each.text for each in passages if each.text)
        if words and not own and not quoted:
            detail["note"] = words[:LONGEST_NOTE]
        outcome, unknown = self.habits.outcome(event.results)
        for word in unknown:
            self._remark(f"{place}: the outcome {word[:80]!r} is not known; taken as {self.habits.unknown}")
        if self.habits.time(event.at) is None:
            self._remark(f"{place}: the time {event.at[:80]!r} cannot be read")
        by = ", ".join(_called(each, agents.get(each.identifier)) for each in event.agents)
        type_ = taken_as(self.habits.types.get(event.type.text, event.type.text))
        if self.known.is_past(item, type_, event):
            type_ = _imported(type_.removeprefix(f"{IMPORTED} "))
        return NewEvent(item=item, type=type_, outcome=outcome, agent=foreign(by), detail=detail)

    def _remark(self, text: str) -> None:
        if text not in self.taken.remarks[-50:]:
            self.taken.remarks.append(text)

    def _detail(self, event: PremisEvent, place: str) -> Mapping[str, Any]:
        """What an export of ours put there; foreign extensions are not ours to interpret."""
        for result in event.results:
            for xml in (each for detail in result.details for each in detail.extensions):
                if not xml.startswith(f'<map xmlns="{JSON_XML}"'):
                    continue
                try:
                    value = from_json_xml(read_xml(xml.encode()))
                    canonical(value)  # what history could not keep must not come in
                except (ValueError, LookupError, RecursionError, BadInput) as error:
                    self._remark(f"{place}: an extension that cannot be read: {error}")
                    return {}
                return value if isinstance(value, dict) else {}
        return {}


def taken_as(type_: str) -> str:
    """The type under which somebody else's event is recorded here."""
    if event_names.fault_of(type_) or (is_recorded(type_) and not type_.startswith(f"{IMPORTED} ")):
        return _imported(type_)
    return type_


def _imported(type_: str) -> str:
    return f"{IMPORTED} {event_names.plain(type_) or 'event'}"


def foreign(agent: str) -> str:
    """Somebody of another system, who may be called like a part or a caller of ours."""
    return f"{IMPORTED}: {agent}"[:LONGEST_AGENT] if agent else ""


def _identified(event: PremisEvent) -> PremisEvent:
    """One without an identifier is known by what it says."""
    if event.identifier != NOBODY:
        return event
    return replace(event, identifier=(BY_CONTENT, sha256(canonical(kept.to_json(event, {}))).hexdigest()))


def _called(link: Link, agent: PremisAgent | None) -> str:
    """Many writers link agents by a number, and the name is elsewhere; we link by the name."""
    named = agent.names[0] if agent and agent.names and link.identifier[0] != OURS else ""
    return named or link.identifier[1]


def _nobodys(link: Link) -> str:
    if link.identifier[0] == OURS:
        return "it is no item, but a part of another Custody"
    return "this identifier is unique only in the system it is from, and nobody said which that is"


def _agents(sources: Iterable[Source]) -> dict[Identifier, PremisAgent]:
    """Who is who. An identifier under which two are described with different names says nothing of either."""
    found: dict[Identifier, PremisAgent] = {}
    doubtful: set[Identifier] = set()
    for agent in (each for source in sources for each in source.premis.agents):
        for key in agent.identifiers:
            before = found.get(key)
            if before and before.names and agent.names and before.names != agent.names:
                doubtful.add(key)
            if before is None or agent.names:
                found[key] = agent
    return {key: agent for key, agent in found.items() if key not in doubtful}


def _objects(sources: Iterable[Source]) -> dict[Identifier, tuple[Identifier, ...]]:
    """All identifiers of what is described under one."""
    found: dict[Identifier, dict[Identifier, None]] = {}
    for told in (each for source in sources for each in source.premis.objects):
        for key in told.identifiers:
            found.setdefault(key, {}).update(dict.fromkeys(told.identifiers))
    return {key: tuple(each) for key, each in found.items()}
