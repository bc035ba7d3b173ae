"""Judging what a server answers: statuses, redirects, ranges, lengths, encodings.

Pure functions of a header; each returns what it says, or raises the error that a depositor will read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from custody.border.http.http11 import Head, declared_length
from custody.border.http.policy import Policy
from custody.border.http.urls import Target
from custody.errors import BadInput, CustodyError, Refused, Unavailable

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAY_PASS = frozenset({408, 423, 425, 429})  # of the 4xx; the others will not get better
_WILL_NOT_PASS = frozenset({501, 505})  # of the 5xx; the others may
_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")
_REASONS = {
    401: "the server wants to know who asks",
    403: "the server refuses to hand it out",
    404: "there is no such file",
    410: "the file is gone",
    429: "the server asks us to slow down",
    503: "the server is not available",
}


def status_error(head: Head, target: Target) -> CustodyError:
    """What a status that brings no bytes means: an error for now, or for good."""
    status = head.status
    message = f"{_REASONS.get(status, 'the server answered with an error')} (HTTP {status})"
    if status in _MAY_PASS or (status >= 500 and status not in _WILL_NOT_PASS):
        wait = retry_after(head)
        facts: dict[str, Any] = {} if wait is None else {"retry_after": wait}
        return Unavailable(message, code=f"http.{status}", where=target.shown, **facts)
    return BadInput(message, code=f"http.{status}", where=target.shown)


def retry_after(head: Head) -> float | None:
    """Seconds the server asks us to wait. A date is read against the server's own clock, not ours."""
    text = head.fields.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        until, now = (parsedate_to_datetime(value) for value in (text, head.fields.get("date", "")))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def location(head: Head, target: Target) -> str:
    """Where a redirect points, as text. Servers send UTF-8 here, though the protocol knows only ASCII."""
    raw = head.fields.get("location", "").encode("latin-1")
    if not raw:
        raise BadInput("the server redirects to nowhere", code=f"http.{head.status}", where=target.shown)
    return raw.decode("utf-8", "replace")


def content_range(head: Head, target: Target) -> tuple[int | None, int | None]:
    """First byte and total size, as Content-Range tells them."""
    match = _RANGE.fullmatch(head.fields.get("content-range", ""))
    if match is None:
        raise _bad_range(target)
    first, last, total = match.groups()
    if first is not None and (int(last) < int(first) or (total != "*" and int(last) >= int(total))):
        raise _bad_range(target)
    return None if first is None else int(first), None if total == "*" else int(total)


def range_fields(length: int, marks: Mapping[str, str], digests_known: bool) -> dict[str, str]:
    """The header that asks for the rest. Empty if the file must be fetched from its beginning, because
    nothing would tell us that it has changed in between."""
    mark = marks.get("etag") or marks.get("last-modified")
    if length == 0 or not (mark or digests_known):
        return {}
    asked = {"Range": f"bytes={length}-"}
    return asked | {"If-Range": mark} if mark else asked


def marks(head: Head) -> dict[str, str]:
    """What names this version of the file. A weak ETag does not promise equal bytes."""
    found = {name: head.fields.get(name, "") for name in ("etag", "last-modified")}
    return {
        name: value
        for name, value in found.items()
        if value and len(value) < 1024 and not value.startswith("W/") and value.isascii() and value.isprintable()
    }


def whole_size(head: Head, length: int, target: Target, *, resuming: bool) -> int | None:
    """How long the whole file will be, `length` bytes of which we have. None if the server does not say.

    An answer to a request for the rest that makes no sense may make sense when the whole is asked for.
    """
    if head.status in (200, 203):
        return head.length
    if head.status == 206:
        try:
            first, whole = content_range(head, target)
        except BadInput:
            first, whole = None, None
        if first == length and (whole is None or head.length is None or first + head.length == whole):
            return whole
    elif not (head.status == 416 and resuming):
        raise status_error(head, target)
    kind = Unavailable if resuming else BadInput
    raise kind("the server sent another part than we asked for", code="http.bad_range", where=target.shown)


def told_size(head: Head, target: Target) -> int | None:
    """Content-Length as an estimate, also of an answer that has no body."""
    text = head.fields.get("content-length")
    return None if text is None or head.encoding else declared_length(text, target)


def check_body(
    head: Head, whole: int | None, size: int | None, policy: Policy, *, vouched: bool, target: Target
) -> None:
    """Refuse a body that cannot be the file, before reading it."""
    if head.encoding and not vouched:
        # Never unpacked here. A depositor's digest tells whether the packed bytes are the file.
        raise BadInput(
            f"the server packs the file ({head.encoding[:40]}) although we asked for it as it is",
            code="body.encoded",
            where=target.shown,
            hint="give a digest of the bytes the server sends, or have it send the file unpacked",
        )
    if whole is not None and size is not None and whole != size:
        raise wrong_size(whole, size, target)
    if whole is not None and whole > policy.max_bytes:
        raise too_long(policy.max_bytes, None, target)
    if not head.bounded and size is None and not vouched:
        raise BadInput(
            "the server does not say where the file ends, so a part could pass for the whole",
            code="body.unbounded",
            where=target.shown,
            hint="give the file's size or a digest",
        )


def check_size(size: int | None, policy: Policy, target: Target) -> None:
    """An expected size over the limit needs no request."""
    if size is not None and size > policy.max_bytes:
        raise too_long(policy.max_bytes, None, target)


def check_fields(fields: Mapping[str, str], target: Target) -> None:
    for name, value in fields.items():
        if not (name + value).isascii() or not (name + value).isprintable():
            raise BadInput("a header has characters it cannot have", code="http.field", where=target.shown)


def too_long(limit: int, size: int | None, target: Target) -> CustodyError:
    if size is not None:
        return BadInput(
            f"the file is longer than the {size} bytes expected",
            code="size.mismatch",
            where=target.shown,
            expected=size,
        )
    return Refused(
        f"the file is longer than {limit} bytes",
        code="body.too_large",
        where=target.shown,
        hint="an administrator can raise the collection's limit",
        limit=limit,
    )


def wrong_size(found: int, expected: int, target: Target) -> BadInput:
    return BadInput(
        f"the file has {found} bytes, not {expected}",
        code="size.mismatch",
        where=target.shown,
        expected=expected,
        found=found,
    )


def cut_short(missing: int, target: Target) -> CustodyError:
    return Unavailable(
        f"the body was cut short: {missing} bytes are missing", code="body.truncated", where=target.shown
    )


def _bad_range(target: Target) -> BadInput:
    return BadInput("the server sent another part than we asked for", code="http.bad_range", where=target.shown)
