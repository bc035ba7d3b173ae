"""A batch is a job too: it becomes one job per object, waits until the last of them has ended, and reports.

Fanning out goes in chunks, each one transaction that also remembers how far it came: killed at any row, the next
worker goes on with the row after it. The batch counts itself among its open jobs until it is done with that, so
that it cannot report too early.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from custody.border.folder import Folder
from custody.errors import BadInput, CustodyError, LeaseLost, Unavailable
from custody.formats import checkm
from custody.formats.checkm.form import BATCHES, KINDS, ManifestType
from custody.ingest.adapters import Adapters
from custody.ingest.batch import notices
from custody.ingest.steps.download import check_digest, check_name
from custody.ingest.submission.staging import is_staged, name_in
from custody.ingest.submission.submission import PROFILE_OF, first_priority, guess_type, parts_of, row_jobs, single_job
from custody.kernel.engine.work import Work
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait

TRIES_BEFORE_FINAL = 10
"""Attempts at reading a submission, a quarter of an hour: a batch that fails here cannot be resumed, and a server that
is being restarted is no fault of what was handed in."""
MOST_FAULTS = 50
FULL_SECONDS = 1.0
SNIFFED = 64 << 10


def pending(work: Work, world: Adapters) -> Outcome:
    """Fan out: one job for each object of the submission. A submission that cannot be used is told to the depositor."""
    if full := world.store.queue.full(work.job.id):  # before the manifest is read: that takes longer, and many may wait
        return Wait(FULL_SECONDS, full)
    try:
        outcome = _fan_out(work, world)
    except LeaseLost:
        raise
    except CustodyError as error:
        if isinstance(error, Unavailable) and work.job.attempts < TRIES_BEFORE_FINAL:
            raise
        if error.code == "queue.full":
            return Wait(FULL_SECONDS, str(error))
        outcome = Failed(error.code, str(error))
    return notices.refused(work, world, outcome) if isinstance(outcome, Failed) else outcome


def _fan_out(work: Work, world: Adapters) -> Outcome:
    submission = work.payload
    profile = world.profile(str(submission.get("profile", "")))
    if not submission.get("payload"):  # made by another service: ours are checked when they are handed in
        raise BadInput("the submission names no payload", code="submission.payload", hint="payload_url is its address")
    payload = work.facts.get("payload") or _fixed(work, world)
    type_ = submission.get("type") or _guess(work, world, payload)
    if type_ not in PROFILE_OF or type_ == "object-manifest":
        return _one_object(work, world, type_, payload, priority=profile.priority)
    kind = next(kind for kind in BATCHES if kind.profile == PROFILE_OF[type_])
    count = _counted(work, world, payload, kind)
    if isinstance(count, Failed):
        return count
    priority = profile.priority if profile.priority is not None else first_priority(count)
    rows = _share(work, world, type_, payload, rows=count)
    _spawn(work, world, payload, kind, priority=priority, rows_wanted=rows)
    told = {"jobs": len(rows)}
    return Passed(told, keep={"jobs": len(rows)}, then=notices.queued(work, world, len(rows)))


def _counted(work: Work, world: Adapters, payload: str, kind: ManifestType) -> int | Failed:
    """How many rows there are, after a look at every one of them. Batches that share a manifest look once."""
    known = work.payload.get("all_rows") or work.facts.get("all_rows")
    if known:
        return int(known)
    check_digest(world.staging.path(payload), work)
    with world.staging.open(payload) as source:
        checked = checkm.check(source, check_name=check_name, kinds=(kind,), at_most=MOST_FAULTS)
    if not checked.ok:
        faults = [str(fault) for fault in checked.faults if not fault.warning]
        return Failed("manifest.faulty", faults[0], detail={"faults": faults[:MOST_FAULTS]})
    return checked.rows or Failed("batch.empty", "the manifest lists nothing")


def reporting(work: Work, world: Adapters) -> Outcome:
    """Tell the depositor, once, what became of every job; keep what was told."""
    return notices.report(work, world, update=False)


def update_reporting(work: Work, world: Adapters) -> Outcome:
    """Tell the depositor what has changed since."""
    return notices.report(work, world, update=True)


def _one_object(work: Work, world: Adapters, type_: str, payload: str, priority: int | None) -> Outcome:
    job = single_job(work.job.id, work.payload, type_, payload, priority=5 if priority is None else priority)
    if not work.facts.get("fanned"):
        work.spawn([job], fanned=1)
    return Passed({"jobs": 1}, keep={"jobs": 1}, then=notices.queued(work, world, 1))


def _share(work: Work, world: Adapters, type_: str, payload: str, rows: int) -> range:
    """The rows that are this batch's own; what is more than a queue wants below one parent becomes further batches."""
    most = world.store.queue.fan_out.most
    parts = parts_of(work.job.id, {**work.payload, "type": type_, "payload": payload}, rows, most)
    if parts and "parts" not in work.facts:
        work.spawn(parts, parts=len(parts) + 1, all_rows=rows)
    first = int(work.payload.get("first_row", 1))
    return range(first, 1 + min(rows, int(work.payload.get("last_row", first - 1 + (most or rows)))))


def _spawn(work: Work, world: Adapters, payload: str, kind: ManifestType, priority: int, rows_wanted: range) -> None:
    done = int(work.facts.get("fanned", 0))
    first = rows_wanted.start + done
    with world.staging.open(payload) as source:
        rows = checkm.read(source, check_name=_checked_before, kinds=(kind,), again=True, skip=first - 1)
        jobs = row_jobs(work.job.id, work.payload, rows, kind.row_is, priority=priority, first=first)
        waiting: Iterator[NewJob] = islice(jobs, max(0, rows_wanted.stop - first))
        while chunk := list(islice(waiting, world.store.queue.fan_out.at_once)):
            done += len(chunk)
            work.spawn(chunk, fanned=done)


def _checked_before(name: str) -> None:
    """The same bytes were read before, name by name."""


def _fixed(work: Work, world: Adapters) -> str:
    """The payload's URL; a manifest's bytes are kept, so that every later look sees the same rows."""
    url = str(work.payload["payload"])
    if is_staged(url) or not _may_be_manifest(work):
        return url
    scratch = world.disk.folder(work.job)
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        with Folder(scratch) as folder:
            fetcher = world.fetchers[work.payload["profile"]]
            fetcher.download(url, folder, "payload", cancel=lambda: work.stopped)
        staged = world.staging.put_file(scratch / "payload").url.replace("/payload", f"/{name_in(url)}")
    finally:
        world.disk.remove(work.job)
    work.keep(payload=staged)
    return staged


def _may_be_manifest(work: Work) -> bool:
    type_ = work.payload.get("type", "")
    return type_ in PROFILE_OF or (not type_ and str(work.payload["payload"]).endswith((".checkm", ".txt")))


def _guess(work: Work, world: Adapters, payload: str) -> str:
    name = work.payload.get("filename") or name_in(payload)
    return guess_type(name, _profile_named(world, payload) if is_staged(payload) else "")


def _profile_named(world: Adapters, payload: str) -> str:
    """The manifest profile that the first lines name, if they do."""
    with world.staging.open(payload) as source:
        head = source.read(SNIFFED)
    if not head.lstrip(b"\xef\xbb\xbf").startswith(b"#%checkm"):
        return ""
    for line in head.decode("utf-8", "replace").splitlines():
        for kind in KINDS:
            if line.startswith("#%profile") and line.rstrip().endswith(f"/{kind.profile}"):
                return kind.profile
    return ""
