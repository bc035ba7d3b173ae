"""Numbers about channels: kept, found together, forgotten, without history; on every database."""

from __future__ import annotations

from custody.channels.discord.rate_limits import LONGEST
from custody.channels.discord.shared_rate_limit import MOST, StoreSlots
from custody.channels.notes import LOOKED, TURN, Notes
from custody.kernel.stores import Store


def test_numbers_about_channels_are_kept_and_forgotten_and_leave_no_history(store: Store) -> None:
    notes = Notes(store)
    assert notes.of(7) == {}
    assert notes.every() == {}
    notes.put(7, **{LOOKED: 5, TURN: 2**62})
    notes.put(7, **{LOOKED: 6})
    notes.put(77, **{LOOKED: 1})
    assert notes.of(7) == {LOOKED: 6, TURN: 2**62}
    assert notes.every() == {7: {LOOKED: 6, TURN: 2**62}, 77: {LOOKED: 1}}
    notes.forget(7)
    assert notes.every() == {77: {LOOKED: 1}}
    assert not list(store.records.events("item/channel/7"))


def test_a_turn_that_is_further_off_than_anybody_waits_is_not_believed(store: Store) -> None:
    slots, name = StoreSlots(store, "x", per_second=10), "rate/x"
    slots.pause(1e18)
    assert LONGEST - 60 < slots.take() <= LONGEST
    far = store.now() + MOST + 3_600 * 1_000_000
    store.db.write(lambda tx: tx.run("ch_note", name=name, value=far))
    assert slots.take() == 0
    store.db.write(lambda tx: tx.run("ch_note", name=name, value=far))
    slots.pause(5)
    assert 0 < slots.take() <= 5
