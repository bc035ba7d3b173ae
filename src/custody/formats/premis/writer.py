"""PREMIS 3 that satisfies the official schema, of values that may come from anywhere.

What is not known is left out instead of written empty, and characters that XML has not are written out.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from custody.formats.premis.elements import PREMIS3, XSI, quoted
from custody.formats.premis.json_xml import fit
from custody.formats.premis.model import Identifier, Link, Passage, PremisAgent, PremisEvent, PremisObject, Result, Term


def document(
    objects: Iterable[PremisObject], events: Iterable[PremisEvent], agents: Iterable[PremisAgent]
) -> etree._Element:
    """Objects, events and agents in one, in the order that the schema wants."""
    made = etree.Element(f"{{{PREMIS3}}}premis", nsmap={None: PREMIS3, "xsi": XSI}, version="3.0")
    made.extend(object_(each) for each in objects)
    made.extend(event(each) for each in events)
    made.extend(agent(each) for each in agents)
    return made


def object_(told: PremisObject) -> etree._Element:
    made = _part(None, "object")
    made.set(f"{{{XSI}}}type", "intellectualEntity")
    for each in told.identifiers:
        _identify(made, "object", each)
    return made


def event(told: PremisEvent) -> etree._Element:
    made = _part(None, "event")
    _identify(made, "event", told.identifier)
    _term(made, "eventType", told.type)
    _part(made, "eventDateTime", told.at)
    for detail in filter(None, told.details):
        _passage(_part(made, "eventDetailInformation"), detail, "eventDetail", "eventDetailExtension")
    for result in filter(None, told.results):
        _result(made, result)
    for link in told.agents:
        _link(made, "linkingAgent", link)
    for link in told.objects:
        _link(made, "linkingObject", link)
    return made


def agent(told: PremisAgent) -> etree._Element:
    made = _part(None, "agent")
    for each in told.identifiers:
        _identify(made, "agent", each)
    for name in told.names:
        _part(made, "agentName", name)
    if told.type.text:
        _term(made, "agentType", told.type)
    if told.version:
        _part(made, "agentVersion", told.version)
    for note in told.notes:
        _part(made, "agentNote", note)
    _extend(made, "agentExtension", told.extensions)
    return made


def _result(made: etree._Element, result: Result) -> None:
    told = _part(made, "eventOutcomeInformation")
    if result.word.text:
        _term(told, "eventOutcome", result.word)
    for detail in filter(None, result.details):
        part = _part(told, "eventOutcomeDetail")
        _passage(part, detail, "eventOutcomeDetailNote", "eventOutcomeDetailExtension")


def _passage(made: etree._Element, passage: Passage, words: str, extension: str) -> None:
    if passage.text:
        _part(made, words, passage.text)
    _extend(made, extension, passage.extensions)


def _extend(made: etree._Element, name: str, extensions: Iterable[str]) -> None:
    for each in extensions:
        _part(made, name).append(quoted(each))


def _link(made: etree._Element, what: str, link: Link) -> None:
    linked = _identify(made, what, link.identifier)
    for role in link.roles:
        _term(linked, f"{what}Role", role)


def _identify(made: etree._Element, what: str, identifier: Identifier) -> etree._Element:
    told = _part(made, f"{what}Identifier")
    _part(told, f"{what}IdentifierType", identifier[0])
    _part(told, f"{what}IdentifierValue", identifier[1])
    return told


def _term(made: etree._Element, name: str, term: Term) -> None:
    part = _part(made, name, term.text)
    for attribute, value in term.source:
        part.set(attribute, fit(value))


def _part(parent: etree._Element | None, name: str, text: str | None = None) -> etree._Element:
    tag = f"{{{PREMIS3}}}{name}"
    made = etree.Element(tag, nsmap={None: PREMIS3}) if parent is None else etree.SubElement(parent, tag)
    if text is not None:
        made.text = fit(text)
    return made
