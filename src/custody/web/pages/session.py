"""Coming and going: login with a token, logout, light or dark, and the page about keys."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from custody.web.gate import COOKIE, form_of
from custody.web.showing import Asked, View, show
from custody.web.site import site_of
from custody.web.tokens import SESSION_SECONDS

router = APIRouter()
THEMES = ("auto", "light", "dark")


def own_path(given: str) -> str:
    """Only to pages of this site: a login must not lead elsewhere."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable() else "/"


@router.get("/login", include_in_schema=False, response_model=None)
def login_page(request: Request) -> Response:
    values = {"title": "Log in", "next": own_path(request.query_params.get("next", "/")), "wrong": False}
    return site_of(request).page(request, "login.html", values)


@router.post("/login", include_in_schema=False, response_model=None)
def login(request: Request) -> Response:
    site, form = site_of(request), form_of(request)
    next_ = own_path(form.get("next", "/"))
    session = site.tokens.open_session(form.get("token", "").strip())
    if session is None:
        return site.page(request, "login.html", {"title": "Log in", "next": next_, "wrong": True}, 401)
    response = RedirectResponse(next_, 303)
    response.set_cookie(
        COOKIE, session, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=site.options.secure_cookie,
        path="/",
    )  # fmt: skip
    return response


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
