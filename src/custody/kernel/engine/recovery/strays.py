"""Strays: forked children that come back into the worker they were copied from. They end here.

A fork copies the whole worker with its claims. A child that returns from a body, or raises there, would go on as a
second worker under the first one's name: run the same jobs, settle them, and never end. So whatever calls what is not
the engine's own asks afterwards whether it is still in its own process; so does the loop, before it touches the store.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

EXIT_CODE = 70  # EX_SOFTWARE: the program has a mistake
MOST_TOLD = 300
ADVICE = "end a forked child with os._exit(), or let multiprocessing or subprocess make it"


def stay(pid: int, where: str, *names: object) -> None:
    """Go on in this process alone; in a child of it, end at once. Belongs into `finally`: however one left.

    Nothing is raised, as what is raised can be caught; nothing is flushed or closed, as it is the parent's."""
    if os.getpid() != pid:
        _end(pid, where.format(*names), sys.exc_info()[1])


def _end(pid: int, where: str, error: BaseException | None) -> NoReturn:
    try:
        how = f" with {_told(error)}" if error is not None else ""
        who = f"process {os.getpid()}, forked from worker {pid},"
        said = f"custody: {who} came back from {where}{how}; it is ended, and nothing it says is written: {ADVICE}\n"
        with suppress(OSError):
            os.write(2, said.encode(errors="replace"))  # past sys.stderr: what waits there is the parent's to say
    finally:
        os._exit(EXIT_CODE)


def _told(error: BaseException) -> str:
    """What was raised, and where, on one line."""
    name = type(error).__name__
    try:
        said = " ".join(str(error).split())[:MOST_TOLD]
    except Exception:  # of somebody's own
        said = ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    return f"{name}: {said}{at}" if said else f"{name}{at}"
