"""Servers that are away, stand still or are replaced: what has not begun waits, and history that went back is noticed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from custody.errors import CustodyError, Refused, Unavailable
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.worker import Worker
from custody.kernel.model.job import Answer, Change, Job, NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres import prepared
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.failover import Way
from custody.kernel.stores.postgres.server.receipts import KEPT_SECONDS, MOST, NEWEST, Receipts
from kernel.stores.acts import submit, take, take_one, worked
from kernel.stores.test_postgres import until
from rig.need import need
from rig.postgres import Postgres
from rig.program import LOOPBACK, free_port


@pytest.fixture
def primary() -> Iterator[Postgres]:
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    yield server
    server.program.resume() if server.program.running else None
    server.remove()


@pytest.fixture
def standby(primary: Postgres) -> Iterator[Postgres]:
    """One that follows, and is not waited for."""
    server = primary.standby()
    yield server
    server.remove()


def url_of(*servers: Postgres, more: str = "") -> str:
    hosts = ",".join(f"{LOOPBACK}:{server.port}" for server in servers)
    return f"postgresql://custody:{servers[0].password}@{hosts}/postgres?unsafe=1&notify=0{more}"


# Patience


def test_a_server_that_is_just_starting_is_waited_for(primary: Postgres) -> None:
    open_store(url_of(primary)).close()
    primary.stop()
    told: list[CustodyError] = []
    timer = threading.Timer(0.7, primary.start)
    timer.start()
    with open_store(url_of(primary, more="&patience=60"), told=told.append) as store:
        submit(store)
    timer.join()
    assert told
    assert {error.code for error in told} == {"store.down"}


def test_a_verb_waits_for_its_server_and_does_its_work_once(primary: Postgres) -> None:
    with open_store(url_of(primary, more="&patience=60")) as store:
        submit(store)
        primary.stop()
        timer = threading.Timer(0.7, primary.start)
        timer.start()
        submit(store)
        timer.join()
        assert len(store.queue.list()) == 2


@pytest.mark.parametrize(("patience", "seconds"), [("0", 0.0), ("1", 0.5)])
def test_patience_ends(patience: str, seconds: float) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable) as refused:
        open_store(f"postgresql://custody@{LOOPBACK}:{free_port()}/custody?patience={patience}")
    assert refused.value.code == "store.down"
    assert time.monotonic() - began >= seconds


def test_what_will_not_change_is_said_at_once(primary: Postgres) -> None:
    wrong = url_of(primary, more="&patience=600").replace("/postgres?", "/nowhere?")
    with pytest.raises(Unavailable, match="nowhere"):
        open_store(wrong)


def test_a_worker_that_is_started_before_its_server_says_so_and_works_when_it_is_there(primary: Postgres) -> None:
    with open_store(url_of(primary)) as store:
        store.queue.submit_one(NewJob("parcel"))
    primary.stop()
    command = [sys.executable, "-m", "custody", "worker", "run", "--exec", "parcel=true", "--until-idle"]
    with subprocess.Popen(
        [*command, "--store", url_of(primary)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as worker:
        assert worker.stderr
        until(lambda: worker.stderr and "waiting" in worker.stderr.readline())
        primary.start()
        worker.stderr.read()
    assert worker.returncode == 0
    with open_store(url_of(primary)) as store:
        assert store.queue.list()[0].ended == "passed"


# A server that stands still, and one that was replaced


def test_a_primary_that_stands_still_and_was_replaced_keeps_nobody_waiting(
    primary: Postgres, standby: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel still answers, so no time-out of the network ever ends the wait."""
    monkeypatch.setattr(prepared, "SILENCE_SECONDS", 0.5)
    with open_store(url_of(primary, standby, more="&patience=60")) as store:
        first = store.queue.submit_one(NewJob("parcel"))
        _caught_up(primary, standby)
        primary.program.freeze()
        timer = threading.Timer(1.0, standby.promote)
        timer.start()
        made = store.queue.submit_one(NewJob("parcel", key="after"))
        timer.join()
        assert made.new
        assert store.queue.get(first.id, first.move).id == first.id
        assert store.queue.get(made.id, made.move).key == "after"


def test_a_long_wait_alone_is_not_taken_for_a_dead_server(primary: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "SILENCE_SECONDS", 0.1)
    with open_store(url_of(primary)) as store:

        def sleep(tx: object) -> object:
            return tx.db.execute("select pg_sleep(1)").fetchall()  # type: ignore[attr-defined]

        began = time.monotonic()
        store.db.write(sleep)
        assert time.monotonic() - began >= 1
        assert prepared.say(store.db._pool._spare[0], b"select 1") == [("1",)]  # type: ignore[attr-defined]


def test_a_primary_that_does_not_know_that_it_was_replaced_is_never_used_again(
    primary: Postgres, standby: Postgres
) -> None:
    """Two primaries at once: whoever has seen the new one is not sent back to the old one, which comes first."""
    way = Way(Address.of(url_of(primary, standby)))
    with way.connect() as db:
        assert db.session.timeline == 1
    standby.promote()
    with way.connect(of_all=True) as db:
        assert db.session.timeline == 2
        assert db.info.port == standby.port
    with way.connect() as db:
        assert db.session.timeline == 2
    with pytest.raises(Unavailable) as refused:
        Way(Address.of(url_of(primary)), way.seen).connect()
    assert refused.value.code == "postgres.past"


