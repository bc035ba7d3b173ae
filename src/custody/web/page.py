"""Pages: one function reads, three routes show: HTML, `.json`, and for lists `.csv`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from custody.kernel.access.caller import Caller
from custody.web import formatting, representations
from custody.web.access.gate import while_staying
from custody.web.representations import Columns
from custody.web.site import SAID, Site, caller_of, site_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is asked for: by whom, where, with which filters."""

    site: Site
    caller: Caller
    request: Request

    @property
    def query(self) -> Mapping[str, str]:
        return dict(self.request.query_params)

    def part(self, name: str) -> Any:
        return self.request.path_params[name]


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: values for its template, the same as data, and all rows if it is a list."""

    title: str
    values: Mapping[str, Any]
    data: Any
    every: Callable[[], Iterable[Any]] | None = field(default=None)
    columns: Columns | None = None  # where they depend on what there is


Read = Callable[[Asked], View]


def show(router: APIRouter, path: str, template: str, read: Read, columns: Columns | None = None) -> None:
    """Register a page. The more particular addresses first, as the first that fits is taken."""
    stem = "/index" if path == "/" else path
    name = stem.strip("/").split("/")[0]

    def as_json(request: Request) -> Response:
        return representations.as_json(read(_asked(request)).data)

    def as_csv(request: Request) -> Response:
        view = read(_asked(request))
        assert view.every is not None
        return representations.as_csv(view.columns or columns or {}, while_staying(request, view.every()), name)

    def as_page(request: Request) -> Response:
        asked = _asked(request)
        view = read(asked)
        own = "/index" if request.url.path == "/" else request.url.path
        addresses = {"data_address": formatting.address(f"{own}.json", asked.query)}
        if columns is not None:
            addresses["csv_address"] = formatting.address(f"{own}.csv", {**asked.query, "before": "", "after": ""})
        return asked.site.page(request, template, {"title": view.title, "live": True, **addresses, **view.values})

    add = router.add_api_route
    add(f"{stem}.json", as_json, methods=["GET"], include_in_schema=False, response_model=None)
    if columns is not None:
        add(f"{stem}.csv", as_csv, methods=["GET"], include_in_schema=False, response_model=None)
    add(path, as_page, methods=["GET"], include_in_schema=False, response_model=None)


def _asked(request: Request) -> Asked:
    return Asked(site_of(request), caller_of(request), request)


def back(request: Request, path: str, said: str = "") -> Response:
    """After a form: to a page that can be loaded again without repeating it, with a sentence of what was done."""
    site_of(request).glance.forget()
    response = RedirectResponse(path, 303)
    if said:
        response.set_cookie(SAID, formatting.path_quote(said[:300]), max_age=10, samesite="strict", path="/")
    return response
