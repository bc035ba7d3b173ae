"""Robots: functions that wake when an item has had the right events, and record theirs.

What people write robots with stands here, imported when it is asked for: `from custody.robots import Report, robot`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from custody.kernel.model.item import Item as Item
    from custody.kernel.model.trigger import Trigger as Trigger
    from custody.robots.declaration import Report as Report
    from custody.robots.declaration import Robot as Robot
    from custody.robots.declaration import robot as robot

__all__ = ["Item", "Report", "Robot", "Trigger", "robot"]
_WHERE = {
    "Item": "custody.kernel.model.item",
    "Trigger": "custody.kernel.model.trigger",
    "Report": "custody.robots.declaration",
    "Robot": "custody.robots.declaration",
    "robot": "custody.robots.declaration",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and keep it."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
