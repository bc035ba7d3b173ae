"""A database that was put back to an earlier moment, on the same server and timeline: whoever was told otherwise notices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from custody.cli.doctor.server import server_findings
from custody.errors import CustodyError, Refused
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.postgres.server import receipts
from custody.kernel.stores.postgres.server.receipts import NEWEST
from custody.kernel.stores.recovery.losses import Loss, losses
from custody.kernel.stores.rules.submit import Submitted
from kernel.stores.acts import take, worked
from kernel.stores.test_postgres import until
from kernel.stores.test_postgres_failover import primary
from rig.need import need
from rig.pgbouncer import PgBouncer
from rig.postgres import Postgres

__all__ = ["primary"]
NAME = "archive"


def address(server: Postgres, more: str = "") -> str:
    return f"{server.url(NAME)}?unsafe=1&notify=0&patience=60{more}"


def jobs(store: Store, count: int, of: str) -> list[Submitted]:
    return [store.queue.submit_one(NewJob("parcel", {"of": of, "n": n})) for n in range(count)]


def dumped(server: Postgres) -> Callable[[], None]:
    file = server.dump(NAME)

    def back() -> None:
        server.drop_and_create(NAME)
        server.restore(NAME, file)

    return back


def copied(server: Postgres) -> Callable[[], None]:
    copy = server.keep_a_copy()
    return lambda: server.put_back(copy)


def cleaned(server: Postgres) -> Callable[[], None]:
    """Into the tables' place while sessions go on: no connection is lost."""
    file = server.dump(NAME)
    return lambda: server.restore(NAME, file, "--clean", "--if-exists")


def truncated(server: Postgres) -> Callable[[], None]:
    """Into the very same tables: neither a connection nor a table is another one."""
    file = server.dump(NAME)

    def back() -> None:
        with psycopg.connect(server.url(NAME), autocommit=True) as db:
            names = db.execute(
                "select string_agg(quote_ident(tablename), ', ') from pg_tables where schemaname = 'public'"
            )
            db.execute(f"truncate {names.fetchall()[0][0]} restart identity cascade")  # type: ignore[arg-type]
        server.restore(NAME, file, "--data-only", "--disable-triggers")

    return back


@pytest.fixture
def server(primary: Postgres) -> Postgres:
    with psycopg.connect(primary.url(), autocommit=True) as db:
        db.execute(f"create database {NAME} template template0")
    return primary


@pytest.fixture
def pooler(server: Postgres) -> Iterator[PgBouncer]:
    need("pgbouncer")
    made = PgBouncer(server)
    made.start()
    yield made
    made.remove()


