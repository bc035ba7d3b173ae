"""What ingest brings into the kernel."""

from __future__ import annotations

from typing import Final

from custody.kernel.applications import Part, Schema

PART: Final = Part(
    name="ingest",
    schema=Schema("custody", "ingest/schema", migrations=4),
    details={"version": "is ingest's", "node": "is ingest's: where it is stored", "files": "is ingest's"},
    events=dict.fromkeys(("ingested", "stored"), "ingest, of what it has stored"),
    reads=("batch:read",),
    acts=("batch:deposit", "batch:link", "batch:act"),
    deposits=("ingest/batch",),
    is_named="inv_is_named",
)
