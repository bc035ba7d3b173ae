"""Commits that tasks make, through the worker: with their lineage, and each once however often the task is repeated.

A commit is named by its job, by how often a person has had that job run again, and by its place among the task's
commits; not by the attempt, since an attempt that follows a crash repeats what the one before may have done. That it
is about to be made is written down first; if nobody wrote down that it was made, the repository itself is asked.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from custody.errors import BadInput, LeaseLost, NotFound
from custody.kernel.engine.work import Work
from custody.kernel.stores import Store
from custody.workflows.archives.notices import notify
from custody.workflows.archives.table import Archives
from custody.workflows.archives.working_copy.draft import Draft, gather

LONGEST_MESSAGE = 64_000
MOST_COMMITS = 100
COMMIT_SECONDS = 600.0  # for one commit: hooks of the repository's owner are quick


@dataclass(frozen=True, slots=True)
class Begun:
    """A commit that is about to be made: the youngest revision then, and a word that nobody can know before it is
    there. So nobody can have pushed another in its place."""

    since: int
    word: str = ""

    @classmethod
    def of(cls, fact: Any) -> Begun:
        return cls(int(fact["since"]), str(fact["word"])) if isinstance(fact, Mapping) else cls(int(fact))

    def as_fact(self) -> dict[str, Any]:
        return {"since": self.since, "word": self.word}

    def named(self, key: str) -> str:
        """As the commit itself says it."""
        return f"{key}.{self.word}" if self.word else key


def lineage_of(store: Store, archive: str, revision: int, said: str) -> tuple[str, ...]:
    """The tasks that led to a revision, if the commit that it says it is was begun by one of ours; else none. What
    anybody can push is no proof."""
    number, _, rest = said.partition(".")
    try:
        job = store.queue.get(int(number)) if number.isascii() and number.isdigit() and len(number) < 19 else None
    except NotFound:
        job = None
    if job is None or job.payload.get("archive") != archive or "task" not in job.payload:
        return ()
    for key, fact in job.facts.get("committing", {}).items():
        begun = Begun.of(fact)
        made = job.facts.get("commits", {}).get(key, revision)
        if begun.named(key) == f"{number}.{rest}" and made == revision > begun.since:
            return (*job.payload.get("lineage", ()), str(job.payload["task"]))
    return ()


class Commits:
    """What one attempt at a task may commit."""

    def __init__(self, work: Work, store: Store, place: Path, drafts: Path, attempt: str) -> None:
        self._work, self._store, self._place, self._drafts = work, store, place, drafts
        self._attempt = attempt
        self._made = int(work.facts.get("commit_calls", {}).get(attempt, 0))  # it may have begun under another worker
        self._base = int(work.payload["revision"])

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        message, paths = asked.get("message"), asked.get("paths")
        if asked.get("do") != "commit" or not isinstance(message, str) or not isinstance(paths, list):
            raise BadInput("only commits are made here", code="window.question", hint="a message and paths")
        if not message.strip() or len(message) > LONGEST_MESSAGE or not all(isinstance(path, str) for path in paths):
            raise BadInput("a commit needs a message and paths", code="window.question")
        if self._made >= MOST_COMMITS:
            raise BadInput(f"a task may commit {MOST_COMMITS} times", code="commit.many")
        return {"revision": self._commit(message, paths)}

    def _commit(self, message: str, paths: list[str]) -> int | None:
        job = self._work.job
        key = f"{job.id}.{job.retries}.{self._made}"
        revision = self._made_before(key)
        if revision is None:
            revision = self._make(key, message, paths)
        if revision is not None:
            self._made += 1
            self._base = revision
            self._work.keep(commit_calls={self._attempt: self._made})
            notify(
                self._store,
                str(self._work.payload["archive"]),
                revision,
                replace(self._work.claim.acting, agent="task"),
            )
        return revision

    def _made_before(self, key: str) -> int | None:
        facts = self._work.facts
        known: int | None = facts.get("commits", {}).get(key)
        if known is None and key in facts.get("committing", {}):
            begun = Begun.of(facts["committing"][key])
            archive = Archives(self._store).opened(str(self._work.payload["archive"]))
            known = archive.committed(begun.named(key), since=begun.since)
            if known is not None:
                self._work.keep(commits={**facts.get("commits", {}), key: known})
        return known

    def _make(self, key: str, message: str, paths: list[str]) -> int | None:
        archive = Archives(self._store).opened(str(self._work.payload["archive"]))
        drafts = self._drafts / key
        try:
            found = gather(self._place, paths, archive, self._base, into=drafts)
            if not found.put and not found.gone:
                return None
            facts = self._work.facts
            begun = Begun(archive.youngest(), secrets.token_hex(8))
            self._work.keep(committing={**facts.get("committing", {}), key: begun.as_fact()})
            lineage = [*self._work.payload.get("lineage", []), str(self._work.payload["task"])]
            draft = Draft(
                message=message, base=self._base, put=found.put, gone=found.gone, lineage=lineage, key=begun.named(key)
            )
            self._must_be_ours()
            until = time.monotonic() + COMMIT_SECONDS
            revision = archive.commit(draft, seconds=lambda: min(self._time_left(), until - time.monotonic()))
        finally:
            shutil.rmtree(drafts, ignore_errors=True)
        self._work.keep(commits={**self._work.facts.get("commits", {}), key: revision})
        return revision

    def _must_be_ours(self) -> None:
        if self._time_left() <= 0:
            raise LeaseLost("this task is being stopped")

    def _time_left(self) -> float:
        """A commit that is not made while the task is ours must not be made at all. Leases are renewed meanwhile."""
        return 0 if self._work.stopped else self._work.trusted_until - time.monotonic()
