"""Digest algorithms: one table, read by the manifest reader, the bag checker and the object store.

A depositor's digest says only that the bytes arrived as sent; md5 and SHA-1 are good enough for
that and for nothing else. What the archive itself promises is SHA-256 (manifests) and SHA-512
(OCFL), computed on the bytes it wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from custody.errors import BadInput

CHUNK = 1 << 20


class Running(Protocol):
    """A digest being computed."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    name: str
    """as the inventories write it: `sha256`"""
    label: str
    """as manifests write it: `sha-256`"""
    length: int
    """of the digest in hexadecimal digits"""
    new: Callable[[], Running]


def _hashed(name: str, label: str, length: int) -> Algorithm:
    # These compare what was sent with what arrived; nothing is kept secret by them.
    return Algorithm(name, label, length, lambda: hashlib.new(name, usedforsecurity=False))


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in [
        _hashed("md5", "md5", 32),
        _hashed("sha1", "sha-1", 40),
        _hashed("sha224", "sha-224", 56),
        _hashed("sha256", "sha-256", 64),
        _hashed("sha384", "sha-384", 96),
        _hashed("sha512", "sha-512", 128),
    ]
}

_HEX = frozenset("0123456789abcdef")


def algorithm(name: str) -> Algorithm:
    """By name in any case, with or without its hyphen, as the deployed parser reads it."""
    found = ALGORITHMS.get(name.lower().replace("-", ""))
    if found is None:
        known = ", ".join(each.label for each in ALGORITHMS.values())
        raise BadInput(f"unknown digest algorithm {name!r}", code="digest.unknown", hint=f"use one of {known}")
    return found


def digest_value(which: Algorithm, value: str) -> str:
    """The digest in the one form that is stored and compared: lower case, of the right length."""
    value = value.lower()
    if len(value) != which.length or not _HEX.issuperset(value):
        raise BadInput(
            f"{value!r} is not a {which.label} digest",
            code="digest.form",
            hint=f"{which.label} has {which.length} hexadecimal digits, this has {len(value)} characters",
        )
    return value


def digests_of(chunks: Iterable[bytes], names: Iterable[str]) -> dict[str, str]:
    """Several digests in one reading."""
    running = {name: ALGORITHMS[name].new() for name in names}
    for chunk in chunks:
        for each in running.values():
            each.update(chunk)
    return {name: each.hexdigest() for name, each in running.items()}


def chunks_of(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def digest_file(path: Path, names: Iterable[str]) -> dict[str, str]:
    return digests_of(chunks_of(path), names)
