"""The audit trail of Fedora 3, which Islandora and others turn into events: one record for each change of an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lxml import etree

from custody.formats.premis.elements import text_of
from custody.formats.premis.model import Link, Passage, PremisEvent, Term

AUDIT: Final = "info:fedora/fedora-system:def/audit#"


def events(root: etree._Element) -> Iterator[PremisEvent]:
    """Every audit record, about the object in whose file it stands."""
    pid = (root.get("PID") or "").strip()
    for record in root.iter(f"{{{AUDIT}}}record"):
        number = (record.get("ID") or "").strip()
        who = _text(record, "responsibility")
        part, why = _text(record, "componentID"), _text(record, "justification")
        process = record.find(f"{{{AUDIT}}}process")
        how = (process.get("type") or "").strip() if process is not None else ""
        told = (f"datastream {part}" if part else "", why, f"by {how}" if how else "")
        yield PremisEvent(
            identifier=("Fedora audit", f"{pid}/{number}") if pid and number else ("", ""),
            type=Term(_text(record, "action") or "event"),
            at=_text(record, "date"),
            details=tuple(Passage(each) for each in told if each),
            agents=(Link(("Fedora user", who)),) if who else (),
            objects=(Link(("Fedora PID", pid)),) if pid else (),
            line=int(record.sourceline or 0),
            why="" if pid else "the document names no PID",
        )


def _text(record: etree._Element, name: str) -> str:
    found = record.find(f"{{{AUDIT}}}{name}")
    return "" if found is None else text_of(found)
