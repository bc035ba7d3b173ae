"""The picture of an archive as it is: which tasks there are, what they wait for, and how far they have come.

`graph.py` draws; here the jobs of some revisions become arrows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from custody.errors import BadInput
from custody.kernel.model.job import Job
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Row, Tx, job_from
from custody.workflows.plan.graph import CANCELS, Arrow, as_dot, as_svg, as_text, reduced
from custody.workflows.plan.plan import Ref

_WORDS = {"done": "succeeded", "passed": "succeeded"}


@dataclass(frozen=True, slots=True)
class Picture:
    arrows: Sequence[Arrow]
    states: Mapping[Ref, str]


FORMATS: Mapping[str, Callable[[Picture], str]] = {
    "text": lambda picture: as_text(picture.arrows),
    "dot": lambda picture: as_dot(picture.arrows),
    "svg": lambda picture: as_svg(picture.arrows, picture.states),
}


def picture(store: Store, archive: str, first: int, last: int) -> Picture:
    """Revisions `first` to `last`. What they wait for beyond that is left out."""

    def look(tx: Tx) -> tuple[list[Job], list[Row]]:
        jobs = [job_from(row) for row in tx.run("wf_of_line", line=archive, first=first, last=last)]
        return jobs, tx.run("wf_edges_of_line", line=archive, first=first, last=last)

    jobs, edges = store.db.read(look)
    refs = {job.id: Ref(job.position, str(job.task)) for job in jobs}
    waits = [Arrow(refs[target], refs[job]) for job, target in edges if job in refs and target in refs]
    found = [*reduced(waits), *_cancels(jobs)]
    order = {ref: place for place, ref in enumerate(refs.values())}
    found.sort(key=lambda arrow: (arrow.to.revision, order[arrow.to], order[arrow.on]))
    return Picture(found, {refs[job.id]: _word(job) for job in jobs})


def drawn(picture_: Picture, format_: str) -> str:
    if format_ not in FORMATS:
        raise BadInput(f"{format_!r} is not a format", code="graph.format", hint=", ".join(FORMATS))
    return FORMATS[format_](picture_)


def drawn_in_page(picture_: Picture) -> str:
    """As SVG without a style of its own, for a page that has one."""
    return as_svg(picture_.arrows, picture_.states, in_page=True)


def _cancels(jobs: Sequence[Job]) -> Iterator[Arrow]:
    """To the nearest older instance; those before it are superseded just the same."""
    newest: dict[str, Ref] = {}
    for job in jobs:  # in the order of their revisions
        to = Ref(job.position, str(job.task))
        victims = [*([to.task] if job.supersedes else []), *job.payload.get("cancels", [])]
        yield from (Arrow(newest[victim], to, CANCELS) for victim in victims if victim in newest)
        newest[to.task] = to


def _word(job: Job) -> str:
    return "running" if job.holder else _WORDS.get(job.state, job.state)
