"""Events as Preservica keeps them (XIP): actions on entities, each part of an event with a reference of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lxml import etree

from custody.formats.premis.elements import namespace_of, text_of, xml_of
from custody.formats.premis.model import Link, Passage, PremisEvent, Term

COMMANDS: Final = "commandType"
_KNOWN: Final = ("Event", "Entity", "Ref", "Date", "User")


def events(root: etree._Element) -> Iterator[PremisEvent]:
    """One for each event and entity, with all the actions that it took on that entity."""
    actions: dict[tuple[str, str, str, str], list[etree._Element]] = {}
    for action in root.iter("{*}EventAction"):
        if "XIP" in namespace_of(action).upper():
            event = _child(action, "Event")
            at = _text(event, "Date") or _text(action, "Date")
            type_ = (event.get("type") or "").strip() if event is not None else ""
            actions.setdefault((_text(event, "Ref"), _text(action, "Entity"), type_, at), []).append(action)
    for (ref, entity, type_, at), taken in actions.items():
        user = _text(_child(taken[0], "Event"), "User")
        yield PremisEvent(
            identifier=("XIP", ref) if ref else ("", ""),
            type=Term(type_ or (taken[0].get(COMMANDS) or "").strip() or "event"),
            at=at,
            details=tuple(filter(None, map(_told, taken))),
            agents=(Link(("XIP user", user)),) if user else (),
            objects=(Link(("XIP", entity)),) if entity else (),
            line=int(taken[0].sourceline or 0),
            why="" if entity else "its action names no entity",
        )


def _told(action: etree._Element) -> Passage:
    """What one action did, and whatever else is said there."""
    words = (action.get(COMMANDS) or "", _text(action, "Date"))
    event = _child(action, "Event")
    parts = [*action, *(event if event is not None else ())]
    more = [each for each in parts if etree.QName(each).localname not in _KNOWN]
    return Passage(" ".join(filter(None, words)), tuple(xml_of(each) for each in more if len(each) or text_of(each)))


def _child(parent: etree._Element | None, name: str) -> etree._Element | None:
    return None if parent is None else parent.find(f"{{{namespace_of(parent)}}}{name}")


def _text(parent: etree._Element | None, name: str) -> str:
    found = _child(parent, name)
    return "" if found is None else text_of(found)
