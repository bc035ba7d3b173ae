"""The applications that the program comes with, in one place."""

from __future__ import annotations

from typing import Final

from custody.kernel.applications import Part
from custody.parts.channels import PART as CHANNELS
from custody.parts.ingest import PART as INGEST
from custody.parts.robots import PART as ROBOTS
from custody.parts.workflows import PART as WORKFLOWS

PARTS: Final[tuple[Part, ...]] = (INGEST, WORKFLOWS, CHANNELS, ROBOTS)
