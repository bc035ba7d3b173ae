"""Coming and going: login with a token, logout, light or dark, and the page about keys."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from custody.errors import NotFound
from custody.kernel.access.tokens import SESSION_SECONDS
from custody.web.access.gate import COOKIE, form_of
from custody.web.access.oidc import BACK, FLOW_SECONDS, Issuer, Leaving
from custody.web.page import Asked, View, show
from custody.web.request_bodies import Router
from custody.web.site import Site, site_of

router = Router()
SECOND = 1_000_000
LEFT = "custody_left"
THEMES = ("auto", "light", "dark")


def own_path(given: str) -> str:
    """Only to pages of this site: a login must not lead elsewhere."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable() else "/"


@router.get("/login", include_in_schema=False, response_model=None)
def login_page(request: Request) -> Response:
    values = {"title": "Log in", "next": own_path(request.query_params.get("next", "/")), "wrong": False}
    return site_of(request).page(request, "login.html", values | {"elsewhere": site_of(request).options.login})


@router.post("/login", include_in_schema=False, response_model=None)
def login(request: Request) -> Response:
    site, form = site_of(request), form_of(request)
    next_ = own_path(form.get("next", "/"))
    session = site.tokens.open_session(form.get("token", "").strip())
    if session is None:
        return site.page(
            request,
            "login.html",
            {"title": "Log in", "next": next_, "wrong": True, "elsewhere": site.options.login},
            401,
        )
    return _with_session(site, RedirectResponse(next_, 303), session)


def _with_session(site: Site, response: Response, session: str) -> Response:
    response.set_cookie(
        COOKIE,
        session,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=site.options.secure_cookie,
        path="/",
    )
    return response


@router.get("/login/oidc", include_in_schema=False, response_model=None)
def leave(request: Request) -> Response:
    """To the issuer; what must come back is kept by the browser, signed."""
    site = site_of(request)
    address, left = _issuer(site).leave(own_path(request.query_params.get("next", "/")), site.store.now() // SECOND)
    response = RedirectResponse(address, 303)
    # lax, not strict: the browser comes back from another site
    response.set_cookie(
        LEFT,
        left.signed(site.options.secret),
        max_age=FLOW_SECONDS,
        httponly=True,
        samesite="lax",
        secure=site.options.secure_cookie,
        path=BACK,
    )
    return response


@router.get(BACK, include_in_schema=False, response_model=None)
def arrive(request: Request) -> Response:
    """Back from the issuer. A page, not a redirect: a strict cookie is not sent along a way that began elsewhere."""
    site, query, now = site_of(request), request.query_params, site_of(request).store.now() // SECOND
    left = Leaving.read(site.options.secret, request.cookies.get(LEFT, ""), now)
    person = _issuer(site).arrive(query.get("code", ""), query.get("state", ""), left, now)
    session = site.tokens.let_in(
        person.name, person.roles, person.identity, issuer=_issuer(site).config.issuer, subject=person.subject
    )
    values = {"title": "Logged in", "next": own_path(left.next), "name": person.name}
    response = site.page(request, "arrived.html", values)
    response.delete_cookie(LEFT, path=BACK)
    return _with_session(site, response, session)


def _issuer(site: Site) -> Issuer:
    if site.options.login is None:
        raise NotFound("nobody logs in elsewhere here", code="login.none", hint="[login] in custody.toml")
    return site.options.login


@router.post("/logout", include_in_schema=False, response_model=None)
def logout(request: Request) -> Response:
    site_of(request).tokens.close_session(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


@router.post("/theme", include_in_schema=False, response_model=None)
def theme(request: Request) -> Response:
    form = form_of(request)
    chosen = form.get("theme", "auto")
    response = RedirectResponse(own_path(form.get("next", "/")), 303)
    if chosen in THEMES:
        response.set_cookie("custody_theme", chosen, max_age=365 * 86400, samesite="strict", path="/")
    return response


def read_help(asked: Asked) -> View:
    return View("Keys", {"live": False}, {"sections": [(each.letter, each.title) for each in asked.site.sections]})


show(router, "/help", "help.html", read_help)
