"""Bodies of requests, read as everything from outside is: one meaning, or a refusal that says where.

The framework hands a body to `json.loads` before any model sees it: there the last of two equal names wins, a number
may have thousands of digits, and what is nested a thousand deep breaks whoever shows it later. So routes are of a class
of ours, whose requests are read by the border; one that is not keeps the program from starting.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from custody.errors import CustodyError, Unsafe
from custody.formats.text.readers import TextLimits, read_json
from custody.web.access.lasting_answers import staying

BODY: Final = TextLimits(size=16 << 20, depth=20)
"""How many bytes a body may have is counted while it comes: see access/request_limits.py. This is the most anybody
could allow."""


class Asked(Request):
    async def json(self) -> Any:
        return read_json(await self.body(), "body", BODY)


class Strict(APIRoute):
    """A route whose JSON has one reading."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_strictly(request: Request) -> Response:
            try:
                return staying(request, await handle(Asked(request.scope, request.receive)))
            except HTTPException as error:
                if isinstance(error.__cause__, CustodyError):  # the framework knows no more than "an error"
                    raise error.__cause__ from None
                raise

        return read_strictly


class Router(APIRouter):
    """Routes of the API and of pages are made by this one."""

    def __init__(self, **given: Any) -> None:
        super().__init__(route_class=Strict, **given)


def must_read_strictly(routers: Iterable[APIRouter]) -> None:
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    careless = sorted({route.path for route in routes if not isinstance(route, Strict)})
    if careless:
        raise Unsafe(
            f"bodies of {', '.join(careless)} would be read carelessly",
            code="web.reading",
            hint="make it with the Router of web/request_bodies.py",
        )
