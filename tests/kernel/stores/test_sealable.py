"""What the history could never seal is refused at the door, and everything that is let in can be sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from custody.errors import BadInput
from custody.kernel.history.keys import make_key
from custody.kernel.history.ledger import seal_once
from custody.kernel.model.event import DEEPEST, LARGEST, NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from custody.kernel.stores.rows import DEEP
from kernel.stores.acts import settle, submit, take_one


def nested(depth: int) -> Any:
    return reduce(lambda inner, _: {"in": inner}, range(depth), 1)


FINE: dict[str, Mapping[str, Any]] = {
    "the largest number": {"n": LARGEST, "least": -LARGEST},
    "a larger one as text": {"n": str(2**60)},
    "a small one with an exponent": {"n": 1e-9},
    "as deep as can be": {"n": nested(DEEPEST - 3)},
    "many side by side": {"n": [[number] for number in range(100)]},
    "digits within a text": {"text": "9" * 40, "1e9": "1E9"},
}
REFUSED: dict[str, Mapping[str, Any]] = {
    "one more than the largest": {"n": LARGEST + 1},
    "one less than the least": {"n": -LARGEST - 1},
    "a snowflake in a list": {"ids": [1, 2, 1_234_567_890_123_456_789]},
    "a fraction that is too large": {"n": 1e300},
    "too deep": {"n": nested(DEEPEST + 1)},
    "too deep by one": {"n": nested(DEEPEST - 1)},
}


def append(store: Store, detail: Mapping[str, Any]) -> None:
    store.records.put([NewItem("map")], [NewEvent("map", "scanned", detail=detail)], "ann")


def append_one(store: Store, detail: Mapping[str, Any]) -> None:
    store.records.put([NewItem("print")])
    store.records.append(NewEvent("print", "scanned", detail=detail))


def append_many(store: Store, detail: Mapping[str, Any]) -> None:
    store.records.put([NewItem("book"), NewItem("page")])
    store.records.put([], [NewEvent(item, "scanned", detail=detail) for item in ("book", "page")], "ann")


def note(store: Store, detail: Mapping[str, Any]) -> None:
    store.records.note("store", "checked", "ann", **detail)


def facts(store: Store, detail: Mapping[str, Any]) -> None:
    submit(store, facts=detail)


def keep(store: Store, detail: Mapping[str, Any]) -> None:
    submit(store)
    claim = take_one(store)
    store.queue.keep(claim, detail, detail, (), "ann")


DOORS: list[Callable[[Store, Mapping[str, Any]], None]] = [append, append_one, append_many, note, facts, keep]
OF_A_JOB = (facts, keep)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_could_never_be_sealed_is_refused_at_every_door(
    store: Store, door: Callable[[Store, Mapping[str, Any]], None], name: str
) -> None:
    with pytest.raises(BadInput) as refused:
        door(store, REFUSED[name])
    shallow = (
        "deep" in name and door in OF_A_JOB
    )  # what a job keeps is refused before it could be too deep for an event
    assert refused.value.code == ("value.depth" if shallow else "event.value")
    assert ("file" if shallow else "text") in refused.value.hint


@pytest.mark.parametrize("name", REFUSED)
def test_a_settle_that_says_so_is_refused_and_its_neighbours_are_not(store: Store, name: str) -> None:
    jobs = [submit(store), submit(store)]
    good, bad = (take_one(store) for _ in jobs)
    assert settle(store, good).done
    answer = settle(store, bad, detail=dict(REFUSED[name]))
    assert (answer.done, answer.code) == (False, "event.value")
    assert [store.queue.get(job).state for job in jobs] == ["done", "queued"]


@pytest.mark.parametrize("name", FINE)
def test_whatever_is_let_in_is_sealed(store: Store, tmp_path: Path, name: str) -> None:
    for door in DOORS:
        door(store, {"n": nested(DEEP - 1)} if "deep" in name and door in OF_A_JOB else FINE[name])
    block = seal_once(store.ledger, make_key(tmp_path / "key", "test"), store.now())
    assert block is not None
    assert block.complete
    assert store.ledger.unsealed(10) == []


def test_a_payload_may_hold_any_number_because_no_event_repeats_it(store: Store) -> None:
    (made,) = store.queue.submit([NewJob("parcel", {"snowflake": 2**60})])
    assert store.queue.get(made.id).payload == {"snowflake": 2**60}
