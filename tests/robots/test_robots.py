"""Robots wake when an item has had the right events, work once, and record theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border.roots import Root, roots
from custody.kernel.engine import Backoff
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.robots import Item, Report, Robot, robot
from custody.robots.items.restart import restart, undo
from custody.robots.lint import lint
from custody.robots.programs.sandboxed import Yard
from custody.robots.runner import subscribe
from custody.robots.sweep import sweep
from robots.lines import make, run, types, watched


def test_a_robot_is_tested_by_calling_it() -> None:
    report = Report()
    make("x", "X", [])(Item("a", frozenset(), 1, 1), report)
    assert report.outcome == "success"


def test_nothing_that_was_noted_is_left_out() -> None:
    report = Report()
    report.note(bags=0, complete=False)
    assert report.detail() == {"bags": 0, "complete": False}


def test_a_line_of_robots_runs_in_the_order_of_its_events_once_each(store: Store) -> None:
    line = [
        make("first", "A", absent={"A"}),
        make("second", "B", past={"A"}, absent={"B"}),
        make("third", "C", past={"B"}, absent={"C"}),
    ]
    store.records.put([NewItem(f"item-{number:03}") for number in range(30)])
    run(store, *line)
    for number in range(30):
        assert types(store, f"item-{number:03}") == ["changed", "A", "B", "C"]
    assert run(store, *line) == 0, "there is nothing left to do"


def test_an_event_wakes_the_next_robot_without_any_sweep(store: Store) -> None:
    second = make("second", "B", past={"A"}, absent={"B"})
    subscribe(store, [second])
    store.records.put([NewItem("x")], [NewEvent("x", "A")])
    job = store.queue.by_key("robot/second", "x")
    assert job is not None
    store.records.put([NewItem("y")], [NewEvent("y", "A", "failure")])
    assert store.queue.by_key("robot/second", "y") is None


def test_readiness_is_judged_again_when_the_work_begins(store: Store) -> None:
    log: list[str] = []
    second = make("second", "B", log, past={"A"}, absent={"B"})
    subscribe(store, [second])
    store.records.put([NewItem("x")], [NewEvent("x", "A")])
    store.records.append(NewEvent("x", "A", "failure"))
    run(store, second)
    assert log == []
    assert types(store, "x") == ["changed", "A", "A"]
    assert store.queue.by_key("robot/second", "x") is None


def test_findings_are_failures_warnings_move_the_line_and_postponing_records_nothing(store: Store) -> None:
    @robot(name="judge", version="2", event="Judged", when={"absent": {"Judged"}})
    def judge(item: Item, report: Report) -> None:
        if item.id == "bad":
            report.add("R1", "it is torn")
        elif item.id == "odd":
            report.warn("R2", "look at it")
        elif item.id == "later":
            report.postpone(3600, "not yet")

    store.records.put([NewItem(name) for name in ("good", "bad", "odd", "later")])
    run(store, judge, make("next", "Next", past={"Judged"}, absent={"Next"}))
    assert store.records.latest("bad")["Judged"].outcome == "failure"
    assert store.records.latest("odd")["Judged"].outcome == "warning"
    assert "Judged" not in store.records.latest("later")
    assert {name for name in ("good", "bad", "odd", "later") if "Next" in store.records.latest(name)} == {"good", "odd"}
    event = store.records.events("item/bad")[-1]
    assert (event.agent, event.detail["findings"][0]["code"]) == ("judge 2", "R1")


def test_one_item_that_surprises_does_not_stop_the_others(store: Store) -> None:
    @robot(name="shaky", version="1", event="S", when={"absent": {"S"}}, tries=2, backoff=Backoff(first=0.001))
    def shaky(item: Item, report: Report) -> None:
        if item.id == "item-3":
            raise ValueError("unparsable")

    store.records.put([NewItem(f"item-{number}") for number in range(10)])
    for _ in range(3):
        run(store, shaky)
        time.sleep(0.01)
    done = [number for number in range(10) if "S" in store.records.latest(f"item-{number}")]
    assert done == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    (failure,) = store.queue.failures()
    assert (failure.kind, failure.code) == ("robot/shaky", "surprise")


def test_a_change_during_the_work_is_not_lost_and_its_own_edit_does_not_wake_it(store: Store) -> None:
    runs: list[str] = []

    @robot(name="editor", version="1", event="Edited", when={"old": {"Edited"}}, edits=True)
    def editor(item: Item, report: Report) -> None:
        runs.append(item.fingerprint)
        if item.fingerprint == "outside-1":
            store.records.put([NewItem("x", fingerprint="outside-2")])  # someone else, while we work
        else:
            report.changed(item, fingerprint=f"{item.fingerprint} edited")

    store.records.put([NewItem("x", fingerprint="outside-1")])
    run(store, editor)
    assert runs == ["outside-1", "outside-2"], "the change that came meanwhile is worked on, its own edit is not"
    store.records.put([NewItem("x", fingerprint="outside-3")])
    run(store, editor)
    assert runs == ["outside-1", "outside-2", "outside-3"]


SNEAKS: dict[str, Callable[[Item, Report], None]] = {
    "by its report": lambda item, report: report.changed(item, "f2", folder="/etc"),
    "whose turn it is": lambda item, report: report.changed(item, "f2", robot_priority=1),
    "past its report": lambda item, report: setattr(report, "edited", NewItem(item.id, detail={"title": "x"})),
    "its place": lambda item, report: setattr(report, "edited", NewItem(item.id, place="main:other")),
}


@pytest.mark.parametrize("how", SNEAKS)
def test_a_robot_cannot_set_what_the_system_reads_and_its_run_fails(store: Store, how: str) -> None:
    @robot(name="sneak", version="1", event="Edited", when={"old": {"Edited"}}, edits=True)
    def sneak(item: Item, report: Report) -> None:
        SNEAKS[how](item, report)

    store.records.put([NewItem("x", fingerprint="f1", detail={"pages": 1}, place="main:x")])
    run(store, sneak)
    item = store.records.item("x")
    assert (item.fingerprint, item.detail, item.place) == ("f1", {"pages": 1}, "main:x")
    assert [failure.code for failure in store.queue.failures()] == ["robot.reserved"]
    assert "Edited" not in store.records.latest("x")


def test_a_robot_is_told_the_folder_of_its_items_place_and_believes_nothing_else(store: Store, tmp_path: Path) -> None:
    told: dict[str, object] = {}

    @robot(name="where", version="1", event="Seen", when={"old": {"Seen"}})
    def where(item: Item, report: Report) -> None:
        told[item.id] = item.detail.get("folder")

    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    places = {"here": "main:x", "elsewhere": "tape:x", "gone": "main:gone", "none": "", "link": "main:link"}
    store.records.put([NewItem(name, place=place) for name, place in places.items()])
    watched(store, [where], yard=Yard(roots=roots([Root("main", tmp_path)])))
    assert told == {"here": str(tmp_path / "x"), "elsewhere": None, "gone": None, "none": None}
    assert [failure.code for failure in store.queue.failures()] == ["place.link"]


def test_work_that_takes_too_long_is_told_so_and_records_nothing(store: Store) -> None:
    release = threading.Event()

    @robot(name="slow", version="1", event="Slow", when={"absent": {"Slow"}}, timeout=0.05)
    def slow(item: Item, report: Report) -> None:
        release.wait(5)

    store.records.put([NewItem("x")])
    run(store, slow)
    release.set()
    (failure,) = store.queue.failures()
    assert failure.code == "robot.timeout"
    assert types(store, "x") == ["changed"]


def test_a_restart_withdraws_by_dependency_and_can_be_undone(store: Store) -> None:
    line = [
        make("first", "A", absent={"A"}),
        make("second", "B", past={"A"}, absent={"B"}),
        make("other", "O", absent={"O"}),
    ]
    store.records.put([NewItem("x")])
    run(store, *line)
    assert restart(store, line, "x", "A", "ada", "the scanner was dirty") == ["A", "B"]
    assert set(store.records.latest("x")) == {"O"}
    undo(store, "x", "ada", "it was not")
    assert set(store.records.latest("x")) == {"A", "B", "O"}
    restart(store, line, "x", "A", "ada", "it was after all")
    run(store, *line)
    assert types(store, "x").count("A") == types(store, "x").count("B") == 2
    assert types(store, "x").count("O") == 1
    assert types(store, "x").count("withdrawn") == 3, "nothing is deleted"


def test_two_events_at_the_same_moment_both_survive(store: Store) -> None:
    store.records.put([NewItem("x")], [NewEvent("x", "A"), NewEvent("x", "B"), NewEvent("x", "A", "failure")])
    assert [event.seq for event in store.records.events("item/x")] == [1, 2, 3, 4]
    assert store.records.latest("x")["A"].outcome == "failure"


@pytest.mark.parametrize(
    ("robots", "code"),
    [
        ([make("a", "A", past={"ingested"})], "no-brake"),
        ([make("a", "A", past={"Nobody"}, absent={"A"})], "nobody"),
        ([make("a", "A", absent={"A"}), make("b", "B", past={"a"}, absent={"B"})], "spelling"),
        ([make("a", "A", past={"ingested"}, absent={"A", "ingested"})], "never"),
        ([make("a", "A", past={"B"}, absent={"A"}), make("b", "B", past={"A"}, absent={"B"})], "circle"),
    ],
)
def test_the_linter_finds_each_planted_fault(robots: list[Robot], code: str) -> None:
    assert code in {remark.code for remark in lint(robots)}


def test_the_linter_has_nothing_to_say_about_a_good_line() -> None:
    from custody.robots.ready import fixity, formats

    assert lint([fixity, formats]) == []


ROBOT = """
from custody.robots import Item, Report, Trigger, robot

