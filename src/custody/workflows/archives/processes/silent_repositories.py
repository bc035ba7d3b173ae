"""Keeps repositories that were silent from taking every thread: asked again after a while, by one at a time.

One answer that does not come costs a minute. Without this, whoever owns a few repositories that say nothing could keep
all the threads of a worker waiting, minute after minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from custody.errors import CustodyError, Unavailable
from custody.workflows.archives.processes.vcs_process import SILENT, STOPPED

FIRST, MOST = 30.0, 900.0  # seconds until a silent one is asked again


@dataclass(slots=True)
class Suspect:
    pause: float
    again: float  # not before this
    asked: bool = False  # somebody is waiting for its answer


_lock = threading.Lock()
_suspects: dict[str, Suspect] = {}


@contextmanager
def asking(where: str) -> Iterator[None]:
    """Ask a repository, if it is not its turn to be left alone: then `Unavailable` at once."""
    probing = _may_ask(where) if where in _suspects else None
    try:
        yield
    except CustodyError as error:
        _note(where, probing, error.code)
        raise
    except BaseException:
        _note(where, probing, STOPPED)
        raise
    _note(where, probing, "")


def _may_ask(where: str) -> Suspect | None:
    with _lock:
        found = _suspects.get(where)
        if found is None:
            return None
        left = found.again - time.monotonic()
        if found.asked or left > 0:
            hint = "it is tried by itself; see whether its disk answers, and whether all in it are plain files"
            when = "is being asked again" if found.asked else f"is asked again in {left:.0f} s"
            message = f"it gave no answer when it was last asked, and {when}"
            raise Unavailable(message, code=SILENT, where=where, hint=hint)
        found.asked = True
        return found


def _note(where: str, probing: Suspect | None, code: str) -> None:
    """An error that it told is an answer too."""
    with _lock:
        if code == SILENT:
            known = _suspects.get(where)
            if known is None or known is probing:
                pause = min(MOST, probing.pause * 2) if probing else FIRST
                _suspects[where] = Suspect(pause, time.monotonic() + pause)
        elif probing and code == STOPPED:
            probing.asked = False
        elif probing:
            _suspects.pop(where, None)
