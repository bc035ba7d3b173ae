"""Keeps the files of an open store what they are, whatever else this process does with them.

SQLite locks as POSIX does: when a process closes any descriptor of a file, all its locks on that file are gone. A
program that reads the store's file to copy it, or opens it with another SQLite library (Python's own `sqlite3`), takes
ours away like this; whoever closes the file next believes to be the last, and deletes the log into which we go on to
write. So two locks are held here by descriptors that are nobody else's (OFD locks end with these descriptors alone): on
what says that the file is in use, and on what says that the index of the log is.

What no lock prevents is noticed before anything is acknowledged: that the file is deleted or another is put in its
place, that it has two names (SQLite would keep a log for each), that its bytes or those of its log were overwritten
where they are (wal.py), that its history is an older one (a copy was played back into it), and that the program has
closed our descriptors, whose numbers may be those of its own files by now.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import apsw

from custody.errors import CustodyError, Unsafe
from custody.kernel.stores.sqlite.system_calls import its_own_errors, must_be_its_own
from custody.kernel.stores.sqlite.wal import Log

IN_USE = (0x40000002, 510)
"""SQLite's SHARED lock: start and length of bytes in the file (https://sqlite.org/src/file/src/os.h)."""
INDEX_IN_USE = (128, 1)
"""The "dead man's switch" of the log's index (https://sqlite.org/src/file/src/os_unix.c)."""

RESTORING, ASIDE = ".restoring", ".before-restore-"
"""After a store's name: what is being put in its place, and what was there before."""

Identity = tuple[int, int]
Mark = tuple[Any, ...]
"""An event that was there: its number, and what nobody changes of it."""
NEWEST = "select id, subject, seq, at, move from event order by id desc limit 1"
TAKEN_BACK = "store.went_back"
THE_SAME = "select id, subject, seq, at, move from event where id = ?"


class Guard:
    """Held by every store of this process that has the file open."""

    def __init__(self, path: str, of: Identity) -> None:
        self.path, self.identity, self.holders = path, of, 0
        self._open: list[tuple[int, tuple[int, int], Identity]] = []

    def take(self) -> None:
        """Hold it, and then the locks: the files are open, their own locks are taken."""
        self.holders += 1
        if self.holders > 1:
            return
        index = f"{self.path}-shm"
        if len(self._open) == 2 and self._open[1][2] != identity(index):
            os.close(self._open.pop()[0])  # whoever held it before us was the last, and has deleted it meanwhile
        for name, span in ((self.path, IN_USE), (index, INDEX_IN_USE))[len(self._open) :]:
            with its_own_errors:  # one that may only be read
                descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
                self._open.append((descriptor, span, _of(os.fstat(descriptor))))
        self._lock(fcntl.F_RDLCK)

    def let_go(self) -> None:
        """Of the locks first: whoever closes the file last has to see that it is the last."""
        self.holders -= 1
        if not self.holders:
            self._lock(fcntl.F_UNLCK)

    def close(self) -> None:
        """Of the descriptors last: to close one ends every lock that SQLite has on the file."""
        while self._open:
            descriptor, _, identity = self._open.pop()
            if _is(descriptor, identity):
                os.close(descriptor)

    def is_robbed(self) -> bool:
        """Has somebody closed the descriptors? Then those of SQLite, opened at the same time, are gone as well. Not
        while we close them ourselves, for a fork that another thread makes."""
        with _REGISTRY:
            return bool(self._open) and not _is(self._open[0][0], self._open[0][2])

    def descriptors(self) -> tuple[int, int] | None:
        """Of the file and of the index of its log, where both could be opened."""
        return (self._open[0][0], self._open[1][0]) if len(self._open) == 2 else None

    def _lock(self, how: int) -> None:
        for descriptor, (start, length), identity in self._open:
            if _is(descriptor, identity):
                with its_own_errors:  # a file system without such locks: what is amiss is still noticed
                    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi", how, os.SEEK_SET, start, length, 0))


