"""Tasks that run in an image: which may, and how a container is found again whose worker was killed.

A container goes on without a worker for a while (`adopt`), so that a worker that is started again on the same machine
can go on with it instead of beginning anew. A worker on another machine cannot see it, and waits for that while before
it begins; then the container is known to be dead.
"""

from __future__ import annotations

import fnmatch
import time
from typing import TYPE_CHECKING

from custody.border import containers
from custody.border.confinement import LEASE, LOST, STOPPED
from custody.engine.work import Work
from custody.model.job import Job
from custody.model.outcome import Failed, Outcome, Wait

if TYPE_CHECKING:
    from custody.workflows.shop import Shop

PATIENCE = 30.0
SLACK = 5.0  # a deadman that is late, a clock that is slow


def obstacle(work: Work, shop: Shop, image: str) -> Outcome | None:
    """What keeps a container from being started, if anything does."""
    if not any(fnmatch.fnmatchcase(image, allowed) for allowed in shop.images):
        hint = "an operator adds it to images in the [workflows] part of custody.toml"
        return Failed("image.refused", f"the image {image} is not allowed here; {hint}")
    known = work.facts.get("container", {})
    if known and known["home"] != shop.identity and not known.get("over"):
        why = "its container may still run on the machine where it was begun"
        return Wait(shop.adopt + SLACK, why, keep={"container": {**known, "over": True}})
    if known_here(work.job, shop) and adopted(work, shop):
        return None
    if containers.has_image(shop.engine, image):
        return None
    trouble = (
        containers.trouble(shop.engine) or f"the image {image} is not on this machine: nothing is pulled by itself"
    )
    return Wait(PATIENCE, trouble)


def outlast(job: Job, shop: Shop) -> None:
    """Before a job that was cancelled or superseded is said to be dead: a container of another machine lives on without
    its worker for a while, and whatever replaces it must not begin before. (One that is only taken over waits without
    a thread: `obstacle`.)"""
    known = job.facts.get("container", {})
    if job.revoked and known and known["home"] != shop.identity and not known.get("over"):
        time.sleep(shop.adopt + SLACK)


def known_here(job: Job, shop: Shop) -> str:
    """The sandbox of this machine that was begun for a job, if there was one."""
    known = job.facts.get("container", {})
    return str(known["name"]) if known and known["home"] == shop.identity else ""


def adopted(work: Work, shop: Shop) -> str:
    """The sandbox to go on with: it still runs, or it ended by itself while nobody looked."""
    name = known_here(work.job, shop)
    running = shop.sandboxes.find(name) if name else None
    if running is None:
        return ""
    end = running.end()
    if end is None or end.reason not in (LEASE, LOST, STOPPED):
        return name
    running.remove()
    return ""
