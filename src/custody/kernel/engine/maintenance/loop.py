"""Maintenance: what a worker looks after between claims, whatever it works on.

What has come due can be claimed, slots of schedules become jobs, passes decide, chores are begun, and people can see
that it lives. Trouble with one of these keeps it neither from the others nor from the work itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.listeners import Listener, report
from custody.kernel.engine.maintenance.chores import Chores
from custody.kernel.engine.maintenance.passes import Passes
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.settings import Settings
from custody.kernel.model.schedule import Schedule
from custody.kernel.ports import Store

TICK_SECONDS = 0.1  # between looks for what has come due
MOST_AT_A_TICK = 500
SCHEDULE_SECONDS = 1.0  # between looks for slots that have come
BEAT_SECONDS = 5.0  # between signs of life, which only people read


class Maintenance:
    def __init__(
        self,
        store: Store,
        serving: Serving,
        settings: Settings,
        *,
        passes: Passes,
        chores: Chores,
        listener: Listener,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._serving, self._settings = store, serving, settings
        self._passes, self._chores, self._listener, self._clock = passes, chores, listener, clock
        self._pid = os.getpid()
        self._next: dict[str, float] = {}

    def look(self, holder: str, now: bool = False) -> None:
        """Do all whose time has come; `now`: what has come due, in any case."""
        stay(self._pid, "looking after what is due")
        if now or self._is_time("tick", TICK_SECONDS):
            self._guard(self._tick, "letting what is due be claimed")
        if self._settings.schedules and self._is_time("schedules", SCHEDULE_SECONDS):
            self._guard(
                lambda: self._store.schedules.run_due(holder, self._serving.ended and self._ended), "the schedules"
            )
        self.decide(holder)
        self._guard(self._chores.run_due, "the chores")
        if self._is_time("beat", BEAT_SECONDS):
            self._guard(lambda: self._beat(holder), "the sign of life")

    def decide(self, holder: str, now: bool = False) -> int:
        """Let kinds that look at all their jobs at once do so, when it is time or at once; how many jobs moved."""
        stay(self._pid, "deciding")
        return self._passes.run(holder, self._settings.lease, now)

    @property
    def is_looking(self) -> bool:
        return self._chores.are_looking

    def look_again(self) -> bool:
        """Ask the chores that may find work once more, at the next look; whether there are any."""
        return self._chores.look_again()

    def close(self, holder: str) -> None:
        self._chores.close()
        self._guard(lambda: self._store.farewell(holder), "the farewell")

    def _ended(self, schedule: Schedule) -> str:
        try:
            return self._serving.ended(schedule) if self._serving.ended else ""
        finally:
            stay(self._pid, "asking whether the schedule {} has ended", schedule.name)

    def _guard(self, what: Callable[[], object], where: str) -> None:
        try:
            what()
        except Exception as error:
            report(self._listener, error, where)

    def _tick(self) -> None:
        if self._store.queue.tick(MOST_AT_A_TICK) == MOST_AT_A_TICK:
            self._next["tick"] = 0.0  # where so many have come due there may be more

    def _beat(self, holder: str) -> None:
        serves = "\n".join(self._serving.prefixes())
        place, offers = self._settings.place, self._serving.offers()
        self._store.sign_of_life(holder, socket.gethostname(), os.getpid(), place, serves=serves, offers=offers)

    def _is_time(self, what: str, seconds: float) -> bool:
        now = self._clock()
        if now < self._next.get(what, now):
            return False
        self._next[what] = now + seconds
        return True
