"""A manifest from the rows of a request, instead of a file: written as checkm, and checked like any other.

A row is a mapping with at least a `url`, or a line of the short form, `NAME LOCAL-ID ARK`, whose name is below the
submission's payload URL. What is said about a row names its place in the list, from 1.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from custody.errors import BadInput, CustodyError
from custody.formats import checkm
from custody.formats.checkm.form import CHECKM, CONTAINERS, KINDS, ManifestType, Row
from custody.formats.checkm.row import local_ids
from custody.formats.checkm.writer import write
from custody.formats.digest_table import algorithm, digest_value
from custody.formats.identifiers import one_form
from custody.ingest.steps.download import check_name
from custody.ingest.submission.staging import name_in
from custody.ingest.submission.submission import PROFILE_OF

MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Inline:
    text: str
    type: str


def manifest_of(rows: Sequence[Mapping[str, Any] | str], base: str = "", type_: str = "") -> Inline:
    """The manifest that these rows are, or every fault of them at once."""
    if not rows:
        raise BadInput("the manifest lists nothing", code="batch.empty", where="manifest")
    read = [_row(number, given, base) for number, given in enumerate(rows, start=1)]
    type_ = type_ or _type_of(read)
    if type_ not in PROFILE_OF:
        raise BadInput(
            f"rows are no {type_}", code="submission.type", where="type", hint=f"one of {', '.join(PROFILE_OF)}"
        )
    kind = next(kind for kind in KINDS if kind.profile == PROFILE_OF[type_])
    text = "".join(write(kind, read))
    _check(text, kind)
    return Inline(text, type_)


def _row(number: int, given: Mapping[str, Any] | str, base: str) -> Row:
    where = f"manifest, row {number}"
    if isinstance(given, str):
        return _short(number, given, base)
    url = str(given["url"])
    name, value = str(given.get("digest_type", "")), str(given.get("digest_value", ""))
    if bool(name) != bool(value):
        raise BadInput("a digest needs its type and its value", code="submission.digest", where=where)
    try:
        which = algorithm(name) if name else None
        digest = digest_value(which, value) if which else ""
    except CustodyError as error:
        raise BadInput(error.message, code=error.code, where=where, hint=error.hint) from error
    return Row(
        line=number,
        url=url,
        name=str(given.get("name") or name_in(urlsplit(url).path)),
        algorithm=which.name if which else "",
        digest=digest,
        size=given.get("size"),
        mime=str(given.get("mime", "")),
        primary=one_form(str(given.get("primary_id", ""))),
        local_ids=local_ids(str(given.get("local_id", ""))),
        creator=str(given.get("creator", "")),
        title=str(given.get("title", "")),
        date=str(given.get("date", "")),
    )


def _short(number: int, line: str, base: str) -> Row:
    parts = line.split()
    if not 1 <= len(parts) <= 3:
        raise BadInput(
            f"{line!r} is not NAME, LOCAL-ID and ARK",
            code="submission.row",
            where=f"manifest, row {number}",
            hint="write the row as an object with a url",
        )
    name, local, primary = (*parts, "", "")[:3]
    if not base:
        raise BadInput(
            f"where is {name!r}?",
            code="submission.payload",
            where=f"manifest, row {number}",
            hint="short rows are below the submission's payload URL",
        )
    url = f"{base.rstrip('/')}/{quote(name.lstrip('/'))}"
    return Row(number, url, name_in(name), primary=one_form(primary), local_ids=local_ids(local))


def _type_of(rows: Sequence[Row]) -> str:
    """What the names say: object manifests, containers, or single files."""
    names = [row.name.lower() for row in rows]
    if all(name.endswith(CHECKM) for name in names):
        return "batch-manifest"
    return "container-batch-manifest" if all(n.endswith(CONTAINERS) for n in names) else "single-file-batch-manifest"


def _check(text: str, kind: ManifestType) -> None:
    before = sum(1 for _ in write(kind, ())) - 1  # the lines above the first row
    found = checkm.check(io.BytesIO(text.encode()), check_name=check_name, kinds=(kind,), at_most=MOST_TOLD)
    faults = [f"row {fault.line - before}: {fault.message}" for fault in found.faults if not fault.warning]
    first = next((fault for fault in found.faults if not fault.warning), None)
    if first is not None:
        raise BadInput("; ".join(faults), code=first.code, where="manifest", hint=first.hint)
