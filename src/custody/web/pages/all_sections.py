"""The sections of a dashboard that shows every application."""

from __future__ import annotations

from typing import Final

from custody.channels.pages.channels import CHANNELS
from custody.robots.pages.robots import ROBOTS
from custody.web.sections import INGEST, Section
from custody.workflows.pages.archives import ARCHIVES

SECTIONS: Final[tuple[Section, ...]] = (INGEST, ARCHIVES, ROBOTS, CHANNELS)
