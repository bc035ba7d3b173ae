"""Who is asking: a name for the history, roles, and the collections they may see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from custody.model.errors import NotFound
from custody.model.job import Job

ROLES: Final = ("admin", "operator", "depositor", "worker", "reader")
ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    roles: frozenset[str]
    collections: frozenset[str] | None  # None: all of them
    csrf: str = ""  # what a form of this session must bring along
    session: bool = False  # came with a cookie, so forms need that
    token: int = 0

    @property
    def sees_all(self) -> bool:
        return self.collections is None

    @property
    def scope(self) -> str:
        """As the statements take it: * or names between spaces."""
        return ALL if self.collections is None else f" {' '.join(sorted(self.collections))} "

    def has(self, roles: Iterable[str]) -> bool:
        return bool(self.roles & frozenset(roles))

    def sees(self, collection: str) -> bool:
        return self.collections is None or collection in self.collections

    def must_see(self, job: Job) -> Job:
        """The job, or the answer that someone gets who asks for one that is not there."""
        if self.sees(job.collection):
            return job
        raise NotFound(f"there is no job {job.id}", code="job.unknown", hint="`custody job list` shows what there is")
