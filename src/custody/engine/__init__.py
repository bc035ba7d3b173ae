"""What happens when: one worker loop for any kind of work."""

from custody.engine.kinds import Backoff, Chore, Kind, Serving
from custody.engine.settings import Settings
from custody.engine.work import Work
from custody.engine.worker import Worker

__all__ = ["Backoff", "Chore", "Kind", "Serving", "Settings", "Work", "Worker"]
