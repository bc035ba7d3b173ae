"""What the doctor finds: how bad it is, what it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    grade: Literal["fine", "warning", "unsafe"]
    what: str
    do: str = ""
