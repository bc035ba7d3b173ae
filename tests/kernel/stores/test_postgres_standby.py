"""What a synchronous standby has, and nothing else, is acknowledged; and history that went back is noticed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from custody.errors import CustodyError, Unavailable, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres import in_doubt, transaction, transaction_words
from kernel.stores.acts import submit, take_one, worked
from kernel.stores.test_postgres import until
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.postgres import Postgres

SYNCHRONOUS = "standby"


class Pair:
    """A primary that waits for its standby, which can be stopped as a machine is."""

    def __init__(self) -> None:
        self.primary = Postgres(fast=True)
        self.primary.start()
        self.url = self.primary.fresh_database() + "?unsafe=1&notify=0"
        open_store(self.url).close()
        self.standby = self.primary.standby(SYNCHRONOUS)
        self.primary.set(synchronous_standby_names=SYNCHRONOUS)
        until(self.is_synchronous)

    def is_synchronous(self) -> bool:
        return self.ask("select 1 from pg_stat_replication where sync_state = 'sync' and state = 'streaming'") != []

    def ask(self, question: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.primary.url(), autocommit=True) as db:
            return db.execute(question).fetchall()

    def there(self) -> set[str]:
        """The keys that the standby has."""
        at = self.url.partition("?")[0].replace(f":{self.primary.port}/", f":{self.standby.port}/")
        with psycopg.connect(at, autocommit=True) as db:
            return {str(key) for (key,) in db.execute("select key from job where key is not null").fetchall()}

    def remove(self) -> None:
        self.standby.remove()
        self.primary.remove()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    need("postgresql")
    both = Pair()
    yield both
    both.remove()


@pytest.fixture
def away(pair: Pair) -> Iterator[None]:
    """The standby stands still, as a machine does: nobody knows for how long."""
    pair.standby.program.freeze()
    yield
    pair.standby.program.resume()
    until(pair.is_synchronous)


WAITING = "pid in (select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name like 'custody:%')"
BLOWS = {
    "cancelled": f"select pg_cancel_backend(pid) from pg_stat_activity where {WAITING}",
    "terminated": f"select pg_terminate_backend(pid) from pg_stat_activity where {WAITING}",
}


@contextmanager
def struck(pair: Pair, blow: str) -> Iterator[None]:
    """Whoever of ours waits for the standby meanwhile is cancelled, or terminated, again and again."""
    over = threading.Event()

    def strike() -> None:
        while not over.is_set():
            pair.ask(BLOWS[blow])
            time.sleep(0.02)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def one(store: Store, key: str) -> bool:
    return store.queue.submit_one(NewJob("parcel", key=key)).id > 0


def several(store: Store, key: str) -> bool:
    """More than one is a transaction of its own making."""
    return len(store.queue.submit([NewJob("parcel", key=key), NewJob("parcel", parent=None, lane="b")])) == 2


def with_a_need(store: Store, key: str) -> bool:
    first = store.queue.submit_one(NewJob("parcel"))
    return store.queue.submit_one(NewJob("parcel", key=key, parent=first.id)).id > 0


@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("verb", [one, several, with_a_need])
def test_what_no_standby_has_is_not_acknowledged(
    pair: Pair, away: None, blow: str, verb: Callable[[Store, str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_doubt, "PATIENCE", 1.0)
    with open_store(pair.url) as store, struck(pair, blow), pytest.raises(Unavailable) as refused:
        verb(store, f"{blow} {verb.__name__}")
    assert refused.value.code == "store.unknown"


@pytest.mark.parametrize("blow", BLOWS)
def test_what_the_standby_gets_after_all_is_acknowledged_then(pair: Pair, blow: str) -> None:
    pair.standby.program.freeze()
    timer = threading.Timer(1.0, pair.standby.program.resume)
    timer.start()
    with open_store(pair.url) as store, struck(pair, blow):
        assert one(store, f"late {blow}")
    timer.join()
    until(lambda: f"late {blow}" in pair.there())


@pytest.mark.parametrize("blow", BLOWS)
def test_a_key_that_is_known_is_not_acknowledged_either_while_no_standby_knows_it(
    pair: Pair, away: None, blow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was told that nobody knows tries again, with his key, and finds what no standby has."""
    monkeypatch.setattr(in_doubt, "PATIENCE", 1.0)
    with open_store(pair.url) as store, struck(pair, blow):
        for _ in range(2):
            with pytest.raises(Unavailable) as refused:
                one(store, f"again {blow}")
            assert refused.value.code == "store.unknown"


