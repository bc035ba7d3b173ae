"""Recording many events: a few statements for all of them, where the common way takes some for each. And recording
one: a look and a statement, which is the whole transaction.

The rules are those of `items.append`, in the same order for each item; only the travelling differs. A second event
for an item waits for the next round, so that each sees what the one before it left.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from custody.errors import KeyConflict
from custody.kernel.model.authority.acting import SYSTEM, system
from custody.kernel.model.event import NewEvent, item_subject
from custody.kernel.model.item import Item, Latest, NewItem
from custody.kernel.model.trigger import STOPPED, admits
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.postgres.verbs.submit import Order, submit_many
from custody.kernel.stores.rows import Row, Tx, event_text, item_from, latest_from
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.items import (
    Look,
    Robot,
    concerns,
    missed_change,
    read_robot,
    ready_job,
    subscriptions,
    told_with,
)
from custody.kernel.stores.rules.submit import columns, first_detail

Record: TypeAlias = tuple[Sequence[NewItem], Sequence[NewEvent], str]


@dataclass(frozen=True, slots=True)
class _Told:
    """An event, and in whose name it is appended."""

    event: NewEvent
    agent: str


def record_many(tx: PostgresTx, records: Sequence[Record]) -> None:
    """All of them, in their order; those that also make or change items go the common way, but for new ones of which
    one thing is told."""
    for changes, run in groupby(records, lambda record: bool(record[0])):
        if changes:
            for new, events, agent in run:
                if not _made(tx, new, events, agent):
                    items.record(tx, new, events, agent)
        else:
            told = [_Told(event, agent) for _, events, agent in run for event in sorted(events, key=_item)]
            while told:
                told = _round(tx, told)


def _made(tx: PostgresTx, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> bool:
    """Make an item and tell the first thing of it, both at once; False if it is there already, or there is more."""
    if len(new) != 1 or [event.item for event in events] != [new[0].id]:
        return False
    item, event = items.first_of(new[0]), events[0]
    items.check_type(event)
    how, told = items.change_told(item, new[0])
    if not tx.run(
        "make_item",
        **items.columns_of(item),
        how=how,
        told=event_text(told),
        by=agent,
        type=event.type,
        outcome=event.outcome,
        agent=event.agent or agent,
        event_detail=event_text(event.detail),
    ):
        return False
    robots = items.Interested(tx)
    after = {event.type: Latest(event.type, 2, event.outcome, 2)}
    for at, latest, interested in (
        (item, {}, robots.in_news(None, "")),
        (replace(item, seq=2), after, robots.in_news(event.type, event.robot)),
    ):
        for name, trigger, facts in interested:
            if admits(trigger, at, latest):
                items.make_ready(tx, name, at, facts, agent="engine")
    return True


def _item(event: NewEvent) -> str:
    return event.item


def _round(tx: PostgresTx, told: Sequence[_Told]) -> list[_Told]:
    """The first event of each item; answers the others."""
    for each in told:
        items.check_type(each.event)
    first: dict[str, _Told] = {}
    rest = [each for each in told if first.setdefault(each.event.item, each) is not each]
    found = {row[0]: item_from(row) for row in tx.run("lock_items", ids=sorted(first))}
    for name in first:
        if name not in found:
            raise items.unknown(name)
    _append(tx, [(each, found[name]) for name, each in first.items()])
    _wake(tx, [(each, found[name]) for name, each in first.items()])
    return rest


def _append(tx: PostgresTx, told: Sequence[tuple[_Told, Item]]) -> None:
    missed = [missed_change(each.event, item, None) for each, item in told]
    tx.run(
        "append_many",
        items=[item.id for _, item in told],
        seqs=[item.seq + 1 for _, item in told],
        types=[each.event.type for each, _ in told],
        outcomes=[each.event.outcome for each, _ in told],
        agents=[each.event.agent or each.agent for each, _ in told],
        details=[event_text(told_with(each.event, seen)) for (each, _), seen in zip(told, missed, strict=True)],
        seens=[item.seq + 1 if seen is None else seen for (_, item), seen in zip(told, missed, strict=True)],
    )


def _wake(tx: PostgresTx, told: Sequence[tuple[_Told, Item]]) -> None:
    """As `items.wake_robots`: only the triggers that this news can change are asked."""
    robots = subscriptions(tx)
    by_type = {
        name: [robot for robot in robots if concerns(robot[1], name)] for name in {each.event.type for each, _ in told}
    }
    asked = [(item, who) for each, item in told if (who := _others(by_type[each.event.type], each.event, item))]
    if not asked:
        return
    latest: dict[str, list[Row]] = defaultdict(list)
    types = {name for _, who in asked for _, trigger, _ in who for name in trigger.looks_at()}
    for row in tx.run("latest_many", ids=[item.id for item, _ in asked], types=sorted(types)):
        latest[row[0]].append(row[1:])
    orders = [
        Order(ready_job(name, item, facts), tx.new_move(), system("engine"))
        for item, who in asked
        for name, trigger, facts in who
        if admits(trigger, item, latest_from(latest[item.id]))
    ]
    try:
        submit_many(tx, orders)
    except KeyConflict:
        pass  # as in `items.make_ready`; the others are in by then


def _others(robots: Sequence[Robot], event: NewEvent, item: Item) -> list[Robot]:
    """A robot's own report is not news to itself, unless it missed a change."""
    if missed_change(event, item, None) is not None:
        return list(robots)
    return [robot for robot in robots if robot[0] != event.robot]


