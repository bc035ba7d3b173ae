"""Every entry that says who may make which kind of job. What is not here is nobody's, and may be offered as open."""

from __future__ import annotations

from typing import Final

from custody.channels import makers as channels
from custody.engine.makers import Maker, Makers
from custody.ingest import makers as ingest
from custody.robots import makers as robots
from custody.workflows import makers as workflows

BULK_MAKER: Final = Maker(kind="bulk", instead="POST /api/v1/bulk, or /bulk/new on the dashboard")
VERIFY_MAKER: Final = Maker(kind="history/verify", instead="`custody history verify`, or /history on the dashboard")

MAKERS: Final = Makers((BULK_MAKER, VERIFY_MAKER, *ingest.MAKERS, *workflows.MAKERS, *channels.MAKERS, *robots.MAKERS))
