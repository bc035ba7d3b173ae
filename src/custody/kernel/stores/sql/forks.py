"""What a fork does to stores that were opened before it.

A child has copies of everything: connections on which the parent speaks, locks of threads that it does not have, ids
that the parent will use as well. So whatever of this a store has is put aside in the child, untouched, and a new one
takes its place (gunicorn --preload, prefork pools, multiprocessing). Nothing that is held is waited for there.

What may not even be copied (SQLite keeps the locks of a process in its own memory) is put down before the fork, and
taken up again after it by whoever needs it. Nobody begins to open a store meanwhile.

A signal's handler may raise in the middle of a hook; Python prints that and goes on with the fork, and the rest of the
hook is not done. So what everything rests on is done by hooks in which no handler runs, as they are calls of C: the
lock is taken and released, a fork is under way or over, a process is new. What else is to be told is told again by
whoever comes next: who waits because of a fork waits only while it is under way, and a new process first tells all.
"""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from custody.errors import CustodyError

ATTEMPTS = 5
"""So often one is told that was interrupted meanwhile."""


class Forked(Protocol):
    """Each may be told twice."""

    def before_fork(self) -> None: ...

    def after_fork(self) -> None: ...

    def in_child(self) -> None: ...


_LOCK = threading.RLock()  # the forking thread may be in the middle of opening one; a second that forks waits
_FOLLOWED: weakref.WeakSet[Forked] = weakref.WeakSet()
_UNDER_WAY: list[bool] = []
_TOLD = [True]
"""Empty in a new process until all were told."""


def follow(thing: Forked) -> None:
    """Tell it of every fork from now on."""
    with _LOCK:
        catch_up()
        _FOLLOWED.add(thing)


def is_under_way() -> bool:
    return bool(_UNDER_WAY)


class UnderWay:
    """As a lock that is held as long as a fork is made."""

    locked = staticmethod(is_under_way)


def catch_up() -> None:
    """Tell what is a copy that it is one, before it is used. Asked by every verb: it costs next to nothing."""
    if not _TOLD:
        _tell_child()


def _before() -> None:
    if not _LOCK._is_owned():  # type: ignore[attr-defined]  # one who waited for it was interrupted
        _LOCK.acquire()
    for thing in list(_FOLLOWED):
        with suppress(Exception):  # whatever it is, the fork comes
            _tell(thing.before_fork)


def _after() -> None:
    for thing in list(_FOLLOWED):
        with suppress(Exception):
            _tell(thing.after_fork)


def _tell_child() -> None:
    with _LOCK:
        if not _TOLD:
            for thing in list(_FOLLOWED):
                _tell(thing.in_child)
            _TOLD.append(True)


def _tell(tell: Callable[[], None]) -> None:
    """Tell one, and once more if a signal came in between: what its handler raised is printed, as nobody can hear it.
    Python would do the same."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return tell()
        except CustodyError:
            raise  # no signal's
        except BaseException:
            if not left:
                raise
            traceback.print_exc()


# Those before a fork are called in the opposite order.
os.register_at_fork(before=_before, after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]
os.register_at_fork(before=partial(_UNDER_WAY.append, True), after_in_child=_UNDER_WAY.clear)
os.register_at_fork(before=_LOCK.acquire, after_in_child=_TOLD.clear)
os.register_at_fork(after_in_parent=_UNDER_WAY.pop, after_in_child=catch_up)
os.register_at_fork(after_in_parent=_after)
os.register_at_fork(after_in_parent=_LOCK.release)
