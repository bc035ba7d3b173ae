"""Errors as answers: problem+json for programs, a page for people. Never a traceback, a path or a statement."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from custody.errors import BadInput, CustodyError, KeyConflict, NotFound, Refused, Unavailable, Unsafe
from custody.web.access.oidc import Unbelieved
from custody.web.site import site_of

LOG = logging.getLogger("custody.web")

STATUS: Mapping[type[CustodyError], int] = {
    # the first that fits
    KeyConflict: 422,
    Unbelieved: 401,
    Refused: 409,
    BadInput: 400,
    NotFound: 404,
    Unavailable: 503,
    Unsafe: 503,
    CustodyError: 500,
}
TITLES = {
    400: "This cannot be read",
    401: "Who are you?",
    403: "Not yours to do",
    404: "Not there",
    405: "Not possible here",
    408: "Too slow",
    409: "Refused as things stand",
    413: "Too large",
    414: "Too long an address",
    415: "Not this type",
    422: "This does not fit",
    429: "Too many",
    431: "Too many headers",
    500: "Something went wrong",
    503: "Not available just now",
}


NOTHING = {"code": "", "where": "", "hint": ""}


class Unknown(Exception):
    """No valid token came with the request."""


class TooMany(Exception):
    """The caller asks more often than is good for others."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = max(1, math.ceil(seconds))


class Forbidden(Exception):
    """The caller is known, but this is not theirs to do."""

    def __init__(self, needed: str) -> None:
        super().__init__(needed)
        self.needed = needed


def status_of(error: CustodyError) -> int:
    return next(status for kind, status in STATUS.items() if isinstance(error, kind))


def problem(
    request: Request, status: int, facts: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """One shape for all: RFC 9457 with our code, where and hint."""
    title = TITLES.get(status, "Not possible")
    body = {"type": "about:blank", "title": title, "status": status, **facts}
    body |= {"detail": facts.get("message", title), "request": request.scope.get("custody.id", "")}
    body.pop("message", None)
    if wants_html(request):
        page = site_of(request).page(request, "error.html", {"problem": NOTHING | body, "title": title}, status)
        page.headers.update(headers or {})
        return page
    text = json.dumps(body, ensure_ascii=False, default=str)
    return Response(text, status, media_type="application/problem+json", headers=dict(headers or {}))


def wants_html(request: Request) -> bool:
    path = request.url.path
    if path.startswith("/api/") or path.endswith((".json", ".csv")) or path == "/metrics":
        return False
    return "text/html" in request.headers.get("accept", "")


async def _custody(request: Request, error: Exception) -> Response:
    assert isinstance(error, CustodyError)
    return problem(request, status_of(error), _without_paths(error.as_dict()))


def _without_paths(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a repository lies on this machine is for the log and for whoever sits at it."""
    where = str(facts.get("where", ""))
    if not where.startswith(("/", "file:")):
        return facts
    words = {name: str(facts.get(name, "")).replace(where, "its repository") for name in ("message", "hint")}
    return {**facts, **words, "where": ""}


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    faults = [{"where": ".".join(map(str, each["loc"])), "what": each["msg"]} for each in error.errors()[:20]]
    facts = {"code": "request.fields", "message": first["msg"], "where": where}
    return problem(request, 422, facts | {"faults": faults})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(request, error.status_code, {"code": f"http.{error.status_code}"}, error.headers)


async def _unknown(request: Request, error: Exception) -> Response:
    if wants_html(request) and request.method == "GET":
        return RedirectResponse(f"/login?next={request.url.path}", 303)
    facts = {"code": "token.missing", "message": "a valid token is needed", "hint": "Authorization: Bearer custody_…"}
    return problem(request, 401, facts, {"WWW-Authenticate": "Bearer"})


async def _forbidden(request: Request, error: Exception) -> Response:
    assert isinstance(error, Forbidden)
    return problem(request, 403, {"code": "role.missing", "message": f"this needs {error.needed}"})


async def _too_many(request: Request, error: Exception) -> Response:
    assert isinstance(error, TooMany)
    facts = {"code": "rate", "message": "too many requests at once", "hint": f"wait {error.seconds} s"}
    return problem(request, 429, facts, {"Retry-After": str(error.seconds)})


ANSWERS: Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    CustodyError: _custody,
    RequestValidationError: _validation,
    HTTPException: _http,
    Unknown: _unknown,
    Forbidden: _forbidden,
    TooMany: _too_many,
}
FORESEEN = tuple(ANSWERS)


def install(app: FastAPI) -> None:
    for kind, handler in ANSWERS.items():
        app.add_exception_handler(kind, handler)


async def answer(request: Request, error: Exception) -> Response:
    """For one of those that are foreseen."""
    return await next(handler for kind, handler in ANSWERS.items() if isinstance(error, kind))(request, error)


def surprise(request: Request, error: Exception) -> Response:
    """For what nobody foresaw; the story goes to the log, under the number that the client is told."""
    LOG.error("request %s failed", request.scope.get("custody.id", ""), exc_info=error)
    facts = {"code": "surprise", "message": "this is our mistake, not yours; the log has the whole story"}
    return problem(request, 500, facts)


def refused(request: Request, status: int) -> Response:
    """For what is not even looked at; the connection ends with it."""
    facts = {"code": f"http.{status}", "message": "no honest client sends such a request"}
    body = {"type": "about:blank", "title": TITLES.get(status, "Not possible"), "status": status, **facts}
    text = json.dumps(body | {"detail": facts["message"]})
    return Response(text, status, {"Connection": "close"}, "application/problem+json")