def test_a_settle_that_was_done_already_is_not_acknowledged_while_no_standby_has_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_doubt, "PATIENCE", 1.0)
    with open_store(pair.url) as store:
        submit(store)
        change = worked(take_one(store), "pass")
        pair.standby.program.freeze()
        try:
            with struck(pair, "cancelled"):
                for _ in range(2):
                    with pytest.raises(Unavailable) as refused:
                        store.queue.settle([change])
                    assert refused.value.code == "store.unknown"
        finally:
            pair.standby.program.resume()
        assert store.queue.settle([change])[0].done


def test_what_was_only_looked_at_is_confirmed_before_it_is_answered(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_doubt, "PATIENCE", 1.0)
    with open_store(pair.url) as store:
        pair.standby.program.freeze()
        try:
            with struck(pair, "cancelled"), pytest.raises(Unavailable) as refused:
                store.confirm()
        finally:
            pair.standby.program.resume()
        assert refused.value.code == "store.unknown"
        store.confirm()


def test_a_server_without_a_standby_is_refused_where_one_is_required(pair: Pair) -> None:
    open_store(pair.url + "&require=sync").close()
    pair.primary.set(synchronous_standby_names="")
    try:
        until(lambda: pair.ask("show synchronous_standby_names") == [("",)])
        with pytest.raises(Unsafe) as refused:
            open_store(pair.url + "&require=sync")
    finally:
        pair.primary.set(synchronous_standby_names=SYNCHRONOUS)
        until(pair.is_synchronous)
    assert refused.value.code == "postgres.alone"


# The proof


def tried(pair: Pair, store: Store, seed: int, blow: str) -> tuple[int, set[str]]:
    """Submits while the standby stands still and every wait is ended: how many, and which were acknowledged. Nothing
    of them can be there: it stood still before the first."""
    acknowledged: set[str] = set()
    chance, count = random.Random(seed), 0
    pair.standby.program.freeze()
    try:
        with struck(pair, blow):
            for number in range(5):
                key = f"{blow} {seed} {number}"
                for _ in range(chance.choice((1, 2))):
                    count += 1
                    with suppress(CustodyError):
                        chance.choice((one, several))(store, key)
                        acknowledged.add(key)
    finally:
        pair.standby.program.resume()
    return count, acknowledged


@pytest.mark.proves("P11")
def test_only_what_a_standby_has_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch, scaled: Scaled[int], tell: Tell
) -> None:
    """At the end the primary is gone for good, and the standby must have all that was acknowledged between the blows.
    The old way, which took a commit's answer or a look for enough, is tried beside it."""
    need("postgresql")
    monkeypatch.setattr(in_doubt, "PATIENCE", 0.4)
    tries, too_early, kept = 0, 0, set[str]()
    pair = Pair()
    try:
        for seed in range(scaled(1, 4, 200)):
            for blow in BLOWS:
                with open_store(pair.url) as store:
                    count, acknowledged = tried(pair, store, seed, blow)
                tries, too_early = tries + count, too_early + len(acknowledged)
                until(pair.is_synchronous)
                with monkeypatch.context() as patient, open_store(pair.url) as store:
                    patient.setattr(in_doubt, "PATIENCE", 60.0)
                    kept |= {key for key in (f"kept {blow} {seed}", *acknowledged) if one(store, key)}
        with monkeypatch.context() as old, open_store(pair.url) as store:
            old.setattr(in_doubt, "_barrier", lambda db, stop_at: True)
            old.setattr(transaction, "CONFIRMED_COMMIT", transaction_words.COMMIT)
            _, old_way = tried(pair, store, 999, "terminated")
        pair.primary.stop("immediate")
        pair.standby.promote()
        missing = kept - pair.there()
    finally:
        pair.remove()
    tell(
        f"{tries} submits whose wait for a standby was cancelled or ended: {too_early} acknowledged all the same (the old"
        f" way: {len(old_way)} of 5); {len(missing)} of {len(kept)} missing after the promotion",
        tries=tries,
        acknowledged_too_early=too_early + len(missing),
        by_the_old_way=len(old_way),
    )
    assert (too_early, missing) == (0, set())
    assert old_way, "the trial is too soft: even the old way acknowledges nothing"
