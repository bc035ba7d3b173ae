"""Where the hooks of a repository are looked for, and whether one of ours may be written there.

Subversion looks in `hooks`; git wherever `core.hooksPath` of the repository, of its owner or of the machine leads. What
is written elsewhere is never run, and what is written into a folder of somebody else's runs for others too, or is
theirs to change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from custody.errors import Refused
from custody.formats.names import shown
from custody.workflows.archives.git.git_settings import Setting, Unseen, own_settings, settings_beside
from custody.workflows.archives.ownership.standing import named
from custody.workflows.archives.ownership.writers import writers

DEFAULT = "hooks"
UNHEARD = (
    "unset core.hooksPath, or let the hook that is run call ours with its own words and input; `chmod +x` one that is "
    "no program; or `custody archive remove` and `add --no-hook`"
)


@dataclass(frozen=True, slots=True)
class Place:
    folder: Path
    named_in: str = ""  # the file that says so; empty: nobody does
    is_seen: bool = True  # where commits of tasks are made: by the repository itself

    def told(self) -> str:
        how = f" (core.hooksPath in {shown(self.named_in)})" if self.named_in else ""
        return f"{shown(os.path.normpath(self.folder))}{how}"


def git_places(repository: Path, settings: Iterable[Setting]) -> list[Place]:
    """Where git looks, by what is said, in its order; more than one only where git cannot be asked about conditions."""
    places = [Place(repository / DEFAULT)]
    for setting in settings:
        if setting.name == "core.hookspath":
            said = Place(setting.path(repository), setting.file, setting.is_own)
            places = [said] if setting.is_certain else [*places, said]
    return places


def place_of(repository: Path, *, is_git: bool) -> Place:
    """The one place where its hooks are looked for. `Refused` if nobody can say which."""
    if not is_git:
        return Place(repository / DEFAULT)
    try:
        places = git_places(repository, (*settings_beside(repository), *own_settings(repository)))
    except Unseen as error:
        raise _refused(f"where git looks for its hooks cannot be known: {error}", repository) from None
    folders = {os.path.normpath(place.folder): place for place in places}
    if len(folders) > 1:
        told = ", or in ".join(place.told() for place in folders.values())
        raise _refused(f"git looks for its hooks in {told}", repository)
    return places[0]


def place_for_ours(repository: Path, *, is_git: bool) -> Path:
    """The folder that a hook of ours is to be in: the repository's own, and nobody else's to write to. `Refused` if it
    would not be looked for there."""
    place = place_of(repository, is_git=is_git)
    folder, own = Path(os.path.normpath(place.folder)), Path(os.path.realpath(repository))
    if folder == repository / DEFAULT:
        if folder.is_symlink():
            raise Refused(
                "its hooks folder is a link, and what is written there runs for others too",
                code="archive.hook",
                where=str(repository),
                hint="give the repository a hooks folder of its own",
            )
        return folder
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(own) or real == own:
        raise _refused(f"git looks for its hooks in {place.told()}, not in the repository", repository)
    if folder not in (real, repository / real.relative_to(own)):
        raise _refused(f"git looks for its hooks in {place.told()}, by way of a link", repository)
    for step in (
        own.joinpath(*real.relative_to(own).parts[:end]) for end in range(1, 1 + len(real.relative_to(own).parts))
    ):
        if why := _not_ours(step):
            raise _refused(f"git looks for its hooks in {place.told()}, and {why}", repository)
    return folder


def _not_ours(folder: Path) -> str:
    try:
        about = os.lstat(folder)
    except FileNotFoundError:
        return ""  # it is made
    if not stat.S_ISDIR(about.st_mode):
        return f"{shown(str(folder))} is no folder"
    if about.st_uid != os.geteuid():
        return f"{shown(str(folder))} belongs to {named(about.st_uid)}"
    return f"others may write to {shown(str(folder))}" if writers(about, str(folder)) else ""


def _refused(why: str, repository: Path) -> Refused:
    hint = (
        "where core.hooksPath is set, unset it; or give this repository hooks of its own: "
        f"`git --git-dir={repository} config core.hooksPath {DEFAULT}`"
    )
    return Refused(why, code="archive.hook", where=str(repository), hint=hint)
