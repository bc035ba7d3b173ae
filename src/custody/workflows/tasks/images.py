"""Tasks that run in an image: which may, and how a container is found again whose worker was killed.

A container goes on without a worker for a while (`adopt`), so that a worker that is started again on the same machine
can go on with it instead of beginning anew. A worker on another machine cannot see it; only when that while is over is
the container known to be dead. Until then the job stays leased, by one worker after the other, so that whatever would
replace it asks for its end, and waits for that, instead of beginning beside it.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from custody.border.sandbox import containers
from custody.border.sandbox.spec import LEASE, LOST, STOPPED
from custody.errors import Unavailable
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Claim, Job
from custody.kernel.model.outcome import Failed, Outcome, Wait

if TYPE_CHECKING:
    from custody.workflows.tasks.runner import Runner

PATIENCE = 30.0
SLACK = 5.0  # a deadman that is late, a clock that is slow
MAY_LIVE = "its container may still run on the machine where it was begun"


def obstacle(work: Work, shop: Runner, recipe: Mapping[str, Any]) -> Outcome | None:
    """What keeps a container from being started, if anything does."""
    image = str(recipe["image"])
    if not any(fnmatch.fnmatchcase(image, allowed) for allowed in shop.images):
        hint = "an operator adds it to images in the [workflows] part of custody.toml"
        return Failed("image.refused", f"the image {image} is not allowed here; {hint}")
    if recipe.get("network") and not containers.can_hold(shop.engine):
        return Failed(
            "task.network-image",
            f"{shop.engine.program} cannot hold a container until its way to the network is open; "
            'an operator sets engine = "podman" in the [workflows] part of custody.toml',
        )
    known = _elsewhere(work.facts, shop)
    if known and (left := _seconds_left(known, shop)) > 0:  # given back by somebody who said no more about it
        return Wait(left, MAY_LIVE, keep={"container": _doomed(known, shop)})
    if containers.has_image(shop.engine, image):
        return None
    program = shop.engine.program
    if trouble := containers.trouble(shop.engine):
        until = f"{program} works for this user on this machine: `{program} info` says what it lacks"
        return Wait(PATIENCE, trouble, until=until)
    until = f"it is there: `{program} pull {image}`, as the worker's user"
    return Wait(PATIENCE, f"the image {image} is not on this machine: nothing is pulled by itself", until=until)


def outlast(job: Job, shop: Runner) -> None:
    """Before a job is said to be dead: a container of another machine lives on without its worker for a while.

    One that is only taken over needs no thread for that: when its time comes is written down, and who asks before is
    told no. One that was cancelled or superseded can have nothing written down any more, and is waited for.
    """
    known = _elsewhere(job.facts, shop)
    left = _seconds_left(known, shop) if known else 0.0
    if left <= 0:
        return
    if job.revoked:
        time.sleep(left)
        return
    if "dead_by" not in known:
        holder, new = str(job.holder), {"container": _doomed(known, shop)}
        shop.store.queue.keep(Claim(job, job.token, holder), {**job.facts, **new}, new, (), agent=holder)
    raise Unavailable(MAY_LIVE, code="task.elsewhere", where=str(known["name"]))


def lives_until(job: Job, now: int) -> int:
    """How long (in the store's time) a container of a machine that is gone may go on; 0: there is none."""
    known = job.facts.get("container", {})
    dead_by = int(known.get("dead_by", 0)) if not known.get("over") else 0
    return dead_by if dead_by > now else 0


def _elsewhere(facts: Mapping[str, Any], shop: Runner) -> Mapping[str, Any]:
    """The container of another machine of which nobody has said that it has ended."""
    known: Mapping[str, Any] = facts.get("container", {})
    return known if known and known["home"] != shop.identity and not known.get("over") else {}


def _seconds_left(known: Mapping[str, Any], shop: Runner) -> float:
    if "dead_by" in known:
        return max(0.0, (int(known["dead_by"]) - shop.store.now()) / 1_000_000)
    return float(known.get("adopt", shop.adopt)) + SLACK


def _doomed(known: Mapping[str, Any], shop: Runner) -> Mapping[str, Any]:
    """With the time at which it is dead. Counted from now: its worker's lease has ended, or was given back."""
    return {"dead_by": shop.store.now() + int(_seconds_left(known, shop) * 1_000_000), **known}


def known_here(job: Job, shop: Runner) -> str:
    """The sandbox of this machine that was begun for a job, if there was one."""
    known = job.facts.get("container", {})
    return str(known["name"]) if known and known["home"] == shop.identity else ""


def adopted(work: Work, shop: Runner) -> str:
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
