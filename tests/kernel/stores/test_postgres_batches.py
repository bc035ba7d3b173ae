"""Many at a time must mean the same as one at a time: the same story is told to SQLite, job by job, and to
PostgreSQL, in whole batches, and afterwards every row and every event is compared."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Change, Claim, NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from kernel.stores.acts import moved, queue_of, worked
from kernel.stores.clock import HandClock
from rig.postgres import Postgres

WANTS = ("success", "success", "success", "finished", "failure", "passable")
NOT_TOLD = ("move",)  # random


@pytest.fixture
def both(quick_postgres: Postgres) -> Iterator[tuple[Store, Store, HandClock]]:
    clock, url = HandClock(), quick_postgres.fresh_database()
    with open_store("sqlite://:memory:", clock) as one, open_store(url + "?unsafe=1&notify=0", clock) as many:
        yield one, many, clock
        assert recount(one) == recount(many) == []
    quick_postgres.give_back(url)


def on_a_line(chance: random.Random, position: int) -> dict[str, Any]:
    return {"line": "line", "task": chance.choice("xyz"), "position": position, "supersedes": chance.random() < 0.2}


def new_jobs(chance: random.Random, round_: int, known: list[int], parents: list[int]) -> list[NewJob]:
    first = 100 * chance.randrange(10)  # batches may come out of order; within one, the newest instance comes last
    return [
        NewJob(
            "part",
            {"n": chance.random(), "text": 'tab\t "quoted" \\ ünï \x1e\x1f \n'},
            lane=chance.choice("abc"),
            priority=chance.choice((10, 50)),
            delay=chance.choice((0, 0, 0, 5)),
            facts=chance.choice(({}, {"was": "here"})),
            key=chance.choice((None, f"{round_}-{number}")),
            **(
                on_a_line(chance, first + number)
                if not parents and chance.random() < 0.5
                else {"parent": chance.choice([None, *parents])}
            ),
            needs=[
                Edge(on, chance.choice(WANTS), chance.choice(("wait", "skip")))  # type: ignore[arg-type]
                for on in chance.sample(known, min(len(known), chance.choice((0, 0, 0, 1, 2))))
            ],
        )
        for number in range(chance.randrange(1, 30))
    ]


def outcome(chance: random.Random, claim: Claim) -> Change:
    more: dict[str, Any] = chance.choice(
        (
            {},
            {},
            {"detail": {"why": "so", "state": "mine"}},
            {"keep": {"n": chance.randrange(9)}},
            {"then": [NewJob("part", {"after": claim.id}, lane="d")]},
            {"items": [NewItem(f"item-{claim.id % 7}", frozenset({"map"}))]},
            {"items": [NewItem(f"item-{claim.id % 7}")], "events": [NewEvent(f"item-{claim.id % 7}", "checked")]},
            {"lane": "e", "priority": 20},
        )
    )
    signal = chance.choice(("pass", "pass", "pass", "fail", "wait", "hold", "stale", "twice"))
    if signal == "wait":
        return worked(claim, "wait", **(more | {"delay": chance.choice((0, 3))}))
    if signal == "fail":
        return worked(claim, "fail", **(more | {"code": "broken"}))
    if signal == "stale":
        return worked(Claim(claim.job, claim.token - 1, claim.holder), "pass")
    if signal == "pass" and "then" not in more and chance.random() < 0.1:
        return worked(claim, "pass", **(more | {"remove": True}))
    return worked(claim, "pass" if signal == "twice" else signal, **more)


def said(event: Event) -> tuple[Any, ...]:
    detail = dict(event.detail)
    if event.type == "superseded":
        detail["why"] = re.sub(r"job \d+ had already superseded it", "superseded by", detail["why"])
        detail["why"] = re.sub(r"superseded by job \d+", "superseded by", detail["why"])
    return event.seq, event.type, event.outcome, event.agent, event.at, detail, event.token


def told(store: Store) -> dict[str, Any]:
    jobs = {job.id: {n: v for n, v in asdict(job).items() if n not in NOT_TOLD} for job in store.queue.every()}
    events = {
        subject: [said(event) for event in store.records.all_events(subject)]
        for subject in [
            *(f"job/{n}" for n in range(1, max(jobs, default=0) + 20)),
            *(f"item/item-{n}" for n in range(7)),
        ]
    }
    return {"jobs": jobs, "events": events, "items": store.records.items()}


@pytest.mark.parametrize("lines", [False, True], ids=["parents", "lines"])
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_means_what_its_jobs_mean_one_by_one(
    both: tuple[Store, Store, HandClock], seed: int, lines: bool
) -> None:
    one, many, clock = both
    chance = random.Random(seed)
    parents = [one.queue.submit_one(NewJob("whole", state="held", when_empty="queued")).id for _ in range(3)]
    assert parents == [many.queue.submit_one(NewJob("whole", state="held", when_empty="queued")).id for _ in range(3)]
    parents = [] if lines else parents
    known: list[int] = []
    for round_ in range(12):
        jobs = new_jobs(chance, round_, known, parents)
        made = one.queue.submit(jobs, system("ann"))
        assert many.queue.submit(jobs, system("ann")) == made
        keyed = [job for job in jobs if job.key]  # asked for again, together with one that is new
        asked = [*keyed, NewJob("part", {"n": "late"}, lane="a", needs=[Edge(known[-1])] if known else [])]
        again = one.queue.submit(asked, system("ann"))
        assert many.queue.submit(asked, system("ann")) == again
        known += [each.id for each in made]
        clock.advance(2)
        assert one.queue.tick() == many.queue.tick()
        queues = [queue_of("part", lane=lane) for lane in "abcde"]
        claims = one.queue.claim(queues, "w", 100, 25)
        theirs = many.queue.claim_jobs([claim.id for claim in claims], "w", 100)
        assert {claim.id: claim.token for claim in theirs} == {claim.id: claim.token for claim in claims}
        changes = [outcome(chance, claim) for claim in claims]
        changes += [worked(claim, "pass") for claim in claims[:2]]  # a second word about the same job
        changes += [
            moved(job, "resume") for job in one.queue.every() if job.ended == "failed" and chance.random() < 0.3
        ]
        there = {claim.id: claim.move for claim in theirs}
        others = [replace(change, claimed=there[change.id]) if change.token else change for change in changes]
        ones, manys = one.queue.settle(changes), many.queue.settle(others)
        assert ones == manys
        gone = {change.id for change in changes if change.remove}
        known = [job for job in known if job not in gone]
        assert told(one) == told(many)
    ends = {job.ended for job in one.queue.every()}
    assert {"skipped", "superseded" if lines else "passed"} <= ends
