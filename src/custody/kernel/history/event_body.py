"""Canonical JSON (RFC 8785): one value, one sequence of bytes, in any language and on any machine.

What is hashed today must hash the same after a database, an export and thirty years, so a value that JSON
cannot carry there and back is refused rather than bent: NaN, lone surrogates, keys that are not text, numbers
beyond 2**53. RFC 8785 allows such a number as a double and writes it without an exponent; a database or a
reader then takes it for an integer with other last digits. Large identifiers (snowflakes) belong in text.

Leaves to chain.py what is put into these bytes, and to merkle.py how hashes become one.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from custody.errors import BadInput
from custody.formats.text.compact_json import json_text
from custody.kernel.model.event import DEEPEST, LARGEST

_text = json.JSONEncoder(ensure_ascii=False).encode


def canonical(value: Any) -> bytes:
    """The one way to write this value as JSON; `BadInput` for a value that would not come back as it went."""
    text = json_text(value) if _is_simple(value, 0) else _write(value, "", 0)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refusal("text with half a character (a lone surrogate)", "") from error


def _is_simple(value: Any, depth: int) -> bool:
    """Whether the standard library's encoder happens to write this value canonically; it is the faster one.

    It does, but for floats (other exponents) and for keys that UTF-16 would sort differently.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-LARGEST <= value <= LARGEST)
    if depth >= DEEPEST:
        return False
    if kind is dict:
        for key, part in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if type(part) is not str and not _is_simple(part, depth + 1):
                return False
        return True
    return kind is list and all([_is_simple(part, depth + 1) for part in value])


def _write(value: Any, where: str, depth: int) -> str:
    if depth > DEEPEST:
        raise _refusal(f"a value nested more than {DEEPEST} deep", where)
    match value:
        case None | bool() | str():
            return _text(value)
        case int() | float():
            if not -LARGEST <= value <= LARGEST:  # NaN is not, either
                raise _refusal(f"the number {value}, which is not exact (write it as text)", where)
            return str(value) if isinstance(value, int) else number_text(value)
        case list():
            parts = (_write(part, f"{where}/{place}", depth + 1) for place, part in enumerate(value))
            return "[" + ",".join(parts) + "]"
        case dict():
            return "{" + ",".join(_members(value, where, depth)) + "}"
    raise _refusal(f"a {type(value).__name__}, which JSON does not have", where)


def _members(value: dict[Any, Any], where: str, depth: int) -> list[str]:
    for key in value:
        if not isinstance(key, str):
            raise _refusal(f"the key {key!r}, which is not text", where)
    # RFC 8785 sorts as JavaScript does, by UTF-16 units; lone surrogates are refused later
    keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return [f"{_text(key)}:{_write(value[key], f'{where}/{key}', depth + 1)}" for key in keys]


def number_text(value: float) -> str:
    """As ECMAScript writes it: the fewest digits that read back as the same double."""
    if value == 0:
        return "0"
    sign, digit_tuple, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0")
    point = len(digit_tuple) + int(exponent)  # where the decimal point stands, from the first digit
    return "-" * sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    if 0 < point <= 21:
        whole = digits.ljust(point, "0")
        return whole if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _refusal(what: str, where: str) -> BadInput:
    return BadInput(f"history cannot keep {what}", code="history.not-json", where=where)
