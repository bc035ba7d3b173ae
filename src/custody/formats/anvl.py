"""A Name-Value Language: `name: value` lines, as ERC records and EZID use them.

A line that begins with space continues the one before; a line that begins with # is a comment. EZID's
dialect also escapes line ends and percent signs, and colons in names; plain ANVL files do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from custody.errors import BadInput

Pairs = list[tuple[str, str]]

_NAME_ESCAPE = re.compile("[%:\r\n]")
_VALUE_ESCAPE = re.compile("[%\r\n]")
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})?")
_LINE_END = re.compile("\r\n?|\n")  # and no other character, whatever Unicode calls a line


def read(text: str, *, escaped: bool = False, where: str = "") -> Pairs:
    """The pairs in their order; a name may come more than once."""
    pairs: Pairs = []
    continues = False
    for number, line in enumerate(_LINE_END.split(text), start=1):
        place = f"{where}, line {number}" if where else f"line {number}"
        if not line.strip() or line.startswith("#"):
            continues = continues and bool(line.strip())
        elif line[0].isspace():
            if not continues:
                raise BadInput("a continuation of nothing", code="anvl.form", where=place)
            name, value = pairs[-1]
            pairs[-1] = name, f"{value} {_plain(line, escaped, place).strip()}".strip()
        else:
            name, colon, value = line.partition(":")
            if not colon or not name.strip():
                raise BadInput("a line without a name and a colon", code="anvl.form", where=place)
            pairs.append((_plain(name, escaped, place).strip(), _plain(value, escaped, place).strip()))
            continues = True
    return pairs


def write(pairs: Iterable[tuple[str, str]], *, escaped: bool = False, between: str = " ") -> str:
    """One line for each pair. Without escapes a line end inside a value becomes a space: it cannot be
    said otherwise."""
    lines = []
    for name, value in pairs:
        if escaped:
            lines.append(f"{_escape(_NAME_ESCAPE, name)}:{between}{_escape(_VALUE_ESCAPE, value)}")
        else:
            lines.append(f"{name}:{between}{' '.join(value.split())}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def _escape(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: f"%{ord(found.group()):02X}", text)


def _plain(text: str, escaped: bool, place: str) -> str:
    if not escaped:
        return text

    def character(found: re.Match[str]) -> str:
        if found[1] is None:
            raise BadInput("a % that escapes nothing", code="anvl.escape", where=place)
        return chr(int(found[1], 16))

    return _ESCAPED.sub(character, text)
