"""An archive's repository as the planner sees it: numbered revisions with parents, files and a few facts.

A revision is a whole number that only grows, whatever the repository calls it: Subversion has such numbers,
for git they are counted (`git.py`). Everything is read at a revision; only `commit` writes, for tasks that commit
(`tasks/commit.py`), and `committed` finds what it has written.

Errors: `Unavailable` when the repository cannot be reached (trying again may help), `NotFound` when it is
there but has no such revision or path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from custody.formats.text.strict_yaml import LARGEST, MOST_FILES
from custody.workflows.archives.ownership.standing import Standing
from custody.workflows.archives.processes.vcs_process import Seconds
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.definition.definition import FOLDER, is_workflow_file

if TYPE_CHECKING:
    from custody.workflows.archives.working_copy.draft import Draft

LINEAGE = "custody:lineage"  # a property of commits that tasks made: which tasks led here
COMMIT_KEY = "custody:commit"  # and which commit of which task it is
GONE = "archive.gone"  # the code of a revision that was there and is no more
ADDED, CHANGED, DELETED, REPLACED = "added", "changed", "deleted", "replaced"


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a revision besides its content."""

    revision: int
    id: str  # the repository's own name for it
    author: str
    date: str  # as the repository tells it, ISO 8601
    message: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    action: str  # ADDED, CHANGED, DELETED or REPLACED
    copied_from: str = ""
    copied_revision: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    path: str  # from the root of the archive
    is_folder: bool


class Archive(Protocol):
    def uuid(self) -> str:
        """Names this very repository; another one in its place has another."""

    def standing(self) -> Standing | None:
        """Whose it is; nothing for one on a server."""

    def youngest(self) -> int:
        """The newest revision, 0 if there is none. That it exists proves that all before it do."""

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        """The revisions this one was made from; several for a merge, none for the first.

        `lines` are paths with a history of their own (trunk, branches/*), where branches are only folders.
        """

    def main(self, upto: int) -> int:
        """The newest revision, up to this one, whose files say what runs by the clock: in git, of the main branch."""

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        """What is directly in a folder; `NotFound` if there is no such folder."""

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        """All that is below a folder, at any depth; for a file, the file itself."""

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        """What is noted about a path, where the repository can note something."""

    def read(self, revision: int, path: str) -> bytes: ...

    def runs(self, revision: int, path: str) -> bool:
        """Whether a file is a program."""

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        """The beginning of a file that may be larger than our memory, and its size."""

    def export(self, revision: int, into: Path, seconds: Seconds = 3600, limits: Limits = LIMITS) -> None:
        """Write the whole revision into an empty folder. Links are made as links. `Refused` if it is too large."""

    def meta(self, revision: int) -> Meta: ...

    def changed(self, revision: int) -> Sequence[Change]: ...

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        """Make a revision; `Refused` if somebody else has changed the same paths since `draft.base`."""

    def committed(self, key: str, since: int) -> int | None:
        """The revision after `since` that was committed with this key, if there is one."""


def as_text(path: str) -> str:
    """A path as it can be written down. git and file systems take any bytes for a name; those that are no text are
    spelt out, and two different names stay two."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def workflow_files(entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """The paths to be read as definitions, and all paths found beside them."""
    paths = [entry.path for entry in entries if not entry.is_folder]
    return [path for path in paths if is_workflow_file(path)], paths


def read_workflows(archive: Archive, revision: int) -> tuple[dict[str, bytes], list[str]]:
    """The workflow files of a revision with their content, and all names in their folder (for `lint`)."""
    top = {entry.path for entry in archive.list(revision, "") if entry.is_folder}
    if FOLDER not in top:
        return {}, []
    wanted, paths = workflow_files(archive.list(revision, FOLDER))
    wanted = sorted(wanted)[: MOST_FILES + 1]  # one more than there may be: `read` says so
    # Of one that is larger than it may be, enough to say so.
    return {as_text(path): archive.head(revision, path, LARGEST + 1)[0] for path in wanted}, [
        as_text(path) for path in paths
    ]
