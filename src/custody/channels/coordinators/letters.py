"""Letters in Azure's queues: how one is made of a request, how one is read, and what is kept of one that is none."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from custody.channels.context import Request
from custody.channels.plain_text import plainly
from custody.channels.snowflake import parse
from custody.errors import BadInput

MOST_KEPT = 20_000  # characters of a letter that is put aside: Base64 twice, and a letter may have 64 kB
MOST_TOLD = 500  # and in the history

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Letter:
    queue: str
    body: Body


OF_REQUESTS = {
    "add": "add-channel",
    "sync": "add-messages",
    "review": "review-message",
    "files": "fetch-files",
    "remove": "remove-channel",
}


def letter_of(request: Request) -> Letter:
    body = {"channel": str(request.channel)}
    if request.message:
        body["message"] = str(request.message)
    if request.order:
        body["order"] = request.order
    more: dict[str, Any] = {"newest_first": True} if request.newest_first else {}
    return Letter(OF_REQUESTS[request.what], {**body, **more})


def channel_of(body: Body) -> int:
    return parse(str(body["channel"]))


def cut(text: str) -> dict[str, Any]:
    """What is kept of a letter that is put aside: all of it, or its beginning and how to tell it from others."""
    if len(text) <= MOST_KEPT:
        return {"letter": text}
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"letter": text[:MOST_KEPT], "cut": True, "characters": len(text), "sha256": digest}


def told_of(body: Body) -> str:
    """A letter for the history: as text, since it may have numbers that no store takes, and not all of a long one."""
    return plainly(json.dumps(body, sort_keys=True, default=str))[:MOST_TOLD]


def body_of(text: str) -> Body | None:
    """What a letter says; None if it is none."""
    try:
        body = json.loads(base64.b64decode(text, validate=True))
        channel_of(body)
    except (ValueError, TypeError, LookupError, RecursionError, binascii.Error, BadInput):
        return None
    return body if isinstance(body, dict) else None
