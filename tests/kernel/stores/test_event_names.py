"""Whichever way it comes, a robot records no event whose name is read as another's."""

from __future__ import annotations

import pytest

from custody.errors import BadInput
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store


@pytest.mark.parametrize("type_", ["app\u3164roved", "ᎪᏢᏢᎡᎾᏙᎬᎠ", "\u202edevorppa", "imported approved"])
def test_the_store_takes_none_of_them_from_a_robot(store: Store, type_: str) -> None:
    store.records.put([NewItem("x")])
    with pytest.raises(BadInput) as caught:
        store.records.append(NewEvent("x", type_, teller="robot/r"))
    assert caught.value.code in ("robot.reserved", "event.type")
    with pytest.raises(BadInput):
        store.records.put([NewItem("y")], [NewEvent("y", type_, teller="robot/r")])
    assert [event.type for event in store.records.recent()] == ["changed"]
