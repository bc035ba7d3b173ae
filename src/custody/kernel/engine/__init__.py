"""What happens when: one worker loop for any kind of work. What others need of it is imported when it is asked for."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from custody.kernel.engine.kinds import Backoff as Backoff
    from custody.kernel.engine.kinds import Chore as Chore
    from custody.kernel.engine.kinds import Kind as Kind
    from custody.kernel.engine.kinds import Serving as Serving
    from custody.kernel.engine.settings import Settings as Settings
    from custody.kernel.engine.work import Work as Work
    from custody.kernel.engine.worker import Worker as Worker

__all__ = ["Backoff", "Chore", "Kind", "Serving", "Settings", "Work", "Worker"]
_WHERE = {
    "Backoff": "kinds",
    "Chore": "kinds",
    "Kind": "kinds",
    "Serving": "kinds",
    "Settings": "settings",
    "Work": "work",
    "Worker": "worker",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and keep it: a command that only makes a job does without the worker."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
