"""SIGTERM and Ctrl-C, for commands that work until they are told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` for either signal, in this process alone.

    A process that is forked from this one (a pool in somebody's own kind of job) has the handler as well, but nothing
    that it could stop: it ends there as if there were none, or the pool would wait for its children for ever.
    """
    here = os.getpid()

    def asked(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == here:
            stop()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
