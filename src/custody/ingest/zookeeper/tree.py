"""The tree of the deployed services, as values: its names, and what stands in its nodes. No I/O, no clock.

When ingest runs on ZooKeeper this tree is the truth, and other services read and move it too: nothing here may
change its form. What is ours alone lives below `/custody`.

    /batches/bid0000000007                 empty; with submission, status, lock and, once taken, states
    /batches/BID/states/batch-processing/JID   also -failed, -completed, -deleted: how a batch knows it is done
    /batch-uuids/bid-UUID                  the batch's name
    /jobs/jid0000000012                    empty; with bid, configuration, identifiers, priority, space_needed, status …
    /jobs/states/STATE/05-jid0000000012    the queue: sorted by name, which is by priority and then by age
    /locks/queue/ingest, /locks/collections/NAME   holds: they exist or not
    /custody/jobs/JID, /custody/batches/BID    who has it; the node's version is the token. Below it: facts
    /custody/held/JID-17                   a claim that has not been settled; 17 is its token
    /custody/moves/m0000000345             what happened, until it is in the history
    /custody/holds                         its version moves with every hold of ours; below it who and why
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid5

from custody.ingest.description.metadata import ELEMENTS
from custody.ingest.states import JOB
from custody.kernel.model.names.job_numbers import BATCH_FAMILY as BATCH_FAMILY
from custody.kernel.model.names.job_numbers import JOB_FAMILY as JOB_FAMILY
from custody.kernel.model.names.job_numbers import batch_name as batch_name
from custody.kernel.model.names.job_numbers import id_of as id_of
from custody.kernel.model.names.job_numbers import in_tree as in_tree
from custody.kernel.model.names.job_numbers import job_name as job_name
from custody.kernel.model.names.job_numbers import name_of as name_of
from custody.kernel.model.names.job_numbers import shown as shown

BATCHES, JOBS, QUEUES, UUIDS = "/batches", "/jobs", "/jobs/states", "/batch-uuids"
LOCKS, QUEUE_LOCK, COLLECTION_LOCKS = "/locks", "/locks/queue/ingest", "/locks/collections"
OURS, MOVES, HOLDS = "/custody", "/custody/moves", "/custody/holds"
OUR_JOBS, OUR_BATCHES, HELD = "/custody/jobs", "/custody/batches", "/custody/held"
BATCH_LISTS = ("batch-processing", "batch-failed", "batch-completed", "batch-deleted")
QUEUE_NAMES = (*JOB.states(), "deleted")
FOLDERS: Final = (
    BATCHES,
    *(f"{QUEUES}/{name}" for name in QUEUE_NAMES if name != "rejected"),
    UUIDS,
    "/locks/queue",
    COLLECTION_LOCKS,
    OUR_JOBS,
    OUR_BATCHES,
    HELD,
    MOVES,
    HOLDS,
)

MOST_BYTES = 512 << 10  # in one node; the server refuses a packet of twice that
_COUNT = re.compile(r"[0-9]{1,9}")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMESPACE = UUID("6f1d8b0e-2f0c-4f0e-9d55-0c8d2f5f7a11")


def is_batch(name: str) -> bool:
    return name.startswith("bid")


# Paths


def home(name: str) -> str:
    """Where a batch or a job is."""
    return f"{BATCHES if is_batch(name) else JOBS}/{name}"


def ours(name: str) -> str:
    """Where we keep who has it."""
    return f"{OUR_BATCHES if is_batch(name) else OUR_JOBS}/{name}"


def held(name: str, token: int) -> str:
    """A claim under way. If its lock is gone, whoever had it has vanished."""
    return f"{HELD}/{name}-{token}"


def entry(state: str, priority: int, name: str) -> str:
    """A job's place in the queue. Two digits, always: readers cut the name after the third character."""
    return f"{QUEUES}/{queue_of(state)}/{max(0, min(99, priority)):02d}-{name}"


def queue_of(state: str) -> str:
    return "failed" if state == "rejected" else state


def job_in(entry_name: str) -> tuple[int, str] | None:
    """Priority and name from 05-jid0000000012; None for what is no entry."""
    priority, _, name = entry_name.partition("-")
    return (int(priority), name) if len(priority) == 2 and priority.isdigit() and name.startswith("jid") else None


def list_of(state: str) -> str:
    """The list of its batch that a job in this state is on."""
    ends = {"failed": "failed", "rejected": "failed", "completed": "completed", "deleted": "deleted"}
    return f"batch-{ends.get(state, 'processing')}"


def list_entry(batch: str, state: str, name: str) -> str:
    return f"{BATCHES}/{batch}/states/{list_of(state)}/{name}"


def collection_lock(name: str) -> str:
    return f"{COLLECTION_LOCKS}/{quote(name, safe=' ')}"


# What stands in a status


@dataclass(frozen=True, slots=True)
class Status:
    """Where a job or a batch stands, as its status node says."""

    state: str
    modified: int  # microseconds
    message: str = ""
    last_passed: str | None = None
    retries: int = 0


def camel(state: str) -> str:
    """update-reporting → UpdateReporting; `rejected` is a failure after nothing has passed."""
    return "".join(part.capitalize() for part in queue_of(state).split("-"))


def snake(status: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in status).lstrip("-")


