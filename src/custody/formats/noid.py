"""Mints ARKs here: nice opaque identifiers, with a check digit.

A template says what the minted part looks like, one letter per character:

    e  a letter or digit that cannot be misread (no vowels, no l): 29 of them
    d  a digit
    k  the check digit, last

and before those, in which order: `s` counting up, `r` (or nothing) the same names in an order that only the key of
the store tells, `z` counting up without end, growing to the left. `eedeeedk` is two thousand million names.

Which number comes next is the store's to know: `next_number` must never give one out twice. A number
that is taken and then lost in a crash is a name never used; that is allowed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from custody.errors import BadInput, Refused
from custody.formats.identifiers import ark

XDIGITS = "0123456789bcdfghjkmnpqrstvwxz"
_VALUE = {digit: value for value, digit in enumerate(XDIGITS)}
_BASE = {"e": len(XDIGITS), "d": 10}
_TEMPLATE = re.compile("(?P<order>[rsz]?)(?P<mask>[ed]{1,20})(?P<check>k?)")
_NAAN = re.compile("[0-9bcdfghjkmnpqrstvwxz]{5,}")
_ROUNDS = 8
_SHOULDER = re.compile("[0-9a-z]{0,20}")


def check_digit(text: str) -> str:
    """The NOID check digit of `12345/x9abc`: the naming authority counts, `ark:/` does not. It catches
    every single wrong character and every exchange of two neighbours."""
    total = sum(place * _VALUE.get(character, 0) for place, character in enumerate(text, start=1))
    return XDIGITS[total % len(XDIGITS)]


def has_check_digit(identifier: str) -> bool:
    """Whether the last character is the check digit of the rest."""
    name = ark(identifier).removeprefix("ark:/")
    return name[-1] == check_digit(name[:-1])


@dataclass(frozen=True, slots=True)
class Noid:
    """A minter for one shoulder: `Noid("99999", "fk4", "eedeeedk", next_number).mint()`."""

    naan: str
    shoulder: str
    template: str
    next_number: Callable[[], int]
    key: Callable[[], bytes] = bytes  # of the order: whoever does not have it cannot tell which name comes next

    goes_on: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for value, form, what in [
            (self.naan, _NAAN, "a name assigning authority number"),
            (self.shoulder, _SHOULDER, "a shoulder"),
            (self.template, _TEMPLATE, "a template such as eedeeedk"),
        ]:
            if not form.fullmatch(value):
                raise BadInput(f"{value!r} is not {what}", code="noid.form")

    @property
    def capacity(self) -> int | None:
        """How many names the template has; None is no end."""
        return None if self._parts["order"] == "z" else self._total

    def mint(self, request: str = "", description: object = None, target: str = "") -> str:
        """The next identifier. What is said of it is for minters that can be asked again and tell others of it;
        here the caller keeps the answer under its token."""
        return self.name(self.next_number())

    def name(self, number: int) -> str:
        """The identifier of one number; no two numbers share one."""
        if number < 0:
            raise BadInput(f"{number} is no number of a name", code="noid.number")
        mask, total = self._parts["mask"], self._total
        if self.capacity is None:
            while number >= total:
                mask, total = mask[0] + mask, total * _BASE[mask[0]]
        elif number >= total:
            raise Refused(
                f"all {total} names of {self.naan}/{self.shoulder} are used",
                code="noid.exhausted",
                hint="give the collection a longer template or another shoulder",
            )
        elif self._parts["order"] in {"", "r"}:
            number = self._scattered(number)
        name = f"{self.naan}/{self.shoulder}{_digits(number, mask)}"
        return f"ark:/{name}{check_digit(name) if self._parts['check'] else ''}"

    @property
    def _parts(self) -> dict[str, str]:
        found = _TEMPLATE.fullmatch(self.template)
        return found.groupdict() if found else {}

    @property
    def _total(self) -> int:
        return math.prod(_BASE[letter] for letter in self._parts["mask"])

    def _scattered(self, number: int) -> int:
        """Another number below the total, and never the same for two: some rounds of adding to one half what the key
        makes of the other, each of which can be undone; and again, until it is below."""
        total, key = self._total, self.key()
        half = math.isqrt(total - 1) + 1
        while True:
            left, right = divmod(number, half)
            for turn in range(_ROUNDS):
                digest = hashlib.blake2b(b"%d %d" % (turn, right), key=key, digest_size=16).digest()
                left, right = right, (left + int.from_bytes(digest)) % half
            number = left * half + right
            if number < total:
                return number


def _digits(number: int, mask: str) -> str:
    digits = []
    for letter in reversed(mask):
        number, value = divmod(number, _BASE[letter])
        digits.append(XDIGITS[value])
    return "".join(reversed(digits))
