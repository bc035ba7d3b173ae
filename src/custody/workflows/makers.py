"""Who may make the jobs of workflows: notices of revisions, planning, and runs that somebody asks for."""

from __future__ import annotations

from typing import Final

from custody.engine.makers import Maker

COMMIT_KIND: Final = "workflow/commit"
RUN_KIND: Final = "workflow/run"
TASK_KIND: Final = "workflow/task"
QUICK_KIND: Final = "workflow/quick"  # the same, for which every worker keeps a thread free: never behind long tasks
_RUN: Final = "`custody archive run ARCHIVE TASK`"

COMMIT_MAKER: Final = Maker(kind=COMMIT_KIND, instead="`custody archive notify ARCHIVE REVISION`")
RUN_MAKER: Final = Maker(kind=RUN_KIND, instead=_RUN)
TASK_MAKER: Final = Maker(kind=TASK_KIND, behalf="parent", instead=_RUN)
QUICK_MAKER: Final = Maker(kind=QUICK_KIND, behalf="parent", instead=_RUN)
MAKERS: Final = (COMMIT_MAKER, RUN_MAKER, TASK_MAKER, QUICK_MAKER)
