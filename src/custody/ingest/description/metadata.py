"""The description of an object, and the system files that carry it.

Every object has beside the depositor's files (`producer/…`) a few of ours (`system/…`), named and formed
as the deployed services expect them:

    mrt-erc.txt         who, what, when, where (an Electronic Resource Citation)
    mrt-dc.xml          the same and more, as Dublin Core
    mrt-ingest.txt      how it came in: batch, job, profile, storage, what was given
    mrt-mom.txt         what it is: type, role, identifiers
    mrt-owner.txt, mrt-membership.txt    whose it is and which collections it is in

The depositor may send a mrt-dc.xml or mrt-erc.txt of their own; what those say goes before the form and
the manifest. Everything here is text in, text out; where it is written is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from xml.sax.saxutils import escape

from custody.formats import anvl
from custody.formats.checkm.row import local_ids
from custody.formats.text.readers import read_xml

UNKNOWN = "(:unas)"
"""Kernel metadata for: no value was assigned"""

ELEMENTS = (
    "contributor",
    "coverage",
    "creator",
    "date",
    "description",
    "format",
    "identifier",
    "language",
    "publisher",
    "relation",
    "rights",
    "source",
    "subject",
    "title",
    "type",
)
DC = "http://purl.org/dc/elements/1.1/"

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

DublinCore = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of an object. Empty means nothing was given."""

    primary: str = ""
    local_ids: tuple[str, ...] = ()
    creator: str = ""
    title: str = ""
    date: str = ""
    more: DublinCore = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deposit:
    """How an object came in."""

    batch: str
    job: str
    submitted: datetime
    file: str
    type: str
    profile: str
    collections: tuple[str, ...]
    storage_service: str
    storage_node: str
    owner: str = ""
    notification: tuple[str, ...] = ()
    supplied_identifier: str = ""
    digest_type: str = ""
    digest_value: str = ""
    user_agent: str = ""
    note: str = ""
    object_type: str = "MRT-curatorial"
    object_role: str = "MRT-content"
    aggregate: str = ""


def system_files(description: Description, deposit: Deposit) -> dict[str, str]:
    """All of them, by name. A file with nothing to say is not written."""
    files = {
        "mrt-erc.txt": erc(description),
        "mrt-dc.xml": dublin_core(description),
        "mrt-ingest.txt": ingest(description, deposit),
        "mrt-mom.txt": object_model(description, deposit),
        "mrt-owner.txt": deposit.owner,
        "mrt-membership.txt": "".join(f"{each}\n" for each in deposit.collections),
    }
    return {name: text for name, text in files.items() if text}


# -- ERC ---------------------------------------------------------------------------------------------


def erc(description: Description) -> str:
    return anvl.write(
        [
            ("erc", ""),
            ("who", description.creator or UNKNOWN),
            ("what", description.title or UNKNOWN),
            ("when", description.date or UNKNOWN),
            ("where", description.primary or UNKNOWN),
            ("where", "; ".join(description.local_ids) or UNKNOWN),
        ]
    )


def read_erc(text: str, *, where: str = "mrt-erc.txt") -> Description:
    """A depositor's record. Of several `where` the first that is an ARK is the primary identifier."""
    found: dict[str, str] = {}
    local: list[str] = []
    for name, value in anvl.read(text, where=where):
        if not value or value == UNKNOWN:
            continue
        if name != "where":
            found.setdefault(name, value)
        elif value.startswith("ark:") and "where" not in found:
            found["where"] = value
        else:
            local += local_ids(value)
    return Description(
        primary=found.get("where", ""),
        local_ids=tuple(dict.fromkeys(local)),
        creator=found.get("who", ""),
        title=found.get("what", ""),
        date=found.get("when", ""),
    )


# -- Dublin Core -------------------------------------------------------------------------------------


def dublin_core(description: Description) -> str:
    """The deployed form: one element per value, `DublinCore` around them."""
    values = {name: list(description.more.get(name, ())) for name in ELEMENTS}
    ours = {
        "creator": [description.creator],
        "title": [description.title],
        "date": [description.date],
        "identifier": [description.primary, *description.local_ids],
    }
    for name, known in ours.items():
        values[name] = list(dict.fromkeys([each for each in known if each] + values[name]))
    lines = [
        f"<dc:{name}>{escape(_NOT_XML.sub(' ', value))}</dc:{name}>" for name in ELEMENTS for value in values[name]
    ]
    inner = "".join(f"  {line}\n" for line in lines)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<DublinCore xmlns:dc="{DC}">\n{inner}</DublinCore>\n'


def read_dublin_core(data: bytes, *, where: str = "mrt-dc.xml") -> DublinCore:
    """The values of a depositor's Dublin Core, whatever element is around them."""
    root = read_xml(data, where)
    found: dict[str, list[str]] = {}
    for name in ELEMENTS:
        for element in root.iter(f"{{{DC}}}{name}"):
            if value := " ".join((element.text or "").split()):
                found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def merged(given: Description, dc: DublinCore, record: Description) -> Description:
    """What the depositor's own files say goes before the form and the manifest; ERC before Dublin Core."""
    first = {name: values[0] for name, values in dc.items()}
    return replace(
        given,
        primary=record.primary or given.primary,
        local_ids=tuple(dict.fromkeys([*given.local_ids, *record.local_ids])),
        creator=record.creator or first.get("creator", "") or given.creator,
        title=record.title or first.get("title", "") or given.title,
        date=record.date or first.get("date", "") or given.date,
        more={name: (*given.more.get(name, ()), *dc.get(name, ())) for name in {*given.more, *dc}},
    )


# -- how it came in ----------------------------------------------------------------------------------


def ingest(description: Description, deposit: Deposit) -> str:
    optional = [("userAgent", deposit.user_agent)] if deposit.user_agent else []
    return anvl.write(
        [
            ("ingest", "custody"),
            ("submissionDate", deposit.submitted.isoformat(timespec="seconds")),
            ("batch", deposit.batch),
            ("job", deposit.job),
            *optional,
            ("file", deposit.file),
            ("type", deposit.type),
            ("profile", deposit.profile),
            ("collection", "; ".join(deposit.collections)),
            ("storageService", deposit.storage_service),
            ("storageNode", deposit.storage_node),
            ("notification", ";".join(deposit.notification)),
            ("suppliedIdentifier", deposit.supplied_identifier or UNKNOWN),
            ("digestType", deposit.digest_type or UNKNOWN),
            ("digestValue", deposit.digest_value or UNKNOWN),
            ("creator", description.creator or UNKNOWN),
            ("title", description.title or UNKNOWN),
            ("date", description.date or UNKNOWN),
            ("localIdentifier", "; ".join(description.local_ids) or UNKNOWN),
            ("note", deposit.note or UNKNOWN),
        ],
        between="\t",
    )


def object_model(description: Description, deposit: Deposit) -> str:
    pairs = [
        ("primaryIdentifier", description.primary),
        ("type", deposit.object_type),
        ("role", deposit.object_role),
        ("aggregate", deposit.aggregate),
        ("localIdentifier", "; ".join(description.local_ids)),
    ]
    return anvl.write([pair for pair in pairs if pair[1] or pair[0] == "aggregate"], between="\t")


def read_deletes(text: str) -> tuple[str, ...]:
    """The files a mrt-delete.txt asks to leave out of the next version: a name a line, below `producer/`."""
    names = [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(dict.fromkeys(name if name.startswith("producer/") else f"producer/{name}" for name in names))
