"""Deposits as the API, the operator's page and the depositor's page see them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import islice
from typing import Any, BinaryIO, Final

from custody.errors import BadInput, NotFound
from custody.formats.digest_table import algorithm, digest_value
from custody.ingest.batch.notices import about, row_of
from custody.ingest.description.metadata import ELEMENTS
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.ingest.submission import idempotency
from custody.ingest.submission.inline import manifest_of
from custody.ingest.submission.submission import Submission, submit
from custody.kernel.access.caller import Caller
from custody.kernel.engine.judge import FORGED
from custody.kernel.model.job import Filter, Job
from custody.kernel.operations.jobs import may_resume
from custody.kernel.stores.rows import Tx
from custody.web import formatting
from custody.web.operations.submission import own_key, plainly
from custody.web.queries.lists import children
from custody.web.site import Site

FORM: Final[Mapping[str, str]] = {
    # the deployed form's names, and ours
    "profile": "profile",
    "submitter": "submitter",
    "type": "type",
    "filename": "filename",
    "digestType": "digest_type",
    "digestValue": "digest_value",
    "title": "title",
    "creator": "creator",
    "date": "date",
    "localIdentifier": "local_id",
    "primaryIdentifier": "primary_id",
    "object": "primary_id",
    "notification": "notification",
    "note": "note",
}
ROWS_SHOWN = 12
MOST_LOOKED_AT = 200
PIECE = 1 << 20
MANIFEST_NAME = "manifest.checkm"


@dataclass(frozen=True, slots=True)
class Cause:
    """Jobs of a batch that failed alike."""

    code: str
    count: int
    reason: str  # as the first of them was told
    rows: Sequence[tuple[int, int]]  # the depositor's row, and our job
    resumable: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a progress bar."""

    look: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Letter:
    """What the depositor was told."""

    number: int
    subject: str
    to: str
    text: str
    sent: bool
    at: int


def from_form(fields: Mapping[str, str], payload: str, caller: Caller, agent: str) -> Submission:
    """The deployed form's fields as a submission; unknown ones are left alone, as there."""
    given: dict[str, Any] = {FORM[name]: value for name, value in fields.items() if name in FORM and value}
    given["submitter"] = submitter(caller, given.get("profile", ""), given.get("submitter", ""))
    given["dc"] = {name: fields[f"DC.{name}"] for name in ELEMENTS if fields.get(f"DC.{name}")}
    given["update"] = fields.get("update", "").lower() in ("true", "on", "1", "yes")
    return Submission(payload=payload, user_agent=agent[:200], **given)


def submitter(caller: Caller, profile: str, given: str) -> str:
    """A depositor signs with their own name; others may hand in for somebody else."""
    return given if given and caller.may("batch:act", profile) else caller.name


def check_profile(site: Site, caller: Caller, name: str, key: str = "") -> None:
    """Refuse one that is not there for the caller; one that is gone still stands in what was handed in before."""
    is_there = name in site.world.profiles or bool(
        key and idempotency.is_known(site.store, _key(site, caller, key) or "")
    )
    if not is_there or not caller.sees(name):
        known = ", ".join(sorted(each for each in site.world.profiles if caller.sees(each))) or "none"
        raise BadInput(f"there is no profile {name!r}", code="profile.unknown", where="profile", hint=f"known: {known}")


def profiles(site: Site, caller: Caller) -> Sequence[tuple[str, str]]:
    found = site.options.world.profiles if site.options.world else {}
    return [(name, profile.description) for name, profile in sorted(found.items()) if caller.sees(name)]


def stage(site: Site, file: BinaryIO, name: str) -> str:
    """Keep uploaded bytes; answers their address."""
    safe = "".join(each if each.isprintable() and each not in "/\\?#" else "_" for each in name)[-200:] or "upload"
    return site.world.staging.put(iter(lambda: file.read(PIECE), b""), safe).url


def inline(site: Site, rows: Sequence[Mapping[str, Any] | str], base: str, type_: str) -> Mapping[str, Any]:
    """A manifest from the rows of a request, kept like an upload: what a submission says of it."""
    made = manifest_of(rows, base, type_)
    staged = site.world.staging.put([made.text.encode()], MANIFEST_NAME)
    return {"payload": staged.url, "filename": MANIFEST_NAME, "type": made.type, "inline": True}


def hand_in(site: Site, caller: Caller, submission: Submission, key: str) -> tuple[int, bool]:
    """The batch, and whether this made it. A key is the caller's own: another's same key is another key."""
    check_profile(site, caller, submission.profile, key)
    if not submission.payload.startswith(("http://", "https://", "staged:")):
        raise BadInput("a payload is an http or https URL, or an upload", where="payload", code="submission.payload")
    with plainly():
        return submit(site.store, _with_digest(submission), _key(site, caller, key), caller.acting)


def _key(site: Site, caller: Caller, given: str) -> str | None:
    """The caller's own; one that was handed in when keys hung on names still stands for what it stood for."""
    before = f"{caller.name}/{given}"
    return before if given and idempotency.is_known(site.store, before) else own_key(caller, given)


def _with_digest(submission: Submission) -> Submission:
    """A depositor's digest in the one form that is compared, or a refusal now rather than a failure later."""
    if not (submission.digest_type and submission.digest_value):
        return submission
    which = algorithm(submission.digest_type)
    return replace(submission, digest_type=which.name, digest_value=digest_value(which, submission.digest_value))


