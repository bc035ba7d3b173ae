"""An archive in plain folders, for where there is neither Subversion nor git: one folder for each revision.

    1/content/…    the whole archive as it was
    1/about.json   who, why, and which tasks led here
    2/…

A revision is made beside the others and renamed into its place, so it is there whole or not at all, and is never
changed afterwards; what did not change is the same file, linked. Links inside are not kept.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from custody.errors import BadInput, NotFound, Refused, Unavailable
from custody.workflows.archives.ownership.owned import Looked
from custody.workflows.archives.ownership.plain_files import opened
from custody.workflows.archives.ownership.standing import Standing, look
from custody.workflows.archives.port import ADDED, CHANGED, COMMIT_KEY, DELETED, LINEAGE, Change, Entry, Meta
from custody.workflows.archives.processes.vcs_process import SILENT, Seconds, time_left
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.archives.working_copy.write_out import Into

NAME = "custody-archive"  # holds the uuid, and says what the folder is
TRIES = 5


class FolderArchive:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @classmethod
    def make(cls, folder: Path) -> FolderArchive:
        """An empty one; one that is there already stays as it is."""
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / NAME).exists():
            (folder / NAME).write_text(f"{uuid.uuid4()}\n")
        return cls(folder)

    def uuid(self) -> str:
        try:
            with opened(self.folder / NAME, str(self.folder)) as file:
                return file.read(4096).decode("ascii", "replace").strip()
        except OSError as error:
            raise Unavailable("there is no archive here", code="archive.unreachable", where=str(self.folder)) from error

    def standing(self) -> Standing | None:
        """Only ours: whatever lies in it is read as it lies there, links and all."""
        found = look(self.folder, Looked((NAME,), (".",)))
        if found.foreign:
            hint = "an archive of folders is read by its owner only: `chown` it, or keep it in git"
            message = f"this folder is not ours: {found.foreign}"
            raise Refused(message, code="archive.foreign", where=str(self.folder), hint=hint)
        return found

    def youngest(self) -> int:
        self.uuid()
        return max((int(path.name) for path in self.folder.iterdir() if path.name.isdigit()), default=0)

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        return (revision - 1,) if revision > 1 else ()

    def main(self, upto: int) -> int:
        return upto

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        content, inside = self._content(revision), self._at(revision, folder)
        if not inside.is_dir():
            raise self._absent(folder)
        return [_entry(content, path) for path in sorted(inside.iterdir())]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        content, inside = self._content(revision), self._at(revision, path)
        if inside.is_file():
            return [_entry(content, inside)]
        if not inside.is_dir():
            raise self._absent(path)
        return [_entry(content, found) for found in sorted(inside.rglob("*"))]

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        return {}  # a folder notes nothing about its files

    def read(self, revision: int, path: str) -> bytes:
        try:
            with opened(self._at(revision, path), str(self.folder)) as file:
                return file.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise self._absent(path) from None

    def runs(self, revision: int, path: str) -> bool:
        try:
            return bool(self._at(revision, path).lstat().st_mode & 0o100)
        except (FileNotFoundError, NotADirectoryError):
            raise self._absent(path) from None

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        try:
            with opened(self._at(revision, path), str(self.folder)) as file:
                return file.read(most), os.fstat(file.fileno()).st_size
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise self._absent(path) from None

    def export(self, revision: int, into: Path, seconds: Seconds = 3600, limits: Limits = LIMITS) -> None:
        """Files and folders, and links as links; of anything else there is no copy."""
        content, left = self._content(revision), time_left(seconds)
        into.mkdir(parents=True, exist_ok=True)
        with Into(into, str(self.folder), limits) as place:
            for path in _outer_first(content):
                place.measure.paths(1)
                if left() <= 0:
                    raise Unavailable("it was not copied in time", code=SILENT, where=str(self.folder))
                name = os.fsencode(path.relative_to(content))
                if path.is_symlink():
                    place.link(name, os.fsencode(os.readlink(path)))
                elif path.is_dir():
                    place.folder(name)
                else:
                    with opened(path, str(self.folder)) as file:
                        about = os.fstat(file.fileno())
                        place.expect(about.st_size)
                        place.file(name, iter(lambda: file.read(1 << 20), b""), bool(about.st_mode & 0o100))

    def meta(self, revision: int) -> Meta:
        self._content(revision)
        file = self.folder / str(revision) / "about.json"
        with opened(file, str(self.folder)) as open_:
            about = json.loads(open_.read())
            date = datetime.fromtimestamp(int(os.fstat(open_.fileno()).st_mtime), UTC).isoformat()
        return Meta(
            revision=revision,
            id=str(revision),
            author=about["author"],
            date=date,
            message=about["message"],
            properties=about["properties"],
        )

    def changed(self, revision: int) -> Sequence[Change]:
        now = _files(self._content(revision))
        before = _files(self._content(revision - 1)) if revision > 1 else {}
        return [
            Change(path, DELETED if path not in now else CHANGED if path in before else ADDED)
            for path in sorted(now.keys() | before.keys())
            if not _same(now.get(path), before.get(path))
        ]

    def keep(self, source: Path, message: str, author: str) -> int:
        """The next revision, as a folder stands now."""
        if link := next((path for path in source.rglob("*") if path.is_symlink()), None):
            raise BadInput(f"{link} is a link", code="archive.link", hint="an archive of folders keeps none")

        def make(tip: int, content: Path) -> None:
            shutil.copytree(source, content)

        return self._made(make, {"author": author, "message": message, "properties": {}})

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        """Make a revision; what somebody else has changed since is never undone."""

        def make(tip: int, content: Path) -> None:
            self._refuse_conflicts(draft, tip)
            shutil.copytree(self._content(tip), content, copy_function=os.link)
            for path in (*draft.gone, *draft.put):
                (content / path).unlink(missing_ok=True)  # never through a link to an older revision's file
            for path, file in draft.put.items():
                (content / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, content / path)

        properties = {LINEAGE: ",".join(draft.lineage), COMMIT_KEY: draft.key}
        return self._made(make, {"author": "custody", "message": draft.message, "properties": properties})

    def committed(self, key: str, since: int) -> int | None:
        for revision in range(since + 1, self.youngest() + 1):
            if self.meta(revision).properties.get(COMMIT_KEY) == key:
                return revision
        return None

    def _made(self, make: Callable[[int, Path], None], about: Mapping[str, object]) -> int:
        for _ in range(TRIES):
            tip = self.youngest()
            with tempfile.TemporaryDirectory(prefix=".making-", dir=self.folder) as folder:
                draft = Path(folder, "revision")
                draft.mkdir()
                make(tip, draft / "content")
                (draft / "about.json").write_text(json.dumps(about))
                _to_disk(draft)
                try:
                    draft.rename(self.folder / str(tip + 1))
                except OSError:
                    continue  # somebody else was quicker; look again
            _to_disk(self.folder, deep=False)
            return tip + 1
        raise Unavailable("the archive is too busy", code="archive.busy", where=str(self.folder))

    def _refuse_conflicts(self, draft: Draft, tip: int) -> None:
        theirs, ours = _files(self._content(tip)), _files(self._content(draft.base))
        for path in (*draft.put, *draft.gone):
            if not _same(theirs.get(path), ours.get(path)):
                raise Refused(
                    f"{path} has been changed since revision {draft.base}",
                    code="archive.conflict",
                    where=str(self.folder),
                    hint="run the task again at the newer revision",
                )

    def _content(self, revision: int) -> Path:
        content = self.folder / str(revision) / "content"
        if revision < 1 or not content.is_dir():
            raise NotFound(f"there is no revision {revision}", code="archive.revision", where=str(self.folder))
        return content

    def _at(self, revision: int, path: str) -> Path:
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts) or "\0" in path:
            raise self._absent(path)
        return self._content(revision).joinpath(*parts)

    def _absent(self, path: str) -> NotFound:
        return NotFound(f"there is no path {path!r}", code="archive.path", where=str(self.folder))


def _entry(content: Path, path: Path) -> Entry:
    return Entry(str(path.relative_to(content)), path.is_dir())


def _files(content: Path) -> dict[str, Path]:
    return {str(path.relative_to(content)): path for path in _walk(content)}


def _outer_first(folder: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        yield from (Path(at, name) for name in sorted((*folders, *files)))


def _walk(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _same(one: Path | None, other: Path | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.samefile(other) or one.read_bytes() == other.read_bytes()


def _to_disk(folder: Path, deep: bool = True) -> None:
    for path in (*(folder.rglob("*") if deep else ()), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
