"""Lists are the same set whichever way they are walked, and stay quick however long they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.ingest.states import MACHINES
from custody.kernel.access.caller import Caller
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.stores import Store, open_store
from custody.web.queries import lists
from custody.web.representations import as_csv

TABLES = Machines(MACHINES)
EVERYONE = Caller("ada", frozenset({"admin"}), None)
SCOPED = Caller("bo", frozenset({"reader"}), frozenset({"maps"}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three hundred jobs of several kinds, states, collections and causes."""
    chance = random.Random(1)
    path: Path = tmp_path_factory.mktemp("lists")
    with open_store(f"sqlite:///{path / 'x.db'}") as opened:
        parent = opened.queue.submit_one(NewJob("parcel/all", open=1)).id
        for number in range(300):
            job = NewJob(
                chance.choice(["parcel", "parcel/small", "letter"]),
                {"n": number},
                lane=chance.choice("ab"),
                collection=chance.choice(["maps", "papers", ""]),
                parent=parent if chance.random() < 0.5 else None,
            )
            opened.queue.submit_one(job)
        from custody.kernel.engine import Kind, Serving, Worker
        from custody.kernel.model.outcome import Failed, Hold, Passed

        ends = [Passed(), Passed(), Failed("c1"), Failed("c2"), Hold("look")]

        def handle(work: object) -> object:
            return ends[work.job.id % len(ends)]  # type: ignore[attr-defined]

        serving = Serving((Kind("parcel", handle), Kind("parcel/small", handle)))  # type: ignore[arg-type]
        Worker(opened, serving).run_until_idle(200)
        yield opened


FILTERS = [
    Filter(),
    Filter(kind="parcel"),
    Filter(kind="parcel*"),
    Filter(state="queued"),
    Filter(state="held", collection="maps"),
    Filter(ended="failed"),
    Filter(ended="failed", code="c1"),
    Filter(code="c2", lane="a"),
    Filter(kind="letter", collection="papers", lane="b"),
    Filter(kind="nothing"),
]


@pytest.mark.parametrize("where", FILTERS, ids=str)
@pytest.mark.parametrize("caller", [EVERYONE, SCOPED], ids=["all", "maps"])
@pytest.mark.parametrize("size", [1, 7, 500])
def test_pages_put_together_are_what_the_store_lists(store: Store, where: Filter, caller: Caller, size: int) -> None:
    wanted = [job.id for job in store.queue.every(where) if caller.sees(job.collection)]
    seen: list[int] = []
    before = lists.NEWEST
    while True:
        page = lists.newest_jobs(store, TABLES, caller, where, before, size)
        seen += [job.id for job in page.rows]
        if not page.next:
            break
        before = int(page.next)
    assert seen == wanted[::-1]


@pytest.mark.parametrize("where", [Filter(parent=1), Filter(parent=1, ended="failed"), Filter(parent=1, state="held")])
@pytest.mark.parametrize("size", [1, 7, 500])
def test_the_jobs_of_a_parent_come_in_their_own_order(store: Store, where: Filter, size: int) -> None:
    wanted = [job.id for job in store.queue.every(where)]
    seen: list[int] = []
    after = 0
    while True:
        page = lists.children(store, EVERYONE, where, after, size)
        seen += [job.id for job in page.rows]
        if not page.next:
            break
        after = int(page.next)
    assert seen == wanted
    assert wanted


def test_a_filter_survives_its_address() -> None:
    for where in FILTERS:
        assert lists.filter_of(lists.as_query(where)) == where


def test_a_cell_of_csv_is_no_formula() -> None:
    response = as_csv({"a": lambda row: row}, ["=1+1", "@x", "-2", "plain", None, 3, {"k": "=x"}], "x")

    async def read() -> str:
        return "".join([str(part) async for part in response.body_iterator])  # type: ignore[attr-defined]

    import asyncio

    lines = asyncio.run(read()).split("\r\n")
    assert lines[:7] == ["a", "'=1+1", "'@x", "'-2", "plain", '""', "3"]
