"""Answers that never come: every verb is done once, or refused, and says which."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from custody.errors import Unavailable
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.postgres import in_doubt
from custody.kernel.stores.postgres.connection import Connection
from custody.kernel.stores.postgres.pool import WARM_SECONDS, Pool, _has_ended
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.failover import connect
from custody.kernel.stores.postgres.transaction import PostgresTx, Transactions
from custody.kernel.stores.postgres.verbs.submit import Order, found_again
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.rules.submit import submit as submit_in
from kernel.stores.acts import moved, submit, subscribe, take, take_one, worked
from kernel.stores.test_postgres import ask, until
from rig.need import need
from rig.postgres import Postgres
from rig.proxy import Proxy


@pytest.fixture
def proxy(quick_postgres: Postgres) -> Iterator[Proxy]:
    with Proxy(quick_postgres.port) as proxy:
        yield proxy


@pytest.fixture
def near(quick_postgres: Postgres) -> Iterator[Store]:
    """The store as others see it."""
    url = quick_postgres.fresh_database()
    with open_store(url + "?unsafe=1&notify=0") as store:
        yield store
        assert recount(store) == []
    quick_postgres.give_back(url)


@pytest.fixture
def far(near: Store, quick_postgres: Postgres, proxy: Proxy) -> Iterator[Store]:
    """The same store, behind the proxy."""
    with open_store(near.url.replace(f":{quick_postgres.port}/", f":{proxy.port}/")) as store:
        yield store


def submits(far: Store, claim: Claim) -> None:
    (made,) = far.queue.submit([NewJob("letter", {"to": "bo"})])
    assert far.queue.get(made.id).payload == {"to": "bo"}
    assert made.new
    assert ask(far.url, "select count(*) from job where kind = 'letter'") == [(1,)]


def submits_with_a_key(far: Store, claim: Claim) -> None:
    (made,) = far.queue.submit([NewJob("letter", {"to": "bo"}, key="one")])
    assert made.new


def claims(far: Store, claim: Claim) -> None:
    (another,) = take(far, holder="bo")
    assert far.queue.get(another.id).holder == "bo"
    assert another.token == 2


def settles(far: Store, claim: Claim) -> None:
    (answer,) = far.queue.settle([worked(claim, "pass", then=[NewJob("letter")])])
    assert answer.done
    assert ask(far.url, "select count(*) from job where kind = 'letter'") == [(1,)]
    assert [event.type for event in far.records.events(claim.job.subject)] == ["submitted", "passed"]


def keeps(far: Store, claim: Claim) -> None:
    (child,) = far.queue.keep(claim, {"n": 1}, {"n": 1}, [NewJob("letter")], "ann")
    assert far.queue.get(claim.id).facts == {"n": 1}
    assert ask(far.url, "select id from job where kind = 'letter'") == [(child.id,)]


def moves(far: Store, claim: Claim) -> None:
    waiting = far.queue.get(claim.id + 1)
    assert far.queue.move(moved(waiting, "cancel")).done
    assert [event.type for event in far.records.events(waiting.subject)] == ["submitted", "cancelled"]


def deletes(far: Store, claim: Claim) -> None:
    assert far.queue.delete(claim.id + 1, "ann", "no longer wanted")
    assert len(far.records.events(f"job/{claim.id + 1}")) == 2


def holds(far: Store, claim: Claim) -> None:
    assert far.queue.hold("kind", "letter", "ann", "no stamps")
    assert len(far.records.events("hold/kind/letter")) == 1


def takes_a_lease(far: Store, claim: Claim) -> None:
    lease = far.leases.claim("door", "ann", 30)
    assert lease is not None
    assert lease.token == 1
    assert far.leases.get("door") == lease


def records(far: Store, claim: Claim) -> None:
    far.records.put([NewItem("map")], [NewEvent("map", "scanned")], "ann")
    assert [event.seq for event in far.records.events("item/map")] == [1, 2]


def appends(far: Store, claim: Claim) -> None:
    event = far.records.append(NewEvent("atlas", "scanned"))
    assert [(each.seq, each.id) for each in far.records.events("item/atlas")][1:] == [(2, event)]
    assert ask(far.url, "select kind, key, state, payload from job where kind like 'robot/%'") == [
        ("robot/reader", "atlas", "queued", '{"item":"atlas"}')
    ]


def renews(far: Store, claim: Claim) -> None:
    assert far.queue.renew([claim], 60) == {}
    assert far.queue.get(claim.id).until > claim.job.until


# Those that are one statement say no "commit"; a prepared one says only its values.
LAST_WORDS = {
    submits: b"letter",
    submits_with_a_key: b"letter",
    claims: b"parcel|queued",
    renews: b"set until",
    appends: b"numbered",
}
VERBS = [
    submits,
    submits_with_a_key,
    claims,
    settles,
    keeps,
    moves,
    deletes,
    holds,
    takes_a_lease,
    records,
    appends,
    renews,
]


def test_jobs_whose_answer_was_lost_are_found_in_the_order_in_which_they_were_asked_for() -> None:
    """Their numbers are drawn in that order; their events may be written in any."""

    class Told:
        def run(self, name: str, **values: object) -> list[tuple[str]]:
            return {"a": [("job/12",), ("job/9",)], "b": [("job/100",), ("job/99",), ("job/98",)]}[str(values["move"])]

    orders = [Order(NewJob("parcel"), move, system("ann")) for move in "aabbb"]
    found = found_again(Told(), orders)  # type: ignore[arg-type]
    assert found is not None
    assert [made.id for made in found] == [9, 12, 98, 99, 100]


@pytest.fixture(autouse=True)
def waits_for_a_scan(near: Store) -> None:
    subscribe(near, "reader", Trigger(past=frozenset({"scanned"}), items=frozenset({"atlas"})))
    near.records.put([NewItem("atlas")])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_commit_whose_fate_is_unknown_is_found_out(
    far: Store, proxy: Proxy, verb: Callable[[Store, Claim], None], what: str
) -> None:
    """Request lost: it was not done, and is done again. Answer lost: it was done, and is not done again."""
    for _ in range(3):
        submit(far)
    claim = take_one(far)
    last_word = LAST_WORDS.get(verb, b"commit")
    cut = proxy.cut_answer(last_word) if what == "answer" else proxy.cut_request(last_word)
    verb(far, claim)
    assert cut.is_set()


@pytest.mark.parametrize("verb", VERBS)
def test_a_connection_lost_before_anything_was_done_is_replaced(
    far: Store, proxy: Proxy, verb: Callable[[Store, Claim], None]
) -> None:
    for _ in range(3):
        submit(far)
    claim = take_one(far)
    proxy.cut_all()
    verb(far, claim)


@pytest.mark.parametrize("verb", [submits, submits_with_a_key, claims, appends])
def test_a_server_that_is_away_again_while_a_lost_answer_is_found_out_is_waited_for(
    far: Store, proxy: Proxy, verb: Callable[[Store, Claim], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that the server does not answer, one would do it again, and it would be there twice."""
    for _ in range(3):
        submit(far)
    claim = take_one(far)
    at_first = [Unavailable("does not answer", code="store.down")] * 2
    begin_ = in_doubt.begin

    def away_at_first(db: Connection) -> in_doubt.Begun:
        if at_first:
            raise at_first.pop()
        return begin_(db)

    monkeypatch.setattr(in_doubt, "begin", away_at_first)
    cut = proxy.cut_answer(LAST_WORDS[verb])
    verb(far, claim)
    assert cut.is_set()
    assert not at_first


