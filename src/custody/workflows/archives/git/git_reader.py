"""Reads commits, trees and files of a git repository, each hashed on the way.

What was read of commits and trees is remembered while the process lives: under its name it cannot change. Remembered
for each repository apart, so that nobody sees what is another's by knowing its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from custody.border.sandbox.host_tool import Owner
from custody.errors import NotFound, Unavailable
from custody.workflows.archives.git.git_batch import MISSING, Batch
from custody.workflows.archives.git.git_folder import GitFolder
from custody.workflows.archives.git.git_objects import (
    BLOB,
    COMMIT,
    FILE,
    FOLDER,
    LINK,
    PROGRAM,
    TREE,
    Commit,
    Leaf,
    a,
    corrupt,
    hasher,
    is_id,
    malformed,
    read_commit,
    read_tree,
)
from custody.workflows.archives.processes.kept_open import Pool
from custody.workflows.archives.processes.silent_repositories import asking
from custody.workflows.archives.processes.vcs_process import SILENT, STOPPED, Seconds
from custody.workflows.archives.working_copy.committed_names import is_safe
from custody.workflows.archives.working_copy.size_limits import LISTED, Measure

LARGEST = 256 << 20  # of a commit or a tree
ANSWER_WITHIN = 120.0
_COMMITS, _TREES = 100_000, 5_000
_LETTERS = 32 << 20  # of what all commits that are remembered say
_LEAVES = 500_000  # of all trees


@dataclass(slots=True)
class Memory:
    commits: dict[str, Commit] = field(default_factory=dict)
    trees: dict[str, tuple[Leaf, ...]] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)  # what branches name and is no commit
    letters: int = 0
    leaves: int = 0

    def keep_commit(self, id_: str, found: Commit) -> None:
        more = len(found.message) + len(found.author) + sum(map(len, found.parents))
        if more > _LETTERS // 8:
            return  # it would push out all others
        if len(self.commits) >= _COMMITS or self.letters + more > _LETTERS:
            self.commits.clear()
            self.letters = 0
        self.commits[id_] = found
        self.letters += more

    def keep_tree(self, id_: str, found: tuple[Leaf, ...]) -> None:
        if len(found) > 10_000:
            return
        if len(self.trees) >= _TREES or self.leaves + len(found) > _LEAVES:
            self.trees.clear()
            self.leaves = 0
        self.trees[id_] = found
        self.leaves += len(found)


Key = tuple[str, tuple[int, int, int], int]
_memories: dict[Key, Memory] = {}
_POOL = Pool[Batch]()


class Reader:
    """One look at a repository."""

    def __init__(self, folder: GitFolder, owner: Owner) -> None:
        self.folder, self.where = folder, folder.where
        self._owner = owner
        self._key: Key = (folder.where, folder.identity, owner.uid)
        self._memory = _memories.setdefault(self._key, Memory())

    @contextmanager
    def _batch(self, ids: Sequence[str]) -> Iterator[Batch]:
        self.folder.must_be_plain(ids)
        wide = len(ids[0]) == 64
        with (
            asking(self.where),
            _POOL.one((self._key, wide), lambda: Batch(self.folder.objects, self._owner, wide, self.where)) as batch,
        ):
            yield batch

    # Commits.

    def has(self, id_: str) -> bool:
        try:
            self.commit(id_)
        except NotFound:
            return False
        return True

    def no_commits(self, ids: Iterable[str]) -> dict[str, str]:
        """Those that are there and are something else, with what they are. One that is not there may be pushed away;
        of one that cannot be read, its revision tells."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._memory.commits]
        known = self._memory.others
        for size in (40, 64):
            asked = [id_ for id_ in wanted if len(id_) == size and id_ not in known]
            if asked:
                try:
                    known.update(self._other_kinds(asked))
                except Unavailable as error:
                    if error.code in (SILENT, STOPPED):
                        raise
        return {id_: known[id_] for id_ in wanted if id_ in known}

    def _other_kinds(self, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        with self._batch(ids) as batch:
            for id_, kind, size in batch.ask(ids, ANSWER_WITHIN):
                for _ in batch.content(size) if kind != MISSING else ():
                    pass
                if kind not in (MISSING, COMMIT):
                    yield id_, kind

    def still_has(self, id_: str) -> bool:
        """Asked of the repository itself, whatever is remembered."""
        return self._small([id_], COMMIT)[0] is not None

    def commit(self, id_: str) -> Commit:
        """`NotFound` if there is no commit of this name."""
        known = self._memory.commits.get(id_)
        if known is None:
            (data,) = self._small([id_], COMMIT) if is_id(id_) else (None,)
            if data is None:
                raise NotFound(f"there is no commit {id_}", code="archive.revision", where=self.where)
            known = read_commit(id_, data, self.where)
            self._memory.keep_commit(id_, known)
        return known

    def nearest(self, start: str, recorded: Collection[str]) -> set[str]:
        """Walk back from a commit along all its parents, each way until a recorded commit."""
        return {commit for commit in self.back(start, recorded) if commit in recorded} if recorded else set()

    def back(self, start: str, until: Collection[str]) -> Iterator[str]:
        """A commit and what it was made from, each once; nothing beyond those of `until`, which are told themselves."""
        seen, ahead = {start}, [start]
        while ahead:
            commit = ahead.pop()
            yield commit
            if commit not in until:
                above = [parent for parent in self.commit(commit).parents if parent not in seen]
                seen.update(above)
                ahead += above

    def contains(self, tip: str, commit: str) -> bool:
        try:
            return is_id(commit) and any(found == commit for found in self.back(tip, (commit,)))
        except NotFound:  # cleared away after a forced push
            return False

    # Trees.

    def tree(self, id_: str) -> tuple[Leaf, ...]:
        self.fetch([id_])
        return self._memory.trees.get(id_) or self._one_tree(id_)

    def _one_tree(self, id_: str) -> tuple[Leaf, ...]:
        (data,) = self._small([id_], TREE)
        if data is None:
            raise corrupt(id_, "is missing", self.where)
        return read_tree(id_, data, self.where)

    def fetch(self, ids: Iterable[str], seconds: Seconds = ANSWER_WITHIN) -> dict[str, tuple[Leaf, ...]]:
        """Trees, all in one go."""
        wanted = list(dict.fromkeys(ids))
        found = {id_: self._memory.trees[id_] for id_ in wanted if id_ in self._memory.trees}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, data in zip(missing, self._small(missing, TREE, seconds) if missing else (), strict=True):
            if data is None:
                raise corrupt(id_, "is missing", self.where)
            found[id_] = read_tree(id_, data, self.where)
            self._memory.keep_tree(id_, found[id_])
        return found

    def at(self, commit: str, path: str) -> Leaf:
        """What a path is; `NotFound` if it is nothing."""
        here = Leaf(b"", FOLDER, self.commit(commit).tree)
        for part in path.split("/") if path else ():
            name = part.encode("utf-8", "surrogateescape")
            inside = self.tree(here.id) if here.is_folder else ()
            below = next((leaf for leaf in inside if leaf.name == name), None)
            if below is None:
                raise NotFound(f"there is no {path}", code="archive.path", where=self.where)
            here = below
        return here

    def below(
        self, tree: str, seconds: Seconds = ANSWER_WITHIN, measure: Measure | None = None
    ) -> Iterator[tuple[str, Leaf]]:
        """All that is in a tree at any depth, outer folders before what is in them; sorted by level, then name. What
        is too much is told before it is gone through."""
        measure = measure or Measure(LISTED, self.where)
        level = [("", tree)]
        while level:
            found = self.fetch((id_ for _, id_ in level), seconds)
            measure.paths(sum(len(found[id_]) for _, id_ in level))
            measure.path(level[0][0].encode("utf-8", "surrogateescape"))
            deeper = []
            for base, id_ in level:
                for leaf in found[id_]:
                    yield base + leaf.text, leaf
                    if leaf.is_folder:
                        deeper.append((f"{base}{leaf.text}/", leaf.id))
            level = deeper

    def differences(self, old: str, new: str) -> Iterator[tuple[str, Leaf | None, Leaf | None]]:
        """The files that differ between two trees (an empty name: nothing), with what they were and are."""
        ahead = [("", old, new)]
        while ahead:
            base, one, other = ahead.pop()
            before = {leaf.name: leaf for leaf in self.tree(one)} if one else {}
            after = {leaf.name: leaf for leaf in self.tree(other)} if other else {}
            for name in sorted(before.keys() | after.keys()):
                was, is_ = before.get(name), after.get(name)
                if was == is_ or not is_safe(name):
                    continue
                path = base + name.decode("utf-8", "surrogateescape")
                folders = [leaf.id if leaf and leaf.is_folder else "" for leaf in (was, is_)]
                if any(folders):
                    ahead.append((f"{path}/", folders[0], folders[1]))
                files = [leaf if leaf and not leaf.is_folder else None for leaf in (was, is_)]
                if any(files):
                    yield path, files[0], files[1]

    # Content.

    def head(self, id_: str, most: int, seconds: Seconds = ANSWER_WITHIN) -> tuple[bytes, int]:
        """The beginning of a file, and its size; all of it is hashed."""
        kept, total = bytearray(), 0
        for _, size, pieces in self.blobs([id_], seconds):
            total = size
            for piece in pieces:
                kept += piece[: max(0, most - len(kept))]
        return bytes(kept), total

    def blobs(self, ids: Sequence[str], seconds: Seconds) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Name, size and content of files, one after the other; each content is taken before the next is asked for."""
        if not ids:
            return
        with self._batch(ids) as batch:
            for id_, kind, size in batch.ask(ids, seconds):
                if kind != BLOB:
                    raise corrupt(id_, "is missing" if kind == MISSING else f"is {a(kind)}, not a file", self.where)
                yield id_, size, self._hashed(batch, id_, kind, size)

    def _hashed(self, batch: Batch, id_: str, kind: str, size: int) -> Iterator[bytes]:
        sum_ = hasher(id_, kind, size)
        for piece in batch.content(size):
            sum_.update(piece)
            yield piece
        if sum_.hexdigest() != id_:
            raise corrupt(id_, "is not what its name says", self.where)

    def _small(self, ids: Sequence[str], kind: str, seconds: Seconds = ANSWER_WITHIN) -> list[bytes | None]:
        found: list[bytes | None] = []
        with self._batch(ids) as batch:
            for id_, told, size in batch.ask(ids, seconds):
                if told == MISSING:
                    found.append(None)
                    continue
                if size > LARGEST:
                    raise corrupt(id_, f"has {size:,} bytes, too many for a {kind}", self.where)
                data = b"".join(self._hashed(batch, id_, told, size))
                if told != kind == TREE:
                    raise malformed(id_, f"is {a(told)}, and should be a folder", self.where)
                found.append(data if told == kind else None)
        return found


def is_file(leaf: Leaf) -> bool:
    """A submodule is a commit of another repository: there is nothing of it in this one."""
    return leaf.mode in (FILE, PROGRAM, LINK)


def is_shown(leaf: Leaf) -> bool:
    """Whether it is told of among what a revision has: a name that leads elsewhere is not."""
    return (leaf.is_folder or is_file(leaf)) and is_safe(leaf.name)


@contextmanager
def reading(repository: Path) -> Iterator[Reader]:
    with GitFolder(repository) as folder:
        yield Reader(folder, folder.owner)
