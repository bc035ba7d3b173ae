"""Commits to Subversion without a working copy: one `svnmucc`, one revision.

It is given the revision that the task has seen as its baseline, so that Subversion itself refuses what somebody else
has changed since. Lineage and key are revision properties, set by the commit itself.
"""

from __future__ import annotations

import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from custody.errors import NotFound, Unavailable
from custody.workflows.archives.port import COMMIT_KEY, DELETED, LINEAGE, REPLACED, Entry
from custody.workflows.archives.processes.vcs_process import Seconds
from custody.workflows.archives.working_copy.draft import Draft

if TYPE_CHECKING:
    from custody.workflows.archives.svn.svn import SvnArchive

PROGRAM = "svn:executable"
_MADE = re.compile(rb"^r(\d+) committed", re.MULTILINE)


def commit(archive: SvnArchive, draft: Draft, seconds: Seconds) -> int:
    """Make the revision, and say which it is."""
    with tempfile.TemporaryDirectory(prefix="custody-commit-") as folder:
        message = Path(folder, "message")
        message.write_text(draft.message, encoding="utf-8")
        changes = Path(folder, "changes")  # in a file: a command line holds two megabytes, and a site has many pages
        changes.write_text("".join(f"{word}\n" for word in _changes(archive, draft)), encoding="utf-8")
        words = ["-r", str(draft.base), "-F", str(message)]
        words += ["--with-revprop", f"{LINEAGE}={','.join(draft.lineage)}"]
        words += ["--with-revprop", f"{COMMIT_KEY}={draft.key}"]
        said = archive.client(["svnmucc"], [*words, "-X", str(changes)], seconds, writing=True)
    made = _MADE.search(said)
    if made is None:
        raise Unavailable("Subversion did not say what it committed", code="archive.unreachable", where=archive.where)
    _must_have_arrived(archive, draft, int(made[1]))
    return int(made[1])


def _must_have_arrived(archive: SvnArchive, draft: Draft, revision: int) -> None:
    """What the revision says it changed is what was asked for: a hook of its owner may have had another mind."""
    changed = {change.path: change.action for change in archive.changed(revision)}
    missing = [path for path in draft.put if changed.get(path, DELETED) == DELETED]
    missing += [path for path in draft.gone if changed.get(path) not in (DELETED, REPLACED)]
    if missing:
        message = f"revision {revision} is there without {missing[0]}"
        raise Unavailable(message, code="commit.dropped", where=archive.where, hint="ask whoever owns the repository")


def _changes(archive: SvnArchive, draft: Draft) -> Iterator[str]:
    for path in draft.gone:
        yield from ("rm", _address(archive, path))
    for folder in _missing_folders(archive, draft.base, draft.put):
        yield from ("mkdir", _address(archive, folder))
    for path, file in draft.put.items():
        yield from ("put", str(file), _address(archive, path))
        if file.stat().st_mode & stat.S_IXUSR:
            yield from ("propset", PROGRAM, "*", _address(archive, path))
        elif _ran(archive, draft.base, path):
            yield from ("propdel", PROGRAM, _address(archive, path))


def _ran(archive: SvnArchive, base: int, path: str) -> bool:
    try:
        return archive.runs(base, path)
    except NotFound:
        return False


def _address(archive: SvnArchive, path: str) -> str:
    return archive.at(path, 0).rpartition("@")[0]


def _missing_folders(archive: SvnArchive, base: int, put: Mapping[str, Path]) -> Sequence[str]:
    """Outermost first."""
    wanted = {str(folder) for path in put for folder in PurePosixPath(path).parents if str(folder) != "."}
    known: dict[str, bool] = {"": True}
    for folder in sorted(wanted):
        above = str(PurePosixPath(folder).parent)
        above = "" if above == "." else above
        known[folder] = known[above] and any(entry.path == folder for entry in _folders(archive, base, above))
    return [folder for folder in sorted(wanted) if not known[folder]]


def _folders(archive: SvnArchive, base: int, above: str) -> Sequence[Entry]:
    try:
        return [entry for entry in archive.list(base, above) if entry.is_folder]
    except NotFound:
        return []
