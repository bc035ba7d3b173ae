"""Which item an object of somebody else's is.

An identifier that is unique everywhere (an ARK, a DOI, a handle, a URN, an address, a UUID) is the item's id. Any other
is unique only where it was given: `1` of two systems are two objects, and so are `1` of two types. It becomes
SYSTEM/TYPE/VALUE once it is said which system that is, or an item's id as it is where it is said that its type means
ours; before that it is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from custody.errors import BadInput
from custody.formats.premis.model import Identifier
from custody.kernel.model.names import names

OURS: Final = "custody"
LOCAL: Final = "local"
LONGEST: Final = 1000
SCHEMES: Final = (
    ("ark:", "ARK"),
    ("doi:", "DOI"),
    ("hdl:", "Handle"),
    ("urn:", "URN"),
    ("info:", "URI"),
    ("http:", "URI"),
    ("https:", "URI"),
)
_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HERE: Final = re.compile(r"https?://(?:localhost|127\.|\[::1\]|0\.0\.0\.0)", re.IGNORECASE)
_BARE: Final = {"doi": ("doi:", re.compile(r"10\.\d[\d.]*/\S+")), "handle": ("hdl:", re.compile(r"\d[\d.]*/\S+"))}


def object_identifier(subject: str) -> Identifier:
    """What kind of identifier an object of ours has, and its value. Items are known outside by their own names."""
    kind, _, name = subject.partition("/")
    if kind != "item":
        return OURS, subject
    if _UUID.fullmatch(name):
        return "UUID", name
    return next((scheme for start, scheme in SCHEMES if name.lower().startswith(start)), LOCAL), name


def everywhere(identifier: Identifier) -> str:
    """The item's id, if this identifier means one thing wherever it is read; else nothing."""
    kind, value = identifier
    if _UUID.fullmatch(value):
        return value.lower()
    if value.lower().startswith(tuple(start for start, _ in SCHEMES)) and not _HERE.match(value):
        return value
    start, form = _BARE.get({"hdl": "handle"}.get(kind.lower(), kind.lower()), ("", None))
    return f"{start}{value}" if form and form.fullmatch(value) else ""


@dataclass(frozen=True, slots=True)
class Naming:
    """What was said about the identifiers of a document."""

    system: str = ""
    ours: frozenset[str] = frozenset()
    """Types of identifiers whose values are ids of items here."""

    def __post_init__(self) -> None:
        wrong = names.fault(self.system) if self.system else ""
        if wrong or set("/:%") & set(self.system):
            raise BadInput(
                f"{self.system!r} cannot be a system: its name {wrong or 'has none of / : %'}",
                code="premis.system",
                hint="a short name, such as archivematica or rosetta.example.org",
            )

    def item(self, identifiers: Iterable[Identifier]) -> str:
        """The id of the item that has these identifiers: the first that is said to be ours, or is unique everywhere;
        else the first, in its system. Empty if nobody said which that is."""
        told = [each for each in identifiers if each[1] and each[0] != OURS]
        known = (each[1] if each[0] in self.ours else everywhere(each) for each in told)
        if found := next(filter(None, known), ""):
            return found
        if not told or not self.system:
            return ""
        kind, value = told[0]
        return f"{self.system}/{kind.replace('%', '%25').replace('/', '%2F')}/{value}"


def fault(item: str) -> str:
    """What is wrong with an id that comes from outside: nobody could ask for it, or it looks like another."""
    return names.fault(item, LONGEST)
