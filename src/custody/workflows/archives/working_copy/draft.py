"""What a task wants to commit: files gathered out of its work folder, where nothing can be trusted to stay as it is.

Each file is opened step by step without following links and copied to a place of our own, and only that copy is
committed. A folder that is named is committed as it stands: what is no longer in it goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border.copy_out import Allowance, LeftOut, copy_file
from custody.border.folder import Folder
from custody.errors import NotFound, Refused
from custody.formats.names import safe_parts, shown
from custody.workflows.archives.port import Archive, Entry
from custody.workflows.archives.working_copy.committed_names import must_be_committable

MOST_MEGABYTES = 4_096
"""Of all that is looked at for one commit."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One commit to be made. `base` is the revision the task has seen: what others changed since is not undone."""

    message: str
    base: int
    put: Mapping[str, Path]
    gone: Sequence[str]
    lineage: Sequence[str]  # the tasks that led here, the committing one last
    key: str  # names this commit: the same again is found instead of made


@dataclass(frozen=True, slots=True)
class Gathered:
    put: Mapping[str, Path]
    gone: Sequence[str]


def gather(work: Path, paths: Iterable[str], archive: Archive, base: int, into: Path) -> Gathered:
    """Copy what differs from `base`, and list what is gone."""
    put: dict[str, Path] = {}
    gone: dict[str, None] = {}
    seen: set[str] = set()  # a file that is named, and its folder too, is one file
    allowance = Allowance(MOST_MEGABYTES)
    with Folder(work) as folder:
        for path in paths:
            wanted = _checked(path)
            here = list(_files(work, wanted))
            for name in here:
                must_be_committable(name)
            there = {entry.path for entry in _tree(archive, base, wanted) if not entry.is_folder}
            if not here and not there:
                raise NotFound(f"there is no {wanted}, and there was none", code="commit.path", where=wanted)
            gone |= dict.fromkeys(sorted(there - set(here)))
            for name in here:
                if name in seen:
                    continue
                seen.add(name)
                if (work / name).is_symlink():
                    _must_be_as_it_was(work, name, archive, base, was=name in there)
                    continue
                copy = _copied(folder, name, into / f"{len(put)}", allowance)
                if name not in there or _differs(archive, base, name, copy):
                    put[name] = copy
    return Gathered(put, list(gone))


def _checked(path: str) -> str:
    wanted = path.removeprefix("/work/").strip("/")
    safe_parts(wanted)
    must_be_committable(wanted)
    return wanted


def _tree(archive: Archive, base: int, wanted: str) -> Sequence[Entry]:
    try:
        return archive.tree(base, wanted)
    except NotFound:
        return ()


def _files(work: Path, wanted: str) -> Iterable[str]:
    top = work / wanted
    if not os.path.lexists(top):
        return
    if top.is_symlink() or not top.is_dir():
        yield wanted
    for folder, _, names in os.walk(top):
        yield from (str(Path(folder, name).relative_to(work)) for name in sorted(names))


def _differs(archive: Archive, base: int, name: str, copy: Path) -> bool:
    if not _holds(copy, archive.read(base, name)):
        return True
    return archive.runs(base, name) != bool(copy.stat().st_mode & 0o100)


def _must_be_as_it_was(work: Path, name: str, archive: Archive, base: int, was: bool) -> None:
    """A link that the revision has may lie where it is; no other is committed, as it may lead anywhere."""
    target = os.fsencode(os.readlink(work / name))
    if not was or archive.read(base, name) not in (target, b"link " + target):
        raise Refused(
            f"{shown(name)} is a link, and only files are committed",
            code="name.blocked",
            where=shown(name),
            hint="commit a copy of what it leads to, or leave it out",
        )


def _holds(copy: Path, data: bytes) -> bool:
    """Is that its content? Never more of it is read than there is to compare with."""
    if copy.stat().st_size != len(data):
        return False
    with copy.open("rb") as file:
        return file.read(len(data) + 1) == data


def _copied(folder: Folder, name: str, into: Path, allowance: Allowance) -> Path:
    into.parent.mkdir(parents=True, exist_ok=True)
    into.unlink(missing_ok=True)  # one before it, of which nothing had changed
    with open(folder.open(name), "rb") as source:
        try:
            copy_file(source.fileno(), into, allowance)
        except Refused as error:
            raise Refused(f"{error.message} in one commit", code="commit.size", where=name) from error
        except LeftOut as why:
            raise Refused(f"{shown(name)} cannot be committed: {why}", code="commit.file", where=shown(name)) from why
        into.chmod(0o700 if os.fstat(source.fileno()).st_mode & 0o100 else 0o600)
    return into
