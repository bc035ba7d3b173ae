"""The guard against loops: robots that change an item and wake on changes must come to rest.

A change is a robot's own when the next event in the item's history is that robot's and names the fingerprint it
left. Everything else comes from outside. All of this is read from the history, so it survives every restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import STOPPED
from custody.kernel.stores.rules.items import CHANGED
from custody.robots.robot import Robot

EDITED = "edited"
"""In the event of a run that changed the item: the fingerprint it left."""
LEFT = "left"
"""The same in an event that was recorded instead of a run: nothing was changed, so it is no turn."""
LOOKED_AT = 500  # events of an item, from its newest: rounds are few and follow each other


def since_outside(events: Sequence[Event]) -> list[Event]:
    """What came after the last change from outside, or after a person last let the item go on; newest first."""
    found: list[Event] = []
    for event in reversed(events):
        if event.type == "withdrawn":
            break
        if event.type == CHANGED and not (found and found[-1].detail.get(EDITED) == event.detail.get("fingerprint")):
            break
        found.append(event)
    return found


def turns(events: Sequence[Event], robot: Robot) -> int:
    """How often it has edited the item since anyone outside did."""
    return sum(event.type == robot.event and EDITED in event.detail for event in since_outside(events))


def as_it_left_it(events: Sequence[Event], robot: Robot, item: Item) -> bool:
    """The content is what this robot itself left behind, well, at the end of its last run."""
    for event in reversed(events):
        if event.type == robot.event:
            left = event.detail.get(EDITED) or event.detail.get(LEFT)
            return bool(item.fingerprint) and event.outcome != "failure" and left == item.fingerprint
    return False


def stopping(events: Sequence[Event], robot: Robot, item: Item) -> NewEvent:
    """The event that takes the item off the line, and says who kept changing it."""
    others = {event.agent for event in since_outside(events) if EDITED in event.detail}
    told = {
        "why": f"{' and '.join(sorted(others))} keep changing it in turn, with nothing new from outside",
        "rounds": robot.rounds,
        "robots": sorted(others),
    }
    return NewEvent(item=item.id, type=STOPPED, outcome="warning", agent=robot.agent, detail=told)
