from __future__ import annotations

from hostile.stage import stage

__all__ = ["stage"]
