"""What a task printed and what it left, as pages show it: by lines, searchable, also while it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border import below
from custody.border.roots import Roots
from custody.errors import CustodyError, NotFound
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job
from custody.robots.ready.ocfl import current
from custody.workflows.archives.port import as_text
from custody.workflows.makers import QUICK_KIND, TASK_KIND
from custody.workflows.tasks.runner import Runner, attempt_name
from custody.workflows.tasks.runner import logs as shop_logs

PAGE = 500  # lines
MOST_BYTES = 64 << 20
CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    running: bool
    size: int


@dataclass(frozen=True, slots=True)
class Lines:
    """A page of a log: numbered lines, and how many there are and match in all of it, not only here."""

    rows: Sequence[tuple[int, str]]
    total: int
    matched: int
    first: int
    more: int | None  # where the next page begins


@dataclass(frozen=True, slots=True)
class File:
    name: str
    size: int
    digest: str = ""


def attempts(shop: Runner | None, job: Job, now: int) -> Sequence[Attempt]:
    """The tries of a job that printed something on this machine."""
    if shop is None or job.kind not in (TASK_KIND, QUICK_KIND):
        return []
    kept = shop_logs(shop.folder(job))
    made = [Attempt(number, False, path.stat().st_size) for number, path in sorted(kept.items())]
    if job.holder and job.until > now and _live(shop, job) is not None:
        made.append(Attempt(max(kept, default=0) + 1, True, 0))
    return made


def read(shop: Runner | None, job: Job, attempt: int) -> bytes:
    """All that one attempt printed so far."""
    if shop is None or job.kind not in (TASK_KIND, QUICK_KIND):
        raise NotFound(f"job {job.id} keeps no log", code="log.unknown")
    kept = shop_logs(shop.folder(job))
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


def lines(data: bytes, first: int, find: str) -> Lines:
    """From a line on; with something to find, only the lines that have it."""
    text = [CONTROL.sub("", line) for line in data.decode("utf-8", "replace").splitlines()]
    wanted = find.casefold()
    matching = [(number, line) for number, line in enumerate(text, start=1) if wanted in line.casefold()]
    shown = [row for row in matching if row[0] >= first][: PAGE + 1]
    return Lines(
        rows=shown[:PAGE],
        total=len(text),
        matched=len(matching) if wanted else 0,
        first=first,
        more=shown[PAGE][0] if len(shown) > PAGE else None,
    )


# Files


def outputs(shop: Runner | None, job: Job) -> Sequence[File]:
    """What a task declared and left."""
    if shop is None or job.kind not in (TASK_KIND, QUICK_KIND):
        return []
    return [File(name, path.stat().st_size) for name, path in _left(shop, job).items()]


def output(shop: Runner | None, job: Job, name: str) -> Path:
    """One of them; nothing else in the folder, nor beside it, can be had."""
    if shop is None or name not in {file.name for file in outputs(shop, job)}:
        raise NotFound(f"job {job.id} left no file {name!r}", code="file.unknown")
    return _left(shop, job)[name]


def _left(shop: Runner, job: Job) -> dict[str, Path]:
    folder = shop.folder(job) / "outputs"
    if folder.is_symlink():
        return {}
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {as_text(path.relative_to(folder).as_posix()): path for path in found[:1000]}


def stored(item: Item, roots: Roots) -> Sequence[File]:
    """The files of a stored object, by the names the depositor knows, where this process can see them."""
    try:
        folder = roots.source(item.place).path if item.place else None
        if folder is None:
            return []
        return sorted((_stored(name, path) for name, path in current(folder)), key=lambda file: file.name)[:1000]
    except CustodyError:
        return []  # it is not here, or not where it should be: its robots say so


def _stored(name: str, path: Path) -> File:
    return File(name, path.stat().st_size if path.is_file() else 0)
