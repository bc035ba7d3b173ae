"""One answer of Discord's, or one thing in it, read without trusting it. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from custody.channels.discord.rate_limits import LONGEST
from custody.channels.plain_text import plainly
from custody.channels.snowflake import HIGHEST

BAN_WITHOUT_A_TIME = 600.0  # seconds, where we are told to wait and not for how long
OTHER_IDS = ("guild_id", "parent_id", "last_message_id")  # which a channel may have besides its own


@dataclass(frozen=True, slots=True)
class Answer:
    status: int  # 0 when there was none
    headers: dict[str, str]
    body: Any  # None when it is not JSON
    trouble: str

    def told(self, name: str) -> Any:
        return self.body.get(name) if isinstance(self.body, dict) else None

    @property
    def retry_after(self) -> float:
        for told in (self.told("retry_after"), self.headers.get("retry-after")):
            if (asked := seconds(told)) is not None:
                return asked
        return BAN_WITHOUT_A_TIME if self.body is None else 1.0


def seconds(told: Any) -> float | None:
    """How long we are asked to wait; not longer than `LONGEST`, since a limit that is still there is told again."""
    try:
        found = float(str(told))
    except ValueError:
        return None
    return None if math.isnan(found) else min(LONGEST, max(0.0, found))


def host_of(url: str) -> str:
    """Where a link leads to, with its port; empty for one that cannot be read."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def is_id(told: Any) -> bool:
    """A number as the service writes them, or none at all."""
    if not isinstance(told, str):
        return told is None
    return not told or (told.isascii() and told.isdecimal() and len(told) < 20 and int(told) <= HIGHEST)


def is_thread(told: Any) -> bool:
    if not isinstance(told, dict) or not isinstance(told.get("thread_metadata"), dict | None):
        return False
    return bool(told.get("id")) and all(is_id(told.get(one)) for one in ("id", *OTHER_IDS))


def parsed(data: bytearray) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def fault(data: bytes | bytearray) -> str:
    """What is wrong with an answer that ought to be JSON, and is not."""
    if not data.strip():
        return "it is empty"
    shown = plainly(bytes(data[:60]).decode("utf-8", "replace").splitlines()[0])
    try:
        json.loads(data)
    except RecursionError:
        return f"{len(data)} bytes of JSON that is nested too deeply"
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are no text"
    except json.JSONDecodeError as error:
        if data.lstrip()[:1] == b"<":
            return f"a page of HTML instead of JSON: {shown}"
        cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        what = "JSON that is cut off" if cut else f"no JSON ({error.msg} at {error.pos})"
        return f"{len(data)} bytes of {what}: {shown}" if cut else f"{len(data)} bytes that are {what}: {shown}"
    except ValueError as error:
        return f"{len(data)} bytes that cannot be read: {plainly(str(error))[:100]}"
    return f"it says only {shown}"


def expires(url: str) -> datetime | None:
    """When an attachment's link stops working, which it says itself."""
    try:
        told = parse_qs(urlsplit(url).query).get("ex", [""])[0]
        return datetime.fromtimestamp(int(told, 16), UTC)
    except (ValueError, OverflowError, OSError):
        return None
