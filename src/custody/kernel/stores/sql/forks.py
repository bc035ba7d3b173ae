"""What a fork does to stores that were opened before it.

A child has copies of everything: connections on which the parent speaks, locks of threads that it does not have, ids
that the parent will use as well. So whatever of this a store has is put aside in the child, untouched, and a new one
takes its place (gunicorn --preload, prefork pools, multiprocessing). Nothing that is held is waited for there.

What may not even be copied (SQLite keeps the locks of a process in its own memory) is put down before the fork, and
taken up again after it by whoever needs it. Nobody begins to open a store meanwhile.
"""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from contextlib import suppress
from typing import Protocol


class Forked(Protocol):
    def before_fork(self) -> None: ...

    def after_fork(self) -> None: ...

    def in_child(self) -> None: ...


class _Followed:
    """All that has to be told, which nobody joins while a fork is made."""

    def __init__(self) -> None:
        self._things: weakref.WeakSet[Forked] = weakref.WeakSet()
        self._changes = threading.RLock()  # the forking thread may be in the middle of opening one
        self._told: list[Forked] = []  # written by whoever has the lock

    def add(self, thing: Forked) -> None:
        with self._changes:
            self._things.add(thing)

    def before(self) -> None:
        self._changes.acquire()  # a second thread that forks waits for the first
        self._told = list(self._things)
        for thing in self._told:
            with suppress(Exception):  # whatever it is, the fork comes
                thing.before_fork()

    def after(self) -> None:
        told, self._told = self._told, []
        for thing in told:
            with suppress(Exception):
                thing.after_fork()
        self._changes.release()

    def in_child(self) -> None:
        told, self._told = self._told, []
        self._changes = threading.RLock()
        for thing in told:
            try:
                thing.in_child()
            except Exception:  # the others are told all the same
                traceback.print_exc()


_FOLLOWED = _Followed()


def follow(thing: Forked) -> None:
    """Tell it of every fork from now on."""
    _FOLLOWED.add(thing)


os.register_at_fork(before=_FOLLOWED.before, after_in_parent=_FOLLOWED.after, after_in_child=_FOLLOWED.in_child)