def get(site: Site, caller: Caller, number: int) -> Job:
    """The batch; one that the caller may not see is not there."""
    missing = NotFound(f"there is no batch {number}", code="batch.unknown", hint="`custody batch list`")
    try:
        job = caller.must_see(site.store.queue.get(number))
    except NotFound:
        raise missing from None
    if job.kind != BATCH_KIND:
        raise missing
    return job


def progress(site: Site, batch: int) -> Mapping[str, int]:
    """How many of its jobs look how."""
    if site.store.elsewhere and site.store.elsewhere.has(batch):
        return brief(site, batch)
    rows = site.store.db.read(lambda tx: tx.run("web_child_progress", parent=batch))
    counts = dict.fromkeys(("done", "failed", "held", "running", "waiting", "cancelled"), 0)
    for state, ended, leased, count in rows:
        counts[formatting.look_of_state(state, ended, bool(leased))] += count
    return counts


def brief(site: Site, batch: int) -> Mapping[str, int]:
    """The same for a list of batches: of very many open jobs only some are looked at, the rest count as waiting."""
    elsewhere = site.store.elsewhere
    if elsewhere and elsewhere.has(batch):
        some = islice(elsewhere.unended(batch), MOST_LOOKED_AT)
        return _looks(elsewhere.ends(batch), [(job.state, job.holder is not None) for job in some])

    def look(tx: Tx) -> Mapping[str, int]:
        ends = {ended: int(count) for ended, count in tx.run("web_child_ends", parent=batch)}
        seen = tx.run("web_open_children", parent=batch, limit=MOST_LOOKED_AT) if ends.get(None) else []
        return _looks(ends, [(state, bool(leased)) for state, leased in seen])

    return site.store.db.read(look)


def _looks(ends: Mapping[str | None, int], seen: Sequence[tuple[str, bool]]) -> Mapping[str, int]:
    counts = dict.fromkeys(("done", "failed", "held", "running", "waiting", "cancelled"), 0)
    for ended, count in ends.items():
        if ended is not None:
            counts[formatting.look_of_state("", ended, False)] += count
    for state, leased in seen:
        counts[formatting.look_of_state(state, None, leased)] += 1
    counts["waiting"] += max(0, ends.get(None, 0) - len(seen))
    return counts


def parts(counts: Mapping[str, int]) -> Sequence[Part]:
    """The same as shares of a bar of a hundred."""
    total, start, made = max(1, sum(counts.values())), 0.0, []
    for look, count in counts.items():
        if count:
            width = 100 * count / total
            made.append(Part(look, count, round(start, 3), round(width, 3)))
            start += width
    return made


def sentence(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    if not total:
        return "no objects yet"
    rest = [f"{count} {look}" for look, count in counts.items() if count and look != "done"]
    return f"{counts['done']} of {total} done" + (f", {', '.join(rest)}" if rest else "")


def causes(site: Site, caller: Caller, batch: Job) -> Sequence[Cause]:
    elsewhere = site.store.elsewhere
    if not elsewhere or not elsewhere.has(batch.id):
        groups = site.store.db.read(lambda tx: tx.run("web_failed_children", parent=batch.id))
        return [_cause(site, caller, batch, *row) for row in groups]
    failed = list(elsewhere.every(Filter(parent=batch.id, ended="failed")))
    firsts = {job.code: job.id for job in reversed(failed)}
    counts = Counter(job.code for job in failed).most_common()
    return [_cause(site, caller, batch, code, count=count, first=firsts[code]) for code, count in counts]


def _cause(site: Site, caller: Caller, batch: Job, code: str | None, count: int, first: int) -> Cause:
    where = Filter(parent=batch.id, ended="failed", code=code or "")
    found = children(site.store, caller, where, 0, limit=ROWS_SHOWN).rows
    rows = [(_line(job), job.id) for job in found]
    machine = site.machines.of(JOB_KIND)
    resumable = any(may_resume(job, machine) for job in found)
    return Cause(code=code or "", count=count, reason=failure(site, first), rows=rows, resumable=resumable)


def _line(job: Job) -> int:
    """Of the depositor's manifest; what was refused may say anything."""
    told = str(job.payload.get("line", ""))
    return int(told) if job.code != FORGED and told.isascii() and told.isdigit() else row_of(job)


def failure(site: Site, job_id: int) -> str:
    """Why a job failed, in the words it was told."""
    return site.store.queue.reason(site.store.queue.get(job_id))


def letters(site: Site, batch: Job) -> Sequence[Letter]:
    """Every mail about this batch, as it was or will be sent."""
    if site.options.world is None:
        return []
    return [_letter(site, number, job) for number, job in enumerate(about(site.world, batch))]


def _letter(site: Site, number: int, job: Job) -> Letter:
    try:
        with site.world.staging.open(job.payload["message"]) as file:
            message = message_from_bytes(file.read(), policy=policy.default)
    except NotFound:
        message = EmailMessage()
    body = message.get_body(("plain",)) if isinstance(message, EmailMessage) else None
    text = body.get_content() if body is not None else ""
    to = ", ".join(job.payload.get("to", []))
    return Letter(
        number=number,
        subject=str(message.get("Subject", "")),
        to=to,
        text=str(text),
        sent=job.ended == "passed",
        at=job.changed,
    )


def report(site: Site, batch: Job) -> Mapping[str, Any]:
    """The last report, as it was told."""
    url = batch.facts.get("report")
    if not url:
        raise NotFound(
            f"batch {batch.id} has not reported yet", code="batch.unreported", hint=f"`custody job why {batch.id}`"
        )
    with site.world.staging.open(str(url)) as file:
        told: Mapping[str, Any] = json.load(file)
    return told
