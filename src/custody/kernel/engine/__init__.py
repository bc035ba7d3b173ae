"""What happens when: one worker loop for any kind of work."""

from custody.kernel.engine.kinds import Backoff, Chore, Kind, Serving
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.work import Work
from custody.kernel.engine.worker import Worker

__all__ = ["Backoff", "Chore", "Kind", "Serving", "Settings", "Work", "Worker"]