def test_of_several_hosts_the_primary_is_found_and_remembered(primary: Postgres, standby: Postgres) -> None:
    way = Way(Address.of(url_of(standby, primary)))
    for _ in range(2):
        with way.connect() as db:
            assert db.info.port == primary.port
    assert way._hosts[0]["port"] == str(primary.port)


# History that went back


class Listening:
    """What a worker tells of."""

    def __init__(self) -> None:
        self.troubles: list[CustodyError] = []

    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None: ...

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None:
        self.troubles.append(error)


def test_history_that_went_back_is_noticed_and_said(primary: Postgres, standby: Postgres) -> None:
    with open_store(url_of(primary, standby, more="&patience=60")) as store:
        kept = store.queue.submit_one(NewJob("parcel", key="kept"))
        _caught_up(primary, standby)
        standby.stop()  # cut off
        # A server writes down numbers by the thirty-two, so that fewer would not be given out again.
        lost = [store.queue.submit_one(NewJob("parcel", {"n": n})) for n in range(40)]
        settled = worked(take_one(store), "pass")
        assert store.queue.settle([settled])[0].done
        primary.stop("immediate")
        standby.start()
        standby.promote()
        again = [store.queue.submit_one(NewJob("letter", {"n": n})) for n in range(40)]
        assert not {job.id for job in again} & {job.id for job in lost}, "a number stands for two jobs"

        _must_be_told(store, moves=41)
        assert store.queue.get(kept.id, kept.move).key == "kept"
        for job in lost:
            with pytest.raises(Refused) as refused:
                store.queue.get(job.id, job.move)
            assert refused.value.code == "store.went_back"
        receipts = [(job.id, job.move) for job in (kept, *lost, *again)]
        assert store.queue.missing(receipts) == [(job.id, job.move) for job in lost]


def test_whoever_holds_jobs_of_the_lost_history_ends_no_others_of_their_numbers(
    primary: Postgres, standby: Postgres
) -> None:
    """A real promotion: numbers and tokens are given out a second time, to the same worker's name."""
    url = url_of(primary, standby, more="&patience=60")
    with open_store(url) as store:
        submit(store)
        _caught_up(primary, standby)
        standby.stop()
        store.queue.submit([NewJob("parcel", {"of": "before"}) for _ in range(80)])
        lost = {claim.id: claim for claim in take(store, limit=100)}
        lease = store.leases.claim("sealer", "ann", 600)
        primary.stop("immediate")
        standby.start()
        standby.promote()
        with open_store(url_of(standby)) as other:
            other.queue.submit([NewJob("parcel", {"of": "now"}) for _ in range(80)])
            claims = take(other, limit=100)
            again = [claim for claim in claims if claim.id in lost and claim.job.payload == {"of": "now"}]
            assert again, "no number was given out twice"
            assert {claim.token for claim in again} == {lost[claim.id].token for claim in again}
            assert other.leases.claim("sealer", "ann", 600) is not None
            stale = [lost[claim.id] for claim in again]
            assert {answer.code for answer in store.queue.settle([worked(one, "pass") for one in stale])} == {
                "lease.lost"
            }
            assert store.queue.renew(stale, 60) == {one.id: "lost" for one in stale}
            assert store.queue.release(stale) == 0
            assert lease is not None
            assert not store.leases.settle(lease)
            assert all(answer.done for answer in other.queue.settle([worked(one, "pass") for one in again]))


def _must_be_told(store: Store, moves: int) -> None:
    listening = Listening()
    worker = Worker(store, Serving(()), Settings(wake=False), listening)
    worker.run_until_quiet()
    (told,) = [error for error in listening.troubles if error.code == "store.went_back"]
    assert told.facts["missing"] == moves
    (event,) = [event for event in store.records.events("store") if event.type == "went-back"]
    assert event.outcome == "failure"
    assert (event.detail["missing"], event.detail["before"], event.detail["timeline"]) == (moves, 1, 2)


def test_a_promotion_that_lost_nothing_is_nothing_to_tell(primary: Postgres, standby: Postgres) -> None:
    with open_store(url_of(primary, standby, more="&patience=60")) as store:
        job = store.queue.submit_one(NewJob("parcel"))
        _caught_up(primary, standby)
        primary.stop("immediate")
        standby.promote()
        assert store.queue.get(job.id, job.move).id == job.id
        assert store.troubles() == []
        assert store.records.events("store") == []


def test_receipts_are_kept_for_a_minute_and_not_without_end() -> None:
    now = [0.0]
    receipts = Receipts(lambda: now[0])
    receipts.note([(1, "a"), (2, "b")])
    assert receipts.kept() == [("job/1", "a"), ("job/2", "b")]
    now[0] = KEPT_SECONDS + 1
    assert receipts.kept() == [("job/1", "a"), ("job/2", "b")], "the newest are kept, however old they are"
    receipts.note([(number, "b") for number in range(NEWEST)])
    assert len(receipts.kept()) == len(receipts.newest()) == NEWEST
    for number in range(MOST + 10):
        receipts.note([(number, "c")])
    assert len(receipts.kept()) == MOST


def _caught_up(primary: Postgres, standby: Postgres) -> None:
    import psycopg

    with psycopg.connect(primary.url(), autocommit=True) as db:
        ((end,),) = db.execute("select pg_current_wal_flush_lsn()::text").fetchall()
    with psycopg.connect(standby.url(), autocommit=True) as db:
        until(lambda: db.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", (end,)).fetchall() == [(True,)])
