"""The ready-made index: paths, properties and texts of an archive, searchable, brought up to each revision in turn.

One SQLite file for each archive (in git: for each branch), beside the logs. It knows the revision it is at and looks
only at what has changed since, so it catches up by itself when it was away, and a revision that is indexed twice costs
nothing. Should it ever be lost, the next revision makes it anew.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from custody.border import modes
from custody.errors import NotFound
from custody.workflows.archives.port import ADDED, DELETED, REPLACED, Archive, as_text

LARGEST_TEXT = 1 << 20
MOST_STEPS_BACK = 1000  # beyond that it is quicker to begin again
_SCHEMA = """
pragma journal_mode = wal;
create table if not exists at (revision integer not null);
create table if not exists path (
    id integer primary key, path text not null unique, since integer not null, size integer not null,
    properties text not null);
create virtual table if not exists words using fts5 (path, properties, body);
"""


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    since: int  # the revision that brought it as it is
    snippet: str


def index_file(kept: Path, archive: str, branch: str = "") -> Path:
    name = urllib.parse.quote(branch.removeprefix("refs/heads/"), safe="", errors="surrogateescape")
    return kept / archive / (f"index-{name}.db" if name else "index.db")


@contextmanager
def open_index(file: Path) -> Iterator[Index]:
    file.parent.mkdir(parents=True, exist_ok=True)
    modes.make_file(file)
    db = apsw.Connection(str(file))
    try:
        db.set_busy_timeout(60_000)
        list(db.execute(_SCHEMA))  # the first statement answers; the others follow when it has been heard
        yield Index(db)
    finally:
        db.close()


class Index:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    @property
    def revision(self) -> int:
        found = self._db.execute("select max(revision) from at").fetchone()
        return int(found[0] or 0) if found else 0

    def bring_to(self, archive: Archive, revision: int, stopped: Callable[[], bool] = lambda: False) -> int | None:
        """Index what has changed up to a revision; how many paths were looked at, nothing if it was stopped."""
        self._db.execute("begin immediate")
        try:
            count = self._bring_to(archive, revision, stopped)
            self._db.execute("rollback" if count is None else "commit")
        except BaseException:
            self._db.execute("rollback")
            raise
        return count

    def search(self, words: Sequence[str], limit: int = 20) -> list[Hit]:
        """Paths that have all the words, the best first."""
        asked = " ".join('"' + word.replace('"', '""') + '"' for word in words if word.strip("\0"))
        if not asked:
            return []
        rows = self._db.execute(
            "select path.path, path.since, snippet(words, 2, '', '', '…', 12)"
            " from words join path on path.id = words.rowid where words match ?"
            " order by bm25(words, 4.0, 2.0, 1.0), path.path limit ?",
            (asked, limit),
        )
        return [Hit(str(path), int(since), " ".join(str(text).split())) for path, since, text in rows]

    def _bring_to(self, archive: Archive, revision: int, stopped: Callable[[], bool]) -> int | None:
        if revision <= self.revision:
            return 0
        count = 0
        for path in self._changed_paths(archive, revision):
            if stopped():
                return None
            count += self._look_at(archive, revision, path)
        self._db.execute("delete from at")
        self._db.execute("insert into at values (?)", (revision,))
        return count

    def _changed_paths(self, archive: Archive, revision: int) -> list[str]:
        """Outermost first. All there are, if what was indexed is not what this revision was made from."""
        steps = list(_steps(archive, self.revision, revision))
        if not steps:
            self._db.execute("delete from path; delete from words")
            return sorted(entry.path for entry in archive.tree(revision, "") if not entry.is_folder)
        touched: dict[str, bool] = {}
        for step in steps:
            for change in archive.changed(step):
                whole = change.action in (ADDED, REPLACED, DELETED)
                touched[change.path] = touched.get(change.path, False) or whole
        for path, whole in touched.items():
            if whole:
                self._forget(path)
        return sorted(path for path in touched if path)

    def _look_at(self, archive: Archive, revision: int, path: str) -> int:
        """A file is read; a folder that is new brings all that is in it."""
        try:
            found = [entry.path for entry in archive.tree(revision, path) if not entry.is_folder]
        except NotFound:
            self._forget(path)
            return 1
        if found != [path]:
            found = [name for name in found if not self._has(name)]
        for name in found:
            self._put(archive, revision, name)
        return len(found)

    def _has(self, path: str) -> bool:
        return self._db.execute("select 1 from path where path = ?", (as_text(path),)).fetchone() is not None

    def _put(self, archive: Archive, revision: int, path: str) -> None:
        head, size = archive.head(revision, path, LARGEST_TEXT, seconds=3600)
        noted = json.dumps(dict(archive.properties(revision, path)))
        self._forget(path)
        name = as_text(path)
        values = (name, revision, size, noted)
        self._db.execute("insert into path (path, since, size, properties) values (?, ?, ?, ?)", values)
        row = self._db.last_insert_rowid()
        self._db.execute(
            "insert into words (rowid, path, properties, body) values (?, ?, ?, ?)",
            (row, name, noted, _text(head, size)),
        )

    def _forget(self, path: str) -> None:
        """It, and whatever was below it."""
        name = as_text(path)
        below = (name, f"{name}/", f"{name}0")  # '0' follows '/': the range is all that begins with "path/"
        for (row,) in list(self._db.execute("select id from path where path = ? or (path >= ? and path < ?)", below)):
            self._db.execute("delete from words where rowid = ?", (row,))
            self._db.execute("delete from path where id = ?", (row,))


def _steps(archive: Archive, known: int, revision: int) -> Iterator[int]:
    """The revisions between, if one follows from the other; otherwise none."""
    found: list[int] = []
    step = revision
    while known and step != known:
        parents = archive.parents(step)
        found.append(step)
        if len(parents) != 1 or parents[0] < known or len(found) > MOST_STEPS_BACK:
            return
        step = parents[0]
    yield from reversed(found)


def _text(head: bytes, size: int) -> str:
    if b"\0" in head[:8192]:
        return ""
    try:
        return head.decode()
    except UnicodeDecodeError:
        return head.decode("utf-8", "ignore") if size > len(head) else ""  # cut off in the middle of a character
