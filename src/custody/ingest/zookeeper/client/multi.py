"""What one `multi` is made of, as values: so that a move can be read, compared and tested before it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

ANY = -1


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op: TypeAlias = Create | Set | Delete | Check

OUR_LOCK_VERSION = 1


def lock(path: str) -> list[Op]:
    """Take a lock that can be told from another service's: theirs has never been written to, ours has, once.

    The node stays empty, as theirs is. Whoever finds version 0 where version 1 was finds someone else's lock.
    """
    return [Create(f"{path}/lock", ephemeral=True), Set(f"{path}/lock", b"")]


def unlock(path: str) -> Op:
    return Delete(f"{path}/lock", OUR_LOCK_VERSION)


def nobody_has(path: str) -> list[Op]:
    """Refused while anyone, of us or not, holds the lock."""
    return [Create(f"{path}/lock", ephemeral=True), Delete(f"{path}/lock")]


def created(nodes: Mapping[str, bytes]) -> list[Op]:
    """Parents first."""
    return [Create(path, nodes[path]) for path in sorted(nodes)]


def moved(before: Iterable[str], after: Iterable[str]) -> list[Op]:
    """From these places to those: the difference, nothing else."""
    old, new = set(before), set(after)
    return [*(Delete(path) for path in sorted(old - new)), *(Create(path) for path in sorted(new - old))]
