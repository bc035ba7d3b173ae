"""Custody: a durable work engine for archives.

This is the front door: `from custody import Kind, Work, Passed`. What stands here stays; modules below may move. A name
is imported when it is asked for, so that whoever needs one of them does not wait for all.
"""

__version__ = "0.1.0"
INSTALLED = "custody.installation"  # where the kernel asks what the installed applications bring into it

TYPE_CHECKING = False  # `typing` alone would take six times as long as this file
if TYPE_CHECKING:
    from custody.application import Application as Application
    from custody.application import Noun as Noun
    from custody.errors import BadInput as BadInput
    from custody.errors import CustodyError as CustodyError
    from custody.errors import KeyConflict as KeyConflict
    from custody.errors import LeaseLost as LeaseLost
    from custody.errors import NotFound as NotFound
    from custody.errors import Refused as Refused
    from custody.errors import StateConflict as StateConflict
    from custody.errors import Unavailable as Unavailable
    from custody.errors import Unsafe as Unsafe
    from custody.kernel.engine.kinds import Backoff as Backoff
    from custody.kernel.engine.kinds import Chore as Chore
    from custody.kernel.engine.kinds import Kind as Kind
    from custody.kernel.engine.kinds import Serving as Serving
    from custody.kernel.engine.makers import Maker as Maker
    from custody.kernel.engine.settings import Settings as Settings
    from custody.kernel.engine.work import Work as Work
    from custody.kernel.engine.worker import Worker as Worker
    from custody.kernel.model.event import Event as Event
    from custody.kernel.model.event import NewEvent as NewEvent
    from custody.kernel.model.graph import Edge as Edge
    from custody.kernel.model.item import Item as Item
    from custody.kernel.model.item import NewItem as NewItem
    from custody.kernel.model.job import Filter as Filter
    from custody.kernel.model.job import Job as Job
    from custody.kernel.model.job import NewJob as NewJob
    from custody.kernel.model.outcome import Failed as Failed
    from custody.kernel.model.outcome import Hold as Hold
    from custody.kernel.model.outcome import Outcome as Outcome
    from custody.kernel.model.outcome import Passed as Passed
    from custody.kernel.model.outcome import Wait as Wait
    from custody.kernel.model.schedule import Schedule as Schedule
    from custody.kernel.model.trigger import Trigger as Trigger
    from custody.kernel.model.why import Reason as Reason
    from custody.kernel.operations.findings import Finding as Finding
    from custody.kernel.stores import open_store as open_store
    from custody.opening import Folder as Folder
    from custody.opening import Gauge as Gauge
    from custody.opening import Here as Here
    from custody.opening import Opened as Opened
    from custody.robots.declaration import Report as Report
    from custody.robots.declaration import Robot as Robot
    from custody.robots.declaration import robot as robot

_WHERE = {
    "Maker": "custody.kernel.engine.makers",
    "Filter": "custody.kernel.model.job",
    "Finding": "custody.kernel.operations.findings",
    "Folder": "custody.opening",
    "Gauge": "custody.opening",
    "Here": "custody.opening",
    "Opened": "custody.opening",
    "Application": "custody.application",
    "Noun": "custody.application",
    "open_store": "custody.kernel.stores",
    "Backoff": "custody.kernel.engine.kinds",
    "Chore": "custody.kernel.engine.kinds",
    "Kind": "custody.kernel.engine.kinds",
    "Serving": "custody.kernel.engine.kinds",
    "Settings": "custody.kernel.engine.settings",
    "Work": "custody.kernel.engine.work",
    "Worker": "custody.kernel.engine.worker",
    "Failed": "custody.kernel.model.outcome",
    "Hold": "custody.kernel.model.outcome",
    "Outcome": "custody.kernel.model.outcome",
    "Passed": "custody.kernel.model.outcome",
    "Wait": "custody.kernel.model.outcome",
    "Job": "custody.kernel.model.job",
    "NewJob": "custody.kernel.model.job",
    "Edge": "custody.kernel.model.graph",
    "Schedule": "custody.kernel.model.schedule",
    "Reason": "custody.kernel.model.why",
    "Item": "custody.kernel.model.item",
    "NewItem": "custody.kernel.model.item",
    "Event": "custody.kernel.model.event",
    "NewEvent": "custody.kernel.model.event",
    "Trigger": "custody.kernel.model.trigger",
    "Report": "custody.robots.declaration",
    "Robot": "custody.robots.declaration",
    "robot": "custody.robots.declaration",
    "BadInput": "custody.errors",
    "CustodyError": "custody.errors",
    "KeyConflict": "custody.errors",
    "LeaseLost": "custody.errors",
    "NotFound": "custody.errors",
    "Refused": "custody.errors",
    "StateConflict": "custody.errors",
    "Unavailable": "custody.errors",
    "Unsafe": "custody.errors",
}

__all__ = [
    "Application",
    "Backoff",
    "BadInput",
    "Chore",
    "CustodyError",
    "Edge",
    "Event",
    "Failed",
    "Filter",
    "Finding",
    "Folder",
    "Gauge",
    "Here",
    "Hold",
    "Item",
    "Job",
    "KeyConflict",
    "Kind",
    "LeaseLost",
    "Maker",
    "NewEvent",
    "NewItem",
    "NewJob",
    "NotFound",
    "Noun",
    "Opened",
    "Outcome",
    "Passed",
    "Reason",
    "Refused",
    "Report",
    "Robot",
    "Schedule",
    "Serving",
    "Settings",
    "StateConflict",
    "Trigger",
    "Unavailable",
    "Unsafe",
    "Wait",
    "Work",
    "Worker",
    "open_store",
    "robot",
]


def __getattr__(name: str) -> object:
    """Import what is asked for, and keep it: the next time it is simply there."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
