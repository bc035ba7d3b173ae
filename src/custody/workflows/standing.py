"""Whose a repository is. One that is not all ours is foreign: read as such, and only if an operator agrees.

Looked at through the open folder and without following links, each time the repository is opened: an owner that has
changed is another owner, and so is one more. Everybody who owns a part of it is named and agreed to, or nothing is
read.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from custody.border.names import shown
from custody.border.outside import Owner
from custody.model.errors import Refused, Unavailable
from custody.model.telling import BLANK, command
from custody.workflows.owned import FOLDER, Looked, parts

MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """Who owns a repository, and why it is not ours; no reason: it is."""

    owner: Owner
    foreign: str
    who: Sequence[str]  # all besides us who may change it, by what they own or by what they may write

    @property
    def value(self) -> str:
        """As a grant names them: `uid:1+2+gid:3`."""
        uids = [one.removeprefix("uid:") for one in self.who if one.startswith("uid:")]
        return "+".join([*([f"uid:{'+'.join(uids)}"] if uids else []), *(one for one in self.who if one[:4] != "uid:")])

    def without(self, granted: Iterable[str]) -> Standing:
        """Those who were not granted."""
        agreed = {one for value in granted for one in named_in(value)}
        return replace(self, who=[one for one in self.who if one not in agreed])

    @property
    def writable(self) -> bool:
        """Whether we can act as its owner: as ourselves, or as root as anybody."""
        return os.geteuid() in (0, self.owner.uid)


def named_in(value: str) -> Iterator[str]:
    """Whom a grant names, one by one: a number alone is of the kind of the one before it."""
    kind = ""
    for word in value.split("+"):
        kind = word.partition(":")[0] if ":" in word else kind
        yield word if ":" in word or not word.isdecimal() else f"{kind}:{word}"


def look(repository: Path, looked: Looked) -> Standing:
    """`Unavailable` if there is nothing to look at."""
    here = opened(repository)
    try:
        return standing(here, looked)
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


def owner_of(here: int) -> Owner:
    about = os.fstat(here)
    return Owner(about.st_uid, about.st_gid)


def standing(here: int, looked: Looked) -> Standing:
    me, theirs, open_ = os.geteuid(), dict[int, str](), dict[str, str]()
    for part in parts(here, looked):
        if part.uid != me and not part.through:
            theirs.setdefault(part.uid, part.name)
        elif part.uid == me and part.open_to:
            open_.setdefault(part.open_to, part.name)
    uids = sorted(theirs.keys() - {0} or theirs)  # root beside somebody else needs nobody's agreement
    return Standing(
        owner_of(here), _told(theirs, open_), [*(f"uid:{uid}" for uid in uids), *sorted(open_, reverse=True)]
    )


def _told(theirs: Mapping[int, str], open_: Mapping[str, str]) -> str:
    """One part for each owner, the outer ones first."""
    told = ""
    for uid, part in list(theirs.items())[:MOST_TOLD]:
        name = _shown(part)
        if not told:
            told = f"{'it' if name == '.' else f'its {name}'} belongs to {named(uid)}"
        elif uid:
            told += f", its {name} to {named(uid)}"
    if len(theirs) > MOST_TOLD:
        told += f", other parts to {len(theirs) - MOST_TOLD} more"
    if told or not open_:
        return told
    name = _shown(next(iter(open_.values())))
    return f"others may write to {'it' if name == '.' else f'its {name}'}"


def _shown(name: str) -> str:
    return shown(os.fsencode(name).decode("utf-8", "backslashreplace"))


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
        f"is there already, `{granting(found, name)}`",
    )  # fmt: skip


def granting(found: Standing, name: str) -> str:
    return command("archive grant", name, "repository", found.value, why=BLANK)
