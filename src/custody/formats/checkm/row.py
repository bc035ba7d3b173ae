"""The rules of one manifest row: what each column may hold, and what is told when it does not.

Each rule is small and knows one column. A row with three mistakes is told all three.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from custody.errors import BadInput, CustodyError
from custody.formats.checkm import form
from custody.formats.checkm.form import Fault, ManifestType, Row
from custody.formats.digest_table import algorithm, digest_value
from custody.formats.identifiers import ark

T = TypeVar("T")
Tell = Callable[[Fault], None]
CheckName = Callable[[str], object]
"""raises a CustodyError when a name is unsafe as a path below a folder"""

SPLIT = re.compile(r"\s*\|\s*")

_URL = re.compile(r"https?://(?P<host>[^\s/?#\\@]+)(?:[/?][^\s\\#]*)?", re.IGNORECASE)
_MODIFIED = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2}([T ][0-9:.]{4,15} ?(Z|[+-][0-9]{2}:?[0-9]{2})?)?)?)?")
_MIME = re.compile(r"[A-Za-z0-9][\w.+-]*/[\w.+-]+(\s*;.*)?")
_ESCAPED_PERCENT = re.compile("%25(?=(25)*(20|7c))", re.IGNORECASE)
_SIZE_MOST = 2**53 - 1  # what every reader of JSON takes for the same number

# What ingest itself writes into every object. A depositor's file of that name would pass for ours.
RESERVED = frozenset(
    ["mrt-ingest.txt", "mrt-membership.txt", "mrt-owner.txt", "mrt-mom.txt", "mrt-submission-manifest.txt"]
)


class _Line:
    """One row being read: its fields, and where each of them stands."""

    def __init__(self, number: int, text: str, kind: ManifestType, tell: Tell) -> None:
        self.number, self.text, self.kind = number, text, kind
        self.fields: list[str] = SPLIT.split(text.strip())
        self.faulty = False
        self._tell = tell
        self._values = [*(_decoded(self.fields, kind) if "%" in text else self.fields), *_ABSENT]

    def field(self, index: int) -> str:
        return self._values[index]

    def column(self, index: int) -> int:
        """Where field `index` begins, counting characters from 1."""
        at = 0
        for _ in range(min(index, len(self.fields) - 1)):
            at = self.text.index("|", at) + 1
        rest = self.text[at:]
        return at + len(rest) - len(rest.lstrip()) + 1

    def wrong(self, index: int, error: CustodyError) -> None:
        self.faulty = True
        self._tell(
            Fault(line=self.number, column=self.column(index), code=error.code, message=error.message, hint=error.hint)
        )

    def warn(self, index: int, code: str, message: str, hint: str = "") -> None:
        self._tell(
            Fault(line=self.number, column=self.column(index), code=code, message=message, hint=hint, warning=True)
        )

    def read(self, index: int, rule: Callable[[str], T], otherwise: T) -> T:
        value = self.field(index)
        if not value:
            return otherwise
        try:
            return rule(value)
        except CustodyError as error:
            self.wrong(index, error)
            return otherwise


URL, ALGORITHM, DIGEST, SIZE, MODIFIED, NAME, MIME = range(7)
PRIMARY, DESCRIBED = 6, range(7, 11)  # in a batch: local identifiers, creator, title, date
_ABSENT = ("",) * DESCRIBED.stop  # columns at the end may be missing


def read_row(number: int, text: str, kind: ManifestType, check_name: CheckName, tell: Tell) -> Row | None:
    """One line as a row; None if anything in it is wrong, after telling what."""
    line = _Line(number, text, kind, tell)
    url = _url(line)
    name = _name(line, url, check_name)
    which, digest = _digest(line)
    size = line.read(SIZE, _size, None)
    modified = line.read(MODIFIED, _modified, "")
    mime = _mime(line) if not kind.batch and kind is not form.UNKNOWN else ""
    primary = line.read(PRIMARY, ark, "") if kind.batch else ""
    local, creator, title, date = map(line.field, DESCRIBED) if kind.batch else ("", "", "", "")
    _extra_columns(line)
    if line.faulty:
        return None
    return Row(
        line=number,
        url=url,
        name=name,
        algorithm=which,
        digest=digest,
        size=size,
        modified=modified,
        mime=mime,
        primary=primary,
        local_ids=local_ids(local),
        creator=creator,
        title=title,
        date=date,
    )


def _url(line: _Line) -> str:
    value = line.fields[URL]  # as given: the escapes in a URL are the URL's own
    if not value:
        hint = "columns are divided by |, this line has tabs" if "\t" in line.text else ""
        line.wrong(URL, BadInput("the row has no URL", code="manifest.url", hint=hint))
        return ""
    if line.kind is form.STORAGE and value.startswith("file:/"):
        return value  # storage on the same machine reads our working folder
    found = _URL.fullmatch(value)
    if not found:
        line.wrong(URL, _bad_url(value))
        return ""
    host = found["host"]
    if "." not in host and ":" not in host:
        line.warn(URL, "manifest.url.host", f"the host {host!r} has no dot", "is the host name complete?")
    return value


def _bad_url(value: str) -> BadInput:
    """Why, without repeating a password that may stand in it."""
    if "\t" in value:
        return BadInput("a tab in the URL", code="manifest.url", hint="columns are divided by |, not by tabs")
    scheme, colon, rest = value.partition(":")
    if not colon or scheme.lower() not in {"http", "https"}:
        what = f"the URL's scheme is {scheme!r}" if colon else "the URL has no scheme"
        return BadInput(what, code="manifest.url.scheme", hint="only https:// and http:// can be fetched")
    if "@" in re.split("[/?#]", rest.removeprefix("//"), maxsplit=1)[0]:
        return BadInput(
            "the URL carries a user name or password",
            code="manifest.url.credentials",
            hint="give the archive access in the collection's profile instead",
        )
    if "#" in rest:
        return BadInput("the URL has a fragment", code="manifest.url", hint="remove everything after the #")
    return BadInput("the URL cannot be read", code="manifest.url", hint="write spaces as %20, use / not \\")


def _name(line: _Line, url: str, check_name: CheckName) -> str:
    name = line.field(NAME)
    if not name:
        name = _name_from(url)
        if not name:
            if url:
                line.wrong(NAME, BadInput("no file name, and none in the URL", code="manifest.name"))
            return ""
        line.warn(NAME, "manifest.name.missing", f"no file name: {name!r} is taken from the URL")
    try:
        check_name(name)
        if line.kind is not form.STORAGE:
            _not_reserved(name)
    except CustodyError as error:
        line.wrong(NAME, error)
        return ""
    _ending(line, name)
    return name


def _name_from(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2]) if url else ""


def _not_reserved(name: str) -> None:
    if name in RESERVED or name.startswith("system/"):
        raise BadInput(f"{name!r} is a name the archive uses itself", code="manifest.name.reserved")


def _ending(line: _Line, name: str) -> None:
    """A batch row must be what its profile says; the wrong profile is the commonest mistake."""
    lower, kind = name.lower(), line.kind
    if kind.endings and not lower.endswith(kind.endings):
        line.wrong(
            NAME,
            BadInput(
                f"{name!r} is not a {kind.row_is}",
                code="manifest.name.kind",
                hint=f"in {kind.profile} every file ends in {', '.join(kind.endings)}",
            ),
        )
    if kind is not form.BATCH_OF_FILES:
        return
    if lower.endswith(form.CHECKM):
        line.wrong(
            NAME,
            BadInput(
                f"{name!r} is a manifest in a batch of single files",
                code="manifest.name.kind",
                hint=f"use the profile {form.BATCH_OF_MANIFESTS.profile}",
            ),
        )
    elif lower.endswith(form.CONTAINERS):
        line.warn(
            NAME,
            "manifest.name.container",
            f"{name!r} is a container; it is kept as one file",
            f"to have it unpacked use {form.BATCH_OF_CONTAINERS.profile}",
        )


def _digest(line: _Line) -> tuple[str, str]:
    name, value = line.field(ALGORITHM), line.field(DIGEST)
    if value and not name:
        line.wrong(
            DIGEST,
            BadInput("a digest without its algorithm would never be checked", code="manifest.digest"),
        )
    try:
        which = algorithm(name) if name else None
    except CustodyError as error:
        line.wrong(ALGORITHM, error)
        return "", ""
    if which is None or not value:
        return "", ""
    return which.name, line.read(DIGEST, lambda given: digest_value(which, given), "")


def _size(value: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) > _SIZE_MOST:
        raise BadInput(f"{value!r} is not a size", code="manifest.size", hint="a whole number of bytes")
    return int(value)


def _modified(value: str) -> str:
    if not _MODIFIED.fullmatch(value):
        raise BadInput(f"{value!r} is not a date", code="manifest.date", hint="as in 2024-05-31T12:00:00Z")
    return value


def _mime(line: _Line) -> str:
    value = line.field(MIME)
    if value and not _MIME.fullmatch(value):
        line.warn(MIME, "manifest.mime", f"{value!r} is not a media type", "as in image/jpeg")
    return value


def local_ids(text: str) -> tuple[str, ...]:
    """`a; b;a` is a and b."""
    if ";" not in text:  # as almost always
        return (alone,) if (alone := text.strip()) else ()
    return tuple(dict.fromkeys(part.strip() for part in text.split(";") if part.strip()))


def _extra_columns(line: _Line) -> None:
    expected = len(line.kind.columns)
    if line.kind is not form.UNKNOWN and len(line.fields) > expected:
        more = len(line.fields) - expected
        line.warn(
            expected,
            "manifest.columns",
            f"{more} more than the {expected} columns of this profile: ignored",
            "a | inside a value is written %7c",
        )


def _decoded(fields: list[str], kind: ManifestType) -> list[str]:
    """Spaces at the ends and the divider itself are written as escapes, and only those."""
    values = [value.replace("%20", " ").replace("%7c", "|").replace("%7C", "|") for value in fields]
    # Only our own storage manifests escape the % of a name that would look like an escape.
    return [_ESCAPED_PERCENT.sub("%", value) for value in values] if kind is form.STORAGE else values
