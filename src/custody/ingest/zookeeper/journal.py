"""What a `multi` leaves for the history: one node with everything that happened in it.

It is made in the same `multi` as the move, so there is never one without the other. The follower (follower.py) writes
it into the database once, whoever of the fleet comes first, and then takes the node away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from custody.errors import BadInput
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Create
from custody.kernel.model.authority.acting import SYSTEM
from custody.kernel.model.event import NewEvent, job_subject
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Change, NewJob
from custody.kernel.model.machine import WORK
from custody.kernel.model.names.reserved import FOLDER
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.claim import detail
from custody.kernel.stores.rules.submit import first_detail

_JOB = ("kind", "payload", "key", "priority", "lane", "place", "collection", "delay")


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of one job or batch."""

    job: int
    type: str
    outcome: str
    agent: str
    detail: Mapping[str, Any]
    token: int
    status: int  # the version of the status after it: a gap is a move of another service

    @property
    def subject(self) -> str:
        return job_subject(self.job)

    def plain(self) -> dict[str, Any]:
        # Every move passes here, and asdict would copy all of the detail first.
        return {
            "job": self.job,
            "type": self.type,
            "outcome": self.outcome,
            "agent": self.agent,
            "detail": self.detail,
            "token": self.token,
            "status": self.status,
        }


@dataclass(frozen=True, slots=True)
class Entry:
    move: str
    happened: Sequence[Happened]
    agent: str = ""
    items: Sequence[NewItem] = ()
    events: Sequence[NewEvent] = ()
    then: Sequence[NewJob] = field(default_factory=tuple)
    by: str = ""  # on whose behalf `then` is made

    def op(self) -> Create:
        return Create(f"{tree.MOVES}/m", self.write(), sequence=True)

    def write(self) -> bytes:
        """Refused here, where the move can still be refused with it, if the history could not take it."""
        for detail_ in (*(each.detail for each in self.happened), *(each.detail for each in self.events)):
            event_text(detail_)
        value: dict[str, Any] = {"move": self.move, "happened": [each.plain() for each in self.happened]}
        if self.items or self.events or self.then:
            value["agent"], value["by"] = self.agent, self.by
            value["items"] = [asdict(item) | {"types": sorted(item.types)} for item in self.items]
            value["events"] = [asdict(event) for event in self.events]
            value["then"] = [_plain(job) for job in self.then]
        data = tree.dump(value)
        if len(data) > tree.MOST_BYTES:
            raise BadInput("there is more to tell about this move than a node can hold", code="tree.size")
        return data


def read_entry(data: bytes) -> Entry:
    value = tree.load(data)
    try:
        return Entry(
            move=str(value["move"]),
            happened=[_read_happened(each) for each in value["happened"]],
            agent=str(value.get("agent", "")),
            items=[_read_item(each) for each in value.get("items", ())],
            events=[NewEvent(**each) for each in value.get("events", ())],
            then=[NewJob(**each) for each in value.get("then", ())],
            by=str(value.get("by", SYSTEM)),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(f"an entry for the history cannot be read: {error!r}", code="tree.entry") from error


def _read_item(told: Mapping[str, Any]) -> NewItem:
    """One that an older program wrote has its folder among what is told; where an item is, is no longer kept there."""
    detail = {name: value for name, value in told["detail"].items() if name != FOLDER}
    return NewItem(**{**told, "types": frozenset(told["types"]), "detail": detail})


_SORTS = {"job": int, "type": str, "outcome": str, "agent": str, "detail": dict, "token": int, "status": int}


def _read_happened(told: Mapping[str, Any]) -> Happened:
    odd = [name for name, sort in _SORTS.items() if not isinstance(told[name], sort)]
    if odd:
        raise TypeError(f"{', '.join(odd)} of another sort")
    return Happened(**told)


def of_change(change: Change, token: int, status: int, retries: int) -> Entry:
    happened = Happened(
        job=change.id,
        type=change.type,
        outcome=change.outcome,
        agent=change.agent,
        detail=detail(change, retries),
        token=token,
        status=status,
    )
    return Entry(
        move=change.move,
        happened=[happened],
        agent=change.agent,
        items=change.items,
        events=change.events,
        then=change.then,
        by=change.by,
    )


def of_birth(number: int, new: NewJob, agent: str) -> Happened:
    return Happened(
        job=number, type="submitted", outcome="none", agent=agent, detail=first_detail(new), token=0, status=0
    )


def _plain(job: NewJob) -> dict[str, Any]:
    if job.machine is not WORK or job.needs or job.parent is not None:
        raise BadInput(f"a {job.kind} job cannot come of a move in the tree", code="tree.then")
    return {name: getattr(job, name) for name in _JOB}