def test_a_look_survives_a_lost_connection(far: Store, proxy: Proxy) -> None:
    job = submit(far)
    proxy.cut_all()
    assert far.queue.get(job).id == job


def test_a_store_that_stays_away_is_said_to_be_down(near: Store, quick_postgres: Postgres) -> None:
    proxy = Proxy(quick_postgres.port)
    far = open_store(near.url.replace(f":{quick_postgres.port}/", f":{proxy.port}/") + "&patience=0")
    proxy.stop()
    spare, stop_at = far.db._pool._spare, time.monotonic() + 60  # type: ignore[attr-defined]
    while not all(map(_has_ended, spare)) and time.monotonic() < stop_at:
        time.sleep(0.01)  # until the end of every connection has been heard: before that, it would be "unknown"
    time.sleep(2 * WARM_SECONDS)  # and as it would be if it had been in use just now
    with pytest.raises(Unavailable) as refused:
        submit(far)
    far.close()
    assert refused.value.code == "store.down"


def test_what_nobody_can_know_is_called_unknown(far: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_doubt, "PATIENCE", 0.0)
    cut = proxy.cut_answer(b"commit")
    with pytest.raises(Unavailable) as refused:
        far.records.note("door", "opened", "ann")
    assert cut.is_set()
    assert refused.value.code == "store.unknown"


