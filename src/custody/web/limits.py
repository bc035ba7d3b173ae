"""Around every request: an id, a limit on its body, and the headers that keep a browser honest."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
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


class Around:
    def __init__(
        self,
        app: ASGIApp,
        small: int,
        large: int,
        is_upload: Callable[[str], bool],
        surprise: Callable[[Request, Exception], Response],
    ) -> None:
        self.app, self.small, self.large, self.is_upload, self.surprise = app, small, large, is_upload, surprise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["custody.id"] = secrets.token_hex(6)
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


def _limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """A body that is too large or too slow ends the request; the promised length is not believed."""
    taken, whole = 0, False

    async def read() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()  # waiting for the client to leave may take as long as it likes
        promised = Headers(scope=scope).get("content-length", "")
        if promised.isdecimal() and int(promised) > limit:
            raise HTTPException(413)
        try:
            message = await asyncio.wait_for(receive(), SILENCE_SECONDS)
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
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Request-Id"] = scope["custody.id"]
        await send(message)

    return write
