"""What is said of a batch besides its numbers: that there are remarks, and what can be done about failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custody.cli import runtime
from custody.ingest.states import JOB
from custody.kernel.model.job import Job


def remarks(batch: Job) -> str:
    number = int(batch.facts.get("remarked", 0))
    return f"of {runtime.counted(number, 'object')}, in its report" if number else ""


def what_now(failed: Sequence[Job]) -> Iterator[str]:
    """What can be resumed, by cause; and what cannot, because what was handed in is itself at fault."""
    for code in sorted({job.code or "" for job in failed if JOB.allows(job.state, "resume")}):
        yield f"when the cause is mended: custody job resume --cause {code}"
    if any(not JOB.allows(job.state, "resume") for job in failed):
        yield "rejected is for good: the depositor has to hand in a corrected one"
