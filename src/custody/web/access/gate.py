"""The one place where it is decided whether a request may go on: below every route, before any of them runs.

Dashboard: a session cookie, and for changes a form token and a browser that says the form is ours. API: a bearer
token, never a cookie. Demo mode needs neither, but only from this very machine, to this very machine.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from custody.errors import BadInput, NotFound, Unsafe
from custody.kernel.access.caller import Caller
from custody.kernel.access.rights import holders
from custody.kernel.access.rules import Rule
from custody.web.access.query_parameters import must_be_said_once
from custody.web.problems import Forbidden, TooMany, Unknown
from custody.web.site import Site, site_of

T = TypeVar("T")
HIGHEST = 2**62
TRUST_SECONDS = 2.0  # between looks whether somebody whose request lasts still may
COOKIE = "custody_session"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


async def permit(request: Request) -> None:
    """Let the request through with its caller, or raise."""
    site = site_of(request)
    rule = rule_of(site.rules, request)
    _check_numbers(request)
    caller, since = await run_in_threadpool(_arrive, site, request)
    request.state.caller, request.state.since = caller, since
    try:
        request.state.caller = caller = _let_in(site, request, rule, caller)
    except TooMany:
        await site.doorstep.wait()
        raise
    must_be_said_once(request)
    if request.method not in SAFE and not is_api(request):
        await _check_form(request, caller)


def admit(site: Site, request: Request, key: str) -> None:
    """The same for a request to the API that comes by the short way; `key` is its route's in the table."""
    request.state.caller = _let_in(site, request, site.rules[key], find_caller(site, request))


def _let_in(site: Site, request: Request, rule: Rule, caller: Caller | None) -> Caller | None:
    _not_too_often(site, request, caller)
    if request.method not in SAFE:
        _refuse_foreign_pages(request)
    return caller if rule.right is None else _checked(rule, caller)


def _arrive(site: Site, request: Request) -> tuple[Caller | None, int]:
    """Who comes, and how far the history goes before anything is read for the page that he asks for."""
    is_page = request.method in SAFE and not is_api(request)
    return find_caller(site, request), site.changes.newest() if is_page else 0


def _not_too_often(site: Site, request: Request, caller: Caller | None) -> None:
    """Each token has a rate of its own; those without one share that of their address. A demo has no other users."""
    if caller is not None and not caller.token:
        return
    place = request.client.host if request.client else ""
    seconds = site.rates.take(str(caller.token)) if caller else site.unknown_rates.take(place)
    if seconds:
        raise TooMany(seconds)


def _check_numbers(request: Request) -> None:
    """No store has rows beyond this number, and none could be asked about one."""
    if any(isinstance(part, int) and part > HIGHEST for part in request.path_params.values()):
        raise NotFound("nothing has so high a number", code="not-found")


def rule_of(rules: Mapping[str, Rule], request: Request) -> Rule:
    method = "GET" if request.method == "HEAD" else request.method
    return rules[key_of(method, request.scope["route"].path)]


def key_of(method: str, path: str) -> str:
    """A page as data follows the page."""
    page = path if path.startswith("/api/") else path.removesuffix(".json").removesuffix(".csv")
    return f"{method} {'/' if page == '/index' else page}"


def without_rule(routers: Iterable[APIRouter], rules: Mapping[str, Rule]) -> list[str]:
    """Routes that nobody decided about. What is no route of the framework's own (a mount, a websocket) is asked by
    nobody who comes, so that none can be decided about."""
    routes = [route for router in routers for route in router.routes]
    keys = [
        key_of(method, route.path)
        for route in routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
    ]
    others = [
        f"{type(route).__name__} {getattr(route, 'path', '')}" for route in routes if not isinstance(route, APIRoute)
    ]
    return [key for key in keys if key not in rules] + others


def must_be_complete(routers: Iterable[APIRouter], rules: Mapping[str, Rule]) -> None:
    missing = without_rule(routers, rules)
    if missing:
        raise Unsafe(
            f"nobody decided who may use {', '.join(missing)}", code="web.rules", hint="kernel/access/rules.py"
        )


def is_api(request: Request) -> bool:
    path = request.url.path
    return path.startswith("/api/") or path == "/metrics"


