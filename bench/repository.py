"""A repository that has whatever revision it is asked for, and answers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from custody.workflows.archives.port import Change, Entry, Meta
from custody.workflows.archives.processes.vcs_process import Seconds
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits

TASKS = 20
WORKFLOW = "".join(f"- name: task{n}\n  depends: [PREV]\n  command: 'true'\n" for n in range(TASKS)).encode()


class StandIn:
    """Every revision has the same twenty tasks, each of which waits for its predecessor."""

    def uuid(self) -> str:
        return "stand-in"

    def standing(self) -> None:
        return None  # nobody's

    def youngest(self) -> int:
        return 2**53

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        return (revision - 1,) if revision > 1 else ()

    def main(self, upto: int) -> int:
        return upto

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        return [Entry("_workflows/a.yaml", False)] if folder else [Entry("_workflows", True)]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        return []

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        return {}

    def read(self, revision: int, path: str) -> bytes:
        return WORKFLOW

    def runs(self, revision: int, path: str) -> bool:
        return False

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        return WORKFLOW[:most], len(WORKFLOW)

    def export(self, revision: int, into: Path, seconds: Seconds = 3600, limits: Limits = LIMITS) -> None: ...

    def meta(self, revision: int) -> Meta:
        return Meta(revision, str(revision), "ann", "2026-01-01T00:00:00Z", "more")

    def changed(self, revision: int) -> Sequence[Change]:
        return []

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        return 0

    def committed(self, key: str, since: int) -> int | None:
        return None
