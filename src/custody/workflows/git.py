"""git repositories, bare ones: each update of a branch is a revision with a number of its own.

git names commits by hash, which says nothing about order. So updates are counted as they are learned
(`journal.py`). A push of ten commits is one update, as it is one act of its author. A forced push is an
update like any other; its parent is wherever its history meets what was recorded before.

The journal repairs itself: `youngest` compares the branches with it, so a lost hook costs nothing but that pushes
which came in between are counted as one.
"""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from custody.model.errors import CustodyError, NotFound, Unavailable
from custody.workflows import git_commit
from custody.workflows.archive import ADDED, CHANGED, DELETED, Change, Entry, Meta
from custody.workflows.calling import Failed, Seconds, call, call_for_head
from custody.workflows.draft import Draft
from custody.workflows.hooks import spooled
from custody.workflows.journal import Journal, Update, Writer, is_nothing

BRANCHES = "refs/heads/"
NOTHING = "0" * 40
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_ACTIONS = {"A": ADDED, "M": CHANGED, "T": CHANGED, "D": DELETED}
_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
# git has few exit codes; these words mean that a thing is not there.
_ABSENT = (
    "not a valid object",
    "Not a valid",
    "does not exist",
    "exists on disk",
    "not a tree",
    "bad revision",
    "bad file",
    "bad object",
    "not found",
    "invalid object",
    "could not get object info",
)


