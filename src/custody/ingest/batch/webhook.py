"""Callbacks that the receiver can believe: Standard Webhooks.

The signature covers the id, the time and the body, so that neither an old call nor a changed one passes.
The id is the same over all tries of one call; a receiver that has seen it can ignore it. While a secret
is being replaced both sign, and a receiver accepts either. A receiver needs only `verify`, which is short
enough to be copied.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from custody.errors import BadInput, Refused

TOLERANCE = 300
_PREFIX = "whsec_"
_MOMENT = re.compile("[0-9]{1,12}")


def body(kind: str, at: datetime, data: Mapping[str, Any]) -> bytes:
    """What is sent: what happened (`job.completed`), when, and the facts."""
    if at.tzinfo is None:
        raise BadInput("the time of a callback needs its zone", code="webhook.time")
    whole = {"type": kind, "timestamp": at.isoformat(timespec="seconds"), "data": dict(data)}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def sign(message_id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The three headers. One signature for each secret, the newest first."""
    if not secrets:
        raise BadInput("a callback needs a secret", code="webhook.secret")
    if "." in message_id or not message_id.isprintable() or not message_id:
        raise BadInput(f"{message_id!r} is no message id", code="webhook.id", hint="without dots or spaces")
    signatures = [f"v1,{_signature(message_id, str(timestamp), body, secret)}" for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def verify(
    headers: Mapping[str, str], body: bytes, secrets: Sequence[str], *, now: int, tolerance: int = TOLERANCE
) -> str:
    """The id of a call that is genuine and fresh; otherwise Refused."""
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, moment, signatures = (
            given["webhook-id"],
            given["webhook-timestamp"],
            given["webhook-signature"],
        )
    except KeyError as missing:
        raise Refused(f"the header {missing} is missing", code="webhook.header") from None
    if not _MOMENT.fullmatch(moment) or abs(now - int(moment)) > tolerance:
        raise Refused("the call is too old or from the future", code="webhook.time")
    expected = [_signature(message_id, moment, body, secret) for secret in secrets]
    for each in signatures.split():
        version, _, signature = each.partition(",")
        if version == "v1" and any(
            hmac.compare_digest(signature.encode(errors="replace"), one.encode()) for one in expected
        ):
            return message_id
    raise Refused("no signature is right", code="webhook.signature")


def _signature(message_id: str, timestamp: str, body: bytes, secret: str) -> str:
    signed = b".".join([message_id.encode(errors="replace"), timestamp.encode(), body])
    return base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or len(key) < 24:
        raise BadInput(
            "the callback's secret cannot be used",
            code="webhook.secret",
            hint=f"{_PREFIX} and 24 to 64 random bytes in base64",
        )
    return key
