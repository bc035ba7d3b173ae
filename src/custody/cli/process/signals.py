"""SIGTERM and Ctrl-C, for commands that work until they are told to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

ASKED = (signal.SIGTERM, signal.SIGINT)


class Stopper:
    """Calls `stop` when a signal asks for it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self._stop()


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` for either signal, in this process alone.

    A process that is forked from this one (a pool in somebody's own kind of job) has nothing that it could stop: there
    the signals do what they do by default, from its first moment on. A handler in Python that ends the child would not
    be enough. Python calls it between two of its own steps, so a signal that comes just before the child begins to wait
    is heard when the wait is over: never, and the pool waits for its children for ever.
    """
    for number in ASKED:
        signal.signal(number, Stopper(stop))


def _hold() -> None:
    """Keep the signals of both sides of a fork waiting until the child has its own answer to them."""
    _KEPT.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED) if _ours() else None


def _let_go() -> None:
    if _KEPT.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _KEPT.mask)


def _forget() -> None:
    for number in _ours():
        signal.signal(number, signal.SIG_DFL)
    _let_go()


def _ours() -> list[signal.Signals]:
    return [number for number in ASKED if isinstance(signal.getsignal(number), Stopper)]


_KEPT = threading.local()  # two threads may fork at once, each with signals of its own
os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_forget)
