"""Locks, and everything that can keep an item from being worked on: each is reported as what it is, others go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from custody.errors import Refused, Unavailable
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.model.item import Item, NewItem
from custody.kernel.ports import Leases
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.zookeeper_leases import ZooKeeperLeases
from custody.robots import Report, Robot, robot
from custody.robots.items.late_events import orphans
from custody.robots.locks import Locks
from custody.robots.runner import kinds, subscribe
from custody.robots.summary import Tally
from custody.robots.sweep import sweep
from robots.conftest import Custody
from robots.lines import PATIENCE, Said, make, run, types, wait_until, watched

if TYPE_CHECKING:
    from rig.zookeeper import ZooKeeper


@pytest.fixture(params=["sql", "zookeeper"])
def leases(request: pytest.FixtureRequest, file_store: Store) -> Iterator[Leases]:
    if request.param == "sql":
        yield file_store.leases
    else:
        with ZooKeeperLeases(request.getfixturevalue("zookeeper_hosts"), session_seconds=8) as opened:
            yield opened


def test_a_robot_is_run_by_one_process_at_a_time_unless_it_says_so(leases: Leases) -> None:
    mine, theirs = Locks(leases, "ann", 30), Locks(leases, "bo", 30)
    one, many = make("one", "A", absent={"A"}), replace(make("many", "B", absent={"B"}), hosts=9)
    mine.take([many, one])
    with pytest.raises(Refused, match="one is run by ann"):
        theirs.take([many, one])
    mine.release()
    theirs.take([many, one])
    theirs.release()


def test_taking_is_all_or_nothing(leases: Leases) -> None:
    first, second = make("first", "A", absent={"A"}), make("second", "B", absent={"B"})
    busy, both, later = Locks(leases, "ann", 30), Locks(leases, "bo", 30), Locks(leases, "cy", 30)
    busy.take([second])
    with pytest.raises(Refused):
        both.take([first, second])
    later.take([first])
    later.release()
    busy.release()


def test_a_lock_that_is_kept_outlives_its_lease(file_store: Store) -> None:
    mine, theirs = Locks(file_store.leases, "ann", 3.0), Locks(file_store.leases, "bo", 3.0)
    one = make("one", "A", absent={"A"})
    mine.take([one])
    lost = threading.Event()
    mine.keep(lost.set)
    first = file_store.leases.get("robot/one")
    assert first
    wait_until(lambda: file_store.now() > first.until)
    with pytest.raises(Refused, match="run by ann"):
        theirs.take([one])
    assert not lost.is_set()
    mine.release()


def test_a_lock_that_is_broken_stops_the_work_and_what_it_says_is_kept_aside(file_store: Store) -> None:
    store = file_store
    begun, go = threading.Event(), threading.Event()

    @robot(name="slow", version="1", event="Slow", when={"absent": {"Slow"}})
    def slow(item: Item, report: Report) -> None:
        begun.set()
        go.wait(PATIENCE)
        report.note(found=7)

    store.records.put([NewItem("x")])
    subscribe(store, [slow])
    sweep(store, slow)
    locks, tally = Locks(store.leases, "ann", 9.0), Tally(store)
    locks.take([slow])
    worker = Worker(store, Serving(tuple(kinds(store, [slow], locks))), Settings(lease=60, grace=PATIENCE), tally)
    locks.keep(worker.stop)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    assert begun.wait(PATIENCE)
    store.leases.take_away("robot/slow", "ada", "it hangs")
    wait_until(lambda: locks.lost)
    wait_until(lambda: all(work.stopped for work in worker._keeper.held()))
    go.set()
    thread.join(PATIENCE)
    locks.release()
    wait_until(lambda: orphans(store) and tally.counts.get("slow"))
    assert types(store, "x") == ["changed"], "nothing is recorded without the lock"
    (late,) = orphans(store)
    assert (late.detail["item"], late.detail["event"], late.detail["told"]) == ("x", "Slow", {"found": 7})
    assert tally.counts["slow"] == {"late": 1}


# The table of cases: what is planted, what the tally must say, what stands on the item afterwards


def plain(
    name: str = "r", work: Callable[[Item, Report], None] = lambda item, report: None, **options: object
) -> Robot:
    options = {"at_once": 4, "tries": 1, "backoff": Backoff(first=0.001)} | options
    return robot(name=name, version="1", event="R", when={"absent": {"R"}}, **options)(work)  # type: ignore[arg-type]


def on_bad(act: Callable[[Report], None]) -> Callable[[Item, Report], None]:
    return lambda item, report: act(report) if item.id == "bad" else None


def raises(error: Exception) -> Callable[[Report], None]:
    def act(report: Report) -> None:
        raise error

    return act


def _spoil(table: str, column: str, key: str) -> Callable[[Store], None]:
    def act(store: Store) -> None:
        import apsw

        db = apsw.Connection(store.url.removeprefix("sqlite:///"))
        db.execute(f"update {table} set {column} = '{{half a' where {key} = 'bad'")
        db.close()

    return act


SHELF = plain(work=lambda item, report: report.note(shelf=item.detail["shelf"]))
OVER = threading.Event()
NOTHING: Callable[[Store], None] = lambda store: None  # noqa: E731

CASES: dict[str, tuple[Robot, Callable[[Store], None], str, list[str]]] = {
    "it went well": (plain(), NOTHING, "success", ["R"]),
    "it failed": (plain(work=on_bad(lambda report: report.add("R1"))), NOTHING, "failure", ["R"]),
    "it has a warning": (plain(work=on_bad(lambda report: report.warn("R1"))), NOTHING, "warning", ["R"]),
    "it is put off": (plain(work=on_bad(lambda report: report.postpone(900, "later"))), NOTHING, "postponed", []),
    "it surprises": (plain(work=on_bad(raises(RuntimeError("no")))), NOTHING, "broken", []),
    "a server does not answer": (
        plain(work=on_bad(raises(Unavailable("no answer"))), tries=2, backoff=Backoff(first=900)),
        NOTHING,
        "again",
        [],
    ),
    "it takes too long": (
        plain(work=on_bad(lambda report: OVER.wait(PATIENCE) and None), timeout=6.0),
        NOTHING,
        "timeout",
        [],
    ),
    "its lock is busy": (plain(), lambda store: store.leases.claim("robot/r/bad", "bo", 900), "busy", []),
    "its row cannot be read": (SHELF, _spoil("item", "detail", "id"), "broken", []),
    "its job cannot be read": (plain(), _spoil("job", "payload", "key"), "broken", []),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_reported_as_what_it_is_and_the_others_go_on(case: str, file_store: Store) -> None:
    line, plant, word, recorded = CASES[case]
    store = file_store
    subscribe(store, [line])
    others = [f"item-{number:02}" for number in range(20)]
    store.records.put([NewItem(name, detail={"shelf": "/srv"}) for name in (*others, "bad")])
    plant(store)
    OVER.clear()
    _, tally = watched(store, [line], Locks(store.leases, "ann", 60, items=store.leases))
    OVER.set()
    expected = Counter({"success": 20}) + Counter({word: 1})
    assert tally.counts["r"] == expected
    assert [event.type for event in store.records.all_events("item/bad") if event.type != "changed"] == recorded
    assert all(types(store, name) == ["changed", "R"] for name in others)


def test_what_was_left_for_the_next_cycle_was_never_started(file_store: Store) -> None:
    line = plain(at_most=5)
    file_store.records.put([NewItem(f"item-{number:02}") for number in range(12)])
    for expected in ({"success": 5, "left": 7}, {"success": 5, "left": 2}, {"success": 2}):
        _, tally = watched(file_store, [line], cycle=True)
        tally.leftovers([line])
        assert tally.counts["r"] == expected


def test_what_ends_after_its_time_is_kept_aside(store: Store) -> None:
    go = threading.Event()

    @robot(name="slow", version="1", event="Slow", when={"absent": {"Slow"}}, timeout=0.05)
    def slow(item: Item, report: Report) -> None:
        go.wait(PATIENCE)
        report.add("R1", "found too late")

    store.records.put([NewItem("x")])
    run(store, slow)
    assert orphans(store) == []
    go.set()
    wait_until(lambda: orphans(store))
    (late,) = orphans(store, ["slow"])
    assert (late.detail["outcome"], late.detail["why"]) == ("failure", "it came after its time was over")
    assert types(store, "x") == ["changed"]


def test_a_settle_that_comes_too_late_is_refused_and_kept_aside(store: Store) -> None:
    """The item is taken over while its first worker sleeps; what that one says afterwards is not lost."""
    stolen = threading.Event()

    @robot(name="r", version="1", event="R", when={"absent": {"R"}})
    def work(item: Item, report: Report) -> None:
        if not stolen.is_set():
            stolen.set()
            job = store.queue.by_key("robot/r", "x")
            assert job
            _take_over(store, job.id)
        report.note(found_by="someone")

    store.records.put([NewItem("x")])
    run(store, work)
    assert [event.detail["told"] for event in orphans(store)] == [{"found_by": "someone"}]


def _take_over(store: Store, job_id: int) -> None:
    """As if the lease had ended and another worker had done all of it."""
    from custody.kernel.model.event import NewEvent
    from custody.kernel.model.job import Change

    job = store.queue.get(job_id)
    change = Change(
        job.id,
        "queued",
        "passed",
        "passed",
        "success",
        "bo",
        False,
        "passed",
        job.token,
        store.new_move(),
        events=[NewEvent("x", "R", agent="bo", robot="r")],
        remove=True,
        claimed=job.move,
    )
    (answer,) = store.queue.settle([change])
    assert answer.done, answer


def test_orphans_are_shown_by_the_command_line(tmp_path: Path, custody: Custody) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        subscribe(store, [make("r", "R", absent={"R"})])
        assert custody("orphans") == "no event came too late\n"
        told = {"item": "x", "event": "R", "outcome": "success", "told": {}, "why": "claimed by someone else", "job": 1}
        store.records.note("orphan/r", "late", "r 1", **told)
    assert "claimed by someone else" in custody("orphans")
    assert "claimed by someone else" in custody("orphans", "r")


# A real ZooKeeper

LINE = """
import time
from custody.robots import robot