def stamp(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M:%S +0000")


def unstamp(text: str) -> int:
    try:
        moment = datetime.fromisoformat(f"{text[:19]}{text[20:]}")  # the space before the zone is not ISO's
    except ValueError:
        return 0
    return int((moment - EPOCH).total_seconds()) * 1_000_000 if moment.tzinfo else 0


def write_status(status: Status, of_batch: bool) -> bytes:
    value: dict[str, Any] = {"status": camel(status.state), "last_modified": stamp(status.modified)}
    if not of_batch:
        value["last_successful_status"] = camel(status.last_passed) if status.last_passed else None
        value["retry_count"] = status.retries
    return dump({**value, "message": status.message})


def read_status(data: bytes, of_batch: bool) -> Status | None:
    """None, where it cannot be read: a half-made one, or someone's mistake."""
    value = load(data)
    if not isinstance(value.get("status"), str):
        return None
    state, last = snake(value["status"]), _last_passed(value.get("last_successful_status"))
    if not of_batch and state == "failed" and last is None:
        state = "rejected"
    return Status(
        state=state,
        modified=unstamp(str(value.get("last_modified", ""))),
        message=str(value.get("message") or ""),
        last_passed=last,
        retries=_number(value.get("retry_count")),
    )


def _number(told: object) -> int:
    """A count as some service wrote it; nothing, where it is none."""
    return int(str(told)) if _COUNT.fullmatch(str(told)) else 0


def _last_passed(told: object) -> str | None:
    """Some services write Failed or Held here when a job goes on: then it begins again after pending, which is safe."""
    if not isinstance(told, str) or not told:
        return None
    state = snake(told)
    return state if state in JOB.working else "pending"


# Submissions and configurations: our names, and the deployed ones; what others call them is understood, too

_COMMON = {
    "profile": "profile",
    "payload": "payload_url",
    "type": "type",
    "filename": "filename",
    "submitter": "submitter",
    "update": "update",
    "digest_type": "digestType",
    "digest_value": "digestValue",
    "title": "title",
    "creator": "creator",
    "date": "date",
    "primary_id": "objectID",
    "note": "note",
}
SUBMISSION: Final = _COMMON | {
    "local_id": "localID",
    "notification": "notification",
    "user_agent": "userAgent",
    "rows": "manifest",
    "first_row": "firstRow",
    "last_row": "lastRow",
    "all_rows": "allRows",
    "inline": "inline",
}
CONFIGURATION: Final = _COMMON | {"local_ids": "localID", "row": "row", "line": "line", "size": "size"}
_ALSO = {
    "profile_name": "profile",
    "erc_what": "title",
    "erc_who": "creator",
    "erc_when": "date",
    "payload_type": "type",
}


def write_submission(payload: Mapping[str, Any], uuid: str) -> bytes:
    return dump({"batchID": uuid, **_renamed(payload, SUBMISSION)})


def read_submission(data: bytes) -> dict[str, Any]:
    return _understood(load(data), SUBMISSION)


def write_configuration(payload: Mapping[str, Any], uuid: str) -> bytes:
    flat = {**payload, "local_ids": ";".join(payload.get("local_ids", ()))}
    named = {name: value for name, value in _renamed(flat, CONFIGURATION).items() if value != ""}
    job_uuid = uuid5(NAMESPACE, f"{uuid}/{payload.get('row')}")
    return dump({"batchID": uuid, "jobID": f"jid-{job_uuid}", **named})


def read_configuration(data: bytes) -> dict[str, Any]:
    found = _understood(load(data), CONFIGURATION)
    names = str(found.pop("local_ids", "") or "")
    parts = [part.strip() for part in names.split(";") if part.strip()]
    return {"payload": "", "type": "file", "row": 0, **found} | ({"local_ids": parts} if parts else {})


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    named = {names[name]: value for name, value in values.items() if name in names}
    return named | {f"DC{element}": value for element, value in values.get("dc", {}).items()}


def _understood(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    back = {wire: name for name, wire in names.items()} | {also: name for also, name in _ALSO.items() if name in names}
    found = {back[wire]: told for wire, told in value.items() if wire in back and told not in (None, "")}
    if value.get("submission_mode") == "update":
        found["update"] = True
    if dc := {element: str(value[f"DC{element}"]) for element in ELEMENTS if value.get(f"DC{element}")}:
        found["dc"] = dc
    return found


def batch_uuid(key: str) -> str:
    """The same key, the same batch: how a submission whose answer got lost is found again."""
    return f"bid-{uuid5(NAMESPACE, key)}"


# A new batch, a new job: every node of it


def born_batch(name: str, payload: Mapping[str, Any], uuid: str, now: int) -> dict[str, bytes]:
    return {
        f"{BATCHES}/{name}": b"",
        f"{BATCHES}/{name}/submission": write_submission(payload, uuid),
        f"{BATCHES}/{name}/status": write_status(Status("pending", now), of_batch=True),
        f"{UUIDS}/{uuid}": name.encode(),
    }


def born_job(
    name: str, batch: str, payload: Mapping[str, Any], uuid: str, priority: int, now: int, queued: bool = True
) -> dict[str, bytes]:
    """`queued` is False for the one job that is kept back while its batch is still being fanned out."""
    at = f"{JOBS}/{name}"
    nodes = {
        at: b"",
        f"{at}/bid": batch.encode(),
        f"{at}/configuration": write_configuration(payload, uuid),
        f"{at}/identifiers": write_identifiers(str(payload.get("primary_id", "")), payload.get("local_ids", ())),
        f"{at}/priority": str(priority).encode(),
        f"{at}/space_needed": b"0",
        f"{at}/status": write_status(Status("pending", now), of_batch=False),
        list_entry(batch, "pending", name): b"",
    }
    return nodes | ({entry("pending", priority, name): b""} if queued else {})


def places(name: str, batch: str, state: str, priority: int) -> frozenset[str]:
    """Where else a job is written: its place in the queue, and on its batch's lists."""
    return frozenset({entry(state, priority, name), list_entry(batch, state, name)})


def write_identifiers(primary: str, local_ids: Sequence[str]) -> bytes:
    return dump({"primary_id": primary, "local_id": list(local_ids)})


def dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def load(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
