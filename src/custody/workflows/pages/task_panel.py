"""What a task printed and what it left, as its job's page shows it, also while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from custody.border import below
from custody.errors import NotFound
from custody.kernel.model.job import Job
from custody.web.sections import Attempt, File, Panel
from custody.web.site import Site
from custody.workflows.archives.port import as_text
from custody.workflows.tasks.runner import Runner, attempt_name, logs

MOST_BYTES: Final = 64 << 20


def _runner(site: Site) -> Runner | None:
    found: Runner | None = site.view("workflows")
    return found


def attempts(site: Site, job: Job) -> Sequence[Attempt]:
    """The tries of a job that printed something on this machine."""
    if (shop := _runner(site)) is None:
        return []
    kept = logs(shop.folder(job))
    made = [Attempt(number, False, path.stat().st_size) for number, path in sorted(kept.items())]
    if job.holder and job.until > site.store.now() and _live(shop, job) is not None:
        made.append(Attempt(max(kept, default=0) + 1, True, 0))
    return made


def log(site: Site, job: Job, attempt: int) -> bytes:
    """All that one attempt printed so far."""
    if (shop := _runner(site)) is None:
        raise NotFound(f"job {job.id} keeps no log", code="log.unknown")
    kept = logs(shop.folder(job))
    if attempt in kept:
        with open(below.opened(shop.kept, str(kept[attempt].relative_to(shop.kept))), "rb") as file:
            return file.read(MOST_BYTES)
    live = _live(shop, job) if attempt == max(kept, default=0) + 1 else None
    if live is None:
        raise NotFound(
            f"attempt {attempt} of job {job.id} left no log here",
            code="log.unknown",
            hint="another machine may have it: its worker keeps what it ran",
        )
    return live


def _live(shop: Runner, job: Job) -> bytes | None:
    try:
        running = shop.sandboxes.find(attempt_name(job))
        return running.output() if running else None
    except OSError:
        return None  # it ended, and was put away, just now


def outputs(site: Site, job: Job) -> Sequence[File]:
    """What a task declared and left."""
    shop = _runner(site)
    return [File(name, path.stat().st_size) for name, path in _left(shop, job).items()] if shop else []


def output(site: Site, job: Job, name: str) -> Path:
    """One of them; nothing else in the folder, nor beside it, can be had."""
    shop = _runner(site)
    left = _left(shop, job) if shop else {}
    if name not in left:
        raise NotFound(f"job {job.id} left no file {name!r}", code="file.unknown")
    return left[name]


def _left(shop: Runner, job: Job) -> dict[str, Path]:
    folder = shop.folder(job) / "outputs"
    if folder.is_symlink():
        return {}
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {as_text(path.relative_to(folder).as_posix()): path for path in found[:1000]}


TASKS: Final = Panel(attempts, log, outputs, output)