def find_caller(site: Site, request: Request) -> Caller | None:
    said = request.headers.getlist("authorization")
    if len(said) > 1:  # a proxy may have looked at the other one
        raise BadInput("Authorization is said twice", code="request.repeated", where="Authorization")
    if given := "".join(said):
        scheme, _, secret = given.partition(" ")
        return site.tokens.caller(secret.strip()) if scheme.lower() == "bearer" else None
    cookie = request.cookies.get(COOKIE, "")
    if cookie and not is_api(request):
        caller = site.tokens.caller(cookie, session=True)
        if caller is not None:
            return caller
    return site.demo_caller() if site.options.demo and is_local(request) else None


def is_local(request: Request) -> bool:
    """From this machine, to this machine by one of its own names, and not handed on by a proxy."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    return _is_loopback(request.client.host) and _is_loopback(_host(request))


def _host(request: Request) -> str:
    """The name the client used; a web page elsewhere may have let its own name point here."""
    host = request.headers.get("host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _refuse_foreign_pages(request: Request) -> None:
    """A browser says where a request was made; one made on another site's page is not the user's wish."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("a request from this site's own pages")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host", ""):
        raise Forbidden("a request from this site's own pages")


def _checked(rule: Rule, caller: Caller | None) -> Caller:
    """The caller as this request has it: seeing no more than where it has the right that is needed here."""
    if caller is None:
        raise Unknown
    assert rule.right is not None
    if not caller.has(rule.right):
        raise Forbidden(f"the role {' or '.join(sorted(holders(rule.right)))}")
    narrowed = replace(caller, right=rule.right)
    if rule.whole and not narrowed.sees_all:
        raise Forbidden("such a role for all collections")
    return narrowed


async def read_form(request: Request) -> FormData:
    """The fields and the one file of a form. While it comes, whoever sends it is looked at again: a token that was
    revoked or narrowed meanwhile hands nothing in."""
    reading = asyncio.ensure_future(request.form(max_fields=100, max_files=1).__aenter__())
    try:
        while not (await asyncio.wait({reading}, timeout=TRUST_SECONDS))[0]:
            await run_in_threadpool(must_stay, request)
        await run_in_threadpool(must_stay, request)
    except BaseException:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        raise
    form = reading.result()
    names = [name for name, _ in form.multi_items()]
    if again := next((name for name in names if names.count(name) > 1), None):
        await form.close()
        raise BadInput(f"{again[:100]} is said twice", code="request.repeated", where=again[:100])
    return form


def must_stay(request: Request) -> None:
    """Refuse who is not any more, or has other rights than, whom the gate let through."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None or not caller.token:
        return
    now = find_caller(site_of(request), request)
    if now is None or now.worth != caller.worth:
        raise Unknown


def while_staying(request: Request, rows: Iterable[T]) -> Iterator[T]:
    """As many of the rows as may be read before the caller's right ends."""
    looked = time.monotonic()
    for row in rows:
        if time.monotonic() - looked >= TRUST_SECONDS:
            must_stay(request)
            looked = time.monotonic()
        yield row


async def _check_form(request: Request, caller: Caller | None) -> None:
    """Every form brings the token of the session that its page was made for."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        raise BadInput("a form is needed", code="form.type", hint="or use the API")
    form = await read_form(request)
    wanted = site_of(request).form_token(caller)
    given = form.get("form_token", "")
    if not isinstance(given, str) or not given.isascii() or not hmac.compare_digest(given, wanted):
        raise Forbidden("a form of this session; go back, load the page again and repeat it")
    request.state.form = form


def must_know(form: FormData, known: Iterable[str]) -> None:
    """Refuse a field that would not be heeded, by its name, as bodies of JSON are: whoever sent it meant something."""
    expected = sorted(known)
    for name in form:
        if name not in expected:
            raise BadInput(
                f"unknown field {name[:100]!r}",
                code="form.field",
                where=name[:100],
                hint=f"known: {', '.join(expected)}",
            )


def form_of(request: Request, *known: str) -> dict[str, str]:
    """The text fields of a form that the gate has let through; the page that it is of knows no others."""
    form: FormData = request.state.form
    must_know(form, ("form_token", *known))
    return {name: value for name, value in form.items() if isinstance(value, str)}