@robot(name="one", version="1", event="One", when={"absent": {"One"}})
def one(item, report):
    while item.id == "slow" and not __import__("pathlib").Path("go").exists():
        time.sleep(0.02)
"""


def test_locks_on_zookeeper_keep_a_second_process_away_and_are_freed_by_death(
    tmp_path: Path, zookeeper_hosts: str
) -> None:
    (tmp_path / "line.py").write_text(LINE)
    locks = ["--locks", f"zookeeper://{zookeeper_hosts}", "--lease", "4"]
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store, ZooKeeperLeases(zookeeper_hosts) as leases:
        store.records.put([NewItem("slow")])
        command = [sys.executable, "-m", "custody", "robot", "run", "line.py", *locks]
        first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: leases.get("robot/one") and leases.passing().get("robot/one/slow"))
            second = Said(tmp_path, "robot", "run", "line.py", "--once", *locks)
            assert second.code == 3
            assert "one is run by" in second.err
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
        (tmp_path / "go").touch()
        wait_until(lambda: leases.get("robot/one") is None, "its session ends, and its locks with it")
        wait_until(lambda: _once(tmp_path, locks) and types(store, "slow") == ["changed", "One"])


def _once(folder: Path, locks: list[str]) -> bool:
    return Said(folder, "robot", "run", "line.py", "--once", *locks).code == 0


def test_a_lock_server_that_is_not_there_is_said_so(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    (tmp_path / "line.py").write_text(LINE)
    said = Said(tmp_path, "robot", "run", "line.py", "--once", "--locks", "postgres://127.0.0.1")
    assert said.code == 2
    assert "not an address of ZooKeeper" in said.err
    with pytest.raises(Unavailable, match="does not answer"):
        ZooKeeperLeases("127.0.0.1:1", connect_seconds=0.5)


def test_losing_the_lock_server_stops_the_work_before_anyone_else_can_hold_the_lock(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    hosts = zookeeper.fresh_root()
    (tmp_path / "line.py").write_text(LINE)
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store, ZooKeeperLeases(hosts, 3) as leases:
        store.records.put([NewItem("slow")])
        command = [sys.executable, "-m", "custody", "robot", "run", "line.py", "--locks", f"zookeeper://{hosts}"]
        process = subprocess.Popen(
            [*command, "--lease", "3"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            wait_until(lambda: leases.passing().get("robot/one/slow"))
            zookeeper.stop("kill")
            wait_until(lambda: process.poll() is not None)
        finally:
            process.kill()
            _, said = process.communicate()
            zookeeper.start()
            (tmp_path / "go").touch()
        assert process.returncode == 2, said
        assert "lock server" in said
        assert types(store, "slow") == ["changed"], "nothing is recorded without the lock"
        wait_until(lambda: _once(tmp_path, ["--lease", "3"]) and types(store, "slow") == ["changed", "One"])
