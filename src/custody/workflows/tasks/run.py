"""Running a task: the revision's content in a folder, its recipe in a sandbox, its output kept.

The lease reaches into the sandbox: while the worker's own trust in its lease lasts it says so to the sandbox's
deadman, and when it no longer can, the sandbox dies on time although nobody tells it to. So a task is dead before
anyone else can begin it, and "superseded" is recorded only when that is confirmed.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from custody.border import below, leftovers
from custody.border.copy_out import Allowance
from custody.border.egress.allowance import Permit
from custody.border.sandbox.sandbox import Running
from custody.border.sandbox.spec import DISK, LEASE, LOST, MEMORY, NOT_STARTED, STOPPED, TIMEOUT, End
from custody.errors import BadInput, NotFound, Refused, Unavailable, Unsafe
from custody.kernel.engine.work import Work
from custody.kernel.model.event import NewEvent
from custody.kernel.model.job import Job
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.workflows.archives.port import as_text
from custody.workflows.archives.table import Archives
from custody.workflows.patience import patiently
from custody.workflows.plan.job import revision_item
from custody.workflows.tasks import images, leftover_folders
from custody.workflows.tasks.commit import Commits
from custody.workflows.tasks.index import index_file, open_index
from custody.workflows.tasks.recipes import recipe_of
from custody.workflows.tasks.runner import (
    PATIENCE,
    Runner,
    attempt_name,
    logs,
    missing_inputs,
    obstacle,
    permit,
    prepare,
    sandbox_prefix,
    secrets_for,
)
from custody.workflows.tasks.socket import Window

BEAT_SECONDS = 0.2
LEAVING_SECONDS = 1.0  # a worker that leaves has had its patience; soon after this its jobs are anybody's
MOST_TOLD = 2_000
MOST_LACKING = 100  # outputs that are named as lacking
REASONS = {
    TIMEOUT: ("task.timeout", "it did not end within its time"),
    MEMORY: ("task.memory", "it used more memory than it may"),
    NOT_STARTED: ("task.start", "it could not be started"),
    DISK: ("task.disk", "the disk of its work folder was nearly full"),
    LOST: ("task.lost", "its sandbox was killed from outside"),
}


def run_task(work: Work, shop: Runner) -> Outcome:
    """One attempt at one task."""
    if faults := work.payload.get("faults"):  # retried, though what is wrong is written in the revision itself
        return Failed("workflow.faults", f"{faults[0]}; a later commit has to mend it")
    if adopted := images.adopted(work, shop):
        recipe = work.facts["container"].get("recipe") or recipe_of(
            shop.store, Archives(shop.store).get(work.payload["archive"]), work.job
        )
        return _attempt(work, shop, recipe, adopted, secrets={})  # whatever would keep it from being begun now
    kept = Archives(shop.store).workable(work.payload["archive"])
    if isinstance(kept, str):
        return patiently(work, kept)
    recipe = recipe_of(shop.store, kept, work.job)
    if hindered := obstacle(work, shop, kept, recipe) or _kept_elsewhere(work, shop):
        return hindered
    if recipe.get("ready"):
        return READY_MADE[recipe["ready"]](work, shop)
    if not recipe.get("command") and not recipe.get("script"):
        return Passed({"joined": True}, events=[_event(work, "success", {})])
    if hindered := missing_inputs(work, shop):
        return hindered
    try:
        secrets = secrets_for(work, shop, recipe)
    except (Refused, BadInput, Unsafe) as error:
        return Failed(error.code, f"{error.message}: {error.hint}", events=[_event(work, "failure", error.as_dict())])
    except NotFound as error:
        return Wait(PATIENCE, f"{error.message}: {error.hint}")
    return _attempt(work, shop, recipe, attempt_name(work.job), secrets=secrets)


def _kept_elsewhere(work: Work, shop: Runner) -> Outcome | None:
    """Why nothing of it can be kept, if that is so: what is written would go where somebody else wants it."""
    try:
        below.must_be_ours(shop.kept, shop.folder(work.job))
    except (Refused, Unsafe) as error:
        told = f"what it leaves cannot be kept: {error}"
        return Failed(error.code, told, events=[_event(work, "failure", error.as_dict())])
    return None


def _attempt(work: Work, shop: Runner, recipe: dict[str, Any], attempt: str, secrets: Mapping[str, bytes]) -> Outcome:
    """Begin it in a sandbox of this name, or go on with the one that there is."""
    place, beside = shop.work / attempt, shop.work / f".{attempt}"
    _clear(shop, work.job, but=attempt)
    leftover_folders.sweep(shop, leftover_folders.SETTLED)
    commits = Commits(work=work, store=shop.store, place=place, drafts=beside / "drafts", attempt=attempt)
    beside.mkdir(mode=0o700, exist_ok=True)  # what leads to the window is for nobody else on this machine
    try:
        with Window(beside / "desk" / "socket", commits.answer) as window:
            running = shop.sandboxes.find(attempt)
            if running is None:
                spec = prepare(work, shop, recipe, attempt, place=place, window=window, secrets=secrets)
                if spec.image:
                    told = {"home": shop.identity, "name": attempt, "adopt": shop.adopt, "recipe": recipe}
                    work.keep(container=told)
                running = shop.sandboxes.start(spec)
            granted = permit(shop, str(work.payload["archive"])) if recipe.get("network") else None
            end = _watch(work, running, shop.adopt if recipe.get("image") else 0.0, granted)
            if work.stop_reason == "shutdown" and "container" in work.facts:
                work.keep(container={**work.facts["container"], "over": True})  # nothing else of it will be heard
        return _conclude(work, shop, recipe, running, end=end, place=place)
    finally:
        for folder in (place, beside):
            leftovers.clear(folder)  # what is left all the same is looked for again: leftover_folders.py


def _clear(shop: Runner, job: Job, but: str) -> None:
    """What attempts left whose worker was killed."""
    for prefix in (sandbox_prefix(job), f".{sandbox_prefix(job)}"):
        for folder in shop.work.glob(f"{prefix}*"):
            if folder.name.lstrip(".") != but:
                leftovers.clear(folder)


def _index(work: Work, shop: Runner) -> Outcome:
    """The ready-made index: in this process, since nothing of the archive's own is run."""
    given = work.payload
    archive = Archives(shop.store).opened(given["archive"])
    branch = archive.meta(given["revision"]).properties.get("git:ref", "")
    file = index_file(shop.kept, given["archive"], branch)
    below.must_be_ours(shop.kept, file)
    with open_index(file) as index:
        count = index.bring_to(archive, given["revision"], lambda: work.stopped)
    if count is None:
        return Failed("task.stopped", "it was stopped before it ended", transient=True)
    told = {"paths": count, "revision": given["revision"]}
    return Passed(told, events=[_event(work, "success", told)])


