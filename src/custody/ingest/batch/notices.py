"""What ingest tells people and their programs: reports by mail, and signed callbacks.

A report is made in the batch's own step and sent by a delivery job that is written in the same transaction as the
move it announces: exactly once means one Message-ID. A callback is the step's own body: its failure fails the
step, and every try carries the same id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email import message_from_bytes, policy
from typing import Any

from custody.errors import BadInput, CustodyError
from custody.formats import checkm
from custody.formats.checkm.form import BATCHES, Row
from custody.ingest.adapters import Adapters
from custody.ingest.batch import mail, remarks, webhook
from custody.ingest.batch import report as reports
from custody.ingest.batch.report import Batch, Delta, Report
from custody.ingest.batch.report import Outcome as Line
from custody.ingest.description.system_files import moment
from custody.ingest.makers import DELIVER, DELIVER_MAKER
from custody.ingest.profile import Profile
from custody.ingest.submission.idempotency import request_of
from custody.ingest.zookeeper.tree import shown
from custody.kernel.engine.judge import FORGED
from custody.kernel.engine.work import Work
from custody.kernel.history.ledger import last_block
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait

OPEN_SECONDS = 1.0
MOST_EDGES = 100
"""Jobs that a report waits for at once; then it looks again."""
BY_OPERATOR = "deleted by an operator"
STATES = {"passed": reports.COMPLETED, "failed": reports.FAILED}


def queued(work: Work, world: Adapters, jobs: int) -> Sequence[NewJob]:
    """A confirmation that the batch was taken in, if the profile asks for one."""
    profile = world.profile(work.payload["profile"])
    if not profile.notification.confirm:
        return ()
    name = shown(work.job.id)
    text = f"Batch {name} was taken in: {jobs} object{'s' if jobs != 1 else ''} of {profile.name}.\n"
    if link := world.links.url(work.job, world.store.now()):
        text += f"How it stands: {link}\n"
    return _delivery(work, world, profile, "queued", subject=f"Batch {name} was taken in", text=text, attached={})


def report(work: Work, world: Adapters, update: bool) -> Outcome:
    """Every job exactly once; what was told is kept, and an update tells the difference to it.

    A job that somebody resumed in between is waited for: nobody would ever be told of it.
    """
    profile = world.profile(work.payload["profile"])
    now, lines = world.store.now(), tuple(_lines(work, world))
    if still_open := [Edge(int(line.job), "finished") for line in lines if line.state not in reports.ENDS]:
        return Wait(OPEN_SECONDS, f"{len(still_open)} resumed jobs have not ended", still_open[:MOST_EDGES])
    made = Report(_batch(work.job), moment(now), lines, _history_head(world), link=world.links.url(work.job, now))
    change = reports.delta(_told_before(work, world), made) if update and "told" in work.facts else None
    round_ = int(work.facts.get("rounds", 0)) + 1
    told = world.staging.put([json.dumps(reports.told(made)).encode()], "told.json").url
    kept = {"told": told, "rounds": round_, "completed": made.count(reports.COMPLETED)}
    if made.remarked:
        kept["remarked"] = made.remarked
    text = reports.as_text(made) if change is None else reports.update_as_text(change, made)
    listed = made.outcomes if change is None else change.listed
    attached = {"report.csv": reports.as_csv(listed), "report.json": reports.as_json(made, change)}
    subject = f"{'OK' if made.ok else 'FAIL'}: batch {shown(work.job.id)} of {profile.name}"
    subject += ", with remarks" if made.remarked else ""
    if made.history_head:
        attached["history-head.txt"] = made.history_head
    kept["report"] = world.staging.put([attached["report.json"].encode()], "report.json").url
    mails = _delivery(work, world, profile, f"report-{round_}", subject=subject, text=text, attached=attached)
    counts = {state: made.count(state) for state in (reports.COMPLETED, reports.FAILED, reports.DELETED)}
    if made.count(reports.FAILED):
        failed = f"{counts['failed']} of {len(made.outcomes)} objects failed"
        return Failed("batch.incomplete", failed, detail=counts | _delta_counts(change), keep=kept, then=mails)
    return Passed(counts | _delta_counts(change), keep=kept, then=mails)


def refused(work: Work, world: Adapters, outcome: Failed) -> Failed:
    """The batch failed before it had jobs: tell the depositor why, with all the faults that were found."""
    profile = world.profiles.get(work.payload.get("profile", ""))
    if profile is None:
        return outcome
    now = world.store.now()
    made = Report(
        batch=_batch(work.job),
        made=moment(now),
        outcomes=(),
        history_head=_history_head(world),
        failure=outcome.reason,
        link=world.links.url(work.job, now),
    )
    told = reports.as_json(made)
    faults = [str(each) for each in outcome.detail.get("faults", ())]
    attached = {"report.json": told} | ({"faults.txt": "".join(f"{each}\n" for each in faults)} if faults else {})
    subject = f"FAIL: batch {shown(work.job.id)} of {profile.name} could not be read"
    mails = _delivery(work, world, profile, "refused", subject=subject, text=reports.as_text(made), attached=attached)
    kept = {"report": world.staging.put([told.encode()], "report.json").url}
    return replace(outcome, keep={**outcome.keep, **kept}, then=[*outcome.then, *mails])


def call_back(work: Work, world: Adapters, profile: Profile) -> int:
    """Tell the depositor's program about one object; the id is the same over all tries."""
    facts = {
        "job": work.job.id,
        "batch": work.job.parent,
        "ark": work.facts["primary"],
        "version": work.facts.get("version"),  # unknown here when another service did the storing
        "local_ids": list(work.payload.get("local_ids", [])),
        "profile": profile.name,
    }
    now = world.store.now()
    body = webhook.body("object.ingested", moment(now), facts)
    headers = webhook.sign(request_of(work.job), now // 1_000_000, body, world.secrets[profile.name])
    fields = {**headers, "content-type": "application/json"}
    status, _ = world.fetchers[profile.name].post(profile.callback.url, body, fields, cancel=lambda: work.stopped)
    return status


def about(world: Adapters, batch: Job) -> Sequence[Job]:
    """The deliveries of every mail about a batch, in their order."""
    names = ["queued", "refused", *(f"report-{round_}" for round_ in range(1, int(batch.facts.get("rounds", 0)) + 1))]
    found = [world.store.queue.by_key(DELIVER, _message_id(world, batch, name)) for name in names]
    return [job for job in found if job]


def deliver(work: Work, world: Adapters) -> Outcome:
    """Send one message; the same Message-ID each time."""
    with world.staging.open(work.payload["message"]) as file:
        message = message_from_bytes(file.read(), policy=policy.SMTP)
    if message["Message-ID"] != work.payload["message_id"]:
        return Failed("job.forged", "what it would send is another message")
    world.mail(message)
    return Passed({"to": work.payload["to"]})


def _history_head(world: Adapters) -> str:
    """The newest sealed head: a mail that left the house is a witness that nobody here can change."""
    block = last_block(world.store.ledger)
    return str(block.head) if block else ""


def _batch(job: Job) -> Batch:
    given = job.payload
    return Batch(
        id=str(job.id),
        profile=given["profile"],
        submitter=given.get("submitter", ""),
        submitted=moment(job.created),
        file=given.get("filename", ""),
    )


def _lines(work: Work, world: Adapters) -> Iterator[Line]:
    """What became of each row; a row whose job is gone was deleted by an operator. (In the tree, such a job stays.)"""
    seen = set()
    for job in world.store.queue.every(Filter(parent=work.job.id)):
        seen.add(row_of(job))
        yield _line(job, world)
    first = int(work.payload.get("first_row", 1))
    gone = sorted(set(range(first, first + int(work.facts.get("jobs", 0)))) - seen)
    rows = _rows_of(work, world, frozenset(gone)) if gone else {}
    for number in gone:
        row = rows.get(number, Row(number, "", ""))
        line = number if work.payload.get("inline") else row.line
        yield Line(
            job=f"row-{number}", state=reports.DELETED, row=line, name=row.name, title=row.title, reason=BY_OPERATOR
        )


def _rows_of(work: Work, world: Adapters, numbers: frozenset[int]) -> dict[int, Row]:
    """Rows of the depositor's manifest, for what no job is left to tell; none, where there was no manifest."""
    try:
        with world.staging.open(str(work.facts.get("payload") or work.payload["payload"])) as source:
            rows = checkm.read(source, check_name=lambda name: None, kinds=BATCHES, again=True)
            return {number: row for number, row in enumerate(rows, start=1) if number in numbers}
    except CustodyError:
        return {}


def _line(job: Job, world: Adapters) -> Line:
    given, kept = {} if job.code == FORGED else job.payload, job.facts  # of what was refused nothing is believed
    reason = world.store.queue.reason(job) if job.ended == "failed" else BY_OPERATOR if job.ended == "deleted" else ""
    return Line(
        job=str(job.id),
        state=STATES.get(job.ended or "", job.state),
        row=given.get("line", row_of(job)),
        name=given.get("filename", ""),
        title=given.get("title", ""),
        code=job.code or "",
        reason=reason,
        ark=kept.get("primary", ""),
        version=kept.get("version"),
        size=kept.get("space_needed"),
        remark="; ".join(kept.get(remarks.FACT) or ()) if job.ended == "passed" else "",
    )


def row_of(job: Job) -> int:
    """The depositor's row that a job is of: as its payload says, or, where that is not what ingest makes, its key."""
    told = job.payload.get("row")
    if isinstance(told, int) and job.code != FORGED:
        return told
    number = (job.key or "").rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _told_before(work: Work, world: Adapters) -> dict[str, str]:
    with world.staging.open(work.facts["told"]) as file:
        before: dict[str, str] = json.load(file)
    return before


def _delta_counts(change: Delta | None) -> dict[str, int]:
    if change is None:
        return {}
    return {
        "newly_completed": len(change.newly_completed),
        "newly_unresolved": len(change.newly_unresolved),
        "still_unresolved": len(change.still_unresolved),
    }


def _message_id(world: Adapters, batch: Job, what: str) -> str:
    """With the moment the batch was made: numbers come again in a second installation, after a backup was put back or
    in a new tree, and a mailbox that has seen an id hides whatever comes with it later."""
    return f"<batch-{batch.id}-{what}-{batch.created}@{world.sender.rpartition('@')[2]}>"


def _delivery(
    work: Work, world: Adapters, profile: Profile, what: str, subject: str, text: str, attached: dict[str, str]
) -> Sequence[NewJob]:
    addresses = _given(work) or list(profile.notification.addresses)
    if not addresses:
        return ()
    message_id = _message_id(world, work.job, what)
    message = mail.compose(
        sender=world.sender,
        recipients=addresses,
        subject=subject,
        text=text,
        message_id=message_id,
        date=moment(world.store.now()),
        attachments=attached,
    )
    staged = world.staging.put([message.as_bytes()], "message.eml").url
    facts: dict[str, Any] = {"message": staged, "to": addresses, "message_id": message_id}
    return [DELIVER_MAKER.checked(NewJob(DELIVER, facts, key=message_id))]


def _given(work: Work) -> Sequence[str]:
    """The depositor's own addresses. A batch that another service made may have wrong ones: then the collection's
    are written to, because a report that cannot be addressed must not undo what was deposited."""
    try:
        return mail.check_addresses(str(work.payload.get("notification", "")))
    except BadInput:
        return ()
