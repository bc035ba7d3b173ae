"""Values that no database can keep: a typed error on every store, and nothing written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from custody.errors import BadInput
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.stores import Store
from kernel.stores.clock import HandClock

HALF, HUGE = "\udcff", 2**70

LOOKS: dict[str, Callable[[Store], object]] = {
    "a number beyond 64 bits": lambda store: store.queue.get(HUGE),
    "why of such a number": lambda store: store.queue.why(HUGE),
    "half a character in a key": lambda store: store.queue.by_key("parcel", HALF),
    "half a character in a filter": lambda store: store.queue.list(Filter(state=HALF)),
    "so many": lambda store: store.queue.list(limit=HUGE),
    "half a character in an item": lambda store: store.records.item(HALF),
    "half a character in a subject": lambda store: store.records.events(HALF),
    "half a character in the name of a lease": lambda store: store.leases.get(HALF),
    "half a character in the name of a schedule": lambda store: store.schedules.get(HALF),
}
WRITES: dict[str, Callable[[Store], object]] = {
    "the position on a line": lambda store: store.queue.submit(
        [NewJob("parcel", line="a", task="b", position=HUGE), NewJob("parcel")]
    ),
    "a parent": lambda store: store.queue.submit([NewJob("parcel"), NewJob("parcel", parent=HUGE)]),
    "the name of a kind": lambda store: store.queue.submit([NewJob("parcel"), NewJob(HALF)]),
    "who submits": lambda store: store.queue.submit([NewJob("parcel")], system(HALF)),
    "who holds": lambda store: store.queue.hold("kind", "parcel", HALF, "full"),
    "what is held": lambda store: store.queue.hold("kind", HALF, "ann", "full"),
    "the name of a lease": lambda store: store.leases.claim(HALF, "ann", 30),
    "a note": lambda store: store.records.note(f"worker/{HALF}", "told", "ann"),
    "an item": lambda store: store.records.put([NewItem(HALF)]),
    "an event": lambda store: store.records.put([NewItem("map")], [NewEvent("map", HALF)]),
    "an item without a name": lambda store: store.records.put([NewItem("map"), NewItem("")]),
    "an item with NUL in its name": lambda store: store.records.put([NewItem("map\0")]),
    "an event of no type": lambda store: store.records.put([NewItem("map")], [NewEvent("map", "")]),
    "two events, one of no type": lambda store: store.records.put(
        [NewItem("map")], [NewEvent("map", "scanned"), NewEvent("map", "")]
    ),
    "a note of no type": lambda store: store.records.note("worker/ann", "", "ann"),
    "the detail of an item": lambda store: store.records.put([NewItem("map", detail={"title": HALF})]),
}


@pytest.mark.parametrize("what", LOOKS)
def test_a_look_for_what_cannot_be_there_is_refused_in_words(store: Store, what: str) -> None:
    with pytest.raises(BadInput) as refused:
        LOOKS[what](store)
    assert refused.value.code


@pytest.mark.parametrize("what", WRITES)
def test_what_cannot_be_kept_is_refused_in_words_and_nothing_is_written(store: Store, what: str) -> None:
    with pytest.raises(BadInput) as refused:
        WRITES[what](store)
    assert refused.value.code
    assert store.queue.list() == []
    assert store.records.recent() == []
    assert (store.queue.holds(), store.leases.list(), store.records.items()) == ([], [], [])


def test_workers_that_were_killed_are_forgotten_after_a_while(store: Store, clock: HandClock) -> None:
    store.sign_of_life("killed", "here", 1, "", "parcel|")
    clock.advance(seconds=6 * 24 * 3600)
    store.sign_of_life("alive", "here", 2, "", "parcel|")
    assert {worker.id for worker in store.workers(within_seconds=10**8)} == {"killed", "alive"}
    clock.advance(seconds=2 * 24 * 3600)
    store.sign_of_life("alive", "here", 2, "", "parcel|")
    assert {worker.id for worker in store.workers(within_seconds=10**8)} == {"alive"}


@pytest.mark.parametrize("several", [False, True])
def test_an_event_of_no_type_is_refused_also_for_an_item_that_is_there(store: Store, several: bool) -> None:
    store.records.put([NewItem("map")])
    events = [NewEvent("map", ""), *([NewEvent("map", "scanned")] if several else [])]
    with pytest.raises(BadInput):
        store.records.put([], events)
    with pytest.raises(BadInput):
        store.records.append(NewEvent("map", ""))
    assert [event.type for event in store.records.events("item/map")] == ["changed"]
