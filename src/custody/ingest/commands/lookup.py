"""Finding what a command about deposits is about: the configuration, its store, and a batch by its number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from custody.cli.open_store import label, open_store
from custody.config import Config, find
from custody.errors import BadInput, NotFound
from custody.formats.shell import command
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.kernel.model.job import Job
from custody.kernel.stores import Store


@contextmanager
def opened(config: Path | None, store: str) -> Iterator[tuple[Store, Config]]:
    found = find(config)
    if found is None:
        raise BadInput("there is no custody.toml here", code="config.missing", hint="`custody init` writes one")
    with open_store(store or found.store, found) as handle:
        yield handle, found


def get_batch(handle: Store, number: int) -> Job:
    try:
        job = handle.queue.get(number)
    except NotFound:
        missing = f"there is no batch {label(number)}"
        raise NotFound(missing, code="batch.unknown", hint="`custody batch list` shows what there is") from None
    if job.kind != BATCH_KIND:
        raise _no_batch(job)
    return job


def _no_batch(job: Job) -> NotFound:
    """Jobs and batches are numbered together: what was meant is one command away."""
    number, show = label(job.id), f"`{command('job show', label(job.id))}` shows it"
    if job.kind == JOB_KIND and job.parent:
        batch = label(job.parent)
        said, hint = (
            f"{number} is a job of batch {batch}, not a batch",
            f"{show}; `{command('batch show', batch)}`, its batch",
        )
    else:
        said, hint = f"{number} is a job ({job.kind}), not a batch", f"{show}; `custody batch list`, the batches"
    return NotFound(said, code="batch.other", hint=hint)
