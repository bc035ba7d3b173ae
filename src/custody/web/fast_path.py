"""A short way for the few requests that programs send by the hundred: past the web framework, not past the gate.

Only a plain request goes by it: the very address, JSON, a body that its route knows at first sight. Everything else
is handed on, body and all, to the ordinary route, which has the words for whatever is odd about it. Both ways end in
the same act, after the same checks, and a refusal reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from re import Pattern
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from custody.web import problems
from custody.web.access.gate import admit
from custody.web.site import site_of

Read = Callable[[bytes], Any]
Act = Callable[[Request, str, Any], Response]


@dataclass(frozen=True, slots=True)
class Way:
    route: str  # as in the table of rules; with one name in its path
    read: Read  # a body that is plain; None: it is not
    act: Act  # what is done, with the name in the path and with what was read


class Shortcut:
    def __init__(self, app: ASGIApp, ways: Sequence[Way]) -> None:
        self.app, self._ways = app, [(way, *_pattern(way)) for way in ways]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        way, name = self._way(scope)
        if way is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            body = await _whole(receive)
            if body is None:
                return  # whoever asked has gone
            given = way.read(body)
            if given is None:
                await self.app(scope, _once_more(body, receive), send)
                return
            response = await run_in_threadpool(_act, way, request, name, given)
        except problems.FORESEEN as error:
            response = await problems.answer(request, error)
        await response(scope, receive, send)

    def _way(self, scope: Scope) -> tuple[Way | None, str]:
        if scope["type"] != "http" or scope["method"] == "GET" or not _is_plain(scope):
            return None, ""
        for way, method, path in self._ways:
            if method == scope["method"] and (found := path.fullmatch(scope["path"])):
                return way, found[1]
        return None, ""


def _pattern(way: Way) -> tuple[str, Pattern[str]]:
    method, _, path = way.route.partition(" ")
    return method, compile_path(path)[0]


def _is_plain(scope: Scope) -> bool:
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    return types == [b"application/json"] and not scope["query_string"]


def _act(way: Way, request: Request, name: str, given: Any) -> Response:
    """In a thread, as it asks the store: once there, all of it is done in one go."""
    admit(site_of(request), request, way.route)
    return way.act(request, name, given)


async def _whole(receive: Receive) -> bytes | None:
    """The body, as far as it may go: who hands us `receive` counts it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _once_more(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for whoever wants to read it again."""
    first: list[Mapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return dict(first.pop()) if first else await receive()

    return read
