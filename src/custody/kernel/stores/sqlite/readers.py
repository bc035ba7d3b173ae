"""Connections for looking, which never wait for the writer: lent for one look, the last one used is the next one given.

Threads come and go, above all in a server; connections stay, a few of them, with what they have prepared and cached.
One who is interrupted in the middle of a look (kernel/stores/sql/group_commit.py) may not have given back what it was
lent: a loan is under way as long as its lock is held, and what was lent to one who is gone is closed by whoever comes
upon it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

from custody.kernel.stores.sql import forks
from custody.kernel.stores.sqlite.connection import closed, connect

T = TypeVar("T")

MOST_SPARE = 8
CLOSE_SECONDS = 10.0
"""For which closing waits for looks that are under way. Each closes its own connection if it took longer."""
LOOK_SECONDS = 0.001


class _Loan:
    __slots__ = ("db", "here")

    def __init__(self) -> None:
        self.here = threading.Lock()  # held as long as its thread is looking
        self.db: apsw.Connection | None = None


class Readers:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.RLock()  # a signal's handler may come while its own thread has it
        self._spare: list[apsw.Connection] = []
        self._loans: list[_Loan] = []
        self._closed = False
        self._paused = False

    def look(self, work: Callable[[apsw.Connection], T]) -> T:
        loan = _Loan()
        with loan.here:  # however we go
            try:
                return work(self._lend(loan))
            finally:
                self._give_back(loan)

    def close(self) -> None:
        """Nobody gets a connection any more; whoever has one may finish his look."""
        self._closed = True
        self._put_down(CLOSE_SECONDS)

    def pause(self, seconds: float) -> bool:
        """Close what is open, and lend nothing until `go_on`. False if a look did not end in that time."""
        self._paused = True
        return self._put_down(seconds)

    def go_on(self) -> None:
        self._paused = False

    def rest(self) -> bool:
        """Nothing is open, and nobody is about to open anything."""
        return not self._spare and not self._loans

    def _put_down(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                while self._spare:
                    self._spare[-1].close()
                    self._spare.pop()
                self._take_back()
                if not self._loans:
                    return True
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_SECONDS)

    def _take_back(self) -> None:
        """Close what was lent to those who are gone, if nobody has it since."""
        left = [loan for loan in self._loans if loan.here.locked()]
        theirs = [*self._spare, *(loan.db for loan in left)]
        for loan in self._loans:
            if loan.db is not None and loan not in left and loan.db not in theirs:
                loan.db.close()
        self._loans = left

    def _lend(self, loan: _Loan) -> apsw.Connection:
        while not self._is_lent_to(loan):
            time.sleep(LOOK_SECONDS)
        if loan.db is None:
            loan.db = connect(self._path, read_only=True)
        return loan.db

    def _is_lent_to(self, loan: _Loan) -> bool:
        """Note the loan, with what there is to spare; false while nothing is lent."""
        with self._lock:
            if self._closed:
                raise closed()
            if self._paused and forks.is_under_way():
                return False
            self._loans.append(loan)
            if self._spare:
                loan.db = self._spare[-1]
                self._spare.pop()
            else:
                self._take_back()
            return True

    def _give_back(self, loan: _Loan) -> None:
        db = loan.db
        with self._lock:
            if db is not None and not self._closed and len(self._spare) < MOST_SPARE and not db.in_transaction:
                self._spare.append(db)
                db = None
        if db is not None:
            db.close()
        with self._lock:
            if loan in self._loans:
                self._loans.remove(loan)