@robot(name="counter", version="1", event="Counted", when=Trigger(absent=frozenset({"Counted"})), at_once=4, hosts=2)
def counter(item: Item, report: Report) -> None:
    if item.id == "bad":
        report.add("R1", "bad")

@robot(name="after", version="1", event="After", when=Trigger(past=frozenset({"Counted"}), absent=frozenset({"After"})), hosts=2)
def after(item: Item, report: Report) -> None:
    pass
"""


@pytest.mark.kills
def test_killed_robots_record_exactly_one_event_each(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    (tmp_path / "line.py").write_text(ROBOT)
    with open_store(url) as store:
        store.records.put([NewItem(f"item-{number:04}") for number in range(400)])
        command = [sys.executable, "-m", "custody", "robot", "run", "line.py", "--lease", "1", "--store", url]
        workers = [subprocess.Popen(command, cwd=tmp_path) for _ in range(2)]
        try:
            for turn in range(6):
                time.sleep(1.0)
                workers[turn % 2].send_signal(signal.SIGKILL)
                workers[turn % 2].wait()
                workers[turn % 2] = subprocess.Popen(command, cwd=tmp_path)
            end = time.monotonic() + 200
            while not all("After" in store.records.latest(f"item-{number:04}") for number in range(400)):
                assert time.monotonic() < end, store.queue.counts()
                time.sleep(0.2)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        for number in range(400):
            assert types(store, f"item-{number:04}") == ["changed", "Counted", "After"]
        assert recount(store) == []


@pytest.mark.parametrize(
    ("item", "words", "code"), [("good", [], 0), ("bad", [], 1), ("", ["--detailed-exit-code"], 4), ("", [], 0)]
)
def test_run_once_answers_with_the_decided_exit_codes(tmp_path: Path, item: str, words: list[str], code: int) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    (tmp_path / "line.py").write_text(ROBOT.replace(", hosts=2", ""))
    with open_store(url) as store:
        if item:
            store.records.put([NewItem(item)])
    command = [sys.executable, "-m", "custody", "robot", "run", "line.py", "--once", "--store", url, *words]
    assert subprocess.run(command, cwd=tmp_path, env={**os.environ}).returncode == code


def test_a_second_instance_is_refused_and_says_who_runs_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    (tmp_path / "line.py").write_text(ROBOT.replace(", hosts=2", ""))
    with open_store(url) as store:
        store.leases.claim("robot/counter", "ann", 60)
    command = [sys.executable, "-m", "custody", "robot", "run", "line.py", "--once", "--store", url]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3
    assert "run by ann" in done.stderr


def test_a_sweep_fills_the_queue_of_a_new_robot_once_and_goes_on_where_it_stopped(store: Store) -> None:
    store.records.put([NewItem(f"item-{number:04}") for number in range(1200)], [NewEvent("item-0700", "A")])
    first = make("first", "A", absent={"A"})
    subscribe(store, [first])
    assert sweep(store, first) == 1200
    assert sweep(store, first) == 0, "every item was looked at"
    jobs = {job.key for job in store.queue.every(Filter(kind="robot/first"))}
    assert len(jobs) == 1199
    assert "item-0700" not in jobs
    changed = make("first", "A", past={"A"})
    subscribe(store, [changed])
    assert sweep(store, changed) == 1200, "another trigger is swept from the beginning"
