"""What was decided by an item's history is written only into that history."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from custody.formats.premis.reader import read_premis
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import Naming
from custody.kernel.history.exchange.premis_import import Source, Taken, import_documents
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store
from formats.premis.systems import SYSTEMS


def types(store: Store, item: str = "x") -> list[str]:
    return [event.type for event in store.records.all_events(f"item/{item}")]


def test_an_item_that_is_as_it_was_seen_gets_its_events(store: Store) -> None:
    new = [NewItem("x", changed=False)]
    assert store.records.put_after(new, [NewEvent("x", "a"), NewEvent("x", "b")], "me", {"x": 0})
    assert types(store) == ["described", "a", "b"]
    assert store.records.put_after(new, [NewEvent("x", "c")], "me", {"x": 3})
    assert types(store) == ["described", "a", "b", "c"]


def test_an_item_to_which_something_happened_meanwhile_gets_nothing(store: Store) -> None:
    store.records.put([NewItem("x", changed=False), NewItem("y")], [], "me")
    for seen in ({"x": 0, "y": 1}, {"x": 1, "y": 1}):
        store.records.append(NewEvent("x", "other"))
        before = types(store)
        new = [NewItem("x", changed=False), NewItem("z")]
        assert not store.records.put_after(new, [NewEvent("x", "a"), NewEvent("y", "a")], "me", seen)
        assert (types(store), types(store, "y")) == (before, ["changed"]), "nor do its neighbours"
        assert types(store, "z") == []


def imported(store: Store, system: str) -> Taken:
    sources = [Source(name, read_premis(text.encode())) for name, text in SYSTEMS[system]().documents.items()]
    return import_documents(
        store.records, sources, naming=Naming("there"), habits=Habits(), origin="custody", agent="me"
    )


def test_two_who_import_the_same_at_once_write_it_once(store: Store, another: Callable[[], Store]) -> None:
    for system in ("rosetta", "roda", "islandora"):
        both, meet = [store, another()], Barrier(2)

        def work(one: Store, system: str = system, meet: Barrier = meet) -> Taken:
            meet.wait()
            return imported(one, system)

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(work, both)
        assert first.new + second.new == first.found == second.found
        assert first.known + second.known == first.found
        assert (first.losses, second.losses) == ([], [])
        for item in {event.item for event in (*first.events, *second.events)}:
            records = [event.detail["premis"] for event in store.records.all_events(f"item/{item}") if event.seq > 1]
            assert len({tuple(each["identifier"]) for each in records}) == len(records)
