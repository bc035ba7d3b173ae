"""Around every request: an id, a limit on its body, and the headers that keep a browser honest."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
SILENCE_SECONDS: Final = 30.0  # between two pieces of a body
LONGEST_ADDRESS: Final = 16_384
MOST_HEADERS: Final = 32_768  # bytes
LEAST_RATE: Final = 1024  # bytes a second, in the long run: a byte now and then is no upload


_UNLESS_GIVEN: Final = tuple(
    (name.lower().encode(), value.encode()) for name, value in {**HEADERS, "Cache-Control": "no-store"}.items()
)


class Around:
    def __init__(
        self,
        app: ASGIApp,
        small: int,
        large: int,
        is_upload: Callable[[str], bool],
        surprise: Callable[[Request, Exception], Response],
        refused: Callable[[Request, int], Response],
    ) -> None:
        self.app, self.small, self.large, self.is_upload = app, small, large, is_upload
        self.surprise, self.refused = surprise, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["custody.id"] = secrets.token_hex(6)
        status = _oddity(scope)
        if status:
            # Whatever follows on this connection may not be what it seems.
            refusal = self.refused(Request(scope), status)
            await refusal(scope, receive, _with_headers(scope, send))
            return
        begun = False

        async def write(message: Message) -> None:
            nonlocal begun
            begun = True
            await _with_headers(scope, send)(message)

        try:
            await self.app(scope, _limited(scope, receive, self._limit(scope)), write)
        except Exception as error:
            if begun:
                raise  # too late for an answer: the connection is cut
            response = self.surprise(Request(scope), error)
            await response(scope, receive, write)

    def _limit(self, scope: Scope) -> int:
        upload = "multipart/form-data" in Headers(scope=scope).get("content-type", "")
        return self.large if upload and self.is_upload(scope["path"]) else self.small


def _oddity(scope: Scope) -> int:
    """The status for a request that no honest client sends; 0 for all others."""
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names and b"content-length" in names:
        return 400  # two ways to say where it ends: a proxy may believe the other one
    if "\n" in scope["path"] or "\r" in scope["path"]:
        return 400  # a route's pattern ends before the end of a line: it would be read as another name
    if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > LONGEST_ADDRESS:
        return 414
    return 431 if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS else 0


def _limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """A body that is too large or too slow ends the request; the promised length is not believed."""
    taken, whole, began = 0, False, time.monotonic()

    async def read() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()  # waiting for the client to leave may take as long as it likes
        promised = Headers(scope=scope).get("content-length", "")
        if promised.isdecimal() and int(promised) > limit:
            raise HTTPException(413)
        late = began + SILENCE_SECONDS + taken / LEAST_RATE - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(SILENCE_SECONDS, late))):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408) from None
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > limit:
            raise HTTPException(413)
        return message

    return read


def _with_headers(scope: Scope, send: Send) -> Send:
    async def write(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            known = {name.lower() for name, _ in given}
            ours = (*_UNLESS_GIVEN, (b"x-request-id", scope["custody.id"].encode()))
            message = {**message, "headers": [*given, *(each for each in ours if each[0] not in known)]}
        await send(message)

    return write
