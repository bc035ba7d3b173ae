"""What was ordered about a channel, its removal and that it is wanted again: in the store, before anybody is told.

A letter or a signal may come twice, late, out of turn, or from nobody: it is a reason to look here, and never a reason
to delete. A removal has an id; who brings another one, or comes when it is over, has nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from custody.channels.context import Request, item_id, noted
from custody.channels.snowflake import parse
from custody.errors import NotFound
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.stores import Store

REMOVAL: Final = "removal"  # of an item: {"id", "why", "along"} while a removal is ordered and not over
AGAIN: Final = "wanted_again"  # of an item: it is wanted again after its removal
GONE: Final = ("removing", "removed")


def removal_of(item: Item | None) -> Mapping[str, Any]:
    """The removal that is ordered and not over; empty if there is none."""
    told = item.detail.get(REMOVAL) if item is not None else None
    return told if isinstance(told, Mapping) and told.get("id") else {}


def along_of(removal: Mapping[str, Any]) -> tuple[int, ...]:
    """The threads that its operator was shown."""
    return tuple(parse(str(one)) for one in removal.get("along") or ())


def ordered(store: Store, request: Request, who: str, anew: bool = False) -> Request:
    """Write an order down; answers the request with its id. A removal that is open stays as it was said, unless `anew`.

    Whatever else is asked for changes nothing that is kept, and needs no order.
    """
    item = _item(store, request.channel)
    if item is None or request.what not in ("add", "remove"):
        return request
    if request.what == "add":
        if removal_of(item) or item.detail.get("mirrored") in GONE:
            how = {"newest_first": request.newest_first}
            store.records.put((noted(request.channel, **{AGAIN: how}),), (), who)
        return request
    known = {} if anew else removal_of(item)
    told = known or facts(store.new_move(), request.why, request.along)
    event = NewEvent(item.id, "removal ordered", agent=who, detail={"why": request.why, "removal": told["id"]})
    store.records.put((noted(request.channel, **{REMOVAL: told, AGAIN: {}}),), () if known else (event,), who)
    return replace(request, order=str(told["id"]), along=along_of(told))


def facts(order: str, why: str, along: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"id": order, "why": why, "along": [str(one) for one in along]}


def over(channel: int) -> NewItem:
    """The order that was open is none any more."""
    return noted(channel, **{REMOVAL: {}})


def objection(item: Item | None, order: str) -> str:
    """Why a removal that somebody brings is not to be done; empty if the store has ordered just that one."""
    if item is None:
        return "this channel is not known here"
    known = removal_of(item)
    if not known:
        return "no removal of this channel is ordered, or it is over"
    return "" if order == known["id"] else "it does not belong to the removal that is ordered now"


def is_wanted_again(item: Item) -> bool:
    return bool(item.detail.get(AGAIN))


def _item(store: Store, channel: int) -> Item | None:
    try:
        return store.records.item(item_id(channel))
    except NotFound:
        return None
