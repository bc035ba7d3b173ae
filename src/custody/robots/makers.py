"""Who may make the jobs of robots: the store, when an item has had the right events."""

from __future__ import annotations

from typing import Any, Final

from custody.formats.shape import record, text
from custody.kernel.engine.makers import Maker
from custody.kernel.model.job import Job


def _is_true(store: Any, job: Job) -> str:
    """An item that is ready is one job, named by it. Whether it is ready is asked again before anything is done."""
    return "" if job.key == job.payload["item"] else "it is not named by its item"


ROBOT_MAKER: Final = Maker(
    kind="robot/",
    behalf="system",
    shape=record(item=text(least=1)),
    verify=_is_true,
    instead="a robot wakes by events: `custody item`, `custody robot restart`",
)
MAKERS: Final = (ROBOT_MAKER,)
