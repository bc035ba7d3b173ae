"""Whose a repository is. One that is not all ours is foreign: read as such, and only if an operator agrees.

Looked at through the open folder and without following links, each time the repository is opened: an owner that has
changed is another owner.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border.outside import Owner
from custody.model.errors import Refused, Unavailable

GIT_PARTS = ("config", "objects", "refs", "hooks")
SVN_PARTS = ("conf", "db", "hooks", "locks", "format")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Standing:
    """Who owns a repository, and why it is not ours; no reason: it is."""

    owner: Owner
    foreign: str

    @property
    def value(self) -> str:
        """As a grant names it."""
        return f"uid:{self.owner.uid}"

    @property
    def writable(self) -> bool:
        """Whether we can act as its owner: as ourselves, or as root as anybody."""
        return os.geteuid() in (0, self.owner.uid)


def look(repository: Path, parts: Sequence[str]) -> Standing:
    """`Unavailable` if there is nothing to look at."""
    here = opened(repository)
    try:
        return standing(here, parts)
    finally:
        os.close(here)


def opened(repository: Path) -> int:
    try:
        return os.open(repository, FOLDER)
    except OSError as error:
        message = f"there is no repository here: {error.strerror}"
        raise Unavailable(message, code="archive.unreachable", where=str(repository)) from None


def standing(here: int, parts: Sequence[str]) -> Standing:
    about = os.fstat(here)
    owner, me = Owner(about.st_uid, about.st_gid), os.geteuid()
    foreign = "" if owner.uid == me else f"it belongs to {named(owner.uid)}"
    for part in (".", *parts):
        try:
            found = os.stat(part, dir_fd=here, follow_symlinks=False)
        except OSError:
            continue
        if not foreign and found.st_uid != me:
            foreign = f"its {part} belongs to {named(found.st_uid)}"
        elif not foreign and found.st_mode & _OTHERS and not stat.S_ISLNK(found.st_mode):
            foreign = "others may write to it" if part == "." else f"others may write to its {part}"
    return Standing(owner, foreign)


def named(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def must_be_writable(found: Standing, where: str) -> None:
    """Commits are made as the owner, so that nothing of his runs as us and nothing of ours is left with him."""
    if found.writable:
        return
    raise Refused(
        f"it belongs to {named(found.owner.uid)}, and nothing is written there as anybody else", code="archive.owner",
        where=where,
        hint=f"run the worker as {named(found.owner.uid)} or as root; or let its tasks leave outputs, not commits",
    )  # fmt: skip


def not_granted(found: Standing, name: str, where: str) -> Refused:
    return Refused(
        f"this repository is not ours: {found.foreign}", code="archive.foreign", where=where,
        hint=f"if an operator agrees: `custody archive add {name} {where} --foreign --why …`, or, for an archive that "
        f"is there already, `custody archive grant {name} repository {found.value} --why …`",
    )  # fmt: skip