@pytest.mark.parametrize("keep", [dumped, copied, cleaned, truncated])
@pytest.mark.parametrize("pooled", [False, True])
def test_a_restore_on_the_same_timeline_is_noticed_before_anything_more_is_acknowledged(
    server: Postgres,
    pooler: PgBouncer,
    keep: Callable[[Postgres], Callable[[], None]],
    pooled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from custody.kernel.stores.postgres import pool

    monkeypatch.setattr(pool, "LOOK_SECONDS", 1e6)  # nobody looks in time: the numbers alone must tell
    url = pooler.url(address(server)) if pooled else address(server)
    with open_store(url) as store:
        kept = jobs(store, 10, "kept")
        back = keep(server)
        lost = jobs(store, 40, "lost")
        back()
        again = jobs(store, 40, "again")

        assert not {one.id for one in lost} & {one.id for one in again}, "a number stands for two jobs"
        (event,) = [event for event in store.records.events("store") if event.type == "went-back"]
        assert event.detail["missing"] == 40
        assert event.detail["before"] == event.detail["timeline"] == 1
        (trouble,) = store.troubles()
        assert trouble.code == "store.went_back"
        assert "restored" in str(trouble)
        assert "synchronous" not in trouble.hint
        for one in lost:
            with pytest.raises(Refused, match="history went back"):
                store.queue.get(one.id, one.move)
        assert store.queue.missing([(one.id, one.move) for one in (*kept, *again)]) == []
        assert [finding for finding in server_findings(store) if finding.grade == "unsafe"]


def told_to(server: Postgres) -> list[Loss]:
    """What somebody reads who knows nothing himself."""
    with open_store(address(server)) as other:
        return losses(other)


@pytest.mark.parametrize("keep", [dumped, truncated])
@pytest.mark.parametrize("between", [0, 5])
def test_what_a_second_restore_takes_the_word_of_is_told_again_and_all_of_it_once(
    server: Postgres, keep: Callable[[Postgres], Callable[[], None]], between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word that told of the first loss is lost with the second."""
    from custody.kernel.stores.postgres import pool

    monkeypatch.setattr(pool, "LOOK_SECONDS", 0.0)
    with open_store(address(server)) as store:
        kept = jobs(store, 2, "kept")
        back = keep(server)
        first = jobs(store, 4, "lost")
        back()
        assert store.queue.get(kept[0].id)
        assert [loss.subjects for loss in told_to(server)] == [tuple(f"job/{one.id}" for one in first)]
        second = jobs(store, between, "lost as well")
        back()
        new = jobs(store, 1, "new")
        told = [subject for loss in told_to(server) for subject in loss.subjects]
        assert sorted(told) == sorted(f"job/{one.id}" for one in (*first, *second))
        assert new[0].id > max(one.id for one in (*first, *second))
        assert [one.code for one in store.troubles()] == ["store.went_back"] * 2
        for _ in range(3):
            jobs(store, 1, "new")
        assert len(told_to(server)) == 1, "and not a third time"


def test_a_word_that_is_lost_where_all_it_told_of_is_there_again_is_not_said_again(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    from custody.kernel.stores.postgres import pool

    monkeypatch.setattr(pool, "LOOK_SECONDS", 0.0)
    with open_store(address(server)) as store:
        empty = server.dump(NAME).rename(server.folder / "empty")
        lost = jobs(store, 4, "lost")
        copy = server.dump(NAME)
        server.drop_and_create(NAME)
        server.restore(NAME, empty)
        assert store.queue.list() == []
        assert len(told_to(server)) == 1
        server.drop_and_create(NAME)
        server.restore(NAME, copy)
        jobs(store, 2, "new")
        assert store.queue.missing([(one.id, one.move) for one in lost]) == []
        assert told_to(server) == []
        assert len(store.troubles()) == 1


SUBMITS: dict[str, Callable[[Store, int], list[Submitted]]] = {
    "keyless": lambda store, n: [store.queue.submit_one(NewJob("parcel"))],
    "keyed": lambda store, n: [store.queue.submit_one(NewJob("parcel", key=f"now {n}"))],
    "many": lambda store, n: list(store.queue.submit([NewJob("parcel") for _ in range(3)])),
    "many keyed": lambda store, n: list(store.queue.submit([NewJob("parcel", key=f"{n} {m}") for m in range(3)])),
    "some known": lambda store, n: list(
        store.queue.submit([NewJob("parcel", key=key) for key in ("kept", f"new {n}")])
    ),
    "streamed": lambda store, n: list(store.queue.submit([NewJob("parcel") for _ in range(1001)])),
    "needs": lambda store, n: [store.queue.submit_one(NewJob("parcel", needs=(Edge(1, "success", "wait"),)))],
    "odd key": lambda store, n: [store.queue.submit_one(NewJob("parcel", key=f"\x1e{n}", line="l", task=f"\x1e{n}"))],
}


@pytest.mark.parametrize("how", SUBMITS)
@pytest.mark.parametrize("keep", [cleaned, truncated])
def test_no_way_to_submit_gives_out_a_number_again(
    server: Postgres, keep: Callable[[Postgres], Callable[[], None]], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from custody.kernel.stores.postgres import pool

    monkeypatch.setattr(pool, "LOOK_SECONDS", 1e6)
    with open_store(address(server)) as store:
        store.queue.submit_one(NewJob("parcel", key="kept"))
        SUBMITS[how](store, 0)
        back = keep(server)
        lost = jobs(store, 12, "lost")
        back()
        again = [one for n in range(1, 4) for one in SUBMITS[how](store, n) if one.new]
        assert min(one.id for one in again) > lost[-1].id
        assert [one.type for one in store.records.events("store")] == ["went-back"]
        assert [one.code for one in store.troubles()] == ["store.went_back"]
        assert store.queue.missing([(one.id, one.move) for one in again]) == []
        assert not [one for one in lost if store.queue.list() and one.id in {job.id for job in store.queue.list()}]


@pytest.mark.parametrize("keep", [cleaned, truncated])
def test_whoever_only_reads_after_a_restore_in_place_notices_it(
    server: Postgres, keep: Callable[[Postgres], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from custody.kernel.stores.postgres import pool

    with open_store(address(server)) as store:
        jobs(store, 2, "kept")
        back = keep(server)
        lost = jobs(store, 10, "lost")
        back()
        monkeypatch.setattr(pool, "LOOK_SECONDS", 0.0)
        assert len(store.queue.list()) == 2
        (event,) = store.records.events("store")
        assert event.detail["missing"] == 10
        with open_store(address(server)) as other:
            assert jobs(other, 1, "new")[0].id > lost[-1].id, "the numbers were not passed over"


def test_the_highest_number_is_passed_over_though_the_newest_receipts_are_of_older_jobs(server: Postgres) -> None:
    with open_store(address(server)) as store:
        jobs(store, NEWEST + 5, "kept")
        claims = take(store, limit=NEWEST + 5)
        back = truncated(server)
        lost = jobs(store, 3, "lost")
        for one in claims:
            assert store.queue.settle([worked(one, "pass")])[0].done
        back()
        assert jobs(store, 1, "again")[0].id > lost[-1].id


def test_numbers_that_are_drawn_crosswise_are_no_doubt(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever draws first may be answered last: only what was told before counts."""
    from custody.kernel.stores.postgres import pool

    doubts: list[None] = []
    with open_store(address(server)) as store:
        monkeypatch.setattr(pool.Pool, "doubt", lambda self: doubts.append(None))
        with ThreadPoolExecutor(8) as crowd:
            ids = [one.id for made in crowd.map(lambda n: jobs(store, 40, str(n)), range(8)) for one in made]
        assert len(set(ids)) == 320
        assert store.records.events("store") == []
    assert doubts == []


def test_numbers_that_come_in_portions_are_given_out_all_the_same(server: Postgres) -> None:
    """An administrator may have the sequence keep some for each session: then they do not rise, and nothing is lost."""
    with psycopg.connect(server.url(NAME), autocommit=True) as db, open_store(address(server)) as store:
        db.execute("alter sequence job_id_seq cache 10")
        ids = [one.id for one in jobs(store, 5, "first")]
        with ThreadPoolExecutor(4) as crowd:
            ids += [one.id for made in crowd.map(lambda n: jobs(store, 10, str(n)), range(4)) for one in made]
        assert len(set(ids)) == 45
        assert store.records.events("store") == []
        assert store.troubles() == []


def test_a_process_that_was_quiet_for_an_hour_still_knows_what_it_was_told_last(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(address(server)) as store:
        jobs(store, 1, "kept")
        back = dumped(server)
        jobs(store, 3, "lost")
        monkeypatch.setattr(receipts, "KEPT_SECONDS", -1.0)  # all of it is long ago
        back()
        jobs(store, 1, "again")
        (event,) = store.records.events("store")
        assert event.detail["missing"] == 3
    assert NEWEST >= 3


def test_a_restart_that_lost_nothing_is_nothing_to_tell(server: Postgres) -> None:
    with open_store(address(server)) as store:
        jobs(store, 5, "kept")
        for mode in ("fast", "immediate"):
            server.stop(mode)
            server.start()
            jobs(store, 5, "kept")
        assert store.records.events("store") == []
        assert store.troubles() == []


def test_a_claim_of_the_lost_history_moves_nothing_after_a_restore(server: Postgres) -> None:
    with open_store(address(server)) as store:
        jobs(store, 2, "kept")
        held_before = take(store, limit=1)
        back = copied(server)
        lost = [*take(store, limit=1)]
        jobs(store, 40, "lost")
        lost += take(store, limit=100)
        back()
        with open_store(address(server)) as other:
            other.queue.submit([NewJob("parcel", {"of": "now"}) for _ in range(40)])
            now = take(other, limit=100)
            assert {claim.id for claim in now} & {claim.id for claim in lost}, "no number was given out twice"
            assert {answer.code for answer in store.queue.settle([worked(one, "pass") for one in lost])} <= {
                "lease.lost",
                "job.unknown",
            }
            assert store.queue.renew(lost, 60) == {one.id: "lost" for one in lost}
            assert all(answer.done for answer in other.queue.settle([worked(one, "pass") for one in now]))
            assert all(answer.done for answer in store.queue.settle([worked(one, "pass") for one in held_before]))


def test_while_a_database_is_being_restored_nobody_writes_into_it(server: Postgres) -> None:
    """Tables first, then rows, then numbers and keys: whoever came too early would be in the way of the rest."""
    with open_store(address(server, "&patience=0").replace("&patience=60", "")) as store:
        jobs(store, 5, "kept")
        file = server.dump(NAME)
        server.drop_and_create(NAME)
        for section in ("none", "pre-data", "data"):
            if section != "none":
                server.restore(NAME, file, "--section", section)
            with pytest.raises(CustodyError) as refused:
                jobs(store, 1, "too early")
            assert refused.value.code == "store.incomplete"
        server.restore(NAME, file, "--section", "post-data")
        jobs(store, 1, "in time")
        assert len(store.queue.list()) == 6
        assert store.records.events("store") == []


def test_after_restored_was_said_old_processes_stop_and_no_lost_number_is_given_out(
    server: Postgres, tmp_path: Path
) -> None:
    from custody.cli import receipts as files
    from custody.kernel.stores.recovery.restored import restored

    file = tmp_path / "receipts"
    with open_store(address(server)) as reader, open_store(address(server)) as writer:
        jobs(writer, 2, "kept")
        reader.queue.list()
        back = dumped(server)
        lost = jobs(writer, 40, "lost")
        with files.kept_in(file, "") as kept:
            assert kept
            for one in lost:
                kept.append(one.id, one.move)
        writer.close()
        back()
        with open_store(address(server)) as administrator:
            told = restored(administrator, "the disk broke", "ann", max(number for number, _ in files.read(file)))
            assert told >= lost[-1].id
        with open_store(address(server)) as new:
            assert jobs(new, 1, "new")[0].id > lost[-1].id
            (event,) = new.records.events("store")
            assert (event.type, event.agent, event.detail["why"]) == ("restored", "ann", "the disk broke")
        with pytest.raises(CustodyError) as refused:
            jobs(reader, 1, "old")
        assert refused.value.code == "store.restored"


def test_a_worker_of_before_ends_when_restored_was_said(server: Postgres) -> None:
    with open_store(address(server)) as store:
        command = [sys.executable, "-m", "custody"]
        worker = [*command, "worker", "run", "--exec", "parcel=true", "--store", address(server)]
        with subprocess.Popen(worker, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
            try:
                until(lambda: bool(store.workers()))
                subprocess.run(
                    [*command, "store", "restored", "--why", "a trial", "--store", address(server)], check=True
                )
                _, said = running.communicate(timeout=60)
            finally:
                running.kill()
        assert running.returncode == 2, said
        assert "was restored" in said
