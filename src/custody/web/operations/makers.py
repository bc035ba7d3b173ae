"""Every entry that says who may make which kind of job. What is not here is nobody's, and may be offered as open."""

from __future__ import annotations

from typing import Any, Final

from custody.channels import makers as channels
from custody.formats.shape import Optional, record, text, whole
from custody.ingest import makers as ingest
from custody.kernel.engine.makers import Maker, Makers
from custody.kernel.model.job import Job
from custody.robots import makers as robots
from custody.workflows import makers as workflows

_WORD: Final = Optional(text(500))


def _somebody_asked(store: Any, job: Job) -> str:
    """A person or a program with a name of its own, whose rights can be looked up: no schedule, and not the program."""
    if not job.by.startswith(("token:", "oidc:", "cli:", "demo:")):
        return "nobody whose rights are known asked for it"
    within = job.payload["filter"].get("collection", "")
    return "" if job.collection == within else "it is not in the collection that it would change"


BULK_MAKER: Final = Maker(
    kind="bulk",
    verify=_somebody_asked,
    instead="POST /api/v1/bulk, or /bulk/new on the dashboard",
    shape=record(
        action=text(40, 1),
        why=text(2000),
        last=whole(),
        total=whole(),
        eligible=whole(),
        priority=whole(0, 99),
        filter=record(
            kind=_WORD, state=_WORD, ended=_WORD, lane=_WORD, collection=_WORD, code=_WORD, parent=Optional(whole())
        ),
        who=Optional(text(500)),  # in those of an earlier version; never read
    ),
)
VERIFY_MAKER: Final = Maker(
    kind="history/verify",
    shape=record(name=Optional(text(100))),
    instead="`custody history verify`, or /history on the dashboard",
)

MAKERS: Final = Makers((BULK_MAKER, VERIFY_MAKER, *ingest.MAKERS, *workflows.MAKERS, *channels.MAKERS, *robots.MAKERS))
