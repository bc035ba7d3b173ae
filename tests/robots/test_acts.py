"""What people do to items on the line: one event each, with who and why, and each can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from custody.cli.doctor.report import application_findings
from custody.errors import BadInput, NotFound, Refused
from custody.kernel.history.exchange.premis_writer import premis_document
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.stores import Store, open_store
from custody.robots import Report, robot
from custody.robots.items.actions import approve, override, prioritise, stop
from custody.robots.items.restart import by_hand, restart, undo
from custody.robots.runner import subscribe
from kernel.history.schemas import schema
from robots.conftest import Custody
from robots.lines import make, run, types


@robot(name="judge", version="1", event="Judged", when={"absent": {"Judged"}})
def judge(item: Item, report: Report) -> None:
    report.add("R1", "it is torn")


NEXT = make("next", "Next", past={"Judged"}, absent={"Next"})


def test_an_overridden_failure_lets_the_line_go_on_and_undoing_it_brings_the_failure_back(store: Store) -> None:
    store.records.put([NewItem("x")])
    run(store, judge, NEXT)
    assert types(store, "x") == ["changed", "Judged"]
    override(store, "x", "Judged", "ada", "it was torn in 1780 already")
    assert store.records.latest("x")["Judged"].outcome == "success"
    event = store.records.events("item/x")[-1]
    assert (event.type, event.agent, event.detail["overrides"]) == ("Judged", "ada", 2)
    assert store.queue.by_key("robot/next", "x") is not None
    assert undo(store, "x", "ada", "no, it was not") == ["Judged"]
    assert store.records.latest("x")["Judged"].outcome == "failure"
    run(store, judge, NEXT)
    assert types(store, "x") == ["changed", "Judged", "Judged", "withdrawn"], "the next robot found it failed again"
    override(store, "x", "Judged", "ada", "it was after all")
    run(store, judge, NEXT)
    assert types(store, "x")[-2:] == ["Judged", "Next"]


def test_only_what_failed_can_be_overridden(store: Store) -> None:
    store.records.put([NewItem("x")], [NewEvent("x", "Fine")])
    with pytest.raises(Refused, match="did not fail"):
        override(store, "x", "Fine", "ada", "why not")
    with pytest.raises(NotFound, match="has not happened"):
        override(store, "x", "Never", "ada", "why not")
    with pytest.raises(NotFound, match="no item"):
        override(store, "nobody", "Fine", "ada", "why not")


def test_a_stopped_item_is_taken_by_no_robot_until_that_is_undone(store: Store) -> None:
    log: list[str] = []
    first = make("first", "A", log, absent={"A"})
    subscribe(store, [first])
    store.records.put([NewItem("x"), NewItem("y")])
    assert stop(store, "x", "ada", "a lawyer called") == []
    run(store, first)
    assert log == ["y"]
    assert store.queue.by_key("robot/first", "x") is None
    with pytest.raises(Refused, match="stopped already"):
        stop(store, "x", "bo", "me too")
    undo(store, "x", "ada", "it was another item")
    assert store.queue.by_key("robot/first", "x") is not None, "undoing it wakes the robots at once"
    run(store, first)
    assert types(store, "x") == ["changed", "stopped", "withdrawn", "A"]


def test_a_stop_names_the_robot_that_is_at_work_and_will_finish(file_store: Store) -> None:
    store = file_store
    subscribe(store, [make("first", "A", absent={"A"})])
    store.records.put([NewItem("x")])
    store.queue.claim(store.queue.ready_queues("robot/first"), "ann", 30, 1)
    assert stop(store, "x", "ada", "a lawyer called") == ["first"]


GATE = make("publish", "Published", past={"approved"}, absent={"Published"})


def test_what_waits_for_a_person_goes_on_when_it_is_approved_and_not_when_it_is_rejected(store: Store) -> None:
    subscribe(store, [GATE])
    store.records.put([NewItem("good"), NewItem("bad")])
    assert approve(store, "good", "approved", "ada", "looks fine") == ["Published"]
    approve(store, "bad", "approved", "ada", "upside down", rejected=True)
    run(store, GATE)
    assert types(store, "good") == ["changed", "approved", "Published"]
    assert types(store, "bad") == ["changed", "approved"]
    undo(store, "good", "ada", "wrong pile")
    assert set(store.records.latest("good")) == {"Published"}, "what was done stays; `restart` is for that"


def test_an_approval_that_nobody_waits_for_or_that_a_robot_gives_is_refused(store: Store) -> None:
    subscribe(store, [GATE])
    store.records.put([NewItem("x")])
    with pytest.raises(Refused, match="no robot waits for aproved") as refused:
        approve(store, "x", "aproved", "ada", "fine")
    assert "approved" in refused.value.hint
    with pytest.raises(Refused, match="recorded by a robot"):
        approve(store, "x", "Published", "ada", "fine")


def test_a_priority_holds_for_jobs_that_wait_and_for_those_that_come_later(store: Store) -> None:
    log: list[str] = []
    line = [make("first", "A", absent={"A"}), make("second", "B", log, past={"A"}, absent={"B"})]
    subscribe(store, line)
    store.records.put([NewItem(f"item-{number}") for number in range(5)])

    def priorities(robot: str) -> list[int]:
        jobs = [store.queue.by_key(f"robot/{robot}", f"item-{number}") for number in (2, 3)]
        return [job.priority for job in jobs if job]

    assert prioritise(store, "item-3", 5, "ada", "for the exhibition") == 1
    assert priorities("first") == [50, 5]
    run(store, line[0])
    assert priorities("second") == [50, 5]
    run(store, line[1])
    assert log[0] == "item-3"
    assert types(store, "item-3") == ["changed", "prioritised", "A", "B"]


def test_undoing_a_priority_gives_the_earlier_one_back(store: Store) -> None:
    subscribe(store, [make("first", "A", absent={"A"})])
    store.records.put([NewItem("x")])
    job = store.queue.by_key("robot/first", "x")
    assert job
    for number, expected in ((5, 5), (7, 7)):
        prioritise(store, "x", number, "ada", "exhibition")
        assert store.queue.get(job.id).priority == expected
    for expected in (5, 50):
        undo(store, "x", "ada", "cancelled")
        assert store.queue.get(job.id).priority == expected
    with pytest.raises(NotFound, match="nothing was done"):
        undo(store, "x", "ada", "and again")
    with pytest.raises(BadInput, match="outside 0 to 99"):
        prioritise(store, "x", 100, "ada", "too late")


def test_undo_goes_back_one_act_at_a_time(store: Store) -> None:
    store.records.put([NewItem("x")])
    run(store, judge)
    override(store, "x", "Judged", "ada", "fine")
    stop(store, "x", "ada", "wait")
    assert [event.type for event in by_hand(store.records.events("item/x"))] == ["Judged", "stopped"]
    assert undo(store, "x", "ada", "go on") == ["stopped"]
    restart(store, [judge], "x", "Judged", "ada", "again")
    assert "Judged" not in store.records.latest("x")
    assert undo(store, "x", "ada", "not again") == ["Judged"]
    assert store.records.latest("x")["Judged"].outcome == "success"
    assert undo(store, "x", "ada", "no override") == ["Judged"]
    assert store.records.latest("x")["Judged"].outcome == "failure"


def test_a_reason_is_asked_for(store: Store) -> None:
    store.records.put([NewItem("x")])
    with pytest.raises(BadInput, match="a reason is needed"):
        stop(store, "x", "ada", "  ")
    assert types(store, "x") == ["changed"]


LINE = """
from custody.robots import robot

