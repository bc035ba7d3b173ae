"""The rules of the road in front of the stand-in for Discord: buckets, the bot's limit, the front door's ban.

All state is here and all of it is counted on the given clock, so a test can let an hour pass in no time.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any

HTML = "<!doctype html><title>Error 1015</title><h1>You are being rate limited</h1>"


LIMITS = ("bucket", "global", "shared", "html")


@dataclass(slots=True)
class Switches:
    """Everything that can be made to go wrong. Calls are counted from 1."""

    token: str = "token"
    bucket_limit: int = 5
    bucket_seconds: float = 1.0
    global_limit: int = 50
    shared_limit_at: set[int] = field(default_factory=set)
    html_ban_after: int = 10_000  # invalid requests in ten minutes
    html_ban_seconds: float = 3_600.0
    fail_at: dict[int, int | str] = field(default_factory=dict)  # a status, or "drop" the connection
    trouble: Callable[[int], int | str | None] | None = None  # the same by chance; also "bucket", "global" … (LIMITS)
    trouble_seconds: float = 0.1  # how long such a limit asks to wait
    slow_seconds: float = 0.0  # between the pieces of a body
    message_content: bool = True  # the privileged intent
    link_seconds: int = 14 * 86_400
    no_private_threads: bool = False  # without MANAGE_THREADS
    file_trouble: Callable[[str], int | str | None] | None = (
        None  # by path: a status, a place to go to, "short", "drop"
    )
    between_pages: Callable[[int, int], None] | None = None  # channel, number of the page: edits, deletions
    odd: Callable[[str, dict[str, str], Reply], Reply | None] | None = None  # path, query, what would be answered
    after_ascends: bool = False  # as servers do that are not Discord
    resets_in_ms: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[bytes, str]:
        if isinstance(self.body, bytes):
            return self.body, "application/octet-stream"
        if isinstance(self.body, str):
            return self.body.encode(), "text/html; charset=UTF-8"
        return json.dumps(self.body, ensure_ascii=False).encode(), "application/json"


@dataclass(slots=True)
class _Window:
    began: float
    used: int = 0


class Traffic:
    def __init__(self, switches: Switches, clock: Callable[[], datetime]) -> None:
        self.switches = switches
        self.clock = clock
        self.calls = 0
        self.invalid: deque[float] = deque()
        self.banned_until = 0.0
        self._windows: dict[tuple[str, str], _Window] = {}
        self._second = _Window(0.0)

    def now(self) -> float:
        return self.clock().timestamp()

    def banned(self) -> Reply | None:
        """The front door: a page of HTML for an address that was refused too often."""
        left = self.banned_until - self.now()
        return Reply(429, HTML, {"Retry-After": f"{left:.0f}"}) if left > 0 else None

    def limited(self, how: str) -> Reply:
        """A 429 out of the blue, as one of `LIMITS`."""
        wait = self.switches.trouble_seconds
        if how == "html":
            return Reply(429, HTML, {"Retry-After": f"{wait}"})
        if how == "global":
            return _limited(wait, {"X-RateLimit-Scope": "global", "X-RateLimit-Global": "true"}, everybody=True)
        if how == "shared":
            return _limited(wait, {"X-RateLimit-Scope": "shared"}, code=40062)
        return _limited(wait, {"X-RateLimit-Scope": "user"})

    def over(self, template: str, top: str) -> Reply | None:
        """A 429 if this request is one too many."""
        now = self.now()
        if self.calls in self.switches.shared_limit_at:
            return _limited(1.5, {"X-RateLimit-Scope": "shared"}, code=40062)
        if now - self._second.began >= 1:
            self._second = _Window(now)
        self._second.used += 1
        if self._second.used > self.switches.global_limit:
            wait = self._second.began + 1 - now
            return _limited(wait, {"X-RateLimit-Scope": "global", "X-RateLimit-Global": "true"}, everybody=True)
        window = self._window(template, top)
        window.used += 1
        if window.used > self.switches.bucket_limit:
            wait = window.began + self.switches.bucket_seconds - now
            return _limited(wait, {"X-RateLimit-Scope": "user"} | self.headers(template, top))
        return None

    def headers(self, template: str, top: str) -> dict[str, str]:
        """What every answer says about its bucket."""
        window, limit = self._window(template, top), self.switches.bucket_limit
        resets = window.began + self.switches.bucket_seconds
        name = blake2b(f"{template}".encode(), digest_size=16).hexdigest()
        told = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(0, limit - window.used)),
            "X-RateLimit-Bucket": name,
        }
        if self.switches.resets_in_ms:
            return told | {"X-RateLimit-Reset": f"{resets * 1000:.0f}"}
        after = max(0.0, resets - self.now())
        return told | {"X-RateLimit-Reset": f"{resets:.3f}", "X-RateLimit-Reset-After": f"{after:.3f}"}

    def note(self, reply: Reply) -> None:
        """Count what was invalid; a shared limit is nobody's fault."""
        if reply.status not in (401, 403, 429) or reply.headers.get("X-RateLimit-Scope") == "shared":
            return
        now = self.now()
        self.invalid.append(now)
        while self.invalid[0] <= now - 600:
            self.invalid.popleft()
        if len(self.invalid) >= self.switches.html_ban_after:
            self.banned_until = now + self.switches.html_ban_seconds

    def _window(self, template: str, top: str) -> _Window:
        window = self._windows.setdefault((template, top), _Window(self.now()))
        if self.now() - window.began >= self.switches.bucket_seconds:
            window.began, window.used = self.now(), 0
        return window


def _limited(wait: float, headers: dict[str, str], code: int | None = None, everybody: bool = False) -> Reply:
    body: dict[str, Any] = {"message": "You are being rate limited.", "retry_after": round(wait, 3)}
    body |= {"global": everybody} | ({"code": code} if code else {})
    return Reply(429, body, headers | {"Retry-After": f"{max(1, round(wait))}"})
