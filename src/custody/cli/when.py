"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(microseconds: int | None) -> str:
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(microseconds: int | None, now: int) -> str:
    if not microseconds:
        return ""
    seconds = max(0, now - microseconds) // 1_000_000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
