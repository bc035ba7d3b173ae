"""Digests by name: which are known, how they are written, and several at once over one stream.

SHA-256 is always computed. MD5 and SHA-1 are accepted as what a depositor sends along to find transfer
errors; they vouch for nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

from custody.errors import BadInput
from custody.formats.digest_table import ALGORITHMS
from custody.formats.names import shown

ALWAYS = "sha256"
_LENGTHS = {name: algorithm.length for name, algorithm in ALGORITHMS.items()}


def read_digests(digests: Mapping[str, str], where: str = "") -> dict[str, str]:
    """Names as `sha256`, values in lower-case hexadecimal; unknown or impossible ones are refused."""
    return dict(_read(name, value, where) for name, value in digests.items())


def _read(name: str, value: str, where: str) -> tuple[str, str]:
    algorithm = name.lower().replace("-", "").replace("_", "")
    length = _LENGTHS.get(algorithm)
    if length is None:
        raise BadInput(
            f"'{shown(name, 40)}' is not a digest we know",
            code="digest.unknown",
            where=where,
            hint=f"use one of {', '.join(_LENGTHS)}",
        )
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{length}}}", value):
        raise BadInput(
            f"the {algorithm} digest is not {length} hexadecimal digits",
            code="digest.syntax",
            where=where,
            value=shown(value),
        )
    return algorithm, value.lower()


class Digests:
    """Several digests of the same bytes."""

    def __init__(self, algorithms: Iterable[str] = ()) -> None:
        wanted = dict.fromkeys((ALWAYS, *algorithms))
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in wanted}
        self._updates = [found.update for found in self._hashes.values()]

    def update(self, piece: bytes | memoryview) -> None:
        for update in self._updates:
            update(piece)

    def values(self) -> dict[str, str]:
        return {name: found.hexdigest() for name, found in self._hashes.items()}


def mismatch(expected: Mapping[str, str], found: Mapping[str, str], where: str) -> BadInput | None:
    """The error if one of the expected digests is not the one found."""
    for name, value in expected.items():
        if not hmac.compare_digest(value, found[name]):
            return BadInput(
                f"the {name} digest is {found[name]}, not {value}",
                code="digest.mismatch",
                where=where,
                hint="the file at its source differs from the one the manifest describes",
                algorithm=name,
                expected=value,
                found=found[name],
            )
    return None
