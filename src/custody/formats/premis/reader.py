"""Reading documents that others wrote, in all their habits.

Liberal with what can be understood, and never at the cost of the rest: an event that cannot be is told with its place,
and the others are still there. What is dangerous in XML is refused by the reader that all XML here goes through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lxml import etree

from custody.formats.premis import binding, dnx, foxml, xip
from custody.formats.premis.elements import (
    children,
    extensions,
    identifiers,
    in_mets,
    local,
    outermost,
    pair,
    term,
    term_of,
    text,
    text_of,
    texts,
    xml_of,
)
from custody.formats.premis.model import NOBODY, Link, Passage, Premis, PremisAgent, PremisEvent, PremisObject, Result
from custody.formats.text.readers import TextLimits, read_xml

LIMITS: Final = TextLimits(size=64 << 20, depth=200)
"""A package with thousands of files is described in tens of megabytes."""
_ONCE: Final = ("eventIdentifier", "eventType", "eventDateTime")
_OFTEN: Final = (
    "eventDetail",
    "eventDetailInformation",
    "eventOutcomeInformation",
    "linkingAgentIdentifier",
    "linkingObjectIdentifier",
)
HREF: Final = "{http://www.w3.org/1999/xlink}href"


def read_premis(data: bytes, where: str = "", limits: TextLimits = LIMITS) -> Premis:
    """Everything a document says about events, agents and objects. `BadInput` if it is not XML, or dangerous XML."""
    root = read_xml(data, where, limits)
    objects = [(each, _object(each)) for each in outermost(root, "object")]
    found = [(each, _event(each)) for each in outermost(root, "event")]
    events = (*binding.bind(root, found, objects), *dnx.events(root), *xip.events(root), *foxml.events(root))
    return Premis(
        events=events,
        objects=tuple(each for _, each in objects if each.identifiers),
        agents=tuple(filter(None, map(_agent, outermost(root, "agent")))),
        losses=tuple(_unread(root)),
        refers=tuple(_refers(root)),
        root=etree.QName(root).text,
    )


def _event(element: etree._Element) -> PremisEvent:
    own = identifiers(element, "event")
    linked = [_link(each, "linkingObject") for each in children(element, "linkingObjectIdentifier")]
    agents = [_link(each, "linkingAgent") for each in children(element, "linkingAgentIdentifier")]
    return PremisEvent(
        identifier=own[0] if own else NOBODY,
        type=term(element, "eventType"),
        at=text(element, "eventDateTime"),
        details=tuple(filter(None, _details(element))),
        results=tuple(filter(None, map(_result, children(element, "eventOutcomeInformation")))),
        agents=tuple(each for each in agents if each.identifier[1]),
        objects=tuple(each for each in linked if each.identifier[1]),
        line=int(element.sourceline or 0),
    )


def _details(element: etree._Element) -> Iterator[Passage]:
    """Version 3 wraps them, the older ones have them bare. What else is said there, unforeseen, is told as XML."""
    for each in children(element, "eventDetail", "eventDetailInformation"):
        if local(each) == "eventDetail":
            yield Passage(text_of(each))
        else:
            yield _passage(each, "eventDetail", "eventDetailExtension")
    yield Passage("", _unforeseen(element, once=_ONCE, often=_OFTEN))


def _result(element: etree._Element) -> Result:
    details = [_outcome_detail(each) for each in children(element, "eventOutcomeDetail")]
    more = Passage("", _unforeseen(element, once=("eventOutcome",), often=("eventOutcomeDetail",)))
    return Result(term(element, "eventOutcome"), tuple(filter(None, [*details, more])))


def _outcome_detail(element: etree._Element) -> Passage:
    """Version 1 has only text in it."""
    if not len(element):
        return Passage(text_of(element))
    return _passage(element, "eventOutcomeDetailNote", "eventOutcomeDetailExtension")


def _passage(element: etree._Element, words: str, extension: str) -> Passage:
    found, bare = extensions(element, extension)
    more = _unforeseen(element, once=(), often=(words, extension))
    return Passage("\n".join(filter(None, [*texts(element, words), bare])), (*found, *more))


def _unforeseen(element: etree._Element, once: tuple[str, ...], often: tuple[str, ...]) -> tuple[str, ...]:
    """What no version of PREMIS has in this place, or has once and here comes again."""
    seen: set[str] = set()
    found: list[str] = []
    for child in element:
        name = local(child)
        if name not in often and (name not in once or name in seen):
            found.append(xml_of(child))
        seen.add(name)
    return tuple(found)


def _link(element: etree._Element, what: str) -> Link:
    roles = (term_of(each) for each in children(element, f"{what}Role"))
    return Link(pair(element, what), tuple(role for role in roles if role.text))


def _object(element: etree._Element) -> PremisObject:
    """With the events it names itself: as links, or as what made it from another."""
    named = [pair(each, "linkingEvent") for each in children(element, "linkingEventIdentifier")]
    for relationship in children(element, "relationship"):
        older = children(relationship, "relatedEventIdentification", "relatedEventIdentifier")
        named += [pair(each, "relatedEvent") for each in older]
    return PremisObject(identifiers(element, "object"), tuple(dict.fromkeys(each for each in named if each[1])))


def _agent(element: etree._Element) -> PremisAgent | None:
    own = identifiers(element, "agent")
    if not own:
        return None
    found, bare = extensions(element, "agentExtension")
    return PremisAgent(
        identifiers=own,
        names=texts(element, "agentName"),
        type=term(element, "agentType"),
        version=text(element, "agentVersion"),
        notes=tuple(filter(None, [*texts(element, "agentNote"), bare])),
        extensions=found,
    )


def _refers(root: etree._Element) -> Iterator[str]:
    """PREMIS that a METS document names and does not hold."""
    for element in root.iter("{*}mdRef"):
        if in_mets(element) and "PREMIS" in f"{element.get('MDTYPE')} {element.get('OTHERMDTYPE')}".upper():
            yield (element.get(HREF) or "").strip()


def _unread(root: etree._Element) -> Iterator[str]:
    """PREMIS that is there, and packed so that no one who reads XML sees it."""
    for element in root.iter("{*}binData"):
        wrap = element.getparent()
        if in_mets(element) and wrap is not None and "PREMIS" in (wrap.get("MDTYPE") or "").upper():
            yield f"line {element.sourceline}: PREMIS that is packed as base64"
