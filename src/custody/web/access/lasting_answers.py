"""An answer that lasts is given only as long as whoever asked still may have it.

A request is let in once. While a large answer goes out (a file, a log, an export, a list) the caller is looked at again
every two seconds, also while he does not read: whoever is revoked, narrowed or over meanwhile gets no further piece,
and the connection is cut, which every client can tell from an answer that has come to its end.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from custody.errors import CustodyError
from custody.web.access import gate
from custody.web.problems import Unknown

PIECE: Final = 64 << 10
"""What is handed on at once: what is on its way cannot be taken back."""
STREAM: Final = "text/event-stream"
"""Streams look for themselves, all of them together (live_updates.py)."""


class Cut(Exception):
    """The right to what is being sent has ended."""


class Staying(Response):
    """An answer, for as long as its caller may have it."""

    def __init__(self, request: Request, answer: Response) -> None:  # it has all that a response has from the other
        self._request, self._answer = request, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        looked = time.monotonic()

        async def write(message: Message) -> None:
            nonlocal looked
            sending = asyncio.ensure_future(_in_pieces(message, send))
            try:
                while True:
                    left = max(0.0, looked + gate.TRUST_SECONDS - time.monotonic())
                    if (await asyncio.wait({sending}, timeout=left))[0] and left:
                        break
                    await run_in_threadpool(_must_stay, self._request)
                    looked = time.monotonic()
                    if sending.done():
                        break
            except BaseException:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                raise
            sending.result()

        await self._answer(scope, receive, write)


def staying(request: Request, answer: Response) -> Response:
    """The answer, looked after; one that is small is out before anybody could look."""
    whole = getattr(answer, "body", None)
    is_small = isinstance(whole, bytes) and len(whole) <= PIECE
    return answer if is_small or answer.media_type == STREAM else Staying(request, answer)


def _must_stay(request: Request) -> None:
    try:
        gate.must_stay(request)
    except CustodyError:
        return  # the store is away, and nobody can say that the right has ended
    except Unknown:
        raise Cut("the right to this answer has ended") from None


async def _in_pieces(message: Message, send: Send) -> None:
    body = message.get("body", b"")
    last = max(0, len(body) - 1) // PIECE * PIECE
    for start in range(0, last, PIECE):
        await send({**message, "body": body[start : start + PIECE], "more_body": True})
    await send({**message, "body": body[last:]} if last else message)