class InPlace:
    """One store's hold of the guard, and what its files were when it was opened."""

    def __init__(self, path: str, db: apsw.Connection, before: InPlace | None = None) -> None:
        """`before` is the hold that was let go for a fork: what it has seen is still to be there."""
        self._path, self._log_path, self._db = path, f"{path}-wal", db
        self._file, self._log_file = identity(path), identity(self._log_path)
        self._mark: Mark | None = before._mark if before else db.execute(NEWEST).fetchone()
        self._next: Mark | None = self._mark
        self._spoiled: CustodyError | None = None
        with _REGISTRY:
            self._guard = _GUARDS.setdefault(self._file or (0, 0), Guard(path, self._file or (0, 0)))
            self._guard.take()
            self._holds = True
            found = self._guard.descriptors()
        self._log = Log(self._log_path, *found) if found else None
        if self._log is not None:
            self._log.overwritten()  # as it is now is how it must stay
        if before and before._file != self._file:
            self._spoiled = self._replaced("another file is in its place")

    # Around every transaction

    def ready(self) -> None:
        """Before a transaction is begun: nothing is written with descriptors that may be somebody else's by now."""
        if self._spoiled:
            raise self._spoiled
        if self._guard.is_robbed():
            raise self._spoil(robbed(self._path))

    def begun(self) -> None:
        """Within the transaction, before anything is written: nobody else can commit meanwhile."""
        if self._log is not None and (wrong := self._log.overwritten()):
            raise self._spoil(self._replaced(wrong))
        if self._log is not None and self._log.is_ours():
            return  # nobody has committed since we did
        if self._mark is not None and self._db.execute(THE_SAME, self._mark[:1]).fetchone() != self._mark:
            raise self._spoil(self._went_back(self._mark))

    def ending(self) -> None:
        """Before it is committed: what is to be there from now on."""
        self._next = self._db.execute(NEWEST).fetchone()

    def check(self) -> None:
        """After the commit, refuse if what is there is not what we write to: nobody would ever find it."""
        try:
            seen = os.stat(self._path)
        except OSError as error:
            must_be_its_own(error)
            raise self._spoil(self._replaced("the file is gone")) from None
        if _of(seen) != self._file or identity(self._log_path) != self._log_file:
            raise self._spoil(self._replaced("the file or its log was deleted, or another is in its place"))
        if seen.st_nlink > 1:
            raise self._spoil(linked(self._path))
        if self._log is not None and self._log.seems_overwritten(self._next != self._mark):
            self._ask_again()
        self._mark = self._next

    def _ask_again(self) -> None:
        """What changes while it is read may seem wrong: so once more, while nobody can commit."""
        self._db.execute("begin immediate")
        try:
            wrong = self._log.overwritten() if self._log else ""
        finally:
            self._db.execute("rollback")
        if wrong:
            raise self._spoil(self._replaced(wrong))

    def _spoil(self, error: CustodyError) -> CustodyError:
        """For good: what comes later could only make it worse, and the log is left as it was found."""
        self._spoiled = error
        with suppress(apsw.Error):
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return error

    def _replaced(self, why: str) -> Unsafe:
        return Unsafe(
            f"{self._path} was changed under an open store: {why}; this is not acknowledged",
            code="store.replaced",
            hint="end every program that has it open and look at the file (custody doctor) before you start them; "
            "copy stores with `custody store backup FILE`, put copies back with `custody store restore COPY`",
        )

    def _went_back(self, mark: Mark) -> Unsafe:
        return Unsafe(
            f"{self._path} went back to an earlier state while it was open: it has no event {mark[0]} "
            f"({mark[1]}, number {mark[2]}) any more; this is not acknowledged",
            code=TAKEN_BACK,
            hint="end every program that has it open; what was acknowledged since that state is lost here: submit it "
            "again (custody doctor --receipts FILE), or put back a newer copy with `custody store restore COPY`",
        )

    def is_robbed(self) -> bool:
        return self._guard.is_robbed()

    def let_go(self) -> None:
        """Before the connections are closed."""
        with _REGISTRY:
            if self._holds:
                self._holds = False
                self._guard.let_go()

    def close(self) -> None:
        """After the connections were closed."""
        if self._log is not None:
            self._log.close()
        with _REGISTRY:
            if not self._guard.holders and self._guard.identity in _GUARDS:
                del _GUARDS[self._guard.identity]
                self._guard.close()


def is_guarded(path: str) -> bool:
    """Has this process the file open?"""
    with _REGISTRY:
        return identity(path) in _GUARDS


def must_have_one_name(path: str) -> None:
    """Refuse a file with a second name: each name has a log of its own, and neither knows what is in the other's."""
    try:
        names = os.stat(path).st_nlink
    except OSError as error:
        must_be_its_own(error)
        return
    if names > 1:
        raise linked(path)


def linked(path: str) -> Unsafe:
    """Say which names it has and which stays: a store whose own name is removed is an empty one when it is opened."""
    real, others = Path(os.path.realpath(path)), []
    with suppress(OSError):
        mine = identity(path)
        beside = (each for each in real.parent.iterdir() if each != real and not each.is_symlink())
        others = [each.name for each in beside if identity(str(each)) == mine]
    named = f" ({', '.join(sorted(others)[:3])})" if others else ""
    told = (
        f"{path} has a second name{named}: what is written under one is lost under the other; nothing is acknowledged"
    )
    store, aside, _ = real.name.partition(ASIDE)
    if aside:
        hint = f"a restore of {real.with_name(store)} was interrupted: restore that again; remove nothing meanwhile"
    elif any(ASIDE in name for name in others) or real.with_name(f"{real.name}{RESTORING}").exists():
        hint = (
            "a restore was interrupted: say it again (custody store restore COPY); remove nothing meanwhile, all that "
            "there was is in these files"
        )
    else:
        find = f"find {quote(str(_whole_of(real)))} -xdev -samefile {quote(str(real))}"
        hint = (
            f"end every program that has it open under either name and find the others ({find}); {real} stays, another "
            "name is removed if no log lies beside it (NAME-wal); copy stores with `custody store backup FILE`, never "
            "with ln or cp -l"
        )
    return Unsafe(told, code="store.linked", hint=hint)


def _whole_of(file: Path) -> Path:
    """The folder at which its file system begins: a second name is nowhere else."""
    folder = file.parent
    with suppress(OSError):
        while folder != folder.parent and folder.parent.stat().st_dev == file.stat().st_dev:
            folder = folder.parent
    return folder


def robbed(path: str) -> Unsafe:
    return Unsafe(
        f"this program has closed the descriptors of {path}, which it did not open; nothing is written any more",
        code="store.descriptors",
        hint="close descriptors (os.closerange) before the store is opened, or open it in another process",
    )


def _is(descriptor: int, identity: Identity) -> bool:
    try:
        return _of(os.fstat(descriptor)) == identity
    except OSError as error:
        must_be_its_own(error)
        return False


def _of(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError as error:
        must_be_its_own(error)
        return None
    return _of(found)


_GUARDS: dict[Identity, Guard] = {}
_REGISTRY = threading.Lock()

# A child forgets those of its parent, and closes nothing: what is still open there was open at the fork. By calls of C,
# in which no signal's handler runs (kernel/stores/sql/forks.py).
os.register_at_fork(after_in_child=_REGISTRY._at_fork_reinit)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=_GUARDS.clear)
