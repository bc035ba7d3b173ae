"""Schedules in the store: each slot once, whoever looks, however many look."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, TypeAlias
from urllib.parse import quote

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.model.authority.acting import SYSTEM, Acting, name_of
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.job_keys import slot_key
from custody.kernel.model.names.names import alike
from custody.kernel.model.schedule import Schedule, Wanted, check_name, checked, due
from custody.kernel.model.times import slots
from custody.kernel.stores.rows import Row, Tx, dumps, loads
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.rules.submit import submit_one
from custody.kernel.stores.sql.database import Database

MOST_MISSED = 1000
"""Missed slots recorded one by one; beyond that, one note says how many. And about as many in one transaction:
others want to write, too."""
MOST_PORTIONS = 100
"""What is left after so many transactions is left for the next look."""

Ended: TypeAlias = Callable[[Schedule], str]
"""Why a schedule makes nothing any more, as whoever set it may no longer do so; empty while they may."""


Over: TypeAlias = Mapping[tuple[str, str], str]
"""Those that make nothing any more, by their names and by who stood for them when that was asked."""


class SqlSchedules:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, schedule: Schedule, acting: Acting) -> None:
        """Make one, or make it exactly this."""
        _checked(schedule)
        self._db.write(lambda tx: _set(tx, schedule, _find(tx, schedule.name), acting))

    def change(self, name: str, wanted: Wanted, acting: Acting) -> Schedule:
        """Make one, or change what is said about it and leave the rest as it is."""

        def work(tx: Tx) -> Schedule:
            before = _find(tx, name)
            _set(tx, _checked(wanted.of(name, before)), before, acting)
            return _find(tx, name) or _unknown(name)

        return self._db.write(work)

    def list(self) -> Sequence[Schedule]:
        return [_schedule(row) for row in self._db.read(lambda tx: tx.run("schedules"))]

    def get(self, name: str) -> Schedule:
        return self._db.read(lambda tx: _find(tx, name)) or _unknown(name)

    def slots(self, name: str, limit: int = 50) -> Sequence[tuple[int, int | None, str]]:
        rows = self._db.read(lambda tx: tx.run("slots", schedule=name, limit=limit))
        return [(slot, job, outcome) for slot, job, outcome in rows]

    def job_of(self, name: str, slot: int) -> int | None:
        """The job that came of a slot; none when none did."""
        rows = self._db.glance(lambda tx: tx.run("slot_job", schedule=name, slot=slot))
        return rows[0][0] if rows else None

    def pause(self, name: str, paused: bool, who: str) -> None:
        """A paused schedule misses nothing: it starts again from now."""

        def work(tx: Tx) -> None:
            schedule = _find(tx, name) or _unknown(name)
            following = next(slots(schedule.spec, schedule.zone, tx.now))
            if paused:
                _pass_over(tx, schedule, who)
            elif not schedule.paused:
                following = min(following, schedule.next_slot)  # what has come is still to be run
            tx.run("pause_schedule", name=name, paused=int(paused), next_slot=following, why="")
            write_note(tx, f"schedule/{name}", "paused" if paused else "continued", who, detail={})

        self._db.write(work)

    def adopt(self, name: str, acting: Acting) -> Schedule:
        """Let it go on, on behalf of whoever says so: the right of who set it may have ended."""

        def work(tx: Tx) -> Schedule:
            schedule = _find(tx, name) or _unknown(name)
            following = next(slots(schedule.spec, schedule.zone, tx.now))
            if not schedule.paused:
                following = min(following, schedule.next_slot)
            tx.run("adopt_schedule", name=name, by=acting.by, next_slot=following)
            write_note(tx, f"schedule/{name}", "adopted", acting.agent, detail={"from": schedule.by})
            return _find(tx, name) or _unknown(name)

        return self._db.write(work)

    def drop(self, name: str, who: str) -> bool:
        def work(tx: Tx) -> bool:
            if not tx.run("drop_schedule", name=name):
                return False
            write_note(tx, f"schedule/{name}", "dropped", who, detail={})
            return True

        return self._db.write(work)

    def run_due(self, agent: str = "scheduler", ended: Ended | None = None) -> int:
        """Turn every slot that has come into a job, once; answers how many jobs were made.

        `ended` says of a schedule why nobody may have it run any more; such a one is paused, once, and says why."""
        if not (due := self._db.read(lambda tx: tx.run("due_schedules"))):
            return 0
        come = [_schedule(row) for row in due] if ended else []
        over = {(each.name, each.by): why for each in come if ended and (why := ended(each))}
        made = 0
        for _ in range(MOST_PORTIONS):
            some, left = self._db.write(lambda tx: _portion(tx, agent, over))
            made += some
            if not left:
                break
        self._db.bell.ring()
        return made

    def next_due(self) -> int | None:
        rows = self._db.read(lambda tx: tx.run("next_schedule"))
        return rows[0][0] if rows else None


def _schedule(row: Row) -> Schedule:
    name, spec, zone, kind, payload, lane, overlap, missed, paused, last_slot, next_slot, by, why = row
    return Schedule(
        name=name,
        spec=spec,
        kind=kind,
        payload=loads(payload),
        zone=zone,
        lane=lane,
        overlap=overlap,
        missed=missed,
        paused=bool(paused),
        last_slot=last_slot,
        next_slot=next_slot,
        by=by,
        why=why,
    )


def _find(tx: Tx, name: str) -> Schedule | None:
    return next(map(_schedule, tx.run("schedule", name=name)), None)


def _checked(schedule: Schedule) -> Schedule:
    checked(schedule)
    _job(schedule, 0).checked()
    return schedule


def _set(tx: Tx, schedule: Schedule, before: Schedule | None, acting: Acting) -> None:
    if before is None and acting.by != SYSTEM:  # an archive's own have the names of its files
        check_name(schedule.name)
        if other := alike(schedule.name, (row[0] for row in tx.run("schedules"))):
            raise BadInput(
                f"{schedule.name[:100]!r} looks like the schedule {other}, which is another",
                code="schedule.name",
                where="schedule name",
                hint="choose a name that nobody takes for that one",
            )
    following = next(slots(schedule.spec, schedule.zone, tx.now))
    if before and (before.spec, before.zone) != (schedule.spec, schedule.zone):
        _pass_over(tx, before, acting.agent)
    tx.run(
        "set_schedule",
        name=schedule.name,
        spec=schedule.spec,
        zone=schedule.zone,
        kind=schedule.kind,
        payload=dumps(schedule.payload),
        lane=schedule.lane,
        overlap=schedule.overlap,
        missed=schedule.missed,
        next_slot=following,
        by=acting.by,
    )
    told = {"spec": schedule.spec, "zone": schedule.zone, "kind": schedule.kind}
    write_note(tx, f"schedule/{schedule.name}", "set", acting.agent, detail=told)


def _unknown(name: str) -> NoReturn:
    raise NotFound(
        f"there is no schedule {name}", code="schedule.unknown", hint="`custody schedule list` shows what there is"
    )


def _portion(tx: Tx, agent: str, over: Over) -> tuple[int, bool]:
    """Run those that are due, until many missed slots were recorded; how many jobs were made, and are some left?"""
    made = recorded = 0
    for row in tx.run("due_schedules"):
        if recorded >= MOST_MISSED:
            return made, True
        jobs, missed = _by_itself(tx, _schedule(row), agent, over)
        made, recorded = made + jobs, recorded + missed
    return made, False


def _by_itself(tx: Tx, schedule: Schedule, agent: str, over: Over) -> tuple[int, int]:
    """One that cannot be run is paused and says why: it must not keep the others from their time."""
    tx.run("mark")
    try:
        if why := over.get((schedule.name, schedule.by)):
            raise Refused(why, code="schedule.right")
        done = advance(tx, schedule, agent)
    except (BadInput, Refused, NotFound) as error:
        tx.run("back_to_mark")
        tx.run("pause_schedule", name=schedule.name, paused=1, next_slot=schedule.next_slot, why=str(error))
        told = {"why": str(error), "code": error.code}
        write_note(tx, f"schedule/{schedule.name}", "paused", agent, detail=told, outcome="failure")
        done = 0, 0
    tx.run("drop_mark")
    return done


def advance(tx: Tx, schedule: Schedule, agent: str) -> tuple[int, int]:
    """Take the slots of a schedule that have come since it was looked at; answers how many jobs were made, and how many
    slots were recorded as missed."""
    come, count = _take(tx, schedule)
    if not come:
        return 0, 0
    if count > 1 and schedule.missed == "skip":
        _missed(tx, schedule, come, count, agent=agent)
        return 0, len(come)
    *earlier, last = come
    _missed(tx, schedule, earlier, count - 1, agent=agent)
    return _run(tx, schedule, last, agent), len(earlier)


def _pass_over(tx: Tx, schedule: Schedule, agent: str) -> None:
    """Slots that have come, and that nobody took before it was changed, will not be run; they are on record."""
    if not schedule.paused and schedule.next_slot <= tx.now:
        with suppress(BadInput):  # its times cannot be read any more: that is why they are changed
            come, count = _take(tx, schedule)
            _missed(tx, schedule, come, count, agent=agent)


def _take(tx: Tx, schedule: Schedule) -> tuple[list[int], int]:
    """The newest of the slots that have come, and how many have; none if another scheduler has taken them."""
    come, count, following = due(schedule, tx.now, MOST_MISSED + 1)
    won = tx.run("advance_schedule", name=schedule.name, slot=come[-1], next_slot=following, seen=schedule.next_slot)
    return (come, count) if won else ([], 0)


def _missed(tx: Tx, schedule: Schedule, come: list[int], count: int, agent: str) -> None:
    if come:
        tx.run("insert_missed", schedule=schedule.name, slots=json.dumps(come))
        told = {"slots": count, "first": schedule.next_slot, "last": come[-1]}
        write_note(tx, f"schedule/{schedule.name}", "missed", agent, detail=told, outcome="warning")


def _run(tx: Tx, schedule: Schedule, slot: int, agent: str) -> int:
    if any(job is not None for (job,) in tx.run("slot_job", schedule=schedule.name, slot=slot)):
        return 0  # it ran before: by a clock that went back, or under a key of an earlier version
    last = tx.run("last_run", schedule=schedule.name)
    if schedule.overlap == "skip" and last and last[0][0] is None:
        tx.run("insert_slot", schedule=schedule.name, slot=slot, job=None, outcome="skipped")
        told = {"slot": slot, "why": f"job {last[0][1]} of an earlier slot has not ended"}
        write_note(tx, f"schedule/{schedule.name}", "skipped", agent, detail=told, outcome="warning")
        return 0
    made = submit_one(tx, _job(schedule, slot), tx.new_move(), _acting(schedule, agent))
    tx.run("insert_slot", schedule=schedule.name, slot=slot, job=made.id, outcome="ran")
    return 1


def _acting(schedule: Schedule, agent: str) -> Acting:
    """A schedule acts for who set it; one of an application for the program itself. One that was there before anybody
    was asked acts for nobody: not for the program either, which has not set it."""
    if schedule.by == SYSTEM:
        return Acting(SYSTEM, agent)
    named = f"schedule:{quote(schedule.name, safe='')}"
    return Acting(f"{named}/{name_of(schedule.by)}" if schedule.by else named, agent)


def _job(schedule: Schedule, slot: int) -> NewJob:
    """What becomes of a slot."""
    return NewJob(
        schedule.kind,
        {**schedule.payload, "schedule": schedule.name, "slot": slot},
        lane=schedule.lane,
        key=slot_key(schedule.name, slot),
    )
