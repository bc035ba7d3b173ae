"""What a new version of an object is to hold, and what came of it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from custody.errors import BadInput
from custody.formats.ocfl.inventory import State, check_paths


@dataclass(frozen=True, slots=True)
class Given:
    """A file to be stored, with the digests it should have."""

    path: Path
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What `store` is asked: the files of the new version. In an update they are merged into the last
    version, after `deletes` are taken out of it."""

    files: Mapping[str, Given]
    request: str
    created: datetime
    message: str = ""
    update: bool = False
    deletes: tuple[str, ...] = ()
    head: int | None = None
    """the version this change was made from, if the caller cares; 0 is none"""


@dataclass(frozen=True, slots=True)
class Stored:
    version: int
    folder: Path | None
    """where it is, if this machine can see it"""
    new: bool
    """False when this request, or this very content, had been stored before"""


def new_state(before: State | None, digests: Mapping[str, str], change: Change) -> State:
    """What the new version holds."""
    state = dict(before or {}) if change.update else {}
    for name in change.deletes:
        if name not in state:
            raise BadInput(f"cannot delete {name!r}: the last version has no such file", code="object.delete-missing")
        del state[name]
    state |= digests
    check_paths(state)
    return state


def wanted_digests(given: Given) -> list[str]:
    return list(dict.fromkeys(["sha512", *given.digests]))


def checked_digests(given: Given, found: dict[str, str]) -> dict[str, str]:
    for name, expected in given.digests.items():
        if found[name] != expected.lower():
            raise BadInput(
                f"{given.path.name!r} is not what was sent: its {name} is {found[name]}, expected {expected}",
                code="digest.mismatch",
                algorithm=name,
                expected=expected,
                found=found[name],
            )
    return found


def regular_file(path: Path) -> Path:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise BadInput(f"{str(path)!r} is not a regular file", code="object.file")
    return path