READY_MADE: Mapping[str, Callable[[Work, Runner], Outcome]] = {"index": _index}


def confirm_dead(job: Job, shop: Runner) -> None:
    """Make sure that nothing of an earlier attempt runs, except what may be gone on with."""
    images.outlast(job, shop)
    spared = "" if job.revoked else images.known_here(job, shop)
    for name in shop.sandboxes.names():
        running = shop.sandboxes.find(name) if name.startswith(sandbox_prefix(job)) else None
        if running is not None and name != spared:
            running.stop(0)
            running.remove()


def _watch(work: Work, running: Running, longer: float, granted: Permit | None) -> End:
    """Until it ends: pass the lease on, as far as it is known to be ours, and what it may live beyond that. Its way
    out lives no longer than the lease."""
    while (end := running.wait(BEAT_SECONDS)) is None:
        if work.stopped:
            return running.stop(LEAVING_SECONDS if work.stop_reason == "shutdown" else None)
        until = work.trusted_until
        running.confirm(until + longer, granted.leave(until) if granted else None)
    return end


def _conclude(work: Work, shop: Runner, recipe: dict[str, Any], running: Running, end: End, place: Path) -> Outcome:
    folder = shop.folder(work.job)
    folder.mkdir(parents=True, exist_ok=True)
    log = _next_log(folder)
    log.write_bytes(running.output())
    running.remove()
    told: dict[str, Any] = {
        "seconds": round(end.seconds, 3),
        "code": end.code,
        "bytes": end.output_bytes,
        "dropped": end.dropped_bytes,
        "attempt": work.job.attempts,
    }
    kept: dict[str, Any] = {"log": str(log.relative_to(shop.kept))}
    if container := work.facts.get("container"):
        kept["container"] = {**container, "over": True}  # nobody on another machine need wait for it
    if end.ok:
        allowance = Allowance(shop.outputs, stopped=lambda: work.stopped)
        try:
            left, lacking = _keep_outputs(place, folder / "outputs", recipe.get("outputs", []), allowance)
            _tell(log, lacking)
            kept |= {"left_at": shop.identity} if left else {}
            return Passed(told | {"outputs": left}, keep=kept, events=[_event(work, "success", told)])
        except (Refused, Unavailable) as error:
            leftovers.clear(folder / "outputs")
            code, reason = "task.outputs", f"its outputs cannot be kept: {error.message}"
            _tell(log, [reason])
    else:
        code, reason = REASONS.get(end.reason, (f"exit.{end.code}", _last_words(log) or f"exit code {end.code}"))
    if end.reason in (STOPPED, LEASE) or (end.ok and work.stopped):
        return Failed("task.stopped", "it was stopped before it ended", transient=True, detail=told, keep=kept)
    retries = int(recipe.get("retries", 0))
    again = work.tried(retries + 1) <= retries or end.reason == LOST
    reason = f"{reason}: {end.detail}" if end.detail else reason
    events = [] if again else [_event(work, "failure", {**told, "reason": reason})]
    return Failed(code, reason, transient=again, detail=told, keep=kept, events=events)


