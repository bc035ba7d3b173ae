"""Where tasks are run, and what each of them gets: content, inputs, variables, secrets, limits.

What becomes of a task that runs is for `run.py`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from custody.border import below, leftovers
from custody.border.egress.allowance import Permit, Rules
from custody.border.roots import Root, ours
from custody.border.sandbox.bwrap import PATH
from custody.border.sandbox.sandbox import Available, Sandboxes
from custody.border.sandbox.spec import Engine, Mount, Spec
from custody.errors import BadInput, NotFound, Unavailable
from custody.formats.shape import part
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Job
from custody.kernel.model.outcome import Outcome, Wait
from custody.kernel.stores import Store
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.definition.task import ON_COMMIT, SHELLS
from custody.workflows.holds import paused_by
from custody.workflows.makers import task_key
from custody.workflows.plan.plan_jobs import find_task
from custody.workflows.tasks import images, network
from custody.workflows.tasks.client import SOCKET
from custody.workflows.tasks.secrets import Secrets
from custody.workflows.tasks.socket import Window

BEAT_SECONDS = 0.2
ELSEWHERE = 2.0  # seconds for a worker of the right machine to claim it
EXPORT_SECONDS = 3600.0  # in which the whole of a revision must have been written out
PATIENCE = 30.0  # seconds between looks while something that a task needs is not installed

TOOLS_INSIDE = "/run/custody"
_TOOLS = {"PATH": f"{TOOLS_INSIDE}:{PATH}"}


@dataclass(frozen=True, slots=True)
class Runner:
    """Where tasks are run and what they leave is kept."""

    store: Store
    sandboxes: Sandboxes
    work: Path  # a folder per attempt while it runs
    kept: Path  # logs and artifacts, by archive, revision and task
    sandbox_works: Available
    client: Path = Path()  # what a task calls to commit
    secrets: Path = Path()  # a file for each
    identity: str = ""  # of this machine's shop: only here can a container be gone on with
    engine: Engine = field(default_factory=lambda: Engine("podman"))  # runs images
    images: Sequence[str] = ()  # patterns of those that are allowed
    adopt: float = 120.0  # seconds that a container may live without a worker
    network: Rules = field(default_factory=Rules)  # for those that have a way out
    outputs: int = 65_536  # MiB that a task may leave
    limits: Limits = LIMITS  # of a working copy

    def folder(self, job: Job) -> Path:
        """Each part is one part of a path, or there is no folder: whoever only looks has not held the job against its
        shape. `Refused` if a link is on the way there."""
        given = job.payload
        names = [given.get("archive"), f"r{given.get('revision')}", given.get("run"), given.get("task")]
        if odd := next((told for name in names if (told := part(name))), ""):
            raise BadInput(f"job {job.id} has no folder: a name in its payload {odd}", code="job.forged")
        folder = self.kept.joinpath(*map(str, names), f"job-{job.id}")
        below.must_be_plain(self.kept, folder)
        return folder


def sandbox_prefix(job: Job) -> str:
    """Every attempt at a job has its own sandbox; its name tells whose it is."""
    return f"task-{job.id}-"


def attempt_name(job: Job) -> str:
    """Attempts are counted anew when a person has it run again; their names are not used again."""
    return f"{sandbox_prefix(job)}{f'{job.retries}.' if job.retries else ''}{job.attempts}"


def logs(folder: Path) -> dict[int, Path]:
    """What the attempts at a job have printed, by number, in the order in which they ended."""
    found = {re.fullmatch(r"attempt-(\d+)\.log", path.name): path for path in folder.glob("attempt-*.log")}
    return {int(number[1]): path for number, path in found.items() if number and not path.is_symlink()}


def obstacle(work: Work, shop: Runner, kept: Kept, recipe: dict[str, Any]) -> Outcome | None:
    """What keeps it from starting now, if anything does."""
    if hold := paused_by(shop.store, kept.name):
        return Wait(PATIENCE, f"{kept.name} was paused by {hold.who} while this was planned: {hold.why}")
    if not_granted := permit(shop, kept.name).waits_for(recipe.get("network", False)):
        return Wait(PATIENCE, not_granted, until=f"an operator grants it: {not_granted.rpartition(': ')[2]}")
    if recipe.get("image"):
        if hindered := images.obstacle(work, shop, recipe):
            return hindered
    elif not shop.sandbox_works and (recipe.get("command") or recipe.get("script")):
        works = shop.sandbox_works
        return Wait(PATIENCE, f"tasks run in a sandbox, and {works.reason}", until=works.hint)
    for victim in work.payload.get("cancels", []):
        before = work.job.position + (victim in work.payload.get("cancels_here", []))
        still = shop.store.queue.supersede(str(work.job.line), victim, before, work.job.id)
        if still:
            return Wait(BEAT_SECONDS, f"{still} instances of {victim}, which it cancels, have not ended yet")
    return None


def prepare(
    work: Work,
    shop: Runner,
    recipe: dict[str, Any],
    attempt: str,
    place: Path,
    window: Window,
    secrets: Mapping[str, bytes],
) -> Spec:
    """The revision's content in its folder, and all that the task may have. `Unavailable` if it was stopped before it
    had all of that."""
    leftovers.clear(place)
    place.mkdir()
    place.chmod(0o700)  # neither a umask nor a folder above that gives its group on decides what the task begins with
    archive = Archives(shop.store).opened(work.payload["archive"])
    until = time.monotonic() + EXPORT_SECONDS
    archive.export(work.payload["revision"], place, lambda: until - time.monotonic(), shop.limits)
    script = str(recipe.get("script", ""))
    # A folder, not its files: a worker that takes over opens a window of its own in it.
    shutil.copy2(shop.client, window.place.with_name("custody"))
    mounts = [*_inputs(work, shop), Mount(ours(window.place.parent), TOOLS_INSIDE)]
    image = str(recipe.get("image", ""))
    trusted = max(0.5, work.trusted_until - time.monotonic()) + (shop.adopt if image else 0)
    return Spec(
        name=attempt,
        work=place,
        argv=() if script else tuple(recipe.get("command", ())),
        script=script,
        shell=SHELLS[recipe.get("shell", "sh")],
        env={**_TOOLS, **recipe.get("env", {}), **_facts(work)},
        mounts=tuple(mounts),
        network=permit(shop, str(work.payload["archive"])).egress(recipe.get("network", False)),
        lease=trusted,
        timeout=recipe.get("timeout"),
        grace=float(recipe.get("grace", 10)),
        output_limit=int(recipe.get("output_limit", 64 << 20)),
        secrets=secrets,
        image=image,
        engine=shop.engine if image else None,
    )


def permit(shop: Runner, archive: str) -> Permit:
    return network.permit(shop.store, archive, shop.network)


def secrets_for(work: Work, shop: Runner, recipe: dict[str, Any]) -> dict[str, bytes]:
    """What its definition names, as far as an operator allows it."""
    if not recipe.get("secrets"):
        return {}
    name, revision = str(work.payload["archive"]), int(work.payload["revision"])
    meta = Archives(shop.store).opened(name).meta(revision)
    return Secrets(shop.store, shop.secrets).given(name, recipe["secrets"], meta.properties.get("git:ref", ""))


def _facts(work: Work) -> dict[str, str]:
    given = work.payload
    return {
        "CUSTODY_ARCHIVE": given["archive"],
        "CUSTODY_REVISION": str(given["revision"]),
        "CUSTODY_TASK": given["task"],
        "CUSTODY_JOB": str(work.job.id),
        "CUSTODY_ATTEMPT": str(work.job.attempts),
        "CUSTODY_RUN": given["run"],
        SOCKET: f"{TOOLS_INSIDE}/socket",
    }


def missing_inputs(work: Work, shop: Runner) -> Outcome | None:
    """Another machine has what this task depends on, and it is that machine's to run."""
    for task, job in _before(work, shop):
        at = job.facts.get("left_at", shop.identity)
        if at != shop.identity and not (shop.folder(job) / "outputs").is_dir():
            why = f"what {task} has left is on another machine, whose worker will go on with it"
            return Wait(ELSEWHERE, why)
    return None


def _inputs(work: Work, shop: Runner) -> Iterator[Mount]:
    """What the tasks it depends on have left, read-only."""
    for task, job in _before(work, shop):
        root = Root("what tasks leave", shop.kept.absolute(), across=True)
        left = root.relative(shop.folder(job).absolute() / "outputs")
        with suppress(NotFound, Unavailable):  # it has left nothing
            yield Mount(root.find(left or ""), f"/inputs/{task}")


def _before(work: Work, shop: Runner) -> Iterator[tuple[str, Job]]:
    """The tasks it depends on: in this run, or else when the revision was committed."""
    given = work.payload
    for task in given.get("depends", []):
        keys = [task_key(given["archive"], given["revision"], run, task) for run in (given["run"], ON_COMMIT)]
        if job := next((job for key in keys if (job := find_task(shop.store, key))), None):
            yield task, job
