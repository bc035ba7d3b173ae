"""Witnesses: heads kept where whoever can rewrite the store cannot.

Without one, a history is consistent with itself and nothing more: its end can be cut off, or all of it be
replaced by an older backup, and nobody could tell. A witness file is the simplest: heads appended to a file
on other storage (another machine's mount, a write-once disk), each forced to disk before the sealer goes on.
Heads in mails and reports serve as well; `heads_in` reads any of them.

A file that already has a later head is also an early warning: the store it came from went back in time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from custody.errors import Refused
from custody.kernel.history.head import Head, heads_in
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.merkle import Hash, extends

TAIL: Final = 16_384  # some forty heads: an append must not cost more as the file grows


def append_head(path: Path, head: Head, keys: Iterable[PublicKey]) -> None:
    """Keep one more head. Refused if the file has a later one signed by `keys`, or another for its block."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        tail = os.pread(file, TAIL, max(0, size - TAIL)).decode("utf-8", "replace")
        known = trusted(heads_in(tail), keys)
        refuse_to_go_back(head, known)
        if head not in known:
            # a crash may have left half a head; what follows must still begin on a line of its own
            gap = "\n" if not tail or tail.endswith("\n") else "\n\n"
            _write_all(file, f"{gap}{head}".encode())
        os.fsync(file)
    finally:
        os.close(file)
    _sync_folder(path)


def read_heads(path: Path) -> list[Head]:
    """The heads in a file: a witness file, a saved mail. A torn one at its end is no head."""
    return list(heads_in(path.read_bytes().decode("utf-8", "replace")))


def trusted(heads: Iterable[Head], keys: Iterable[PublicKey]) -> list[Head]:
    """The heads that one of these keys signed; anybody can write the others."""
    known = tuple(keys)
    return [head for head in heads if head.signed_by(known)]


def refuse_to_go_back(head: Head, known: Iterable[Head]) -> None:
    """A head must continue every head of its history that is known. Ask before sealing, too."""
    for other in known:
        if other.origin == head.origin and other.blocks > head.blocks:
            raise Refused(
                f"the history ends at block {head.blocks}, but a witness has seen block {other.blocks}",
                code="history.went-back",
                hint="was an older backup restored? bring the newer store back before sealing anything",
            )
        if disagree(head, other):
            raise Refused(
                f"a witness has seen another block {head.blocks} of this history",
                code="history.forked",
                hint="two histories share this name, or this one was rewritten: custody history verify",
            )


def disagree(one: Head, other: Head) -> bool:
    """Whether two heads cannot both be true, whatever lies between them."""
    same = one.origin == other.origin and one.blocks == other.blocks
    return same and (one.tree, one.events) != (other.tree, other.events)


def continues(old: Head, new: Head, path: Iterable[Hash]) -> bool:
    """Whether `path` (proofs.consistency) shows that `new` is `old` with blocks added and none changed."""
    return old.origin == new.origin and extends(old.tree, old.blocks, new.tree, new.blocks, path=list(path))


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _sync_folder(path: Path) -> None:
    """A new file is on disk only once its folder is."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