def _next_log(folder: Path) -> Path:
    """A file that nobody has written yet: neither an attempt before, nor one that was given up and ends beside us."""
    number = max(logs(folder), default=0)
    while True:
        number += 1
        with suppress(FileExistsError):
            log = folder / f"attempt-{number}.log"
            log.touch(exist_ok=False)
            return log


def _event(work: Work, outcome: Any, detail: dict[str, Any]) -> NewEvent:
    given = work.payload
    item = revision_item(given["archive"], given["revision"])
    return NewEvent(item, f"task {given['task']}", outcome, detail={**detail, "job": work.job.id, "run": given["run"]})


def _keep_outputs(place: Path, into: Path, wanted: list[str], allowance: Allowance) -> tuple[list[str], list[str]]:
    """Copy what was declared: regular files only, never through a link. Their names, and what is lacking, in words."""
    leftovers.clear(into)
    found = leftovers.files(place) if wanted else {}
    matching = {name: {pattern for pattern in wanted if _matches(name, pattern)} for name in found}
    declared = {name: why for name, why in found.items() if matching[name]}
    files = [name for name, why in declared.items() if not why]
    not_kept = {name: why for name, why in declared.items() if why}
    not_kept |= leftovers.keep(place, files, into, allowance) if files else {}
    met = {pattern for name in declared for pattern in matching[name]}
    lacking = [
        f"{as_text(name)!r} is declared as an output and was not kept: {why}" for name, why in sorted(not_kept.items())
    ]
    lacking += [f"no file was made for the output {each!r}" for each in wanted if each not in met]
    return [as_text(name) for name in files if name not in not_kept], lacking


def _tell(log: Path, lacking: list[str]) -> None:
    """At the end of the log, where its author looks for what it left."""
    lines = lacking[:MOST_LACKING] + ([f"and {more} more"] if (more := len(lacking) - MOST_LACKING) > 0 else [])
    if lines:
        with log.open("a+b") as file:
            said = file.tell() > 0
            file.seek(-1 if said else 0, os.SEEK_END)
            begun = file.read(1) not in (b"", b"\n")
            file.write((b"\n" if begun else b"") + "".join(f"custody: {line}\n" for line in lines).encode())


def _matches(name: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/")


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_TOLD))
        return file.read().decode("utf-8", "replace").strip()[-MOST_TOLD:]
