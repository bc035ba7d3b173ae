"""Reads checkm 0.7 manifests, of any length, in bounded memory.

Liberal where the deployed parser is: CRLF, blank lines, comments, extra or missing columns at the end, no
declaration, no prefixes, no field list, no final newline. Otherwise it refuses, with line, column and
hint: a manifest that is misread loses files. `read` stops at the first fault, `check` lists them all; both
walk the same `scan`, so what the dry run accepts the real run accepts.

Whether a name is safe as a path is decided by the caller's `check_name`; whether a URL may be fetched, by
whoever fetches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from custody.errors import BadInput
from custody.formats.checkm.form import (
    KINDS,
    PREFIXES,
    REGISTRY,
    STORAGE,
    UNKNOWN,
    UNSAFE,
    Fault,
    Limits,
    ManifestType,
    Row,
)
from custody.formats.checkm.row import SPLIT, CheckName, read_row
from custody.formats.checkm.used_names import SeenNames

_ADVICE = {
    "\r": "end lines with LF or CRLF",
    "\t": "columns are divided by |, and a value holds no tab",
    "\ufeff": "save the manifest without a byte order mark",
}
LIMITS = Limits()
_HEADER = re.compile(r"#%(?P<word>\w+)[\s|]*(?P<rest>.*)")


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
    header = _Header(kinds)
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
        row = read_row(number, text, kind, check_name, told.append) if rows > skip else None
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
    yield from told or _missing(header, kind, number, rows, ended)


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
        return "#", Fault(number, column, "manifest.charset", "not UTF-8", "save the manifest as UTF-8")
    at = _unsafe_at(text)
    if at is None:
        return text, None
    message = f"the character U+{ord(text[at]):04X} is not allowed"
    return "#", Fault(number, at + 1, "manifest.charset", message, _ADVICE.get(text[at], ""))


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
    return Fault(number, 1, "manifest.limit", what, "split the manifest into several")


def _after_end(number: int) -> Fault:
    return Fault(
        number,
        1,
        "manifest.after-eof",
        "something follows #%eof",
        "#%eof ends the file, one newline may follow",
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
        return Fault(row.line, 1, "manifest.name.case", message, hint, warning=True)
    return Fault(row.line, 1, "manifest.duplicate", message, hint, warning=kind.batch)


def _missing(
    header: _Header, kind: ManifestType | None, last: int, rows: int, ended: int
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
            max(last, 1),
            1,
            "manifest.eof",
            "#%eof is missing",
            "was the manifest cut off? its last line is #%eof",
        )


def _emptied(told: list[Fault]) -> Iterator[Fault]:
    yield from told
    told.clear()


class _Header:
    """The #% lines before the first row."""

    def __init__(self, kinds: tuple[ManifestType, ...]) -> None:
        self._kinds = kinds
        self._lines: list[tuple[int, int, str, str]] = []

    def take(self, number: int, text: str) -> None:
        found = _HEADER.match(text)
        if found and len(self._lines) < 100:  # a hundred header lines is nobody's manifest
            column = found.start("rest") + 1
            self._lines.append((number, column, found["word"].lower(), found["rest"].strip()))

    def settle(self, number: int, told: list[Fault]) -> ManifestType:
        """Which kind it is; what is wrong with the header is told. `number` is where the rows begin."""
        if not any(word.startswith("checkm_") for _, _, word, _ in self._lines):
            told.append(Fault(1, 1, "manifest.declaration", "#%checkm_0.7 is missing", warning=True))
        kind = self._profile(number, told)
        self._prefixes(told)
        self._fields(kind, told)
        return kind

    def _profile(self, number: int, told: list[Fault]) -> ManifestType:
        profiles = [(line, column, rest) for line, column, word, rest in self._lines if word == "profile"]
        if not profiles:
            hint = f"as in #%profile | {KINDS[0].url}"
            told.append(Fault(number, 1, "manifest.profile", "#%profile is missing", hint))
            return UNKNOWN
        line, column, url = profiles[0]
        for kind in (*KINDS, STORAGE):
            if url in {kind.url, f"{REGISTRY}mrt/{kind.profile}"}:
                if kind not in self._kinds:
                    allowed = " or ".join(each.profile for each in self._kinds)
                    told.append(
                        Fault(
                            line,
                            12,
                            "manifest.kind",
                            f"{kind.profile} has no place here",
                            f"expected {allowed}",
                        )
                    )
                return kind
        told.append(
            Fault(
                line,
                column,
                "manifest.profile",
                f"unknown profile {url!r}",
                f"as in {self._kinds[0].url}",
            )
        )
        return UNKNOWN

    def _prefixes(self, told: list[Fault]) -> None:
        found = {}
        for line, _, word, rest in self._lines:
            if word == "prefix":
                name, _, url = rest.partition(":")
                found[name.strip()] = (line, url.strip(" |<>"))
        for name, url in PREFIXES.items():
            line, given = found.get(name, (1, ""))
            if given != url:
                message = f"the prefix {name} is not {url}" if given else f"no #%prefix line for {name}"
                told.append(Fault(line, 1, "manifest.prefix", message, "it is ignored", warning=True))

    def _fields(self, kind: ManifestType, told: list[Fault]) -> None:
        """Columns are read by their place; a field list that says otherwise means the rows are not as we
        would read them."""
        line, rest = next(((n, rest) for n, _, word, rest in self._lines if word in {"fields", "columns"}), (0, ""))
        if kind is UNKNOWN:
            return
        if not line:
            told.append(Fault(1, 1, "manifest.fields", "#%fields is missing", warning=True))
            return
        given = [name.rpartition(":")[2].lower() for name in SPLIT.split(rest)]
        expected = [name.rpartition(":")[2].lower() for name in kind.columns]
        order = " | ".join(kind.columns)
        if given[: len(expected)] != expected[: len(given)]:
            told.append(
                Fault(
                    line,
                    1,
                    "manifest.fields",
                    "the fields are not in this profile's order",
                    f"#%fields | {order}",
                )
            )
        elif len(given) != len(expected):
            told.append(
                Fault(
                    line,
                    1,
                    "manifest.fields",
                    f"{len(given)} fields, this profile has {len(expected)}",
                    warning=True,
                )
            )
