"""Jobs that come one by one go past the driver's cursor: what could go wrong on that way, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from custody.errors import BadInput
from custody.kernel.model.authority.acting import system
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.verbs.shapes import with_key, with_needs
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import first_detail
from rig.postgres import Postgres


@pytest.fixture
def store(quick_postgres: Postgres) -> Iterator[Store]:
    url = quick_postgres.fresh_database()
    with open_store(url + "?unsafe=1&notify=0") as opened:
        yield opened
    quick_postgres.give_back(url)


def test_after_a_rollback_the_statement_is_prepared_again(store: Store) -> None:
    two = [NewJob("part"), NewJob("part", parent=store.queue.submit_one(NewJob("whole")).id)]
    first = store.queue.submit_one(NewJob("part", {"n": 1}))
    store.queue.submit(two)
    with pytest.raises(BadInput):
        store.queue.submit([NewJob("part", {"n": 2}), NewJob("part", {"n": 3}, parent=10**30)])
    store.queue.submit(two)  # now the driver has the server forget what it had prepared
    second = store.queue.submit_one(NewJob("part", {"n": 4}))
    assert [store.queue.get(one.id).payload for one in (first, second)] == [{"n": 1}, {"n": 4}]


def test_statements_that_were_forgotten_are_prepared_again(store: Store) -> None:
    job = store.queue.submit_one(NewJob("part", {"n": 1}))
    verbs: list[Callable[[], object]] = [
        lambda: store.queue.submit_one(NewJob("part", {"n": 2})),
        lambda: store.queue.get(job.id),
        lambda: store.queue.list(),
        lambda: store.queue.hold("kind", "part", "ann", "no stamps"),
        lambda: store.queue.lift("kind", "part", "ann"),
        lambda: store.queue.claim(["part|queued||"], "ann", 30),
    ]
    for _ in range(2):
        for verb in verbs:
            verb()
            with store.db._pool.connection() as db:  # type: ignore[attr-defined]
                db.pgconn.exec_(b"deallocate all")
    assert len(store.queue.list()) == 3


def test_every_field_arrives(store: Store) -> None:
    job = NewJob(
        "part",
        {"text": 'tab\t "quoted" 100 % %s \\ ünï'},
        key="k'",
        state="",
        priority=3,
        lane="a|b",
        place="here",
        collection="maps",
        delay=60,
        open=2,
        when_empty="queued",
        position=7,
        facts={"was": None},
    )
    made = store.queue.get(store.queue.submit_one(job, system("me")).id)
    assert (made.payload, made.key, made.priority, made.lane, made.place, made.collection) == (
        job.payload,
        job.key,
        3,
        "a|b",
        "here",
        "maps",
    )
    assert (made.open, made.when_empty, made.position, made.facts, made.unmet) == (2, "queued", 7, {"was": None}, 1)
    assert made.due is not None
    assert made.due - made.created == 60_000_000
    (event,) = store.records.events(made.subject)
    assert (event.type, event.agent, event.detail) == ("submitted", "me", first_detail(job))


def test_a_number_that_does_not_fit_is_refused(store: Store) -> None:
    with pytest.raises(BadInput) as caught:
        store.queue.submit_one(NewJob("part", position=2**70))
    assert caught.value.code == "store.value"
    assert store.queue.submit_one(NewJob("part")).new


@pytest.mark.parametrize("key", ["plain", '"kind":', 'é\n\\"', "1234567890123456789e9"])
def test_a_key_is_told_where_the_long_way_would_tell_it(key: str) -> None:
    job = NewJob('odd "kind":', key=key, lane='"kind":', priority=1)
    assert with_key(event_text(first_detail(replace(job, key=None))), key) == event_text(first_detail(job))


@pytest.mark.parametrize("needs", [[1], [7, 12, 10**15 - 1]])
@pytest.mark.parametrize("parent", [None, 3])
@pytest.mark.parametrize("key", [None, '"last_passed":null,'])
def test_needs_are_told_where_the_long_way_would_tell_them(
    needs: list[int], parent: int | None, key: str | None
) -> None:
    job = NewJob(
        'odd "last_passed":null,', key=key, lane='"last_passed":null,', parent=parent, needs=[Edge(on) for on in needs]
    )
    plain = with_needs(event_text(first_detail(replace(job, key=None, needs=()))), needs)
    assert (with_key(plain, key) if key else plain) == event_text(first_detail(job))
