"""Which job killed its worker? How suspicion grows, and what a death says against a job.

A worker that dies leaves behind all it held, and nobody knows which of it was begun. So the row says what is to be
thought of a job if its lease ends without a word: its *mark*. Whoever takes over reads the mark, and works on the job
with the care that it asks for:

    CLEAN    nothing is known against it
    LEFT     a holder vanished with it; most such jobs were only at hand
    NEAR     it was in the company of a few that was being worked on when another holder vanished
    ONLY     it is being worked on, and nothing else there is suspect; but other work runs beside it
    ALONE    it is being worked on, and nothing else runs in that process

What was left behind is taken over at once, all of it; only *begun* is it with care: many in small companies, a few each
alone. A death beside it says nothing against a job. One while it is alone says much (two points), and two say enough:
workers are also killed by others, and at that moment some job is always alone. So a job that kills is put aside after
three deaths where workers hold few jobs, after four where they hold many, whatever was near it, and what was near it is
never charged. If a worker cannot leave it alone, because long work runs beside it, a death is one point.
"""

from __future__ import annotations

CLEAN, LEFT, NEAR, ONLY, ALONE = range(5)
SAID_BY_DEATH = {ONLY: 1, ALONE: 2}
ENOUGH = 3  # points: two deaths while it is alone, or three beside other work


def after_death(mark: int) -> tuple[int, int]:
    """The mark of a job whose holder vanished, and how many points that was."""
    return (LEFT if mark < NEAR else NEAR), SAID_BY_DEATH.get(mark, 0)
