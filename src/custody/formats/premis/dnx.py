"""Events as Rosetta keeps them: sections of keys (DNX) inside METS.

The identifier in a record names the sort of event (`DPS 27`: a fixity check), so many records share one; each gets its
own here, made of the object, the sort, the time and what else it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

from lxml import etree

from custody.formats.premis.elements import in_mets, text_of
from custody.formats.premis.model import Identifier, Link, Passage, PremisEvent, Result, Term

DNX: Final = "http://www.exlibrisgroup.com/dps/dnx"
SECTION_OF_PID: Final = re.compile(r"((?:IE|REP|FL)\d+)-amd")
_NUMBERED: Final = re.compile(r"(eventOutcome|eventOutcomeDetail|eventOutcomeDetailExtension|linkingAgent\w*?)(\d+)")
_PLAIN: Final = ("eventIdentifierType", "eventIdentifierValue", "eventType", "eventDateTime", "eventDescription")


def events(root: etree._Element) -> Iterator[PremisEvent]:
    """Every record of every section of events, about the object whose METS section it stands in."""
    for section in root.iter(f"{{{DNX}}}section"):
        if section.get("id") == "event":
            about = _about(section)
            for record in section.iterfind(f"{{{DNX}}}record"):
                yield _event(record, about)


def _event(record: etree._Element, about: Identifier | None) -> PremisEvent:
    keys = _keys(record)
    at, type_ = keys.get("eventDateTime", ""), keys.get("eventType") or "event"
    sort = " ".join(filter(None, (keys.get("eventIdentifierType"), keys.get("eventIdentifierValue"))))
    told = "\n".join(f"{key}={value}" for key, value in sorted(keys.items()))
    name = "/".join(filter(None, (about[1] if about else "", sort, at, sha256(told.encode()).hexdigest()[:12])))
    numbers = sorted({int(found[2]) for key in keys if (found := _NUMBERED.fullmatch(key))})
    others = [f"{key}: {value}" for key, value in keys.items() if key not in _PLAIN and not _NUMBERED.fullmatch(key)]
    details = (keys.get("eventDescription", ""), f"Rosetta event {sort}" if sort else "", *others)
    return PremisEvent(
        identifier=("DNX", name),
        type=Term(type_),
        at=at,
        details=tuple(Passage(each) for each in details if each),
        results=tuple(filter(None, (_result(keys, number) for number in numbers))),
        agents=tuple(filter(None, (_agent(keys, number) for number in numbers))),
        objects=(Link(about),) if about else (),
        line=int(record.sourceline or 0),
        why="" if about else "its section names no object (no internalIdentifier, no PID in its ID)",
    )


def _result(keys: Mapping[str, str], number: int) -> Result:
    told = (keys.get(f"eventOutcomeDetail{number}", ""), keys.get(f"eventOutcomeDetailExtension{number}", ""))
    return Result(Term(keys.get(f"eventOutcome{number}", "")), tuple(Passage(each) for each in told if each))


def _agent(keys: Mapping[str, str], number: int) -> Link | None:
    value = keys.get(f"linkingAgentIdentifierValue{number}", "")
    role = keys.get(f"linkingAgentRole{number}", "")
    kind = keys.get(f"linkingAgentIdentifierType{number}", "")
    return Link((kind, value), (Term(role),) if role else ()) if value else None


def _about(section: etree._Element) -> Identifier | None:
    """The object of a METS section: as its own keys name it, or by the section's name."""
    whole = next((above for above in section.iterancestors() if in_mets(above) == "amdSec"), None)
    if whole is None:
        return None
    for named, kind in (("internalIdentifier", "PID"), ("objectIdentifier", "")):
        for other in whole.iter(f"{{{DNX}}}section"):
            for record in other.iterfind(f"{{{DNX}}}record") if other.get("id") == named else ():
                keys = _keys(record)
                found = keys.get(f"{named}Type", ""), keys.get(f"{named}Value", "")
                if found[1] and kind in ("", found[0]):
                    return found
    by_name = SECTION_OF_PID.fullmatch(whole.get("ID") or "")
    return ("PID", by_name[1]) if by_name else None


def _keys(record: etree._Element) -> dict[str, str]:
    """What a record says; a key that comes twice says both."""
    found: dict[str, str] = {}
    for key in record.iterfind(f"{{{DNX}}}key"):
        name, value = key.get("id") or "", text_of(key)
        if name and value:
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found
