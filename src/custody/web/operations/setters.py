"""Who stands for a schedule: it makes jobs in somebody's name, and only while that somebody could have it made.

What an archive's own files say is the program's. A schedule of before the names has nobody: it goes on, since whoever
relies on it was told that it would, but in nobody's name, and the doctor tells of it until somebody adopts it. One that
would make an application's jobs makes none: it pauses once, and says why.
"""

from __future__ import annotations

from typing import Final

from custody.formats.shell import command
from custody.installation import makers
from custody.kernel.access.tokens import DAY, Tokens
from custody.kernel.model.authority.acting import SYSTEM, name_of
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import Store

LONG_AGO: Final = 90 * DAY * 1_000_000
"""Since an issuer last vouched for somebody: as long as a token lasts."""


class Setters:
    def __init__(self, store: Store) -> None:
        self._store, self._tokens = store, Tokens(store)

    def ended(self, schedule: Schedule) -> str:
        """Why a schedule makes nothing any more; empty while it may."""
        if schedule.by == SYSTEM:
            return ""
        maker = makers().owner(schedule.kind)
        if maker and not _is_its_applications(schedule):
            return f"it would make {schedule.kind} jobs, which are made by their application alone"
        return self._tokens.right_ended(schedule.by)

    def remedy(self, schedule: Schedule) -> str:
        """The command that lets one go on that has been paused by itself, or ends it."""
        if schedule.by != SYSTEM and makers().owner(schedule.kind) and not _is_its_applications(schedule):
            return command("schedule drop", schedule.name)
        verb = "adopt" if not schedule.by or self.ended(schedule) else "continue"
        return command(f"schedule {verb}", schedule.name)

    def doubt(self, schedule: Schedule) -> str:
        """What an operator should know of one that goes on: nobody stands for it, or nobody knows whether they do."""
        if self.ended(schedule):
            return ""
        if not schedule.by and not _is_its_applications(schedule):
            return "nobody stands for it: it was set before that was asked"
        if not schedule.by.startswith("oidc:"):
            return ""
        last = self._tokens.vouched(schedule.by)
        if last is None or self._store.now() - last.created > LONG_AGO:
            return f"it was set by {name_of(schedule.by)}, for whom no issuer has vouched for 90 days"
        return ""


def _is_its_applications(schedule: Schedule) -> bool:
    """Of before the names: nobody's by name, and the application that has its kind says that it is its own."""
    maker = makers().of(schedule.kind)
    return not schedule.by and bool(maker and maker.own_schedule and maker.own_schedule(schedule))
