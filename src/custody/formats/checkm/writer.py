"""Writes checkm: the storage manifest of an object, and a depositor's manifest from a CSV file or URLs.

What is written here is read back by `manifest` as the same rows. The one thing checkm cannot say is a
name that itself contains `%20` or `%7c`: the deployed parser turns those into a space and a bar wherever
it meets them. A depositor's manifest with such a name is refused; a storage manifest writes its `%` as
`%25`, which our reader of storage manifests undoes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from custody.errors import BadInput
from custody.formats.checkm import form
from custody.formats.checkm.form import PREFIXES, STORAGE, UNSAFE, Fault, ManifestType, Row
from custody.formats.checkm.row import local_ids
from custody.formats.digest_table import ALGORITHMS

_ESCAPES = re.compile("%(20|7c)", re.IGNORECASE)
_PERCENT = re.compile("%(?=(25)*(20|7c))", re.IGNORECASE)


def write(kind: ManifestType, rows: Iterable[Row]) -> Iterator[str]:
    """A manifest, line by line, newlines included."""
    yield "#%checkm_0.7\n"
    yield f"#%profile | {kind.url}\n"
    for name, url in PREFIXES.items():
        yield f"#%prefix | {name}: | {url}\n"
    yield f"#%fields | {' | '.join(kind.columns)}\n"
    for row in rows:
        yield _line(kind, row)
    yield "#%eof\n"


def write_storage(rows: Iterable[Row]) -> Iterator[str]:
    """The manifest that storage is handed: every file of the object, with what we computed of it."""
    return write(STORAGE, rows)


def _line(kind: ManifestType, row: Row) -> str:
    label = ALGORITHMS[row.algorithm].label if row.algorithm else ""
    size = "" if row.size is None else str(row.size)
    values = [label, row.digest, size, row.modified, row.name]
    if kind.batch:
        values += [row.primary, "; ".join(row.local_ids), row.creator, row.title, row.date]
    else:
        values += [row.mime]
    if re.search(r"[\s|]", row.url):
        raise _unwritable(row, row.url, "write spaces and bars in a URL as %20 and %7C")
    encoded = [_encoded(kind, row, value) for value in values]
    return " | ".join([row.url, *encoded]).rstrip() + "\n"


def _encoded(kind: ManifestType, row: Row, value: str) -> str:
    if kind is STORAGE:
        value = _PERCENT.sub("%25", value)
    elif _ESCAPES.search(value):
        raise _unwritable(row, value, "%20 and %7c are read as a space and a bar: rename the file")
    edges = (value[:1] + value[-1:]).replace(" ", "")
    if UNSAFE.search(value) or "\t" in value or any(edge.isspace() for edge in edges):
        raise _unwritable(row, value, "no control characters, no unusual space at either end")
    value = value.replace("|", "%7c")
    if value.startswith(" "):
        value = "%20" + value[1:]
    if value.endswith(" "):
        value = value[:-1] + "%20"
    return value


def _unwritable(row: Row, value: str, hint: str) -> BadInput:
    message = f"{value!r} cannot be written in a manifest"
    return BadInput(message, code="manifest.unwritable", where=f"row {row.line}", hint=hint)


def from_csv(lines: Iterable[str], kind: ManifestType | None = None) -> tuple[ManifestType, list[Row], list[Fault]]:
    """Rows of a spreadsheet whose first line names the columns. Without a kind it is found from the
    columns and file names; what a person should look at comes back as faults."""
    reader = csv.reader(lines)
    places = _places(next(reader, []))
    table = [(reader.line_num, record) for record in reader if any(cell.strip() for cell in record)]
    rows = [_row(line, record, places) for line, record in table]
    faults: list[Fault] = []
    found = kind or _kind_of(places, rows, faults)
    return found, rows, faults


def from_urls(urls: Iterable[str], *, folders: int = 0) -> list[Row]:
    """A row for each URL; the name is the end of its path, with so many folders before it."""
    rows = []
    for line, url in enumerate(urls, start=1):
        if url := url.strip():
            parts = [unquote(part) for part in _path(url, line).split("/") if part]
            rows.append(Row(line, url, "/".join(parts[-1 - folders :])))
    return rows


def _path(url: str, line: int) -> str:
    try:
        return urlsplit(url).path
    except ValueError as error:
        raise BadInput(f"the URL cannot be read: {error}", code="manifest.url", where=f"line {line}") from error


def _places(names: list[str]) -> dict[str, int]:
    """Column names are read with or without their prefix, in any case."""
    known = {name.rpartition(":")[2].lower() for name in (*form.OBJECT.columns, *form.BATCH_OF_FILES.columns)}
    given = [name.strip().lstrip("\ufeff").rpartition(":")[2].lower() for name in names]
    if "fileurl" not in given:
        raise BadInput(
            "no column nfo:fileUrl",
            code="csv.columns",
            where="line 1",
            hint="the first line names the columns",
        )
    for place, name in enumerate(given):
        if name not in known or name in given[:place]:
            raise BadInput(
                f"{names[place]!r} is unknown or named twice",
                code="csv.columns",
                where=f"line 1, field {place + 1}",
                hint=f"columns are {', '.join(sorted(known))}",
            )
    return {name: place for place, name in enumerate(given)}


def _row(line: int, record: list[str], places: dict[str, int]) -> Row:
    def cell(name: str) -> str:
        place = places.get(name, len(record))
        return record[place].strip() if place < len(record) else ""

    size = cell("filesize")
    if size and not (size.isascii() and size.isdigit()):
        raise BadInput(f"{size!r} is not a size", code="csv.size", where=f"line {line}")
    algorithm = cell("hashalgorithm").lower().replace("-", "")
    if algorithm and algorithm not in ALGORITHMS:
        raise BadInput(f"unknown digest algorithm {algorithm!r}", code="csv.algorithm", where=f"line {line}")
    return Row(
        line=line,
        url=cell("fileurl"),
        name=cell("filename"),
        algorithm=algorithm,
        digest=cell("hashvalue").lower(),
        size=int(size) if size else None,
        modified=cell("filelastmodified"),
        mime=cell("mimetype"),
        primary=cell("primaryidentifier"),
        local_ids=local_ids(cell("localidentifier")),
        creator=cell("creator"),
        title=cell("title"),
        date=cell("date"),
    )


def _kind_of(places: dict[str, int], rows: list[Row], faults: list[Fault]) -> ManifestType:
    if places.keys().isdisjoint({"primaryidentifier", "localidentifier", "creator", "title"}):
        return form.OBJECT
    manifests = [row for row in rows if row.name.lower().endswith(form.CHECKM)]
    containers = [row for row in rows if row.name.lower().endswith(form.CONTAINERS)]
    if len(manifests) == len(rows) and rows:
        return form.BATCH_OF_MANIFESTS
    if len(containers) == len(rows) and rows:
        return form.BATCH_OF_CONTAINERS
    if manifests:
        raise BadInput(
            f"{manifests[0].name!r} is a manifest among other files",
            code="csv.mixed",
            where=f"line {manifests[0].line}",
            hint="a batch holds either only manifests or none",
        )
    for row in containers:
        message = f"{row.name!r} is a container among other files; it is kept as one file"
        faults.append(Fault(row.line, 1, "csv.mixed", message, warning=True))
    return form.BATCH_OF_FILES
