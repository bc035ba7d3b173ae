"""Robots that edit come to rest, what is overdue is named, and failures are told by their cause."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from custody.errors import BadInput
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.model.job import Filter
from custody.kernel.model.names.reserved import RECORDED
from custody.kernel.stores import Store, open_store
from custody.robots import Report, Robot, robot
from custody.robots.items.deadlines import due_of, late
from custody.robots.items.failures import alike, causes
from custody.robots.items.restart import undo
from custody.robots.runner import subscribe
from robots.conftest import Custody
from robots.lines import run, types, watched


def editor(name: str, edit: str = "", rounds: int = 4) -> Robot:
    """Changes every item it sees, for as long as its mark is not at the end."""

    @robot(name=name, version="1", event=f"{name} done", when={"old": {f"{name} done"}}, edits=True, rounds=rounds)
    def work(item: Item, report: Report) -> None:
        if not edit or edit not in item.fingerprint:
            report.changed(item, item.fingerprint + (edit or name))

    return work


def test_two_robots_that_edit_in_turn_are_stopped_and_flagged(store: Store) -> None:
    line = [editor("a"), editor("b")]
    store.records.put([NewItem("x", fingerprint="0")])
    _, tally = watched(store, line)
    edits = Counter(event.type for event in store.records.events("item/x") if "edited" in event.detail)
    assert max(edits.values()) == 4, "as many turns as the label allows, and not one more"
    assert types(store, "x").count("stopped") == 1
    stopped = next(event for event in store.records.events("item/x") if event.type == "stopped")
    assert stopped.outcome == "warning"
    assert stopped.detail["robots"] == ["a 1", "b 1"]
    assert sum(counts["stopped"] for counts in tally.counts.values()) == 1
    before = types(store, "x")
    store.records.put([NewItem("x", fingerprint="from outside")])
    run(store, *line)
    assert types(store, "x") == [*before, "changed"], "it stays off the line until someone has looked"
    undo(store, "x", "ada", "the second one is mended")
    run(store, *line)
    assert types(store, "x").count("stopped") == 2, "a person's word gives it as many rounds again"
    assert types(store, "x").count("a done") > before.count("a done")


@pytest.mark.parametrize("way", ["note", "facts"])
@pytest.mark.parametrize("word", ["edited", "left", "findings", "why", "by hand", "seen", "folder"])
def test_nobodys_note_is_taken_for_the_systems_own_words(way: str, word: str, file_store: Store) -> None:
    @robot(name="forger", version="1", event="Forged", when={"absent": {"Forged"}})
    def forger(item: Item, report: Report) -> None:
        if way == "note":
            report.note(**{word: item.fingerprint})
        else:
            report.facts[word] = item.fingerprint

    file_store.records.put([NewItem("x", fingerprint="0")])
    run(file_store, forger)
    assert types(file_store, "x") == ["changed"], "nothing of it is recorded"
    job = file_store.queue.by_key("robot/forger", "x")
    assert job is not None
    assert f"'{word}' is not theirs to set" in str(file_store.records.events(f"job/{job.id}"))


@pytest.mark.parametrize("event", sorted(RECORDED))
def test_no_robot_records_an_event_that_is_the_systems(event: str) -> None:
    with pytest.raises(BadInput, match=f"{event} is recorded by the system itself"):
        robot(name="forger", version="1", event=event, when={"absent": {event}})


def test_two_robots_that_settle_are_left_alone(store: Store) -> None:
    line = [editor("a", "A"), editor("b", "B")]
    store.records.put([NewItem("x", fingerprint="0")])
    run(store, *line)
    assert "stopped" not in types(store, "x")
    assert set(store.records.item("x").fingerprint) == set("0AB")
    assert run(store, *line) == 0


def test_many_changes_from_outside_are_no_loop(store: Store) -> None:
    line = [editor("a", "A", rounds=2)]
    for number in range(6):
        store.records.put([NewItem("x", fingerprint=f"outside {number}")])
        run(store, *line)
    assert types(store, "x").count("a done") == 6
    assert "stopped" not in types(store, "x")


def test_content_that_came_back_as_the_robot_left_it_is_not_worked_on_again(store: Store) -> None:
    runs: list[str] = []

    @robot(name="a", version="1", event="A", when={"old": {"A"}}, edits=True, rounds=2)
    def work(item: Item, report: Report) -> None:
        runs.append(item.fingerprint)
        report.changed(item, "mine")

    store.records.put([NewItem("x", fingerprint="0")])
    run(store, work)
    for _ in range(3):
        for fingerprint in ("theirs", "mine"):  # changed, and changed back before the robot came
            store.records.put([NewItem("x", fingerprint=fingerprint)])
        run(store, work)
    assert runs == ["0"]
    assert "stopped" not in types(store, "x"), "changes from outside are no turns of the robot's"
    assert store.records.events("item/x")[-1].detail["why"] == "the content is as this robot left it"
    assert run(store, work) == 0, "and it is not ready any more"


HOUR = 3600.0


def gate(within: float = HOUR) -> Robot:
    label = robot(
        name="publish",
        version="1",
        event="Published",
        within=within,
        since="Received",
        when={"past": {"Received", "approved"}, "absent": {"Published"}},
    )
    return label(lambda item, report: None)


def test_what_should_have_happened_by_now_is_listed_with_what_it_waits_for(store: Store) -> None:
    subscribe(store, [gate(within=1e-6)])
    received = [NewEvent(name, "Received") for name in ("a", "b", "c")]
    store.records.put(
        [NewItem(name) for name in "abcd"],
        [*received, NewEvent("b", "approved"), NewEvent("c", "approved"), NewEvent("c", "Published")],
    )
    found = {each.item: each for each in late(store)}
    assert set(found) == {"a", "b"}
    assert "approved never happened" in found["a"].waits_for
    assert found["b"].waits_for
    assert found["a"].due - found["a"].began == 1


def test_what_is_in_time_is_not_late_and_why_knows_when_it_is_due(store: Store) -> None:
    subscribe(store, [gate()])
    store.records.put([NewItem("a"), NewItem("b")], [NewEvent("a", "Received")])
    facts = {"within": HOUR, "since": "Received", "event": "Published"}
    assert late(store) == []
    began = store.records.events("item/a")[-1].at
    assert due_of(store, "a", facts) == began + int(HOUR * 1e6)
    assert due_of(store, "b", facts) is None
    assert due_of(store, "a", {"event": "Published"}) is None
    store.records.append(NewEvent("a", "Published"))
    assert due_of(store, "a", facts) is None


def test_a_deadline_needs_something_to_count_from() -> None:
    with pytest.raises(BadInput, match="counts from one event"):
        robot(name="x", version="1", event="X", when={"past": {"A", "B"}}, within=5)(lambda item, report: None)
    one = robot(name="x", version="1", event="X", when={"past": {"A"}}, within=5)(lambda item, report: None)
    assert one.since == "A"


JUDGING = Filter(kind="robot/judge", state="queued")


@robot(name="judge", version="1", event="Judged", when={"absent": {"Judged"}}, at_once=4, tries=1)
def judge(item: Item, report: Report) -> None:
    number = int(item.id.removeprefix("item-"))
    if number % 3 == 0:
        report.add("R1", f"page {number} of {item.id} is torn")
    elif number % 3 == 1:
        report.add("R2", "it is wet")
    elif number == 5:
        raise RuntimeError(f"no answer from scanner {number}")


def test_failures_with_one_cause_are_one_row(store: Store) -> None:
    store.records.put([NewItem(f"item-{number}") for number in range(30)])
    run(store, judge)
    found = causes(store, "judge")
    rows = [(cause.code, cause.event, cause.reason, len(cause.items)) for cause in found]
    assert rows == [
        ("R1", "Judged", "page # of ITEM is torn", 10),
        ("R2", "Judged", "it is wet", 10),
        ("surprise", "", "RuntimeError: no answer from scanner #", 1),
    ]
    assert found[2].items == ["item-5"]
    assert causes(store, "nobody") == []
    assert alike("page 12 of a-7 x", "a-7") == "page # of ITEM x"


def test_one_is_retried_and_then_all(tmp_path: Path, custody: Custody) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.records.put([NewItem(f"item-{number}") for number in range(9)])
        run(store, judge)
        assert "page # of ITEM is torn" in custody("failures")
        assert "1 of them will be worked on again; 2 wait for --all" in custody(
            "retry", "judge", "R1", "--why", "glued"
        )
        assert len([number for number in range(9) if "Judged" not in store.records.latest(f"item-{number}")]) == 2
        assert "2 of them" in custody("retry", "judge", "R1", "--all", "--why", "all glued")
        assert "1 of them" in custody("retry", "judge", "surprise", "--why", "the scanner is back")
        assert "nothing of judge failed for R9" in custody("retry", "judge", "R9", "--why", "what?", code=2)
        assert sorted(job.key or "" for job in store.queue.every(JUDGING)) == ["item-0", "item-3", "item-5", "item-6"]


def test_list_why_and_late_name_a_deadline(tmp_path: Path, custody: Custody) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        subscribe(store, [gate(within=0.001)])
        store.records.put([NewItem("a")], [NewEvent("a", "Received")])
    assert "approved never happened" in custody("late")
    assert '"late": 1' in custody("list", "--json")
    assert "Published should be there by" in custody("why", "publish", "a")
