"""git repositories, bare ones: each update of a branch is a revision with a number of its own.

git names commits by hash, which says nothing about order. So updates are counted as they are learned
(`git_journal.py`). A push of ten commits is one update, as it is one act of its author. A forced push is an
update like any other; its parent is wherever its history meets what was recorded before.

The journal repairs itself: `youngest` compares the branches with it, so a lost hook costs nothing but that pushes
which came in between are counted as one.

A repository is foreign, whoever owns it: its branches are read by ourselves (`git_folder.py`), its objects through a
confined git that knows nothing else of it, and each is hashed (`git_reader.py`). Nothing is written there but commits,
and those as its owner (`git_commit.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from custody.errors import NotFound, Refused, Unavailable
from custody.formats.names import shown
from custody.kernel.stores import Store
from custody.workflows.archives.git import git_commit
from custody.workflows.archives.git.git_branches import Following, following, limit
from custody.workflows.archives.git.git_folder import BRANCHES, GitFolder, is_good
from custody.workflows.archives.git.git_journal import Journal, Update, Writer, in_order, is_nothing
from custody.workflows.archives.git.git_known import known
from custody.workflows.archives.git.git_objects import CORRUPT, FOLDER, LINK, PROGRAM, SUBMODULE, Leaf, a, is_id
from custody.workflows.archives.git.git_reader import Reader, is_file, is_shown, reading
from custody.workflows.archives.hook_spool import spooled
from custody.workflows.archives.ownership.standing import Standing
from custody.workflows.archives.port import ADDED, CHANGED, COMMIT_KEY, DELETED, GONE, Change, Entry, Meta, as_text
from custody.workflows.archives.processes.vcs_process import Seconds
from custody.workflows.archives.working_copy.committed_names import must_be_safe
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.archives.working_copy.write_out import LONGEST_LINK, Into

NOTHING = "0" * 40
MOST_TOLD = 5


class GitArchive:
    """One bare repository and the journal of its updates."""

    def __init__(self, repository: Path, store: Store) -> None:
        self.repository = repository.absolute()
        self._store = store
        self._known: Journal | None = None
        self._odd: dict[str, str] = {}  # branches that name something else than a commit, when last looked at
        self._unreadable: dict[str, str] = {}  # and those that cannot be read
        self._following = Following(0, frozenset())  # at the same time

    def __repr__(self) -> str:
        return f"GitArchive({str(self.repository)!r})"

    @property
    def where(self) -> str:
        return str(self.repository)

    def standing(self) -> Standing:
        with GitFolder(self.repository) as folder:
            return folder.standing()

    def uuid(self) -> str:
        with reading(self.repository) as reader:
            return self.journal(reader).repository

    def journal(self, reader: Reader) -> Journal:
        if self._known is None:
            self._known = Journal(self._store, known(self._store, reader))
        return self._known

    def youngest(self) -> int:
        """Counts what hooks have left word of, each push by itself; then whatever the branches show besides."""
        notes = spooled(self.repository)
        with reading(self.repository) as reader:

            def count(journal: Writer) -> None:
                most = limit(self._store)
                self._count_told(reader, journal, [note.words for note in notes], most)
                known = journal.tips()
                self._following = following(reader.folder.names(), known, reader.folder.main(), most)
                branches = reader.folder.branches(self._following.refs)
                moved = [
                    (ref, known.get(ref, NOTHING), branches.get(ref, NOTHING))
                    for ref in sorted(self._following.refs | known.keys())
                    if not _equal(known.get(ref, NOTHING), branches.get(ref, NOTHING))
                    and not reader.folder.is_unreadable(ref)  # it is not deleted: nobody knows where it stands
                ]
                odd = reader.no_commits(new for _, _, new in moved if not is_nothing(new))
                self._odd = {ref: a(odd[new]) for ref, _, new in moved if new in odd}
                self._unreadable = dict(reader.folder.unreadable)
                for ref, old, new in moved:
                    if new not in odd:
                        journal.add(ref, old, new)

            written = self.journal(reader).write(count)
        for note in notes:  # told again after the branch went back, it would look new
            note.forget()
        return written.youngest()

    def must_not_be_too_many(self) -> None:
        """`Refused` if it has more branches than are followed."""
        if waits := self._following.waits(self.where):
            raise waits

    def must_be_counted(self, others: str = "; its other branches are taken in") -> None:
        """`Unavailable` or `Refused` if branches cannot be read, name something else than commits, or are too many;
        those are not counted, the others are."""
        self.must_not_be_too_many()
        if self._unreadable:
            told, _ = _some({ref.rstrip("/"): what for ref, what in self._unreadable.items()}, "not a branch")
            hint = "whoever owns the repository has to put that right" + others
            raise Unavailable(told, code=CORRUPT, where=self.where, hint=hint, partly=True)
        if self._odd:
            told, first = _some(self._odd, "not a commit")
            hint = f"`git update-ref -d {quote(first)}` removes it, or push a commit there{others}"
            raise Unavailable(told, code="archive.branch", where=self.where, hint=hint, partly=True)

    def record(self, ref: str, old: str, new: str) -> int | None:
        """Count an update that a hook told of; gives its number, or None if it is no branch.

        Hooks come late and twice. An update that is known, or contained in a later one, is not counted again.
        """
        number: list[int | None] = []
        with reading(self.repository) as reader:
            self.journal(reader).write(lambda journal: number.append(self._record(reader, journal, ref, old, new=new)))
        return number[-1]

    def _record(self, reader: Reader, journal: Writer, ref: str, old: str, new: str, most: int = 0) -> int | None:
        """`most`: a branch that is new is not counted where there are so many; 0: it is one of those that are."""
        if not ref.startswith(BRANCHES):
            return None
        if not (is_good(ref) and is_id(old)):
            raise NotFound(f"{ref!r} is no branch", code="archive.revision", where=self.where)
        if is_nothing(new):
            if (last := journal.last(ref)) and last.new == old:
                journal.add(ref, old, new)
            return None
        if most and is_nothing(journal.tip(ref)) and journal.live >= most:
            return None
        found = _same(reader, journal, ref, old, new=new)
        if found is None and not reader.has(new):
            raise NotFound(f"there is no commit {new}", code="archive.revision", where=self.where)
        return (found or journal.add(ref, old, new)).number

    def _count_told(self, reader: Reader, journal: Writer, notes: Sequence[Sequence[str]], most: int) -> None:
        told = [words for note in notes for words in zip(note[2::3], note[::3], note[1::3], strict=False)]
        for update in in_order(told, journal.tip):
            with suppress(NotFound):  # pushed away and cleared away meanwhile
                self._record(reader, journal, *update, most)

    def update(self, revision: int) -> Update:
        """Branch and commits of a revision."""
        with reading(self.repository) as reader:
            return self._update(reader, revision)

    def _update(self, reader: Reader, revision: int) -> Update:
        updates = self.journal(reader).updates()
        for update in updates[max(0, revision - 1) :] if revision > 0 else ():
            if update.number == revision:
                return update
        raise NotFound(f"there is no revision {revision}", code="archive.revision", where=self.where)

    @contextmanager
    def _at(self, revision: int) -> Iterator[tuple[Reader, Update]]:
        """`NotFound` with `GONE` if it was counted, and its commit was cleared away since: it never comes back by
        itself."""
        with reading(self.repository) as reader:
            update = self._update(reader, revision)
            try:
                yield reader, update
            except (NotFound, Unavailable) as error:
                if error.code not in ("archive.revision", "archive.corrupt") or reader.still_has(update.new):
                    raise
                message = f"commit {update.new} of revision {revision} is gone: it was pushed away and cleared away"
                raise NotFound(message, code=GONE, where=self.where) from None

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        """The nearest recorded ancestors: the old tip, the tips that were merged, or where a branch began."""
        with self._at(revision) as (reader, this):
            earlier: dict[str, int] = {}
            for update in self.journal(reader).updates():
                if 0 < update.number < revision and (update.ref == this.ref or update.new not in earlier):
                    earlier[update.new] = update.number
            return tuple(sorted({earlier[commit] for commit in reader.nearest(this.new, earlier.keys())}))

    def main(self, upto: int) -> int:
        """Of the branch that HEAD names; while nobody has pushed that one, of any."""
        with reading(self.repository) as reader:
            head = reader.folder.head()
            numbers = [update.number for update in self.journal(reader).updates() if update.ref == head]
        return max((number for number in numbers if 0 < number <= upto), default=upto)

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        folder = _clean(folder)
        with self._at(revision) as (reader, update):
            found = reader.at(update.new, folder)
            if not found.is_folder:
                raise NotFound(f"{folder} is no folder", code="archive.path", where=self.where)
            base = f"{folder}/" if folder else ""
            inside = [leaf for leaf in reader.tree(found.id) if is_shown(leaf)]
            return [Entry(base + leaf.text, leaf.is_folder) for leaf in inside]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        clean = _clean(path)
        with self._at(revision) as (reader, update):
            top = reader.at(update.new, clean)
            if not top.is_folder:
                return [Entry(clean, False)] if is_file(top) else []
            base = f"{clean}/" if clean else ""
            inside = [(base + name, leaf) for name, leaf in reader.below(top.id) if is_shown(leaf)]
        found = [Entry(name, leaf.is_folder) for name, leaf in inside]
        return [*([Entry(clean, True)] if clean else []), *sorted(found, key=lambda entry: entry.path)]

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        return {}  # git notes nothing about paths

    def read(self, revision: int, path: str) -> bytes:
        return self.head(revision, path, 1 << 62)[0]

    def runs(self, revision: int, path: str) -> bool:
        with self._at(revision) as (reader, update):
            return reader.at(update.new, _clean(path)).mode == PROGRAM

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        with self._at(revision) as (reader, update):
            found = reader.at(update.new, _clean(path))
            if not is_file(found):
                raise NotFound(f"{path} is no file", code="archive.path", where=self.where)
            return reader.head(found.id, most, seconds)

    def export(self, revision: int, into: Path, seconds: Seconds = 3600, limits: Limits = LIMITS) -> None:
        """All that the commit has, whatever its attributes say; of a submodule, its empty folder."""
        with self._at(revision) as (reader, update):
            tree = reader.commit(update.new).tree
            into.mkdir(parents=True, exist_ok=True)
            with Into(into, self.where, limits) as place:
                found = [
                    (path.encode("utf-8", "surrogateescape"), leaf)
                    for path, leaf in reader.below(tree, seconds, place.measure)
                    if self._must_be_known(path, leaf)
                ]
                for name, leaf in found:
                    if leaf.mode in (FOLDER, SUBMODULE):
                        place.folder(name)
                files = [(name, leaf) for name, leaf in found if is_file(leaf)]
                told = reader.blobs([leaf.id for _, leaf in files], seconds)
                for (name, leaf), (_, size, pieces) in zip(files, told, strict=True):
                    place.expect(size)
                    if leaf.mode == LINK:
                        place.link(name, b"".join(pieces) if size <= LONGEST_LINK else b"")
                    else:
                        place.file(name, pieces, leaf.mode == PROGRAM)

    def _must_be_known(self, path: str, leaf: Leaf) -> bool:
        must_be_safe(leaf.name, self.where)
        if not is_file(leaf) and leaf.mode not in (FOLDER, SUBMODULE):
            raise Refused(f"{path} is neither file, link nor folder", code="archive.name", where=self.where)
        return True

    def meta(self, revision: int) -> Meta:
        with self._at(revision) as (reader, update):
            found = reader.commit(update.new)
        properties = {"git:ref": update.ref, "git:old": update.old, "git:commit": update.new}
        properties |= git_commit.trailers(found.message)
        return Meta(
            revision=revision,
            id=update.new,
            author=found.author,
            date=found.date,
            message=found.message.rstrip("\n"),
            properties=properties,
        )

    def changed(self, revision: int) -> Sequence[Change]:
        with self._at(revision) as (reader, update):
            old = "" if is_nothing(update.old) or not reader.has(update.old) else reader.commit(update.old).tree
            found = list(reader.differences(old, reader.commit(update.new).tree))
        actions = [(path, ADDED if was is None else DELETED if is_ is None else CHANGED) for path, was, is_ in found]
        return [Change(path, action) for path, action in sorted(actions)]

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        return git_commit.commit(self, draft, seconds)

    def committed(self, key: str, since: int) -> int | None:
        """Looked for in what came after `since` only: each commit there is read, and no other."""
        self.youngest()  # counts what nobody has told of
        with reading(self.repository) as reader:
            updates = [update for update in self.journal(reader).updates() if update.number]
            before = {update.new for update in updates if update.number <= since}
            for update in updates:
                if update.number > since and reader.has(update.new):
                    for commit in reader.back(update.new, before):
                        said = git_commit.trailers(reader.commit(commit).message)
                        if commit not in before and said.get(COMMIT_KEY) == key:
                            return update.number
                    before.add(update.new)
        return None


def _same(reader: Reader, journal: Writer, ref: str, old: str, new: str) -> Update | None:
    last = journal.last(ref)
    if last is None or _equal(last.new, old):
        return None  # it follows what we know: it is new
    if last.new == new:
        return last
    same = [update for update in journal.updates if update.ref == ref and update.new == new]
    if same or is_nothing(last.new):
        return same[-1] if same else None
    return last if reader.contains(last.new, new) else None


def _some(odd: Mapping[str, str], instead: str) -> tuple[str, str]:
    """Some of these branches in words; and the first."""
    told = [f"{shown(as_text(ref))} is {what}, {instead}" for ref, what in odd.items()]
    more = f", and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"{', '.join(told[:MOST_TOLD])}{more}", shown(as_text(next(iter(odd))))


def _equal(one: str, other: str) -> bool:
    return one == other or (is_nothing(one) and is_nothing(other))  # there are as many zeros as an id has letters


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if {".", ".."} & set(parts) or "\0" in path:
        raise NotFound(f"there is no path {path!r}", code="archive.path")
    return "/".join(parts)
