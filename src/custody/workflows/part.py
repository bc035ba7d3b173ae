"""What workflows bring into the kernel."""

from __future__ import annotations

from typing import Final

from custody.kernel.applications import Part, Schema

PART: Final = Part(
    name="workflows",
    schema=Schema("custody", "workflows/schema", migrations=3, overrides=("postgres",)),
    events={"planned": "workflows, of each revision"},
    events_with={"task": "workflows, of each task", "run": "workflows, of each run"},
    agents=("reconciler", "workflows"),
    reads=("archive:read",),
    acts=("archive:notify", "archive:act"),
    in_archives=("workflow/",),
    archive_named="wf_archive",
    archive_list="wf_archives",
)
