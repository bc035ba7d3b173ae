"""Shapes: what a payload may hold. A record is closed: a name that it does not know is refused.

Nothing here is read from outside, so there are no patterns to be abused and no references to be followed; a check is
a function that answers what is wrong with a value, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

Check = Callable[[object], str]
"""Answers what is wrong with a value; empty when nothing is."""
LONGEST: Final = 100_000
MOST: Final = 100_000
HIGHEST: Final = 2**62
PART_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class Optional:
    """A field that may be left out."""

    check: Check


def text(most: int = LONGEST, least: int = 0) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, str):
            return "must be a text"
        if not least <= len(value) <= most:
            return f"must have {least} to {most} characters"
        return "must not hold NUL" if "\0" in value else ""

    return check


def whole(lowest: int = 0, highest: int = HIGHEST) -> Check:
    def check(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            return f"must be a whole number from {lowest} to {highest}"
        return ""

    return check


def number(lowest: float, highest: float) -> Check:
    def check(value: object) -> str:
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return "" if good and lowest <= value <= highest else f"must be a number from {lowest:g} to {highest:g}"  # type: ignore[operator]

    return check


def flag(value: object) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def digits(value: object) -> str:
    """A number that is written as text, since others read it with floats."""
    good = isinstance(value, str) and 0 < len(value) <= 20 and value.isascii() and value.isdigit()
    return "" if good else "must be a number, as text"


def part(value: object) -> str:
    """One part of a path: it leads nowhere but into the folder it is put below."""
    if not isinstance(value, str) or value in ("", ".", ".."):
        return "must be one part of a path"
    if any(ord(letter) < 32 or letter in "/\\\x7f" for letter in value):
        return "must be one part of a path, without / and without control characters"
    try:
        return "" if len(value.encode()) <= PART_BYTES else "is too long for one part of a path"
    except UnicodeEncodeError:
        return "must be text that can be written down"


def one_of(*words: str) -> Check:
    return lambda value: "" if isinstance(value, str) and value in words else f"must be one of {', '.join(words)}"


def either(*checks: Check) -> Check:
    """What one of them takes; what is wrong is told as the last one tells it."""

    def check(value: object) -> str:
        told = ""
        for each in checks:
            if not (told := each(value)):
                return ""
        return told

    return check


def nothing(value: object) -> str:
    return "" if value is None else "must be nothing"


def list_of(each: Check, most: int = MOST) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, list | tuple) or len(value) > most:
            return f"must be a list of at most {most}"
        return next((f"[{at}] {told}" for at, one in enumerate(value) if (told := each(one))), "")

    return check


def map_of(each: Check, most: int = 1000, key: Check | None = None) -> Check:
    name_check = key or text(500)

    def check(value: object) -> str:
        if not isinstance(value, Mapping) or len(value) > most:
            return f"must be an object of at most {most} names"
        found = ((name, name_check(name) or each(one)) for name, one in value.items())
        return next((f"{str(name)[:40]!r}: {told}" for name, told in found if told), "")

    return check


def record(**fields: Check | Optional) -> Check:
    """A closed record: each field that is not optional, and nothing else."""
    checks = {name: field.check if isinstance(field, Optional) else field for name, field in fields.items()}
    needed = [name for name, field in fields.items() if not isinstance(field, Optional)]

    def check(value: object) -> str:
        if not isinstance(value, Mapping):
            return "must be an object"
        for name in value:
            if name not in checks:
                return f"has {str(name)[:40]!r}, which nobody asked for"
        for name in needed:
            if name not in value:
                return f"has no {name}"
        found = ((name, checks[name](one)) for name, one in value.items())
        return next((f"{name} {told}" for name, told in found if told), "")

    return check


EMPTY: Final = record()
