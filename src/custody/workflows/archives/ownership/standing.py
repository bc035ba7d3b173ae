"""Whose a repository is. One that is not all ours is foreign: read as such, and only if an operator agrees.

Looked at through the open folder and without following links, each time the repository is opened: an owner that has
changed is another owner, and so is one more. Everybody who owns a part of it, or may write to one, or may put another
in its place, is named and agreed to, or nothing is read.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from custody.border.sandbox.host_tool import Owner
from custody.errors import Refused, Unavailable
from custody.formats.names import shown
from custody.formats.shell import BLANK, command
from custody.workflows.archives.ownership.owned import FOLDER, Looked, above, parts
from custody.workflows.archives.ownership.writers import named_group

MOST_TOLD = 5
NOT_OURS = "this repository is not ours: "


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
        return standing(here, looked, repository)
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


def standing(here: int, looked: Looked, repository: Path) -> Standing:
    """Whose it is that is open here, and is found at this path."""
    me, owners, open_ = os.geteuid(), dict[int, str](), dict[str, str]()
    for part in parts(here, looked):
        if part.uid != me and not part.is_theirs:
            owners.setdefault(part.uid, part.name)
        for one in sorted(part.open_to):
            open_.setdefault(one, part.name)
    for part in above(repository):
        if part.uid not in (0, me):
            owners.setdefault(part.uid, part.name)
        for one in sorted(part.open_to):
            open_.setdefault(one, part.name)
    for uid in (0, me, *owners):
        open_.pop(f"uid:{uid}", None)
    uids = sorted(owners.keys() - {0} or owners)  # root beside somebody else needs nobody's agreement
    uids = sorted({*uids, *(int(one[4:]) for one in open_ if one.startswith("uid:"))})
    others = sorted((one for one in open_ if not one.startswith("uid:")), reverse=True)
    return Standing(owner_of(here), _told(owners, open_), [*(f"uid:{uid}" for uid in uids), *others])


def _told(owners: Mapping[int, str], open_: Mapping[str, str]) -> str:
    """One part for each owner, the outer ones first; and one for each of those who may write to it."""
    told = list[str]()
    for uid, part in list(owners.items())[:MOST_TOLD]:
        if not told:
            told.append(f"{_place(part)} belongs to {named(uid)}")
        elif uid:
            told.append(f"{_place(part)} to {named(uid)}")
    if len(owners) > MOST_TOLD:
        told.append(f"other parts to {len(owners) - MOST_TOLD} more")
    told += [f"{_named(one)} may write to {_place(part)}" for one, part in list(open_.items())[:MOST_TOLD]]
    if len(open_) > MOST_TOLD:
        told.append(f"{len(open_) - MOST_TOLD} more may write to parts of it")
    return ", ".join(told)


def _named(one: str) -> str:
    kind, _, number = one.partition(":")
    if kind == "gid":
        return f"the group {named_group(int(number))}"
    return named(int(number)) if number else "everybody"


def _place(name: str) -> str:
    if name == ".":
        return "it"
    return f"the folder {_shown(name)} from there" if name.startswith("..") else f"its {_shown(name)}"


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
        f"it belongs to {named(found.owner.uid)}, and nothing is written there as anybody else",
        code="archive.owner",
        where=where,
        hint=f"run the worker as {named(found.owner.uid)} or as root; or let its tasks leave outputs, not commits",
    )


def must_be_readable(found: Standing, where: str) -> None:
    """Subversion locks and reads as whoever serves the repository: nobody reads one of somebody else as himself."""
    if found.writable:
        return
    owner = named(found.owner.uid)
    raise Refused(
        f"it belongs to {owner}, and a Subversion repository is read as its owner only, which {named(os.geteuid())} "
        "cannot become",
        code="archive.owner",
        where=where,
        hint=f"run the worker as {owner} or as root; or let {owner} serve it and add its address: svn://…",
    )


def not_granted(found: Standing, name: str, where: str) -> Refused:
    return Refused(
        f"{NOT_OURS}{found.foreign}",
        code="archive.foreign",
        where=where,
        hint=f"if an operator agrees: `custody archive add {name} {where} --foreign --why …`, or, for an archive that "
        f"is there already, `{granting(found, name)}`",
    )


def granting(found: Standing, name: str) -> str:
    return command("archive grant", name, "repository", found.value, why=BLANK)