class GitArchive:
    """One bare repository and the journal of its updates."""

    def __init__(self, repository: Path, journal: Path) -> None:
        self.repository = repository.absolute()
        self._journal = Journal(journal)

    def __repr__(self) -> str:
        return f"GitArchive({str(self.repository)!r})"

    def uuid(self) -> str:
        """Given to the repository when it is first asked for one, and kept in its configuration."""
        ask = ["config", "--local", "custody.uuid"]
        try:
            return self.git(ask).decode().strip()
        except NotFound:
            self.git([*ask, str(uuid.uuid4())])
            return self.git(ask).decode().strip()

    def youngest(self) -> int:
        """Counts what hooks have left word of, each push by itself; then whatever the branches show besides."""
        with self._journal.writing() as journal:
            self._count_told(journal)
            branches = dict(self._branches())
            known = {update.ref: update.new for update in journal.updates}
            for ref in sorted(branches.keys() | known.keys()):
                old, new = known.get(ref, NOTHING), branches.get(ref, NOTHING)
                if old != new:
                    journal.add(ref, old, new)
            return journal.youngest()

    def record(self, ref: str, old: str, new: str) -> int | None:
        """Count an update that a hook told of; gives its number, or None if it is no branch.

        Hooks come late and twice. An update that is known, or contained in a later one, is not counted again.
        """
        with self._journal.writing() as journal:
            return self._record(journal, ref, old, new)

    def _record(self, journal: Writer, ref: str, old: str, new: str) -> int | None:
        if not ref.startswith(BRANCHES):
            return None
        if is_nothing(new):
            if (last := journal.last(ref)) and last.new == old:
                journal.add(ref, old, new)
            return None
        known = self._known(journal, ref, old, new)
        if known is None and not self._has(new):
            raise NotFound(f"there is no commit {new}", code="archive.revision", where=str(self.repository))
        return (known or journal.add(ref, old, new)).number

    def _count_told(self, journal: Writer) -> None:
        """A note is forgotten when it is counted: told again after the branch went back, it would look new."""
        notes = spooled(self.repository)
        told = [
            words for note in notes for words in zip(note.words[2::3], note.words[::3], note.words[1::3], strict=False)
        ]
        while told:
            tips = {update.ref: update.new for update in journal.updates}
            following = (update for update in told if tips.get(update[0], NOTHING) == update[1])
            update = next(following, told[0])  # in the order of the pushes, whatever that of the notes
            told.remove(update)
            with suppress(NotFound):  # pushed away and cleared away meanwhile
                self._record(journal, *update)
        for note in notes:
            note.forget()

    def _known(self, journal: Writer, ref: str, old: str, new: str) -> Update | None:
        last = journal.last(ref)
        if last is None or last.new == old:
            return None  # it follows what we know: it is new
        if last.new == new:
            return last
        same = [update for update in journal.updates if update.ref == ref and update.new == new]
        return same[-1] if same else last if self._contains(last.new, new) else None

    def update(self, revision: int) -> Update:
        """Branch and commits of a revision."""
        for update in self._journal.updates():
            if update.number == revision and revision > 0:
                return update
        raise NotFound(f"there is no revision {revision}", code="archive.revision", where=str(self.repository))

    def number_of(self, commit: str, since: int = 0) -> int | None:
        """The first update after `since` that brought a commit, if it has been counted. Each is asked by itself."""
        for update in self._journal.updates():
            if update.number > since and (update.new == commit or self._contains(update.new, commit)):
                return update.number
        return None

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        """The nearest recorded ancestors: the old tip, the tips that were merged, or where a branch began."""
        this = self.update(revision)
        earlier: dict[str, int] = {}
        for update in self._journal.updates():
            if 0 < update.number < revision and (update.ref == this.ref or update.new not in earlier):
                earlier[update.new] = update.number
        return tuple(sorted({earlier[commit] for commit in self._nearest(this.new, earlier.keys())}))

    def main(self, upto: int) -> int:
        """Of the branch that HEAD names; while nobody has pushed that one, of any."""
        head = (self.repository / "HEAD").read_text(errors="surrogateescape").strip().removeprefix("ref: ")
        numbers = [update.number for update in self._journal.updates() if update.ref == head]
        return max((number for number in numbers if 0 < number <= upto), default=upto)

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        folder = _clean(folder)
        lines = self.git(["ls-tree", "-z", "--full-tree", f"{self.update(revision).new}:{folder}"]).split(b"\0")
        return [_entry(line, f"{folder}/" if folder else "") for line in lines if _is_ours(line)]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        commit, clean = self.update(revision).new, _clean(path)
        lines = self.git(["ls-tree", "-r", "-t", "-z", "--full-tree", commit, *(["--", clean] if clean else [])])
        found = [_entry(line, "") for line in lines.split(b"\0") if _is_ours(line)]
        if clean and not found:
            raise NotFound(f"there is no {clean}", code="archive.path", where=str(self.repository))
        return [entry for entry in found if not clean or entry.path.startswith(clean)]

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        return {}  # git notes nothing about paths

    def read(self, revision: int, path: str) -> bytes:
        return self.git(["cat-file", "blob", f"{self.update(revision).new}:{_clean(path)}"])

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        words = [*self._command(), "cat-file", "blob", f"{self.update(revision).new}:{_clean(path)}"]
        try:
            return call_for_head(words, most, seconds=seconds, env=_ENV)
        except Failed as error:
            raise _told(error, str(self.repository)) from None

    def export(self, revision: int, into: Path, seconds: Seconds = 3600) -> None:
        """Through an index of its own: `git archive` leaves out what a committer marks `export-ignore`."""
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="custody-git-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_WORK_TREE": str(into.absolute())}
            self.git(["read-tree", self.update(revision).new], env=env, seconds=seconds)
            self.git(["checkout-index", "--all", "--force"], env=env, seconds=seconds)

    def meta(self, revision: int) -> Meta:
        update = self.update(revision)
        show = ["show", "-s", "--format=%an <%ae>%x00%cI%x00%B", update.new]
        author, date, message = self.git(show).decode(errors="replace").split("\0", 2)
        properties = {"git:ref": update.ref, "git:old": update.old, "git:commit": update.new}
        properties |= git_commit.trailers(message)
        return Meta(revision, update.new, author, date, message.rstrip("\n"), properties)

    def changed(self, revision: int) -> Sequence[Change]:
        update = self.update(revision)
        old = _EMPTY_TREE if is_nothing(update.old) or not self._has(update.old) else update.old
        told = self.git(["diff-tree", "--name-status", "-z", "-r", "--no-renames", old, update.new])
        words = told.decode("utf-8", "surrogateescape").split("\0")
        pairs = zip(words[::2], words[1::2], strict=False)
        return [Change(path, _ACTIONS.get(action, CHANGED)) for action, path in pairs]

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        return git_commit.commit(self, draft, seconds)

    def committed(self, key: str, since: int) -> int | None:
        return git_commit.committed(self, key, since)

    # Asking.

    def _branches(self) -> Iterator[tuple[str, str]]:
        told = self.git(["for-each-ref", "--format=%(refname) %(objectname)", BRANCHES])
        for line in told.decode("utf-8", "surrogateescape").splitlines():
            ref, _, commit = line.rpartition(" ")
            yield ref, commit

    def _has(self, commit: str) -> bool:
        try:
            return self.git(["cat-file", "-t", commit]).strip() == b"commit"
        except NotFound:
            return False

    def _contains(self, tip: str, commit: str) -> bool:
        try:
            self.git(["merge-base", "--is-ancestor", commit, tip])
        except NotFound:
            return False
        return True

    def _nearest(self, start: str, recorded: Collection[str]) -> set[str]:
        """Walk back from a commit along all its parents, each way until a recorded commit."""
        if start in recorded:
            return {start}
        found: set[str] = set()
        seen: set[str] = set()
        open_ends, parents = {start}, dict[str, Sequence[str]]()
        for commit, above in self._walk(start):
            parents[commit] = above
            open_ends = _followed(open_ends, parents, recorded, found, seen)
            if not open_ends:
                break
        return found

    def _walk(self, start: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Commits with their parents, newest first, for as long as somebody listens."""
        argv = [*self._command(), "rev-list", "--parents", start, "--"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_ENV, cwd="/")
        try:
            assert process.stdout is not None
            for line in process.stdout:
                commit, *above = line.decode().split()
                yield commit, above
        finally:
            process.kill()
            process.communicate()

    def _command(self) -> Sequence[str]:
        # Named outright, so that git does not go looking and does not mind whose it is.
        return ["git", f"--git-dir={self.repository}"]

    def git(
        self, words: Sequence[str], *, seconds: Seconds = 120, env: Mapping[str, str] | None = None, given: bytes = b""
    ) -> bytes:
        where = str(self.repository)
        if not (self.repository / "objects").is_dir():
            raise Unavailable("there is no git repository here", code="archive.unreachable", where=where)
        try:
            return call([*self._command(), *words], seconds=seconds, env=_ENV | dict(env or {}), given=given)
        except Failed as error:
            raise _told(error, where) from None


def _followed(
    open_ends: set[str],
    parents: Mapping[str, Sequence[str]],
    recorded: Collection[str],
    found: set[str],
    seen: set[str],
) -> set[str]:
    """Follow every open end as far as its parents have been told; what is recorded goes into `found`, and what was
    followed once into `seen`: many ways lead to it where branches were merged again and again."""
    waiting: set[str] = set()
    ahead = [*open_ends]
    while ahead:
        commit = ahead.pop()
        if commit in recorded:
            found.add(commit)
        elif commit in seen:
            continue
        elif commit in parents:
            seen.add(commit)
            ahead += parents[commit]
        else:
            waiting.add(commit)
    return waiting


def _is_ours(line: bytes) -> bool:
    """A submodule is a commit of another repository: there is nothing of it in this one."""
    return bool(line) and line.split(None, 2)[1] != b"commit"


def _entry(line: bytes, base: str) -> Entry:
    about, _, name = line.partition(b"\t")
    return Entry(base + name.decode("utf-8", "surrogateescape"), about.split()[1] == b"tree")


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if {".", ".."} & set(parts) or "\0" in path:
        raise NotFound(f"there is no path {path!r}", code="archive.path")
    return "/".join(parts)


def _told(error: Failed, where: str) -> CustodyError:
    said = error.said.splitlines()[0].removeprefix("fatal: ") if error.said else "not found"
    if error.code == 1 or any(words in error.said for words in _ABSENT):
        return NotFound(said, code="archive.path", where=where)
    return Unavailable(said, code="archive.unreachable", where=where)
