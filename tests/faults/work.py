"""The work that the kill tests give to real workers: `custody worker run --load work.py`.

Each body leaves a line in the effects log before and after it does anything, so that it is known what was begun,
by which process, and whether it ended.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from custody.kernel.engine import Backoff, Kind, Work
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed
from faults.checker import Log

EFFECTS = Log(Path(os.environ["EFFECTS"]), f"worker-{os.getpid()}")


def parcel(work: Work) -> Outcome:
    """Sleeps a little; some fail the first time, some have children."""
    EFFECTS.write("ok", "begin", job=work.job.id)
    time.sleep(work.payload.get("seconds", 0.0))
    for child in range(work.facts.get("made", 0), work.payload.get("children", 0)):
        work.spawn([NewJob("parcel", key=f"child {child} of {work.job.id}")], made=child + 1)
    EFFECTS.write("ok", "end", job=work.job.id)
    if work.payload.get("stumbles") and not work.facts.get("stumbled"):
        return Failed("stumble", transient=True, keep={"stumbled": True})
    return Passed()


def sleeper(work: Work) -> Outcome:
    """Waits until it is told to go on, deaf to everything else; whoever takes it over is quick."""
    EFFECTS.write("ok", "begin", job=work.job.id)
    while not work.job.suspect and not Path(os.environ["GO"]).exists():
        time.sleep(0.002)
    EFFECTS.write("ok", "end", job=work.job.id)
    return Passed({"by": "the second" if work.job.suspect else "the sleeper"})


def poison(work: Work) -> Outcome:
    EFFECTS.write("ok", "begin", job=work.job.id)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it survived")


KINDS = [
    Kind("poison", poison),  # first: kinds are served in this order, and it is to be begun while there is other work
    # Whoever kills here does so at random: no parcel is to blame, however often its worker dies, nor has it been tried.
    Kind("parcel", parcel, backoff=Backoff(first=0.05), tries=1000, crashes=1000, onward=True),
    Kind("sleeper", sleeper),
]
