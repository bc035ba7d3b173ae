"""Who may make ingest's jobs: ingest itself, out of what a depositor hands in.

What stands in a tree that other services write to as well has been read by `tree.py` before it comes here; some of
their numbers are text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from custody.errors import NotFound
from custody.formats.shape import Check, Optional, digits, either, flag, list_of, map_of, part, record, text, whole
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.kernel.engine.makers import Maker
from custody.kernel.model.job import Job

DELIVER: Final = "deliver/mail"
_DEPOSIT: Final = "`custody batch submit`, or POST /api/v1/batches"
_ABOUT: Final = re.compile(r"<batch-([0-9]{1,19})-[a-z0-9-]{1,40}-[0-9]{1,19}@[^<>@\s]{1,255}>")
_SAID: Final = Optional(text())
_NUMBER: Final = Optional(either(digits, whole()))
_YES: Final = Optional(either(text(10, 1), flag))
_COMMON: Final[dict[str, Check | Optional]] = {
    "profile": part,
    "payload": text(),
    "type": Optional(text(100)),
    "filename": _SAID,
    "submitter": _SAID,
    "update": _YES,
    "digest_type": Optional(text(100)),
    "digest_value": Optional(text(1000)),
    "title": _SAID,
    "creator": _SAID,
    "date": _SAID,
    "primary_id": Optional(text(1000)),
    "note": _SAID,
    "dc": Optional(map_of(text())),
}


def _batch_is_true(store: Any, job: Job) -> str:
    return "" if job.collection == job.payload["profile"] else "its collection is not that of its profile"


def _job_is_true(store: Any, job: Job) -> str:
    """Of a batch of its own collection. Looked up once: later states are reached from the first only."""
    if told := _batch_is_true(store, job):
        return told
    if job.state != "pending":
        return ""
    try:
        batch: Job | None = store.queue.get(job.parent) if job.parent else None
    except NotFound:
        batch = None
    is_its = batch is not None and batch.kind == BATCH_KIND and batch.payload.get("profile") == job.payload["profile"]
    return "" if is_its else "there is no batch of its collection that it could be of"


def _mail_is_true(store: Any, job: Job) -> str:
    """About a batch that there is, or was."""
    found = _ABOUT.fullmatch(job.payload["message_id"])
    if found is None or job.key != job.payload["message_id"]:
        return "it is about no batch"
    events = store.records.events(f"job/{found[1]}", limit=1)
    if events and events[0].detail.get("kind") == BATCH_KIND:
        return ""
    try:  # another service of the fleet may have made it
        is_batch = store.queue.get(int(found[1])).kind == BATCH_KIND
    except NotFound:
        is_batch = False
    return "" if is_batch else f"there has never been a batch {found[1]}"


BATCH_MAKER: Final = Maker(
    kind=BATCH_KIND,
    instead=_DEPOSIT,
    verify=_batch_is_true,
    shape=record(
        **_COMMON | {"payload": _SAID},  # one without is told so in a letter: another service may have made it
        local_id=_SAID,
        notification=_SAID,
        user_agent=_SAID,
        inline=_YES,
        first_row=_NUMBER,
        last_row=_NUMBER,
        all_rows=_NUMBER,
        rows=_NUMBER,
    ),
)
JOB_MAKER: Final = Maker(
    kind=JOB_KIND,
    behalf="parent",
    instead=_DEPOSIT,
    verify=_job_is_true,
    shape=record(
        **_COMMON,
        row=either(digits, whole()),
        line=_NUMBER,
        size=_NUMBER,
        local_ids=Optional(list_of(text())),
    ),
)
DELIVER_MAKER: Final = Maker(
    kind=DELIVER,
    behalf="parent",
    instead="mails are sent by ingest, about batches",
    verify=_mail_is_true,
    shape=record(message=text(200, 1), to=list_of(text(500, 1), 100), message_id=text(1000, 1)),
)
MAKERS: Final = (BATCH_MAKER, JOB_MAKER, DELIVER_MAKER)
