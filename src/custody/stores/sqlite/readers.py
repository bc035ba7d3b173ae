"""Connections for looking, which never wait for the writer: lent for one look, the last one used is the next one given.

Threads come and go, above all in a server; connections stay, a few of them, with what they have prepared and cached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from custody.stores.sqlite.connection import closed, connect

MOST_SPARE = 8
CLOSE_SECONDS = 10.0
"""For which closing waits for looks that are under way. Each closes its own connection if it took longer."""


class Readers:
    def __init__(self, path: str) -> None:
        self._path = path
        self._change = threading.Condition()
        self._spare: list[apsw.Connection] = []
        self._lent = 0
        self._closed = False
        self._paused = False

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        db = self._take()
        try:
            yield db
        finally:
            self._give_back(db)

    def close(self) -> None:
        """Nobody gets a connection any more; whoever has one may finish his look."""
        with self._change:
            self._closed = True
            while self._spare:
                self._spare.pop().close()
            self._change.wait_for(lambda: not self._lent, CLOSE_SECONDS)

    def pause(self, seconds: float) -> bool:
        """Close what is open, and lend nothing until `go_on`. False if a look did not end in that time."""
        with self._change:
            self._paused = True
            if not self._change.wait_for(lambda: not self._lent, seconds):
                return False
            while self._spare:
                self._spare.pop().close()
            return True

    def go_on(self) -> None:
        with self._change:
            self._paused = False
            self._change.notify_all()

    def _take(self) -> apsw.Connection:
        with self._change:
            if self._paused:
                self._change.wait_for(lambda: not self._paused)
            if self._closed:
                raise closed()
            self._lent += 1
            if self._spare:
                return self._spare.pop()
        try:
            return connect(self._path, read_only=True)
        except BaseException:
            self._is_back()
            raise

    def _give_back(self, db: apsw.Connection) -> None:
        with self._change:
            keep = not self._closed and len(self._spare) < MOST_SPARE
            if keep:
                self._spare.append(db)
        if not keep:
            db.close()
        self._is_back()

    def _is_back(self) -> None:
        with self._change:
            self._lent -= 1
            self._change.notify_all()
