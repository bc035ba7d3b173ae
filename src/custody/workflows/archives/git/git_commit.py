"""Commits to a bare git repository, made by ourselves and handed to its own `git receive-pack`, as its owner.

Blobs, trees and the commit are put together here; receive-pack takes them in, moves the branch on from where it was
seen to be, or refuses, and runs the owner's hooks: as him, confined, and never as the worker. What somebody else has
changed since is never undone. Lineage and key are the last lines of the message.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from custody.errors import NotFound, Refused, Unavailable
from custody.workflows.archives.git.git_objects import (
    BLOB,
    COMMIT,
    FILE,
    FOLDER,
    PROGRAM,
    TREE,
    Leaf,
    Part,
    id_of,
    made_tree,
)
from custody.workflows.archives.git.git_reader import Reader, reading
from custody.workflows.archives.git.receive_pack import Stale, hand_over
from custody.workflows.archives.ownership.commit_gates import git_unasked, must_be_asked
from custody.workflows.archives.ownership.standing import must_be_writable
from custody.workflows.archives.port import COMMIT_KEY, LINEAGE
from custody.workflows.archives.processes.vcs_process import Seconds
from custody.workflows.archives.working_copy.draft import Draft

if TYPE_CHECKING:
    from custody.workflows.archives.git.git import GitArchive

TRIES = 5
_WHO = "custody <custody@localhost>"
_TRAILERS = {"Custody-Lineage": LINEAGE, "Custody-Commit": COMMIT_KEY}
_TRAILER = re.compile(r"^(Custody-Lineage|Custody-Commit): (\S+)$", re.MULTILINE)


def trailers(message: str) -> dict[str, str]:
    """Lineage and key, as properties of a revision; only the last paragraph can say them."""
    last = message.rstrip().rpartition("\n\n")[2]
    return {_TRAILERS[name]: value for name, value in _TRAILER.findall(last)}


def commit(archive: GitArchive, draft: Draft, seconds: Seconds) -> int:
    """Make the commit and count it; `Refused` if the same paths were changed since."""
    update = archive.update(draft.base)
    for _ in range(TRIES):
        with reading(archive.repository) as reader:
            must_be_writable(reader.folder.standing(), archive.where)
            must_be_asked(git_unasked(archive.repository), archive.where)
            tip = reader.folder.branch(update.ref)
            if not tip:
                raise Refused(f"{update.ref} is no more", code="archive.conflict", where=archive.where)
            _refuse_conflicts(reader, update.new, tip, draft)
            made = Made(reader, tip)
            new = made.commit(draft)
            try:
                hand_over(reader, update.ref, tip, new, objects=made.objects, seconds=seconds)
            except Stale:
                continue  # somebody else was quicker; look again
        _must_have_arrived(archive, new, made)
        return archive.record(update.ref, tip, new) or 0
    raise Unavailable(f"{update.ref} is too busy", code="archive.busy", where=archive.where)


def _refuse_conflicts(reader: Reader, base: str, tip: str, draft: Draft) -> None:
    if base == tip:
        return
    theirs = {path for path, _, _ in reader.differences(reader.commit(base).tree, reader.commit(tip).tree)}
    both = sorted(theirs & {*draft.put, *draft.gone})
    if both:
        hint = "run the task again at the newer revision"
        message = f"{both[0]} has been changed since revision {draft.base}"
        raise Refused(message, code="archive.conflict", where=reader.where, hint=hint)


def _must_have_arrived(archive: GitArchive, new: str, made: Made) -> None:
    """What the repository has under this name is read again: its hash says that nothing of it was dropped."""
    try:
        with reading(archive.repository) as reader:
            arrived = reader.commit(new).tree == made.tree
    except NotFound:
        arrived = False
    if not arrived:
        message = "the repository does not have what was committed"
        raise Unavailable(
            message, code="commit.dropped", where=archive.where, hint="a hook of its owner may have removed it"
        )


class Made:
    """The objects of one commit."""

    def __init__(self, reader: Reader, tip: str) -> None:
        self._reader, self._tip = reader, tip
        self.objects: list[tuple[str, Part]] = []
        self.tree = ""

    def commit(self, draft: Draft) -> str:
        put = {tuple(path.split("/")): file for path, file in draft.put.items()}
        gone = [tuple(path.split("/")) for path in draft.gone]
        top = self._folder(self._reader.commit(self._tip).tree, put, gone)
        self.tree = top or self._add(TREE, b"")
        at = f"{int(time.clock_gettime(time.CLOCK_REALTIME))} +0000"
        head = f"tree {self.tree}\nparent {self._tip}\nauthor {_WHO} {at}\ncommitter {_WHO} {at}\n\n"
        return self._add(COMMIT, (head + _message(draft)).encode())

    def _folder(self, tree: str, put: Mapping[tuple[str, ...], Path], gone: Sequence[tuple[str, ...]]) -> str:
        """The id of a folder with these changes; empty if nothing is left in it."""
        leaves = {leaf.name: leaf for leaf in (self._reader.tree(tree) if tree else ())}
        for name, *rest in gone:
            if not rest:
                leaves.pop(_bytes(name), None)
        for name, file in ((path[0], file) for path, file in put.items() if len(path) == 1):
            mode = PROGRAM if file.stat().st_mode & stat.S_IXUSR else FILE
            leaves[_bytes(name)] = Leaf(_bytes(name), mode, self._add(BLOB, file))
        for name in dict.fromkeys(path[0] for path in (*gone, *put) if len(path) > 1):
            before = leaves.get(_bytes(name))
            below = self._folder(
                before.id if before and before.is_folder else "",
                {path[1:]: file for path, file in put.items() if len(path) > 1 and path[0] == name},
                [path[1:] for path in gone if len(path) > 1 and path[0] == name],
            )
            if below:
                leaves[_bytes(name)] = Leaf(_bytes(name), FOLDER, below)
            elif before and before.is_folder:
                del leaves[_bytes(name)]
        return self._add(TREE, made_tree(leaves.values())) if leaves else ""

    def _add(self, kind: str, part: Part) -> str:
        self.objects.append((kind, part))
        return id_of(self._tip, kind, part)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _message(draft: Draft) -> str:
    said: Mapping[str, str] = {"Custody-Lineage": ",".join(draft.lineage), "Custody-Commit": draft.key}
    return f"{draft.message.rstrip()}\n\n" + "".join(f"{name}: {value}\n" for name, value in said.items())
