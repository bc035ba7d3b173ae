"""Reads checkm 0.7 manifests, of any length, in bounded memory.

Liberal where the deployed parser is: CRLF, blank lines, comments, extra or missing columns at the end, no
declaration, no prefixes, no field list, no final newline. Otherwise it refuses, with line, column and
hint: a manifest that is misread loses files. `read` stops at the first fault, `check` lists them all; both
walk the same `scan`, so what the dry run accepts the real run accepts.

Whether a name is safe as a path is decided by the caller's `check_name`; whether a URL may be fetched, by
whoever fetches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from custody.errors import BadInput
from custody.formats.checkm.form import (
    KINDS,
    UNKNOWN,
    UNSAFE,
    Fault,
    Limits,
    ManifestType,
    Row,
)
from custody.formats.checkm.header import Header
from custody.formats.checkm.row import SPLIT, CheckName, read_row
from custody.formats.checkm.used_names import SeenNames

_ADVICE = {
    "\r": "end lines with LF or CRLF",
    "\t": "columns are divided by |, and a value holds no tab",
    "\ufeff": "save the manifest without a byte order mark",
}
LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Checked:
    """What a dry run found."""

    kind: ManifestType
    rows: int
    faults: tuple[Fault, ...]
    unlisted: int = 0
    """faults past the number asked for"""

    @property
    def ok(self) -> bool:
        return not self.unlisted and all(fault.warning for fault in self.faults)


def read(
    source: BinaryIO,
    *,
    check_name: CheckName,
    kinds: tuple[ManifestType, ...] = KINDS,
    limits: Limits = LIMITS,
    where: str = "manifest",
    again: bool = False,
    skip: int = 0,
) -> Iterator[Row]:
    """The rows, each as soon as it is read. The first fault ends it with BadInput. `again` is for bytes that were
    checked before: names are not compared with each other a second time, and the first rows can be passed over."""
    for found in scan(source, check_name=check_name, kinds=kinds, limits=limits, again=again, skip=skip):
        if isinstance(found, Row):
            yield found
        elif isinstance(found, Fault) and not found.warning:
            raise BadInput(
                found.message,
                code=found.code,
                where=f"{where}, line {found.line}, column {found.column}",
                hint=found.hint,
                line=found.line,
                column=found.column,
            )


def check(
    source: BinaryIO,
    *,
    check_name: CheckName,
    kinds: tuple[ManifestType, ...] = KINDS,
    limits: Limits = LIMITS,
    at_most: int = 10_000,
) -> Checked:
    """Every fault, not the first; nothing else happens."""
    kind, rows, unlisted = UNKNOWN, 0, 0
    faults: list[Fault] = []
    for found in scan(source, check_name=check_name, kinds=kinds, limits=limits):
        if isinstance(found, ManifestType):
            kind = found
        elif isinstance(found, Row):
            rows += 1
        elif len(faults) < at_most:
            faults.append(found)
        else:
            unlisted += 1
    return Checked(kind, rows, tuple(sorted(faults, key=lambda fault: (fault.line, fault.column))), unlisted)


def scan(
    source: BinaryIO,
    *,
    check_name: CheckName,
    kinds: tuple[ManifestType, ...] = KINDS,
    limits: Limits = LIMITS,
    again: bool = False,
    skip: int = 0,
) -> Iterator[ManifestType | Row | Fault]:
    """Everything that is found, in the order of the lines: the kind once, then rows and faults."""
    told: list[Fault] = []
    header = Header(kinds)
    names = SeenNames(limits.names)
    kind: ManifestType | None = None
    rows, number, ended = 0, 0, 0
    for number, text in _lines(source, limits, told):
        yield from _emptied(told)
        if ended:
            yield _after_end(number)
            return
        if text.startswith("#%"):
            ended = number if text[:5].lower() == "#%eof" else 0
            if kind is None:
                header.take(number, text)
            continue
        if not text.strip() or text.startswith("#"):
            continue
        if kind is None:
            kind = header.settle(number, told)
            yield from _emptied(told)
            yield kind
        rows += 1
        row = read_row(number, text, kind, check_name, tell=told.append) if rows > skip else None
        yield from _emptied(told)
        if row is not None and again:
            yield row
        elif row is not None:
            clash = _clash(names, row, kind)
            yield from [clash] if clash else []
            yield from [row] if not clash or clash.warning else []
            if names.full:
                yield Fault(number, 1, "manifest.limit", f"more than {limits.names} names and folders")
                return
    yield from told or _missing(header, kind, number, rows, ended=ended)


def _lines(source: BinaryIO, limits: Limits, told: list[Fault]) -> Iterator[tuple[int, str]]:
    """Numbered lines of sound text. What is unsound is told and left out; past a limit nothing follows."""
    size, number = 0, 0
    while raw := source.readline(limits.line + 1):
        size, number = size + len(raw), number + 1
        if size > limits.size or number > limits.lines or len(raw) > limits.line:
            told.append(_past_limit(number, len(raw), size, limits))
            return
        text, unsound = _text(number, raw)
        if unsound:
            told.append(unsound)
        yield number, text


def _text(number: int, raw: bytes) -> tuple[str, Fault | None]:
    """A line as text. In place of an unsound one a comment: it still counts as a line, and is not the end."""
    try:
        text = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode()) + 1
        return "#", Fault(
            line=number, column=column, code="manifest.charset", message="not UTF-8", hint="save the manifest as UTF-8"
        )
    at = _unsafe_at(text)
    if at is None:
        return text, None
    message = f"the character U+{ord(text[at]):04X} is not allowed"
    return "#", Fault(
        line=number, column=at + 1, code="manifest.charset", message=message, hint=_ADVICE.get(text[at], "")
    )


def _unsafe_at(text: str) -> int | None:
    if found := UNSAFE.search(text):
        return found.start()
    if "\t" in text and "|" in text and any("\t" in field for field in SPLIT.split(text.strip())):
        return text.index("\t")
    return None


def _past_limit(number: int, length: int, size: int, limits: Limits) -> Fault:
    what = f"more than {limits.size} bytes"
    if length > limits.line:
        what = f"a line of more than {limits.line} bytes"
    elif size <= limits.size:
        what = f"more than {limits.lines} lines"
    return Fault(line=number, column=1, code="manifest.limit", message=what, hint="split the manifest into several")


def _after_end(number: int) -> Fault:
    return Fault(
        line=number,
        column=1,
        code="manifest.after-eof",
        message="something follows #%eof",
        hint="#%eof ends the file, one newline may follow",
    )


def _clash(names: SeenNames, row: Row, kind: ManifestType) -> Fault | None:
    """Files of one object must not fall on one place. Rows of a batch are objects of their own: the same
    name twice is only likely to be the same row twice."""
    clash = names.add(row.name, row.line)
    if clash is None or (kind.batch and clash.folder):
        return None
    message = f"{row.name!r} is also the name on line {clash.line}"
    if clash.folder:
        message = f"{row.name!r} and the name on line {clash.line}: one is a folder of the other"
    hint = "names that differ only in case or in the form of an accent are the same"
    if clash.case and not kind.batch:
        message = f"{row.name!r} and the name on line {clash.line} differ only in case"
        hint = "both are kept; on many disks they are one file, and one of them would be lost there"
        return Fault(line=row.line, column=1, code="manifest.name.case", message=message, hint=hint, warning=True)
    return Fault(line=row.line, column=1, code="manifest.duplicate", message=message, hint=hint, warning=kind.batch)


def _missing(
    header: Header, kind: ManifestType | None, last: int, rows: int, ended: int
) -> Iterator[ManifestType | Fault]:
    """What a manifest must have, said at its end."""
    if kind is None:
        told: list[Fault] = []
        yield header.settle(max(last, 1), told)
        yield from told
    if not rows:
        yield Fault(max(last, 1), 1, "manifest.empty", "the manifest has no rows")
    if not ended:
        yield Fault(
            line=max(last, 1),
            column=1,
            code="manifest.eof",
            message="#%eof is missing",
            hint="was the manifest cut off? its last line is #%eof",
        )


def _emptied(told: list[Fault]) -> Iterator[Fault]:
    yield from told
    told.clear()
