"""Submissions: what a depositor hands in, as one light transaction; and the jobs it becomes.

A submission is acknowledged when it is durable, and the same idempotency key again gives the same batch. What it
contains is looked at later, by the batch's own job: one job per object, in chunks, so that a crash at any row
goes on where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from custody.errors import BadInput
from custody.formats.checkm.form import CONTAINERS, Row
from custody.formats.digest_table import algorithm, digest_value
from custody.formats.identifiers import ark
from custody.ingest.batch import mail
from custody.ingest.description.metadata import ELEMENTS
from custody.ingest.makers import BATCH_MAKER, JOB_MAKER
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.ingest.submission import idempotency
from custody.ingest.submission.staging import name_in
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.job_keys import check_key
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import must_not_be_an_archive

TYPES: Final = {
    # the payload is …
    "file": "one file, which is one object",
    "container": "one zip or tar, whose files are one object",
    "object-manifest": "a list of the files of one object",
    "batch-manifest": "a list of object manifests",
    "container-batch-manifest": "a list of containers",
    "single-file-batch-manifest": "a list of files, each an object",
}
ONE_FILE: Final = frozenset({"", "file", "container"})
BATCHES: Final = frozenset({"batch-manifest", "container-batch-manifest", "single-file-batch-manifest"})
PROFILE_OF: Final = {
    "object-manifest": "mrt-ingest-manifest",
    "batch-manifest": "mrt-batch-manifest",
    "container-batch-manifest": "mrt-container-batch-manifest",
    "single-file-batch-manifest": "mrt-single-file-batch-manifest",
}


@dataclass(frozen=True, slots=True)
class Submission:
    """What was handed in. `payload` is a URL: a public one, or of bytes that were uploaded (staged:…)."""

    profile: str
    payload: str
    type: str = ""  # one of TYPES; guessed when absent
    filename: str = ""
    submitter: str = ""
    update: bool = False  # merge with the last version instead of replacing it
    digest_type: str = ""
    digest_value: str = ""
    title: str = ""
    creator: str = ""
    date: str = ""
    local_id: str = ""  # several are separated by ;
    primary_id: str = ""
    notification: str = ""  # overrides the profile's addresses; several are separated by , or ;
    note: str = ""
    user_agent: str = ""
    dc: Mapping[str, str] = field(default_factory=dict)  # further Dublin Core, by element
    inline: bool = False  # the payload was made from a list in the request: its rows are numbered from 1

    def checked(self) -> Submission:
        _check_texts(asdict(self))
        if self.type and self.type not in TYPES:
            raise BadInput(
                f"there is no type {self.type!r}", code="submission.type", where="type", hint=", ".join(TYPES)
            )
        if not self.payload:
            raise BadInput("a submission needs a payload", code="submission.payload", where="payload")
        if "@" in self.payload.partition("://")[2].partition("/")[0]:
            raise BadInput(
                "the URL carries a user name or password",
                code="url.credentials",
                where="payload",
                hint="what is handed in is written down for good; give the archive access in another way",
            )
        if bool(self.digest_type) != bool(self.digest_value):
            raise BadInput("a digest needs its type and its value", code="submission.digest", where="digestValue")
        if self.inline and self.digest_value:  # it would be compared with what we write down
            raise BadInput(
                "a list of rows has no digest",
                code="submission.digest",
                where="digestValue",
                hint="each row may have one of its own",
            )
        if self.type in ONE_FILE and not (self.filename or name_in(self.payload)):
            raise BadInput(
                f"{self.payload} ends without the name of a file",
                code="submission.filename",
                where="payload",
                hint="say what the file is called: filename",
            )
        mail.check_addresses(self.notification)
        checked = replace(self, primary_id=ark(self.primary_id)) if self.primary_id else self
        if not self.digest_type:
            return checked
        which = algorithm(self.digest_type)
        return replace(checked, digest_type=which.name, digest_value=digest_value(which, self.digest_value))


def _check_texts(given: Mapping[str, Any]) -> None:
    """What no database can write down, and what Dublin Core has no place for."""
    for name, value in [*given.items(), *((f"DC.{element}", text) for element, text in given["dc"].items())]:
        if isinstance(value, str) and "\0" in value:
            raise BadInput("there is a NUL in it: this is no text", code="submission.text", where=name)
    for name in given["dc"]:
        if name not in ELEMENTS:
            raise BadInput(
                f"Dublin Core has no {name!r}", code="submission.dc", where=f"DC.{name}", hint=", ".join(ELEMENTS)
            )


def submit(store: Store, submission: Submission, key: str | None, acting: Acting) -> tuple[int, bool]:
    """The batch's number, and whether this submit made it."""
    check_key(key)
    facts = {name: value for name, value in asdict(submission.checked()).items() if value}
    known = None if key is None else idempotency.number_of(store, key, facts)
    if known is not None:
        return known, False
    new = batch_job(facts, key)
    must_not_be_an_archive(store, new.collection)
    made = store.queue.submit_one(new, acting)
    if key is not None:
        idempotency.remember(store, key, made.id, facts)
    return made.id, made.new