@robot(name="judge", version="1", event="Judged", when={"absent": {"Judged"}})
def judge(item, report):
    report.add("R1", f"{item.id} is torn on page {len(item.id)}")

@robot(name="publish", version="1", event="Published", when={"past": {"Judged", "approved"}, "absent": {"Published"}})
def publish(item, report):
    pass
"""


def test_the_acts_from_the_command_line_and_what_why_says_about_them(tmp_path: Path, custody: Custody) -> None:
    (tmp_path / "line.py").write_text(LINE)
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.records.put([NewItem("x")])

    assert "1 failed" in custody("run", "line.py", "--once", code=1)
    assert "missing option" in custody("override", "x", "Judged", code=2).lower()
    assert "counts as a success" in custody("override", "x", "Judged", "--why", "old damage")
    assert "given for x" in custody("approve", "x", "--why", "fine")
    assert "priority 3" in custody("prioritise", "x", "3", "--why", "exhibition")
    assert "x is stopped" in custody("stop", "x", "--why", "a lawyer called")
    told = custody("why", "publish", "x")
    assert "not ready" in told
    assert "is not stopped" in told
    assert "stopped by ada" in told
    assert "a lawyer called" in told
    assert "old damage" in told
    assert "undone on x: stopped" in custody("undo", "x", "--why", "settled")
    assert "x is ready" in custody("why", "publish", "x")
    assert "1 went well" in custody("run", "line.py", "--once")
    assert custody("run", "line.py", "--once") == "nothing to do\n"


def test_what_was_done_by_hand_is_exported_as_valid_premis(file_store: Store, tmp_path: Path) -> None:
    file_store.records.put([NewItem("x")])
    run(file_store, judge)
    override(file_store, "x", "Judged", "ada", "it was torn in 1780 already")
    stop(file_store, "x", "ada", "a lawyer called")
    prioritise(file_store, "x", 3, "ada", "exhibition")
    undo(file_store, "x", "ada", "cancelled")
    document = etree.fromstring(premis_document(file_store.records.events("item/x"), origin="custody"))
    schema("premis-v3-0.xsd", tmp_path).assertValid(document)
    told = etree.tostring(document, encoding="unicode")
    assert "it was torn in 1780 already" in told
    assert "cancelled" in told


def test_two_robots_of_one_line_that_look_alike_are_refused(store: Store) -> None:
    with pytest.raises(BadInput, match="COUNTER and counter look alike"):
        subscribe(store, [make("counter", "A"), make("COUNTER", "B")])
    subscribe(store, [make("counter", "A")])
    subscribe(store, [make("Counter", "A")])  # it was renamed
    assert [each.what for each in application_findings(store, None)] == ["these robots look alike: Counter, counter"]