@dataclass(frozen=True, slots=True)
class Lone:
    """One event by itself: its item is looked at first, and then nothing may have happened to it since."""

    event: NewEvent
    agent: str
    move: str

    @property
    def question(self) -> dict[str, str]:
        """For `look_at_one`: a trigger's text names what it minds in the words in which it was written."""
        return {
            "id": self.event.item,
            "word": "" if self.event.type == STOPPED else json.dumps(self.event.type, ensure_ascii=False),
        }

    def write(self, tx: PostgresTx, seen: Row) -> list[int]:
        """The event's id; none if the item has moved on."""
        items.named(self.event.type, "event type")
        item, latest = item_from(seen[:8]), latest_from(seen[8] or ())
        missed = missed_change(self.event, item, None)
        number = item.seq + 1
        latest[self.event.type] = Latest(
            self.event.type, number, self.event.outcome, number if missed is None else missed
        )
        robots = [(name, *read_robot(trigger, facts)) for name, trigger, facts in seen[9] or ()]
        minding = [robot for robot in robots if concerns(robot[1], self.event.type)]
        jobs = [
            ready_job(name, item, facts)
            for name, trigger, facts in _others(minding, self.event, item)
            if admits(trigger, item, latest)
        ]
        own = {
            "item": item.id,
            "seq": item.seq,
            "type": self.event.type,
            "outcome": self.event.outcome,
            "agent": self.event.agent or self.agent,
            "detail": event_text(told_with(self.event, missed)),
            "seen": missed,
            "kinds": [job.kind for job in jobs],
            "priorities": [job.priority for job in jobs],
            "details": [event_text(first_detail(job)) for job in jobs],
        }
        rows = tx.run("append_one", **columns(ready_job("", item, {}), 0, self.move, SYSTEM) | own)
        return [event_id for (event_id,) in rows]

    def found_again(self, tx: Tx) -> list[int] | None:
        rows = tx.run("appended_by_move", subject=item_subject(self.event.item), move=self.move)
        return [event_id for (event_id,) in rows] or None


def looked(rows: Sequence[Row]) -> dict[str, Look]:
    """Rows of items, each beside one of its newest events, as items with all of them."""
    found: dict[str, Look] = {}
    for row in rows:
        item_id = row[0]
        if item_id not in found:
            found[item_id] = (item_from(row[:8]), {})
        if row[8] is not None:
            found[item_id][1][row[8]] = Latest(*row[8:])
    return found
