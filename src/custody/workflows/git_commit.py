"""Commits to a bare git repository without a working copy: an index of its own, then the branch moves on, or not.

The branch is that of the revision the task ran for. It moves only from where it was seen to be; what somebody else has
changed since is never undone. Lineage and key are the last lines of the message.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from custody.model.errors import NotFound, Refused, Unavailable
from custody.workflows.archive import COMMIT_KEY, LINEAGE
from custody.workflows.calling import Seconds
from custody.workflows.draft import Draft

if TYPE_CHECKING:
    from custody.workflows.git import GitArchive

TRIES = 5
_PEOPLE = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "custody"), ("EMAIL", "custody@localhost"))
}
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
        tip = archive.git(["rev-parse", "--verify", update.ref]).decode().strip()
        _refuse_conflicts(archive, update.new, tip, draft)
        new = _made(archive, tip, draft, seconds)
        try:
            archive.git(["update-ref", update.ref, new, tip], seconds=seconds)
        except (NotFound, Unavailable):
            continue  # somebody else was quicker; look again
        return archive.record(update.ref, tip, new) or 0
    raise Unavailable(f"{update.ref} is too busy", code="archive.busy", where=str(archive.repository))


def committed(archive: GitArchive, key: str, since: int) -> int | None:
    found = archive.git(["log", "--branches", "--format=%H", "-F", "--grep", f"Custody-Commit: {key}"]).decode().split()
    archive.youngest()  # counts what nobody has told of
    for commit_ in found:
        message = archive.git(["show", "-s", "--format=%B", commit_]).decode(errors="replace")
        number = archive.number_of(commit_, since) if trailers(message).get(COMMIT_KEY) == key else None
        if number:
            return number
    return None


def _refuse_conflicts(archive: GitArchive, base: str, tip: str, draft: Draft) -> None:
    told = archive.git(["diff-tree", "--name-only", "-z", "-r", "--no-renames", base, tip])
    theirs = set(told.decode("utf-8", "surrogateescape").split("\0"))
    both = sorted(theirs & {*draft.put, *draft.gone})
    if both:
        hint = "run the task again at the newer revision"
        message = f"{both[0]} has been changed since revision {draft.base}"
        raise Refused(message, code="archive.conflict", where=str(archive.repository), hint=hint)


def _made(archive: GitArchive, tip: str, draft: Draft, seconds: Seconds) -> str:
    """A commit that no branch has yet."""
    with tempfile.TemporaryDirectory(prefix="custody-commit-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index")), **_PEOPLE}
        archive.git(["read-tree", tip], env=env)
        archive.git(["update-index", "-z", "--index-info"], env=env, given=_index(archive, draft), seconds=seconds)
        tree = archive.git(["write-tree"], env=env, seconds=seconds).decode().strip()
        words = ["commit-tree", tree, "-p", tip, "-F", "-"]
        return archive.git(words, env=env, given=_message(draft).encode(), seconds=seconds).decode().strip()


def _index(archive: GitArchive, draft: Draft) -> bytes:
    lines = [f"0 {'0' * 40}\t{path}" for path in draft.gone]
    for path, file in draft.put.items():
        blob = archive.git(["hash-object", "-w", "--no-filters", "--", str(file)]).decode().strip()
        lines.append(f"{'100755' if file.stat().st_mode & 0o100 else '100644'} {blob}\t{path}")
    return "".join(f"{line}\0" for line in lines).encode("utf-8", "surrogateescape")


def _message(draft: Draft) -> str:
    said: Mapping[str, str] = {"Custody-Lineage": ",".join(draft.lineage), "Custody-Commit": draft.key}
    return f"{draft.message.rstrip()}\n\n" + "".join(f"{name}: {value}\n" for name, value in said.items())
