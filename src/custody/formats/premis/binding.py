"""Which objects an event is about, where it does not say so itself.

METS binds by sections: a file or a division names what describes it (`ADMID`), among it a section with the object and
one with the event, or one section that holds both. Others let the object name its events, or have only one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lxml import etree

from custody.formats.premis.elements import in_mets, local
from custody.formats.premis.model import NOBODY, Identifier, Link, PremisEvent, PremisObject

PACKAGE: Final = "METS OBJID"
MOST: Final = 1000
"""Objects that one event may be about without naming them: whoever refers to everything says nothing of an event."""
REFERENCES: Final = ("ADMID", "MDID")
_SECTIONS: Final = ("amdSec", "mdSec", "mdGrp", "md", "techMD", "digiprovMD", "sourceMD", "rightsMD", "dmdSec")
Found: TypeAlias = tuple[etree._Element, PremisObject]


def bind(
    root: etree._Element, events: Sequence[tuple[etree._Element, PremisEvent]], objects: Sequence[Found]
) -> Iterator[PremisEvent]:
    """Every event with the objects it is about; without any, it says why."""
    document = _Document(root, [each for each in objects if each[1].identifiers])
    for element, event in events:
        named = {link.identifier for link in event.objects}
        bound = document.naming(event.identifier, named) if named else document.about(element, event.identifier)
        why = "" if bound or named else document.why_not()
        yield replace(event, objects=(*event.objects, *map(Link, bound)), why=why)


def section_ids(element: etree._Element) -> set[str]:
    """The names of the METS sections in which something stands."""
    return {above.get("ID", "") for above in element.iterancestors() if in_mets(above) in _SECTIONS} - {""}


class _Document:
    """One document: its objects, where they stand and who refers to them."""

    def __init__(self, root: etree._Element, objects: Sequence[Found]) -> None:
        self.package = (root.get("OBJID") or "").strip() if in_mets(root) == "mets" else ""
        self.only = _each_once(each for _, each in objects)
        self.by_event: dict[Identifier, list[PremisObject]] = {}
        self.inside: dict[etree._Element, dict[Identifier, None]] = {}
        by_section: dict[str, list[PremisObject]] = {}
        for element, each in objects:
            for above in _containers(element):
                self.inside.setdefault(above, {})[each.identifiers[0]] = None
            for name in section_ids(element):
                by_section.setdefault(name, []).append(each)
            for event in each.events:
                self.by_event.setdefault(event, []).append(each)
        self.referrers: dict[str, list[_Referrer]] = {}
        for kind, tokens in _references(root):
            found = _each_once(each for token in tokens for each in by_section.get(token, ()))
            for token in tokens:
                self.referrers.setdefault(token, []).append(_Referrer(kind, found))

    def about(self, element: etree._Element, identifier: Identifier) -> list[Identifier]:
        return self.naming(identifier, set()) or self._by_reference(element) or self._by_neighbour(element)

    def naming(self, identifier: Identifier, known: set[Identifier]) -> list[Identifier]:
        """The objects that name this event, without those that it names itself by one of their identifiers."""
        found = self.by_event.get(identifier, ()) if identifier != NOBODY else ()
        return _each_once(each for each in found if not known & set(each.identifiers))

    def _by_reference(self, element: etree._Element) -> list[Identifier]:
        """What is described by the same references as the event; a division without an object is the package."""
        named = [each for name in sorted(section_ids(element)) for each in self.referrers.get(name, ())]
        sizes = sum(len(each.objects) for each in named)
        found = list(dict.fromkeys(one for each in named for one in each.objects)) if sizes <= MOST else []
        if not found and self.package and any(each.kind == "div" for each in named):
            return [(PACKAGE, self.package)]
        return found

    def _by_neighbour(self, element: etree._Element) -> list[Identifier]:
        """The only object of the event's section, of its PREMIS document, of the whole document; or the package."""
        for above in _containers(element):
            if len(found := self.inside.get(above, {})) == 1:
                return list(found)
        if len(self.only) == 1:
            return self.only
        return [(PACKAGE, self.package)] if self.package and not self.only else []

    def why_not(self) -> str:
        if not self.only:
            return "it names no object, and the document has none"
        return f"it names no object, and the document has {len(self.only)}"


@dataclass(frozen=True, slots=True)
class _Referrer:
    """A file, a division or the like, and the objects that the sections it names describe."""

    kind: str
    objects: list[Identifier]


def _containers(element: etree._Element) -> Iterator[etree._Element]:
    return (above for above in element.iterancestors() if in_mets(above) in _SECTIONS or local(above) == "premis")


def _references(root: etree._Element) -> Iterator[tuple[str, list[str]]]:
    """Who names sections, and which. Sections that name each other describe nothing."""
    for element in root.iter(etree.Element):
        kind = in_mets(element)
        if kind and kind not in _SECTIONS:
            tokens = (token for name in REFERENCES for token in (element.get(name) or "").split())
            if found := list(dict.fromkeys(tokens)):
                yield kind, found


def _each_once(objects: Iterable[PremisObject]) -> list[Identifier]:
    """Objects by their first identifier: one that is described twice is one."""
    return list(dict.fromkeys(each.identifiers[0] for each in objects))
