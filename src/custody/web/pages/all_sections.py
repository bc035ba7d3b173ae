"""The sections of a dashboard that shows every application."""

from __future__ import annotations

from typing import Final

from custody.web.pages.archives import ARCHIVES
from custody.web.pages.channels import CHANNELS
from custody.web.pages.robots import ROBOTS
from custody.web.sections import INGEST, Section

SECTIONS: Final[tuple[Section, ...]] = (INGEST, ARCHIVES, ROBOTS, CHANNELS)
