"""Workflows that run by the clock: what the youngest revision's files say becomes schedules of the engine.

The engine gives each slot one job at most, records the slots that were missed, and leaves one out while the run
before has not ended (`overlap: skip`). A schedule that says what it said before is left alone, so that a commit
does not make it forget when it was last due.
"""

from __future__ import annotations

from collections.abc import Sequence

from custody.kernel.model.authority.acting import SYSTEM, system
from custody.kernel.model.schedule import Schedule as Timetable
from custody.kernel.stores import Store
from custody.workflows.definition.task import Schedule
from custody.workflows.makers import RUN_KIND, schedule_name


def keep_time(store: Store, archive: str, wanted: Sequence[tuple[str, Schedule]]) -> None:
    """Make the archive's schedules those of its definitions."""
    known = {found.name: found for found in store.schedules.list() if found.kind == RUN_KIND}
    mine = {name: found for name, found in known.items() if found.payload.get("archive") == archive}
    for workflow, schedule in wanted:
        timetable = _timetable(archive, workflow, schedule)
        before = mine.pop(timetable.name, None)
        if before is None or before.by != SYSTEM or _says(before) != _says(timetable):  # whoever had it, it is ours
            store.schedules.put(timetable, system("workflows"))
    for name in mine:
        store.schedules.drop(name, "workflows")


def _timetable(archive: str, workflow: str, schedule: Schedule) -> Timetable:
    return Timetable(
        schedule_name(archive, workflow),
        schedule.cron,
        RUN_KIND,
        {"archive": archive, "wanted": workflow},
        zone=schedule.timezone,
        lane=archive,
        overlap="allow" if schedule.overlap == "allow" else "skip",
    )


def _says(timetable: Timetable) -> tuple[object, ...]:
    return timetable.spec, timetable.zone, timetable.overlap, timetable.payload
