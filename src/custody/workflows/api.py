"""Archives: hooks tell of new revisions here. Safe to say late, twice, or out of order; answered when it is on disk."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Body, Request
from pydantic import Field
from starlette.responses import Response

from custody.errors import NotFound
from custody.web import representations
from custody.web.api.parameters import PROBLEM, Asking
from custody.web.fast_path import Way
from custody.web.request_bodies import Router
from custody.web.site import caller_of, site_of
from custody.workflows.archives.notices import notify as take_in
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives

router = Router(responses=PROBLEM, tags=["archives"])


HIGHEST = 2**53


class Notice(Asking):
    revision: int | None = Field(None, ge=1, le=HIGHEST, description="Subversion: the new revision; otherwise left out")


@router.post("/api/v1/archives/{archive}/notify", status_code=202)
def notify(request: Request, archive: str, given: Annotated[Notice, Body(default_factory=Notice)]) -> Response:
    """A revision exists, and so do all before it. Without a number, or with no body at all, the repository itself is
    asked: `curl -X POST -H "Authorization: Bearer …"` is all that a hook of one's own needs to say."""
    return _tell(request, archive, given.revision)


def _tell(request: Request, archive: str, revision: int | None) -> Response:
    store, caller = site_of(request).store, caller_of(request)
    if not caller.may_tell_of(archive):
        raise NotFound(f"there is no archive {archive}", code="archive.unknown")
    if revision is not None:
        new = take_in(store, archive, revision, caller.acting)
    else:
        new = reconcile(store, Archives(store).get(archive), caller.acting)
    return representations.as_json({"archive": archive, "new": new}, 202)


def _revision(body: bytes) -> int | None:
    """What a hook sends; none of what else might be sent."""
    found = _PLAIN.fullmatch(body)
    number = int(found[1]) if found else 0
    return number if 1 <= number <= HIGHEST else None


_PLAIN = re.compile(rb'\s*\{\s*"revision"\s*:\s*([1-9][0-9]{0,15})\s*\}\s*')
SHORT = Way("POST /api/v1/archives/{archive}/notify", _revision, _tell)
"""Hooks come by the hundred, whenever many commit at once."""
