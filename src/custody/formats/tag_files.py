"""Reads the text files of a bag: in the encoding that it declares, line by line, in bounded memory.

`bagit.txt` is UTF-8 always, without a byte order mark; all others are in the encoding that it names.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from custody.errors import BadInput

LINE_MOST = 64 << 10
_ENCODING = re.compile("[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "mbcs", "oem"})
"""What Python calls encodings, and nobody writes a text in."""


def is_charset(name: str) -> bool:
    """Whether a text can be written in it, and read here."""
    try:
        found = codecs.lookup(name) if _ENCODING.fullmatch(name) else None
    except LookupError:
        return False
    return found is not None and found._is_text_encoding and found.name.replace("_", "-") not in _NO_CHARSETS


def lines_of(path: Path, encoding: str = "utf-8", bom: bool = True) -> Iterator[str]:
    """The lines without their ends, whichever of the three it has; blank ones left out. `bom`: a byte order mark at the
    beginning says nothing, and is passed over. BadInput for what is no text."""
    try:
        with path.open(encoding=encoding) as file:
            first = True
            while line := file.readline(LINE_MOST + 1):
                if len(line) > LINE_MOST:
                    raise BadInput("a line is too long", code="text.line")
                line = line.removesuffix("\n").removeprefix("\ufeff" if bom and first else "")
                first = False
                if line.strip():
                    yield line
    except UnicodeError as error:
        raise BadInput(f"not {encoding.upper()}", code="text.encoding") from error
    except OSError as error:
        raise BadInput(str(error.strerror or error), code="text.unreadable") from error


def labels_of(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Labels and values; a value goes on in lines that begin with a space. A line that is neither has no label."""
    label, value = "", ""
    for line in lines:
        if line[:1].isspace() and label:
            value = f"{value} {line.strip()}"
            continue
        if label:
            yield label, value
        label, colon, value = line.partition(":")
        label, value = label.strip() if colon else "", value.strip() if colon else line
        if not label:
            yield "", line
    if label:
        yield label, value
