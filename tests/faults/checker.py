"""Proves or refutes, after the fact, what several processes say happened against what the store shows.

Every client and worker appends a line when it asks for something (*invoke*) and when it knows how that went (*ok*,
*fail*; *unknown* when no answer came, which is neither). Logs survive the death of their writer: each line is one
write to a file opened for appending. The checker knows nothing of how the store works; it is itself tested with
forged histories, one for each invariant it claims to check.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from custody.kernel.model.event import Event
from custody.kernel.model.job import Fold, Job, fold
from custody.kernel.stores import Store
from faults.audit import of_events, of_row

Phase = Literal["invoke", "ok", "fail", "unknown"]
Act = Literal["submit", "begin", "end", "settle", "stop"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a log."""

    process: str
    phase: Phase
    act: Act
    job: int = 0
    key: str = ""
    token: int = 0
    said: str = ""  # the type of the event, for a settle
    at: float = 0.0  # on the machine's own clock; only for ordering one process's lines


@dataclass(frozen=True, slots=True)
class Final:
    """The store when all is over."""

    now: int
    jobs: Mapping[int, Job]
    events: Mapping[int, Sequence[Event]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A promise that was not kept."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.text}"


class Log:
    """A process's own log."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._process = process

    def write(self, phase: Phase, act: Act, **more: object) -> None:
        entry = {"process": self._process, "phase": phase, "act": act, "at": time.monotonic(), **more}
        os.write(self._file, (json.dumps(entry) + "\n").encode())


def read_log(path: Path) -> Iterator[Entry]:
    for line in path.read_text().splitlines():
        yield Entry(**json.loads(line))


def read_worker_log(path: Path, process: str) -> Iterator[Entry]:
    """What a worker's own structured log says about its settles; a last line cut off by a kill says nothing."""
    for line in path.read_text(errors="replace").splitlines():
        try:
            said = json.loads(line)
            job = int(said["subject"].removeprefix("job/"))
        except (ValueError, KeyError, TypeError):
            continue
        if said["event"] == "refused":
            yield Entry(process, "fail", "settle", job, token=said["token"], said=said["to"])
        elif said["event"] not in ("started", "lease lost"):
            yield Entry(process, "ok", "settle", job, token=said["token"], said=said["event"])


def final_state(store: Store) -> Final:
    jobs = {job.id: job for job in store.queue.every()}
    events: dict[int, list[Event]] = defaultdict(list)
    after = 0
    while page := store.records.since(after, 5000):
        for event in page:
            if match := re.fullmatch(r"job/(\d+)", event.subject):
                events[int(match[1])].append(event)
        after = page[-1].id
    return Final(store.now(), jobs, {job: sorted(told, key=lambda event: event.seq) for job, told in events.items()})


def check(entries: Iterable[Entry], final: Final) -> list[Wrong]:
    """Everything that was promised and not kept."""
    log = list(entries)
    return [Wrong(name, text) for name, rule in RULES.items() for text in rule(log, final)]


Rule = Callable[[Sequence[Entry], Final], Iterator[str]]


def _one_state(log: Sequence[Entry], final: Final) -> Iterator[str]:
    for job in final.jobs.values():
        yield from (f"job {job.id}: {text}" for text in of_row(job))


def _settled_once(log: Sequence[Entry], final: Final) -> Iterator[str]:
    """Each acknowledged settle is in the history, once; of each token one word was accepted."""
    acknowledged = [entry for entry in log if entry.act == "settle" and entry.phase == "ok"]
    for (job, token), times in Counter((entry.job, entry.token) for entry in acknowledged).items():
        if times > 1:
            yield f"job {job}: {times} settles were acknowledged with token {token}"
    for entry in acknowledged:
        if (entry.token, entry.said) not in [(event.token, event.type) for event in final.events.get(entry.job, ())]:
            yield f"job {entry.job}: {entry.said} was acknowledged with token {entry.token} and is not in its history"
    for job, events in final.events.items():
        token = final.jobs[job].token if job in final.jobs else events[-1].token
        yield from (f"job {job}: {text}" for text in of_events(events, token) if text.startswith("E2"))


def _submits_are_there(log: Sequence[Entry], final: Final) -> Iterator[str]:
    for entry in log:
        there = entry.job in final.jobs or any(event.type == "deleted" for event in final.events.get(entry.job, ()))
        if entry.act == "submit" and entry.phase == "ok" and not there:
            yield f"job {entry.job} was acknowledged to {entry.process} and is not there"


def _ends_are_final(log: Sequence[Entry], final: Final) -> Iterator[str]:
    for job, events in final.events.items():
        yield from (f"job {job}: {text}" for text in of_events(events, events[-1].token) if text.startswith("E4"))


def _nothing_stands_still(log: Sequence[Entry], final: Final) -> Iterator[str]:
    for job in final.jobs.values():
        if job.holder and job.until < final.now - GRACE:
            yield f"job {job.id}: {job.holder}'s lease ended {(final.now - job.until) / 1e6:.1f} s ago"
        elif job.ended is None and job.runnable and not job.unmet and job.holder is None:
            yield f"job {job.id} is ready, and nobody has come for it"


GRACE = 2_000_000


def _deaths_are_counted(log: Sequence[Entry], final: Final) -> Iterator[str]:
    """A body that began and never ended, again and again, is put aside: after four times, and one for bad luck."""
    begun = Counter(entry.job for entry in log if entry.act == "begin")
    ended = Counter(entry.job for entry in log if entry.act == "end")
    for job, times in begun.items():
        if times - ended[job] > 5 and job in final.jobs and final.jobs[job].code != "poison":
            yield f"job {job} was begun {times} times and ended {ended[job]} times, and nobody put it aside"


def _one_job_per_key(log: Sequence[Entry], final: Final) -> Iterator[str]:
    found: dict[str | None, set[int]] = defaultdict(set)
    for entry in log:
        if entry.act == "submit" and entry.phase == "ok" and entry.key:
            found[entry.key].add(entry.job)
    for job in final.jobs.values():
        if job.key in found:
            found[job.key].add(job.id)
    for key, jobs in found.items():
        if len(jobs) > 1:
            yield f"the key {key} has the jobs {sorted(jobs)}"


def _one_run_per_slot(log: Sequence[Entry], final: Final) -> Iterator[str]:
    slots = Counter((job.payload.get("schedule"), job.payload.get("slot")) for job in final.jobs.values())
    for (schedule, slot), runs in slots.items():
        if schedule is not None and runs > 1:
            yield f"{schedule} ran {runs} times for the slot {slot}"


def _stops_are_graceful(log: Sequence[Entry], final: Final) -> Iterator[str]:
    """Whoever stopped when asked left nothing half done, and nothing was charged for it."""
    stopped = {entry.process for entry in log if entry.act == "stop" and entry.phase == "ok"}
    for process in stopped:
        begun = Counter(entry.job for entry in log if entry.process == process and entry.act == "begin")
        ended = Counter(entry.job for entry in log if entry.process == process and entry.act == "end")
        yield from (f"{process} stopped in the middle of job {job}" for job in begun - ended)
    if stopped and stopped >= {entry.process for entry in log if entry.act == "begin"}:
        for job in final.jobs.values():
            if job.ended is None and job.attempts:
                yield f"job {job.id} was charged {job.attempts} attempts, and every worker stopped gracefully"


def _rows_are_their_history(log: Sequence[Entry], final: Final) -> Iterator[str]:
    for job in final.jobs.values():
        told = fold(final.events.get(job.id, ()))
        if told != Fold.of(job):
            yield f"job {job.id} is {asdict(Fold.of(job))}, its history says {asdict(told)}"
        if len(final.events.get(job.id, ())) != job.seq:
            yield f"job {job.id} has given out {job.seq} numbers to {len(final.events.get(job.id, ()))} events"


def _refusals_were_refusals(log: Sequence[Entry], final: Final) -> Iterator[str]:
    """What was told to have failed did not happen; a submit that nobody answered may have."""
    made = {job.key for job in final.jobs.values() if job.key}
    known = {entry.key for entry in log if entry.act == "submit" and entry.phase in ("ok", "unknown")}
    for entry in log:
        if entry.act == "submit" and entry.phase == "fail" and entry.key in made - known:
            yield f"{entry.process} was told that {entry.key} failed, and it is there"


RULES: Mapping[str, Rule] = {
    "E1": _one_state,
    "E2": _settled_once,
    "E3": _submits_are_there,
    "E4": _ends_are_final,
    "E5": _nothing_stands_still,
    "E6": _deaths_are_counted,
    "E7": _one_job_per_key,
    "E9": _one_run_per_slot,
    "E12": _stops_are_graceful,
    "E13": _rows_are_their_history,
    "E20": _refusals_were_refusals,
}
