"""Many wait for one: when it is done they are all told in a few statements, and other processes with one notice."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.notify import TOPIC
from kernel.stores.acts import take, worked
from prove.plugin import Scaled, Tell

QUIET_SECONDS = 0.5


@pytest.fixture
def calls(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are sent to the store."""
    sent: list[str] = []
    transaction: Any = store.db.write(type)
    plain = transaction.run

    def run(self: object, name: str, /, **values: object) -> object:
        sent.append(name)
        return plain(self, name, **values)

    monkeypatch.setattr(transaction, "run", run)
    return sent


@pytest.mark.proves("G18")
def test_all_who_wait_for_one_are_told_in_a_few_statements(
    store: Store, calls: list[str], scaled: Scaled[int], tell: Tell
) -> None:
    waiters = scaled(200, 200, 2_000)
    (first,) = store.queue.submit([NewJob("parcel")])
    store.queue.submit([NewJob("parcel", needs=[Edge(first.id)]) for _ in range(waiters)])
    (claim,) = take(store)
    calls.clear()
    store.queue.settle([worked(claim, "pass")])
    tell(f"{waiters} waiters on {store.db.dialect}: {len(calls)} statements", waiters=waiters, calls=len(calls))
    assert len(calls) < 10, calls
    assert len(take(store, limit=waiters + 1)) == waiters


@pytest.mark.proves("G18")
def test_other_processes_hear_of_it_once(postgres_url: str, scaled: Scaled[int], tell: Tell) -> None:
    waiters = scaled(200, 200, 2_000)
    with open_store(postgres_url) as store:  # which tells of what was submitted, at the latest when it is closed
        (first,) = store.queue.submit([NewJob("parcel")])
        store.queue.submit([NewJob("parcel", needs=[Edge(first.id)]) for _ in range(waiters)])
        (claim,) = take(store)
    with psycopg.connect(postgres_url, autocommit=True) as ear:
        ear.execute(f"listen {TOPIC}")
        with open_store(postgres_url) as store:
            store.queue.settle([worked(claim, "pass")])
        heard = list(ear.notifies(timeout=60, stop_after=1))
        heard += ear.notifies(timeout=QUIET_SECONDS)
    tell(f"{waiters} waiters: {len(heard)} notice", notices=len(heard))
    assert len(heard) == 1
