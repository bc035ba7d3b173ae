"""An event of somebody else's as JSON, as a history keeps it, and back: nothing that was said is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custody.formats.premis.model import Identifier, Link, Passage, PremisAgent, PremisEvent, Result, Term


def to_json(event: PremisEvent, agents: Mapping[Identifier, PremisAgent]) -> dict[str, Any]:
    """With what is known about the agents beside their links. What is empty is left out."""
    told = {
        "identifier": list(event.identifier),
        "type": _from_term(event.type),
        "at": event.at,
        "details": [_from_passage(each) for each in event.details],
        "outcomes": [_from_result(each) for each in event.results],
        "agents": [_from_agent(each, agents.get(each.identifier)) for each in event.agents],
        "objects": [_from_link(each) for each in event.objects],
    }
    return {name: value for name, value in told.items() if value or name in ("identifier", "at")}


def from_json(told: Mapping[str, Any]) -> tuple[PremisEvent, tuple[PremisAgent, ...]]:
    """The event and its agents; `ValueError`, `LookupError` or `TypeError` for what was not made here."""
    agents = told.get("agents", [])
    event = PremisEvent(
        identifier=_pair(told["identifier"]),
        type=_to_term(told["type"]),
        at=str(told["at"]),
        details=tuple(map(_to_passage, told.get("details", []))),
        results=tuple(map(_to_result, told.get("outcomes", []))),
        agents=tuple(map(_to_link, agents)),
        objects=tuple(map(_to_link, told.get("objects", []))),
    )
    return event, tuple(_to_agent(each) for each in agents if "names" in each or "ids" in each)


def _from_term(term: Term) -> Any:
    return {"text": term.text, **dict(term.source)} if term.source else term.text


def _to_term(told: Any) -> Term:
    if isinstance(told, str):
        return Term(told)
    return Term(told["text"], tuple((name, value) for name, value in told.items() if name != "text"))


def _from_link(link: Link) -> dict[str, Any]:
    roles = [_from_term(each) for each in link.roles]
    return {"id": list(link.identifier), **({"roles": roles} if roles else {})}


def _to_link(told: Mapping[str, Any]) -> Link:
    return Link(_pair(told["id"]), tuple(map(_to_term, told.get("roles", []))))


def _from_agent(link: Link, agent: PremisAgent | None) -> dict[str, Any]:
    if agent is None:
        return _from_link(link)
    told = {
        "ids": [list(each) for each in agent.identifiers],
        "names": list(agent.names),
        "type": _from_term(agent.type),
        "version": agent.version,
        "notes": list(agent.notes),
        "xml": list(agent.extensions),
    }
    return _from_link(link) | {name: value for name, value in told.items() if value}


def _to_agent(told: Mapping[str, Any]) -> PremisAgent:
    return PremisAgent(
        identifiers=tuple(map(_pair, told.get("ids", [told["id"]]))),
        names=tuple(told.get("names", [])),
        type=_to_term(told.get("type", "")),
        version=told.get("version", ""),
        notes=tuple(told.get("notes", [])),
        extensions=tuple(told.get("xml", [])),
    )


def _from_passage(passage: Passage) -> Any:
    return {"text": passage.text, "xml": list(passage.extensions)} if passage.extensions else passage.text


def _to_passage(told: Any) -> Passage:
    return Passage(told) if isinstance(told, str) else Passage(told["text"], tuple(told["xml"]))


def _from_result(result: Result) -> dict[str, Any]:
    told = {"outcome": _from_term(result.word), "details": [_from_passage(each) for each in result.details]}
    return {name: value for name, value in told.items() if value}


def _to_result(told: Mapping[str, Any]) -> Result:
    return Result(_to_term(told.get("outcome", "")), tuple(map(_to_passage, told.get("details", []))))


def _pair(told: Sequence[str]) -> Identifier:
    kind, value = told
    return kind, value
