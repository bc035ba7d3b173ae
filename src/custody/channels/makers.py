"""Who may make the jobs of channels: the mirror itself, for channels that somebody added."""

from __future__ import annotations

from typing import Any, Final

from custody.formats.shape import digits, record
from custody.kernel.engine.makers import Maker
from custody.kernel.model.job import Job

ADD: Final = "channel/add"
SYNC: Final = "channel/sync"
REVIEW: Final = "channel/review"
FILES: Final = "channel/files"
REMOVE: Final = "channel/remove"


def _is_true(store: Any, job: Job) -> str:
    """One job for a channel, or for a message: named by it, in its lane."""
    channel, message = job.payload["channel"], job.payload.get("message")
    key = channel if message is None else f"{channel}/{message}"
    return "" if (job.key, job.lane) == (key, channel) else "it is not in the lane of its channel, or not named by it"


def _maker(kind: str, instead: str) -> Maker:
    shape = record(channel=digits, message=digits) if kind == REVIEW else record(channel=digits)
    return Maker(kind=kind, instead=instead, shape=shape, verify=_is_true)


MAKERS: Final = (
    _maker(ADD, "`custody channel add`"),
    _maker(SYNC, "`custody channel sync`"),
    _maker(REVIEW, "`custody channel review`"),
    _maker(FILES, "`custody channel sync`, which asks for files that are wanted"),
    _maker(REMOVE, "`custody channel remove`"),
)
MAKER_OF: Final = {maker.kind: maker for maker in MAKERS}