def begin(url: str) -> tuple[Connection, in_doubt.Begun]:
    """A transaction under way in a session of its own."""
    db = connect(Address.of(url))
    return db, in_doubt.begin(db)


def test_a_session_that_lingers_is_ended_after_a_while_before_its_work_is_done_again(
    near: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that went silent: the old session still holds its locks, and would hold them for ever."""
    monkeypatch.setattr(in_doubt, "LINGER_SECONDS", 0.2)
    job = submit(near)
    lingering, begun = begin(near.url)
    lingering.execute("update job set lane = 'left behind' where id = %s", (job,))
    pool = Pool(Address.of(near.url))
    began = time.monotonic()
    assert not in_doubt.was_committed(pool, begun, in_doubt.Traces(), 0)
    assert time.monotonic() - began > 0.2, "it may notice by itself that we are gone"
    pool.close()
    lingering.close()
    assert near.queue.move(moved(near.queue.get(job), "cancel")).done


@pytest.mark.parametrize(
    "otherwise", ["another transaction", "another start", "another name", "a session that is not ours alone"]
)
def test_no_session_is_ended_that_is_not_proved_to_be_ours(
    near: Store, otherwise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_doubt, "LINGER_SECONDS", 0.0)
    monkeypatch.setattr(in_doubt, "PATIENCE", 0.5)
    stranger, begun = begin(near.url)
    session = begun.session
    if otherwise == "another transaction":
        begun = replace(begun, id=str(int(begun.id)))
        stranger.execute("commit")
        in_doubt.begin(stranger)
        with connect(Address.of(near.url)) as db:
            in_doubt.begin(db)
            in_doubt.end(db, session, begun.id)
    else:
        changed = {
            "another start": replace(begun, session=replace(session, since="2001-01-01 00:00:00+00")),
            "another name": replace(begun, session=replace(session, name="custody:stranger")),
            "a session that is not ours alone": replace(begun, own=False),
        }
        pool = Pool(Address.of(near.url))
        with pytest.raises(Unavailable) as refused:
            in_doubt.was_committed(pool, changed[otherwise], in_doubt.Traces(), 0)
        assert refused.value.code == "store.unknown"
        pool.close()
    assert stranger.execute("select 1").fetchall() == [(1,)], "it is alive"
    stranger.close()


def test_a_claim_that_is_still_at_it_when_its_answer_is_lost_is_ended_or_found(far: Store, near: Store) -> None:
    """The answer is lost while the statement waits for a lock, so that it could still take effect later."""
    job = submit(near)
    (claim,) = take(near)
    lingering, begun = begin(near.url)
    lingering.execute("select 1 from job where id = %s for update", (job,))
    waiting = connect(Address.of(near.url))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(waiting.execute, "update job set lane = 'late' where id = %s", (job,))
        with connect(Address.of(near.url)) as db:
            until(lambda: db.execute("select 1 from pg_locks where not granted").fetchall())
        pool_ = Pool(Address.of(near.url))
        assert in_doubt.found_out(pool_, waiting.session, lambda db, now: "over") == "over"
        pool_.close()
        with pytest.raises(psycopg.OperationalError):
            late.result()
    lingering.close()
    waiting.close()
    assert near.queue.renew([claim], 30) == {}
    assert near.queue.get(job).lane == ""
    assert begun.session.pid


def test_a_transaction_the_server_has_never_heard_of_was_not_committed(near: Store) -> None:
    """As after a failover to a server that had not received it yet."""
    with connect(Address.of(near.url)) as db:
        now = in_doubt.begin(db)
        begun = replace(now, id=str(2**40 + 1000))
        assert in_doubt.how_it_ended(db, now, begun, lambda: True) == "aborted"


@pytest.mark.parametrize("crash", ["the server", "one session"])
def test_after_a_crash_a_number_may_be_a_strangers_and_only_traces_count(crash: str) -> None:
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    db, begun = begin(server.url() + "?unsafe=1")
    db.execute("commit")
    if crash == "the server":
        server.stop("immediate")
        server.start()
    else:
        os.kill(db.info.backend_pid, signal.SIGKILL)
        until(lambda: not _answers(server.url()))
        until(lambda: _answers(server.url()))
    db.close()
    with connect(Address.of(server.url() + "?unsafe=1")) as later:
        # If it was committed is not the question here, but that nobody believes it without a trace.
        assert in_doubt.how_it_ended(later, in_doubt.begin(later), begun, lambda: False) == "aborted"
    server.remove()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


WRITES: dict[str, Callable[[Tx], object]] = {
    "jobs": lambda tx: submit_in(tx, [NewJob("letter")], "a-move"),
    "a note": lambda tx: write_note(tx, "door", "opened", "ann", {}),
}


@pytest.mark.parametrize("what", WRITES)
def test_what_a_transaction_wrote_is_found_again(near: Store, what: str) -> None:
    def work(tx: Tx) -> tuple[in_doubt.Traces, int]:
        assert isinstance(tx, PostgresTx)
        WRITES[what](tx)
        return tx.traces, tx.now

    traces, at = near.db.write(work)
    with connect(Address.of(near.url)) as db:
        assert traces.are_there(db, at)
        assert not in_doubt.Traces({"another"}, {("door", 9)}).are_there(db, at)


def away() -> Unavailable:
    return Unavailable("the server does not answer", code="store.away")


def test_what_the_first_statement_of_a_claim_took_is_answered_though_the_next_one_fails(
    near: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    near.queue.submit([NewJob("parcel", lane="a"), *[NewJob("parcel", lane="b")] * 9])
    at_once, asked = Transactions.at_once, []

    def second_fails(self: Transactions, *args: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            raise away()
        return at_once(self, *args)

    monkeypatch.setattr(Transactions, "at_once", second_fails)
    lanes = [f"parcel|queued||{lane}" for lane in "ab"]
    taken = near.queue.claim(lanes, "ann", 30, limit=8)
    assert len(asked) == 2, "one lane has too little: the other is asked again"
    assert [claim.job.lane for claim in taken] == ["a", "b", "b", "b", "b"]
    assert ask(near.url, "select count(*) from job where holder is not null") == [(5,)], "nothing is held unknown"
    assert near.queue.renew(taken, 30) == {}
    assert len(near.queue.claim(lanes, "ann", 30, limit=8)) == 5, "the next look finds the rest"


def test_a_claim_whose_first_statement_fails_says_so(near: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(near)

    def fails(self: Transactions, *args: Any) -> Any:
        raise away()

    monkeypatch.setattr(Transactions, "at_once", fails)
    with pytest.raises(Unavailable):
        take(near)


def test_what_was_claimed_is_answered_though_its_holds_could_not_be_read_at_first(
    near: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    near.queue.submit([NewJob("parcel", collection="maps")])
    near.queue.hold("collection", "maps", "ada", "a flood")
    read, asked = Transactions.read, []

    def fails_at_first(self: Transactions, *args: Any) -> Any:
        asked.append(args)
        if len(asked) < 3:
            raise away()
        return read(self, *args)

    monkeypatch.setattr(Transactions, "read", fails_at_first)
    (claim,) = take(near)
    assert len(asked) == 3
    assert claim.hold is not None
    assert claim.hold.why == "a flood"
