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
    return _objects(raw.get("attachments"))


def reactions(raw: Raw) -> list[tuple[str, int]]:
    """Each with how many gave it."""
    found = [(_part(one, "emoji"), number(one.get("count"))) for one in _objects(raw.get("reactions"))]
    return [(text(emoji.get("name")) or text(emoji.get("id")) or "?", count or 0) for emoji, count in found]


def previews(raw: Raw) -> list[dict[str, str]]:
    """What links and bots show beside a message, as far as it is words."""
    found = [{name: text(one.get(name)) for name in ("title", "description")} for one in _objects(raw.get("embeds"))]
    return [one for one in found if any(one.values())]


def poll(raw: Raw) -> dict[str, Any]:
    """A question, and its answers with their votes as far as they are known."""
    told = _part(raw, "poll")
    counts = {
        str(one.get("id")): number(one.get("count")) for one in _objects(_part(told, "results").get("answer_counts"))
    }
    answers = [
        (text(_part(one, "poll_media").get("text")), counts.get(str(one.get("answer_id"))))
        for one in _objects(told.get("answers"))
    ]
    return {"question": text(_part(told, "question").get("text")), "answers": answers} if told else {}


def thread(raw: Raw) -> str:
    """The name of the thread that begins with it."""
    return text(_part(raw, "thread").get("name"))


def _part(raw: Raw, name: str) -> Raw:
    told = raw.get(name)
    return told if isinstance(told, dict) else {}


def _objects(told: object) -> list[dict[str, Any]]:
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def reply_to(raw: Raw) -> int | None:
    told = raw.get("message_reference")
    return number(told.get("message_id")) if isinstance(told, dict) else None
