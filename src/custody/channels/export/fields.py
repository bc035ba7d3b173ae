"""The few fields of a message that exports show, read from messages of any shape.

Archived messages are kept as they came, so nothing can be taken for granted here: a field may be missing, be
something else than documented, or hold half a character.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]


def text(value: object) -> str:
    """As text that can be written to a file; nothing for what is not text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def number(value: object) -> int | None:
    return int(value) if isinstance(value, str | int) and str(value).isdecimal() and int(value) < 2**63 else None


def author(raw: Raw) -> tuple[int | None, str]:
    """The author's id and the name people see."""
    told = raw.get("author")
    told = told if isinstance(told, dict) else {}
    return number(told.get("id")), text(told.get("global_name")) or text(told.get("username"))


def attachments(raw: Raw) -> list[dict[str, Any]]:
    told = raw.get("attachments")
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def reply_to(raw: Raw) -> int | None:
    told = raw.get("message_reference")
    return number(told.get("message_id")) if isinstance(told, dict) else None
