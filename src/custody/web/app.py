"""The factory: a store and options in, an application out. Everything else is routes, one file per noun."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from custody import __version__
from custody.kernel.access.rules import RULES, Rule
from custody.kernel.stores import Store
from custody.web import formatting, problems
from custody.web.access.gate import must_be_complete, permit
from custody.web.access.request_limits import Around
from custody.web.api import routers as api
from custody.web.fast_path import Shortcut
from custody.web.pages import routers as pages
from custody.web.request_bodies import must_read_strictly
from custody.web.sections import FIRST, LAST
from custody.web.site import Options, Site

__all__ = ["Options", "build_app", "routers_of"]

DESCRIPTION = """\
Deposits, jobs, items and their history. Errors are problem+json with a `code`, and say what to do. Lists go by
pages: hand `next` back as `before` (or `after` where a list is in its own order), until there is none; a page may have
few rows, or no row, before that. A POST that makes something takes
an `Idempotency-Key`: the same request with it again is answered as the first was, another is refused (422).
"""
UPLOADS = frozenset({"/batches/new", "/api/v1/batches/upload"})


def build_app(store: Store, options: Options) -> FastAPI:
    sections = (*FIRST, *options.sections, *LAST)
    rules: Mapping[str, Rule] = {**RULES, **{k: rule for each in options.sections for k, rule in each.rules.items()}}
    routers = routers_of(options)
    must_be_complete(routers, rules)
    must_read_strictly(routers)
    site = Site(store, options, sections, rules)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        site.changes.close()
        site.tokens.close()

    app = FastAPI(
        title="Custody",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(permit)],
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.site = site
    for router in routers:
        app.include_router(router)
    app.mount(formatting.static_address(), _Kept(directory=Path(__file__).parent / "static"), "static")
    problems.install(app)
    app.add_middleware(Shortcut, ways=api.SHORT)
    app.add_middleware(
        Around,
        small=options.small_body,
        large=options.upload,
        is_upload=lambda path: path in UPLOADS,
        surprise=problems.surprise,
        refused=problems.refused,
    )
    return app


def routers_of(options: Options) -> tuple[APIRouter, ...]:
    """Every route there is; those of the applications' sections first, as they are the more particular. Routes are
    tried one after the other: programs, which ask often, come before people, who ask for pages."""
    return (*(router for section in options.sections for router in section.routers), *api.ROUTERS, *pages.ROUTERS)


class _Kept(StaticFiles):
    """Their address changes with their content."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response