def batch_job(facts: Mapping[str, Any], key: str | None) -> NewJob:
    profile = str(facts["profile"])
    made = NewJob(
        BATCH_KIND,
        facts,
        key=key,
        machine=BATCH,
        priority=5,
        lane=profile,
        collection=profile,
        open=1,
        when_empty="reporting",
    )
    if not facts.get("payload"):
        raise BadInput(f"the payload of {BATCH_KIND} has no payload", code="job.shape", where="job payload")
    return BATCH_MAKER.checked(made)


def parts_of(batch: int, submission: Mapping[str, Any], rows: int, most: int | None) -> Sequence[NewJob]:
    """The batches that share a submission with this one, where one may have so many jobs and no more."""
    if most is None or rows <= most or "first_row" in submission:
        return ()
    shares = [
        {"first_row": start, "last_row": min(rows, start + most - 1), "all_rows": rows}
        for start in range(most + 1, rows + 1, most)
    ]
    return [
        batch_job({**submission, **share}, f"{batch}/part-{number}") for number, share in enumerate(shares, start=2)
    ]


def first_priority(objects: int) -> int:
    """Large batches wait behind small ones: 1 → 5, 10 → 28, 1,000 → 74, at most 99."""
    return max(0, min(99, int(10 * math.log(max(1, objects)) + 5)))


def guess_type(filename: str, manifest_profile: str) -> str:
    """What a payload is, from what its first lines or its name say."""
    for name, profile in PROFILE_OF.items():
        if profile == manifest_profile:
            return name
    return "container" if filename.lower().endswith(CONTAINERS) else "file"


def single_job(batch: int, submission: Mapping[str, Any], type_: str, payload: str, priority: int) -> NewJob:
    """The one job of a submission that is one object."""
    facts = {
        "payload": payload,
        "type": type_,
        "row": 1,
        "filename": submission.get("filename", ""),
        "title": submission.get("title", ""),
        "creator": submission.get("creator", ""),
        "date": submission.get("date", ""),
        "primary_id": submission.get("primary_id", ""),
        "local_ids": _names(submission.get("local_id", "")),
        "digest_type": submission.get("digest_type", ""),
        "digest_value": submission.get("digest_value", ""),
    }
    return _job(batch, submission, facts, priority)


def row_jobs(
    batch: int, submission: Mapping[str, Any], rows: Iterator[Row], type_: str, priority: int, first: int = 1
) -> Iterator[NewJob]:
    """A job for each row of a batch's manifest, from the first that is wanted."""
    for number, row in enumerate(rows, start=first):
        line = None if submission.get("inline") else row.line
        facts = {
            "payload": row.url,
            "type": type_,
            "row": number,
            "line": line,
            "filename": row.name,
            "size": row.size,
            "title": row.title,
            "creator": row.creator,
            "date": row.date,
            "primary_id": row.primary,
            "local_ids": list(row.local_ids),
            "digest_type": row.algorithm,
            "digest_value": row.digest,
        }
        yield _job(batch, submission, facts, priority)


def _job(batch: int, submission: Mapping[str, Any], facts: Mapping[str, Any], priority: int) -> NewJob:
    common = {name: submission[name] for name in ("submitter", "update", "note", "dc") if submission.get(name)}
    payload = {"profile": submission["profile"], **common, **{name: value for name, value in facts.items() if value}}
    profile = str(submission["profile"])
    made = NewJob(
        JOB_KIND,
        payload,
        key=f"{batch}/{facts['row']}",
        machine=JOB,
        priority=priority,
        lane=profile,
        collection=profile,
        parent=batch,
    )
    return JOB_MAKER.checked(made)


def _names(text: str) -> Sequence[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(";") if part.strip()))
