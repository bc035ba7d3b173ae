"""Whose a repository is. One that is not all ours is foreign: read as such, and only if an operator agrees.

Looked at through the open folder and without following links, each time the repository is opened: an owner that has
changed is another owner.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from contextlib import suppress
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
    value: str  # whom a grant names: all besides us who may change it, by what they own or by what they may write

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
        message, hint = f"there is no repository here: {error.strerror}", ""
        if os.path.islink(repository):
            message, hint = "a link stands here, and is not followed", f"name the repository: {repository.resolve()}"
        elif isinstance(error, PermissionError):
            message, hint = f"{named(os.geteuid())} may not open it", "its owner decides who may: `chmod`, or a group"
        raise Unavailable(message, code="archive.unreachable", where=str(repository), hint=hint) from None


def standing(here: int, parts: Sequence[str]) -> Standing:
    about, me = os.fstat(here), os.geteuid()
    owner, found = Owner(about.st_uid, about.st_gid), {".": about}
    for part in parts:
        with suppress(OSError):
            found[part] = os.stat(part, dir_fd=here, follow_symlinks=False)
    theirs = [part for part, one in found.items() if one.st_uid != me]
    if theirs:
        first, whose = theirs[0], found[theirs[0]].st_uid
        told = f"it belongs to {named(whose)}" if first == "." else f"its {first} belongs to {named(whose)}"
        told += "".join(
            f", its {part} to {named(found[part].st_uid)}" for part in theirs if found[part].st_uid not in (whose, 0)
        )
        return Standing(owner, told, _owners({found[part].st_uid for part in theirs}))
    for part, one in found.items():
        if one.st_mode & _OTHERS and not stat.S_ISLNK(one.st_mode):
            told = "others may write to it" if part == "." else f"others may write to its {part}"
            return Standing(owner, told, "anyone" if one.st_mode & stat.S_IWOTH else f"gid:{one.st_gid}")
    return Standing(owner, "", f"uid:{owner.uid}")


def _owners(uids: set[int]) -> str:
    """All of them; root beside somebody else needs nobody's agreement."""
    return "uid:" + "+".join(map(str, sorted(uids - {0} or uids)))


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


def must_be_readable(found: Standing, where: str) -> None:
    """Subversion locks and reads as whoever serves the repository: nobody reads one of somebody else as himself."""
    if found.writable:
        return
    owner = named(found.owner.uid)
    raise Refused(
        f"it belongs to {owner}, and a Subversion repository is read as its owner only, which {named(os.geteuid())} "
        "cannot become", code="archive.owner", where=where,
        hint=f"run the worker as {owner} or as root; or let {owner} serve it and add its address: svn://…",
    )  # fmt: skip


def not_granted(found: Standing, name: str, where: str) -> Refused:
    return Refused(
        f"this repository is not ours: {found.foreign}", code="archive.foreign", where=where,
        hint=f"if an operator agrees: `custody archive add {name} {where} --foreign --why …`, or, for an archive that "
        f"is there already, `custody archive grant {name} repository {found.value} --why …`",
    )  # fmt: skip
