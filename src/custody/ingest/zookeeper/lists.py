"""What lives in the tree, for whoever lists and counts it: the command line, pages, programs.

A list asks for the names first, which are few bytes each, and reads a page of jobs at a time. What can be known from
the names alone (how many have ended how) reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.rows import Tree, as_job, pages
from custody.kernel.model.job import Filter, Job

KINDS = (BATCH_KIND, JOB_KIND)
LISTS: Mapping[str | None, str] = {
    # how a job ended, and the list of its batch that it is then on
    None: "batch-processing",
    "passed": "batch-completed",
    "failed": "batch-failed",
    "deleted": "batch-deleted",
}


class TreeView:
    def __init__(self, at: Tree) -> None:
        self._at = at

    def has(self, number: int) -> bool:
        return tree.in_tree(number)

    def every(self, where: Filter, after: int = 0) -> Iterator[Job]:
        """All that match, oldest first, a page at a time."""
        return self._read(where, (name for name in self._names(where) if tree.id_of(name) > after))

    def newest(self, where: Filter, before: int) -> Iterator[Job]:
        """The same, newest first."""
        names = [name for name in self._names(where) if tree.id_of(name) < before]
        return self._read(where, reversed(names))

    def ends(self, parent: int) -> Mapping[str | None, int]:
        """How many of a batch's jobs have ended how; None: not yet."""
        looks = self._at.session.get_many([self._list(parent, end) for end in LISTS])
        return {end: node.children if node else 0 for end, node in zip(LISTS, looks, strict=True)}

    def unended(self, parent: int) -> Iterator[Job]:
        """Those of a batch's jobs that have not."""
        return self._read(Filter(), iter(self._at.session.names(self._list(parent, None))))

    def since(self, kind: str, state: str) -> Sequence[int]:
        """When each that is in this state came to it."""
        if kind != JOB_KIND:
            return [job.changed for job in self.every(Filter(kind=kind, state=state))] if kind == BATCH_KIND else []
        queue = f"{tree.QUEUES}/{tree.queue_of(state)}"
        entries = self._at.session.get_many([f"{queue}/{name}" for name in self._at.session.names(queue)])
        return [entry.made for entry in entries if entry]

    def leased(self) -> Sequence[Job]:
        """What is being worked on by workers of ours."""
        names = sorted({name.rpartition("-")[0] for name in self._at.session.names(tree.HELD)})
        return list(self._read(Filter(), iter(names)))

    def _read(self, where: Filter, names: Iterator[str]) -> Iterator[Job]:
        now = self._at.now()
        return (job for job in (as_job(seen, now) for seen in pages(self._at.session, names)) if matches(job, where))

    def _names(self, where: Filter) -> Sequence[str]:
        """Who could match, in the order of their numbers: batches, then jobs."""
        session = self._at.session
        if where.parent:
            if not tree.in_tree(where.parent):
                return []
            lists = [self._list(where.parent, end) for end in LISTS if where.ended in ("", end)]
            return sorted({name for found in session.names_many(lists) for name in found})
        names: list[str] = []
        if is_kind(BATCH_KIND, where.kind):
            names += self._batch_names(where)
        return names + (self._job_names(where) if is_kind(JOB_KIND, where.kind) else [])

    def _batch_names(self, where: Filter) -> list[str]:
        """There are no queues of batches: their status tells, one node of the many that a batch has."""
        names = [name for name in self._at.session.names(tree.BATCHES) if tree.is_batch(name)]
        if not (where.state or where.ended):
            return names
        nodes = self._at.session.get_many([f"{tree.home(name)}/status" for name in names])
        found = [tree.read_status(node.data, of_batch=True) if node else None for node in nodes]
        return [name for name, status in zip(names, found, strict=True) if status and _may_match(status.state, where)]

    def _job_names(self, where: Filter) -> list[str]:
        if not (where.state or where.ended):
            return [name for name in self._at.session.names(tree.JOBS) if name.startswith("jid")]
        states = [where.state] if where.state else [s for s in JOB.states() if JOB.end(s) == where.ended]
        queues = sorted({tree.queue_of(state) for state in states if state in tree.QUEUE_NAMES})
        found = self._at.session.names_many([f"{tree.QUEUES}/{queue}" for queue in queues])
        return sorted(job[1] for names in found for job in map(tree.job_in, names) if job)

    @staticmethod
    def _list(parent: int, end: str | None) -> str:
        return f"{tree.home(tree.name_of(parent))}/states/{LISTS[end]}"


def _may_match(state: str, where: Filter) -> bool:
    ended = "deleted" if state == "deleted" else BATCH.end(state)
    return where.state in ("", state) and where.ended in ("", ended)


def matches(job: Job, where: Filter) -> bool:
    wanted = (where.state, where.ended, where.lane, where.collection, where.code)
    found = (job.state, job.ended, job.lane, job.collection, job.code)
    return is_kind(job.kind, where.kind) and all(
        not want or want == is_ for want, is_ in zip(wanted, found, strict=True)
    )


def is_kind(kind: str, wanted: str) -> bool:
    return not wanted or kind == wanted or (wanted.endswith("*") and kind.startswith(wanted[:-1]))
