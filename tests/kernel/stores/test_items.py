"""Items and their events: one sequence for both, and only a change of content is a change."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from custody.errors import BadInput, NotFound
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Latest, NewItem
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from kernel.stores.acts import subscribe
from kernel.stores.clock import HandClock


def put(store: Store, item: str = "a", *types: str, **more: object) -> None:
    store.records.put([NewItem(item, frozenset(types), **more)], agent="ann")  # type: ignore[arg-type]


def happened(store: Store, type_: str, outcome: str = "success", item: str = "a") -> int:
    return store.records.append(NewEvent(item, type_, outcome, "ann"))  # type: ignore[arg-type]


def told(store: Store, item: str = "a") -> list[tuple[int, str]]:
    return [(event.seq, event.type) for event in store.records.events(f"item/{item}")]


def test_a_new_item_has_changed_once_and_that_is_its_first_event(store: Store, clock: HandClock) -> None:
    put(store, "a", "map", "print", collection="atlas", fingerprint="f1", detail={"title": "Øresund"})

    item = store.records.item("a")
    assert (item.types, item.seq, item.changed) == ({"map", "print"}, 1, 1)
    assert (item.collection, item.fingerprint, item.detail) == ("atlas", "f1", {"title": "Øresund"})
    (event,) = store.records.events("item/a")
    assert (event.seq, event.type, event.agent, event.at) == (1, "changed", "ann", clock.now())


def test_an_event_takes_a_number_and_never_moves_changed(store: Store) -> None:
    put(store)
    happened(store, "Scanned")
    happened(store, "Checked")
    item = store.records.item("a")
    assert (item.seq, item.changed) == (3, 1)


def test_a_change_of_content_takes_the_next_number(store: Store) -> None:
    put(store, fingerprint="f1")
    happened(store, "Scanned")
    put(store, fingerprint="f2")
    item = store.records.item("a")
    assert (item.seq, item.changed, item.fingerprint) == (3, 3, "f2")


def test_the_same_fingerprint_again_is_no_change_and_no_event(store: Store) -> None:
    put(store, "a", "map", fingerprint="f1")
    put(store, "a", "map", fingerprint="f1")
    assert told(store) == [(1, "changed")]


def test_without_a_fingerprint_every_put_is_a_change(store: Store) -> None:
    put(store)
    put(store)
    assert told(store) == [(1, "changed"), (2, "changed")]


def test_a_new_type_without_new_content_is_described_not_changed(store: Store) -> None:
    put(store, "a", "map", fingerprint="f1")
    put(store, "a", "print", fingerprint="f1")

    item = store.records.item("a")
    assert (item.types, item.changed, item.seq) == ({"map", "print"}, 1, 2)
    assert told(store)[-1] == (2, "described")


def test_new_words_about_an_unchanged_item_are_kept(store: Store) -> None:
    put(store, fingerprint="f1", detail={"title": "Map", "pages": 2})
    put(store, fingerprint="f1", detail={"title": "A map"}, collection="atlas")

    item = store.records.item("a")
    assert (item.detail, item.collection, item.changed) == ({"title": "A map", "pages": 2}, "atlas", 1)
    assert told(store)[-1] == (2, "described")


def test_an_item_may_be_announced_before_it_has_content_and_only_once(store: Store) -> None:
    put(store, "a", "map", changed=False)
    put(store, "a", "map", changed=False)
    assert (store.records.item("a").changed, told(store)) == (0, [(1, "described")])

    put(store, "a", "map")
    assert (store.records.item("a").changed, told(store)[-1]) == (2, (2, "changed"))


@pytest.mark.parametrize("type_", ["news paper", "", "tab\there"])
def test_a_type_that_is_not_one_word_is_refused(store: Store, type_: str) -> None:
    with pytest.raises(BadInput):
        put(store, "a", type_)
    with pytest.raises(NotFound):
        store.records.item("a")


@pytest.mark.parametrize("type_", ["approved", "ingested", "changed", "task build"])
def test_what_the_system_itself_records_is_no_robots_word_whichever_way_it_comes(store: Store, type_: str) -> None:
    put(store, "a", "map")
    forged = NewEvent("a", type_, robot="forger")
    before = told(store)
    for door in (
        lambda: store.records.append(forged),
        lambda: store.records.put([], [forged]),
        lambda: store.records.put([NewItem("a", frozenset({"book"}))], [forged]),
        lambda: store.records.put([NewItem("new")], [NewEvent("new", type_, robot="forger")]),
    ):
        with pytest.raises(BadInput, match="is recorded by the system itself") as caught:
            door()
        assert caught.value.code == "robot.reserved"
    assert told(store) == before
    store.records.append(NewEvent("a", type_))  # the system's own


def test_an_event_on_an_unknown_item_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        happened(store, "Scanned", item="nowhere")


def test_items_and_events_are_put_together_or_not_at_all(store: Store) -> None:
    with pytest.raises(NotFound):
        store.records.put([NewItem("a")], [NewEvent("a", "Scanned"), NewEvent("b", "Scanned")])
    assert store.records.items() == []
    assert store.records.events("item/a") == []


def test_only_the_newest_event_of_a_type_counts_whatever_came_before(store: Store) -> None:
    put(store)
    happened(store, "Scanned", "success")
    happened(store, "Checked", "warning")
    happened(store, "Scanned", "failure")

    assert store.records.latest("a") == {
        "Scanned": Latest("Scanned", 4, "failure"),
        "Checked": Latest("Checked", 3, "warning"),
    }
    assert store.records.latest("b") == {}


def test_two_events_at_the_same_moment_both_have_their_place(store: Store) -> None:
    put(store)
    store.records.put([], [NewEvent("a", "Scanned"), NewEvent("a", "Scanned", "failure")])
    assert told(store) == [(1, "changed"), (2, "Scanned"), (3, "Scanned")]
    assert store.records.latest("a")["Scanned"].outcome == "failure"


def test_items_are_listed_by_id_collection_and_type_in_pages(store: Store) -> None:
    put(store, "a", "map", collection="atlas")
    put(store, "b", "maps", collection="atlas")
    put(store, "c", "map", "print")
    put(store, "d", "Map")

    assert [item.id for item in store.records.items()] == ["a", "b", "c", "d"]
    assert [item.id for item in store.records.items(limit=2)] == ["a", "b"]
    assert [item.id for item in store.records.items(after="b")] == ["c", "d"]
    assert [item.id for item in store.records.items(collection="atlas")] == ["a", "b"]
    assert [item.id for item in store.records.items(type_="map")] == ["a", "c"]
    assert [item.id for item in store.records.items(type_="m_p")] == []


def test_events_are_read_in_order_from_anywhere(store: Store) -> None:
    put(store)
    for number in range(20):
        happened(store, f"Step-{number}")

    assert [event.seq for event in store.records.events("item/a", after=5, limit=3)] == [6, 7, 8]
    assert [event.seq for event in store.records.all_events("item/a")] == list(range(1, 22))
    assert [event.type for event in store.records.recent(limit=2)] == ["Step-19", "Step-18"]
    third = store.records.events("item/a")[2]
    assert store.records.since(third.id, limit=1)[0].type == "Step-2"


def test_notes_about_things_without_a_row_are_numbered_too(store: Store) -> None:
    store.records.note("store", "checked", "doctor", faults=0)
    store.records.note("store", "checked", "doctor", faults=2)
    events = store.records.events("store")
    assert [(event.seq, event.detail) for event in events] == [(1, {"faults": 0}), (2, {"faults": 2})]


@pytest.mark.parametrize("subject", ["job/1", "item/a"])
def test_a_note_cannot_be_slipped_into_the_history_of_a_job_or_an_item(store: Store, subject: str) -> None:
    put(store)
    with pytest.raises(BadInput):
        store.records.note(subject, "Scanned", "ann")


def test_many_events_together_are_as_if_they_had_come_one_by_one(store: Store) -> None:
    subscribe(store, "r", Trigger(past=frozenset({"S"}), absent=frozenset({"T"})))
    store.records.put([NewItem(name) for name in ("a", "b", "c", "d")])
    told = [
        NewEvent("a", "S"),
        NewEvent("b", "S", "failure"),
        NewEvent("a", "T"),
        NewEvent("b", "S"),
        NewEvent("a", "S"),
        NewEvent("c", "T"),
        NewEvent("c", "S"),
        NewEvent("d", "S", seen=0, robot="r"),
        NewEvent("d", "S", robot="r"),
    ]
    store.records.put([], told, "ada")

    def numbered(name: str) -> list[tuple[int, str, str]]:
        return [(event.seq, event.type, event.outcome) for event in store.records.events(f"item/{name}")][1:]

    assert numbered("a") == [(2, "S", "success"), (3, "T", "success"), (4, "S", "success")]
    assert numbered("b") == [(2, "S", "failure"), (3, "S", "success")]
    latest = store.records.latest("a")
    assert {name: (each.seq, each.seen) for name, each in latest.items()} == {"S": (4, 4), "T": (3, 3)}
    assert store.records.item("a").seq == 4
    ready = {name for name in "abcd" if store.queue.by_key("robot/r", name)}
    assert ready == {"a", "b", "d"}, "d: its first report had missed a change, so that it was news to itself"
    assert store.records.events("item/d")[1].detail == {"seen": 0}


def test_of_many_events_together_one_that_cannot_be_appended_keeps_all_of_them_out(store: Store) -> None:
    store.records.put([NewItem("a")])
    with pytest.raises(NotFound, match="no item nobody"):
        store.records.put([], [NewEvent("a", "S"), NewEvent("nobody", "S")])
    assert [event.type for event in store.records.events("item/a")] == ["changed"]


def test_a_look_at_many_items_shows_what_was_asked_for(store: Store) -> None:
    store.records.put(
        [NewItem("a", frozenset({"map"})), NewItem("b")], [NewEvent("a", "S"), NewEvent("a", "T", "failure")]
    )
    found = store.records.look(["a", "b", "nobody"], {"T"})
    assert set(found) == {"a", "b"}
    item, latest = found["a"]
    assert (item, latest["T"]) == (store.records.item("a"), store.records.latest("a")["T"])
    assert found["b"][1] == {}


def test_all_events_of_many_who_append_at_once_survive(store: Store) -> None:
    store.records.put([NewItem("a"), NewItem("b")])

    def append(who: int) -> None:
        for number in range(10):
            events = [NewEvent(name, f"S{who}", agent=str(number)) for name in ("a", "b")]
            store.records.put([], events if who % 2 else events[::-1])

    threads = [threading.Thread(target=append, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("a", "b"):
        events = store.records.events(f"item/{name}")
        assert [event.seq for event in events] == list(range(1, 42))
        assert Counter(event.type for event in events) == {"changed": 1, "S0": 10, "S1": 10, "S2": 10, "S3": 10}


def test_a_new_item_and_the_first_thing_told_of_it_are_as_if_they_had_come_one_by_one(store: Store) -> None:
    subscribe(store, "early", Trigger(types=frozenset({"map"}), absent=frozenset({"scanned"})))
    subscribe(store, "later", Trigger(past=frozenset({"scanned"})))
    new = NewItem("a", frozenset({"map"}), "atlas", "f1", {"title": "Øresund"})
    event = NewEvent("a", "scanned", "warning", "bo", detail={"dpi": 300})
    store.records.put([new], [event], "ann")
    store.records.put([replace(new, id="b")], agent="ann")
    store.records.append(replace(event, item="b"))

    for name in "ab":
        item = store.records.item(name)
        assert (item.types, item.seq, item.changed) == ({"map"}, 2, 1)
        assert (item.collection, item.fingerprint, item.detail) == ("atlas", "f1", {"title": "Øresund"})
        first, second = store.records.events(f"item/{name}")
        told_first = {"types": ["map"], "fingerprint": "f1", "title": "Øresund"}
        assert (first.seq, first.type, first.outcome, first.agent, first.detail) == (
            1,
            "changed",
            "none",
            "ann",
            told_first,
        )
        assert (second.seq, second.type, second.outcome, second.agent) == (2, "scanned", "warning", "bo")
        assert second.detail == {"dpi": 300}
        assert first.id < second.id
        latest = store.records.latest(name)["scanned"]
        assert (latest.seq, latest.outcome, latest.seen) == (2, "warning", 2)
    ready = [(job.kind, job.key, job.lane) for job in store.queue.every()]
    assert sorted(ready) == [
        ("robot/early", "a", "atlas"),
        ("robot/early", "b", "atlas"),
        ("robot/later", "a", "atlas"),
        ("robot/later", "b", "atlas"),
    ]


def test_what_is_told_of_an_item_that_is_there_already_does_not_make_it_again(store: Store) -> None:
    put(store, fingerprint="f1", detail={"title": "one"})
    store.records.put([NewItem("a", fingerprint="f2")], [NewEvent("a", "scanned")], "ann")
    assert told(store) == [(1, "changed"), (2, "changed"), (3, "scanned")]
    assert store.records.item("a").detail == {"title": "one"}


# Where an item is


def test_a_place_stays_until_somebody_who_stores_items_says_another(store: Store) -> None:
    put(store, "a", fingerprint="f1", place="main:a/b")
    put(store, "a", fingerprint="f2", detail={"pages": 3})
    assert store.records.item("a").place == "main:a/b"
    put(store, "a", fingerprint="f2", place="main:c")
    item = store.records.item("a")
    assert (item.place, item.detail, item.changed) == ("main:c", {"pages": 3}, 2), "a new place is no new content"
    put(store, "a", fingerprint="f2", place="")
    assert store.records.item("a").place == ""
    said = [(event.type, event.detail.get("place")) for event in store.records.events("item/a")]
    assert said == [("changed", "main:a/b"), ("changed", None), ("described", "main:c"), ("described", "")]


def test_a_place_is_seen_by_every_way_of_looking(store: Store) -> None:
    subscribe(store, "robot", Trigger(types=frozenset({"map"})))
    store.records.put([NewItem("a", frozenset({"map"}), place="main:a")], [NewEvent("a", "made")], "ann")
    happened(store, "looked")
    assert store.records.item("a").place == "main:a"
    assert [item.place for item in store.records.items("", 10, "", "")] == ["main:a"]
    assert {name: item.place for name, (item, _) in store.records.look(["a"], ["looked"]).items()} == {"a": "main:a"}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_not_kept_in_what_is_told_of_an_item(store: Store, there: bool) -> None:
    if there:
        put(store, "a")
    with pytest.raises(BadInput) as caught:
        put(store, "a", detail={"folder": "/etc"})
    assert caught.value.code == "item.reserved"


def test_what_is_told_of_a_change_cannot_pass_for_what_the_store_says_of_it(store: Store) -> None:
    put(store, "a", "map", fingerprint="f1", detail={"types": ["trusted"], "fingerprint": "f9"}, place="main:a")
    (event,) = store.records.events("item/a")
    assert (event.detail["types"], event.detail["fingerprint"], event.detail["place"]) == (["map"], "f1", "main:a")
