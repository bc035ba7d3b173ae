"""What a fork does to stores that were opened before it.

A child has copies of everything: connections on which the parent speaks, locks of threads that it does not have, ids
that the parent will use as well. So whatever of this a store has is put aside in the child, untouched, and a new one
takes its place (gunicorn --preload, prefork pools, multiprocessing). Nothing that is held is waited for there.

What may not even be copied (SQLite keeps the locks of a process in its own memory) is put down before the fork, and
taken up again after it by whoever needs it.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Protocol


class Forked(Protocol):
    def before_fork(self) -> None: ...

    def after_fork(self) -> None: ...

    def in_child(self) -> None: ...


_FOLLOWED: weakref.WeakSet[Forked] = weakref.WeakSet()


def follow(thing: Forked) -> None:
    """Tell it of every fork from now on."""
    _FOLLOWED.add(thing)


def _before() -> None:
    for thing in list(_FOLLOWED):
        with suppress(Exception):  # whatever it is, the fork comes
            thing.before_fork()


def _after() -> None:
    for thing in list(_FOLLOWED):
        with suppress(Exception):
            thing.after_fork()


def _in_child() -> None:
    for thing in list(_FOLLOWED):
        thing.in_child()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
