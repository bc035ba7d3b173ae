"""What the depositor is told about a batch: as text to read, CSV to sort, JSON to process.

Each job is in a report exactly once. Failures are grouped by cause and named by the row of the depositor's
own manifest, because that is how they will look for them. What was told is kept (`told`), and the update
report is the difference to it. All of it is pure: when a batch reports, and to whom, is decided elsewhere.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from custody.errors import BadInput
from custody.kernel.model.names.job_numbers import shown

COMPLETED, FAILED, DELETED = "completed", "failed", "deleted"
ENDS = (COMPLETED, FAILED, DELETED)
_COLUMNS = ("row", "state", "name", "title", "ark", "version", "size", "code", "reason", "job", "remark")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Batch:
    """The facts of a batch that a depositor recognises it by."""

    id: str
    profile: str
    submitter: str
    submitted: datetime
    file: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one job ended."""

    job: str
    state: str
    row: int | None = None
    """the line of the manifest it came from"""
    name: str = ""
    title: str = ""
    code: str = ""
    reason: str = ""
    ark: str = ""
    version: int | None = None
    size: int | None = None
    remark: str = ""
    """what the depositor should know of it although it was deposited"""


@dataclass(frozen=True, slots=True)
class Report:
    batch: Batch
    made: datetime
    outcomes: tuple[Outcome, ...]
    history_head: str = ""
    """the sealed head of the history at that time, so that the mail is a witness of it"""
    failure: str = ""
    """why the whole batch failed, if it did before it had jobs"""
    link: str = ""

    def __post_init__(self) -> None:
        jobs = [outcome.job for outcome in self.outcomes]
        if len(set(jobs)) != len(jobs):
            raise BadInput(f"a job is twice in the report of {self.batch.id}", code="report.duplicate")

    @property
    def ok(self) -> bool:
        return bool(self.outcomes) and not self.failure and all(each.state == COMPLETED for each in self.outcomes)

    @property
    def remarked(self) -> int:
        return sum(bool(each.remark) for each in self.outcomes)

    def count(self, state: str) -> int:
        return sum(each.state == state for each in self.outcomes)


@dataclass(frozen=True, slots=True)
class Delta:
    """What is different from what was told before. Every job of the new report is in one of the four."""

    newly_completed: tuple[Outcome, ...]
    newly_unresolved: tuple[Outcome, ...]
    still_unresolved: tuple[Outcome, ...]
    told_before: tuple[Outcome, ...]

    @property
    def listed(self) -> tuple[Outcome, ...]:
        """All that is told anew, or again because it is still open."""
        return self.newly_completed + self.newly_unresolved + self.still_unresolved

    @property
    def changed(self) -> bool:
        return bool(self.newly_completed or self.newly_unresolved)


def told(report: Report) -> dict[str, str]:
    """What to remember of a report: the state of each job as it was told."""
    return {each.job: each.state for each in report.outcomes}


def delta(before: Mapping[str, str], now: Report) -> Delta:
    """The update report: newly deposited, newly unresolved, still unresolved."""
    done = [each for each in now.outcomes if each.state == COMPLETED]
    unresolved = [each for each in now.outcomes if each.state != COMPLETED]
    return Delta(
        newly_completed=tuple(each for each in done if before.get(each.job) != COMPLETED),
        newly_unresolved=tuple(each for each in unresolved if before.get(each.job) != each.state),
        still_unresolved=tuple(each for each in unresolved if before.get(each.job) == each.state),
        told_before=tuple(each for each in done if before.get(each.job) == COMPLETED),
    )


# -- as text -----------------------------------------------------------------------------------------


def as_text(report: Report) -> str:
    total = len(report.outcomes)
    lines = [
        *_heading(report),
        "Nothing was deposited." if report.failure else f"{report.count(COMPLETED)} of {total} deposited.",
    ]
    if report.remarked:
        lines.append(f"{report.remarked} with a remark: please read it below.")
    lines += ["", *_causes(each for each in report.outcomes if each.state == FAILED)]
    lines += _section("Deleted by the archive", [each for each in report.outcomes if each.state == DELETED])
    lines += _section("Deposited", [each for each in report.outcomes if each.state == COMPLETED])
    return _finished(lines, report)


def update_as_text(change: Delta, report: Report) -> str:
    lines = [*_heading(report), "This is what changed since the last report.", ""]
    lines += _section("Newly deposited", change.newly_completed)
    lines += _section("Newly failed or deleted", change.newly_unresolved)
    lines += _section("Still unresolved", change.still_unresolved)
    if not (change.changed or change.still_unresolved):
        lines += ["Nothing changed.", ""]
    if change.told_before:
        lines += [f"{len(change.told_before)} were reported as deposited before.", ""]
    return _finished(lines, report)


def _heading(report: Report) -> list[str]:
    batch = report.batch
    lines = [
        f"Batch {shown(int(batch.id)) if batch.id.isdecimal() else _line(batch.id)}",
        f"Collection {_line(batch.profile)}, submitted by {_line(batch.submitter)}"
        f" on {batch.submitted.isoformat(timespec='seconds', sep=' ')}",
    ]
    if batch.file:
        lines.append(f"File {_line(batch.file)}")
    lines.append("")
    if report.failure:
        lines += [f"The batch failed: {_line(report.failure)}", ""]
    return lines


def _causes(failed: Iterable[Outcome]) -> list[str]:
    """Failures by cause, the commonest first: three hundred rows may have one reason."""
    causes: dict[str, list[Outcome]] = {}
    for each in failed:
        causes.setdefault(each.code or "unknown", []).append(each)
    lines = []
    for code, group in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += _section(f"Failed: {code}", group)
    return lines


def _section(title: str, outcomes: Iterable[Outcome]) -> list[str]:
    outcomes = sorted(outcomes, key=lambda each: (each.row is None, each.row or 0, each.job))
    if not outcomes:
        return []
    return [f"{_line(title)} ({len(outcomes)})", *(f"  {_entry(each)}" for each in outcomes), ""]


def _entry(each: Outcome) -> str:
    row = f"row {each.row}" if each.row is not None else each.job
    name = each.name or each.title
    parts = [row] if each.reason.startswith(name) else [row, name]
    if each.ark:
        parts.append(f"{each.ark} version {each.version}" if each.version else each.ark)
    if each.state != COMPLETED:
        parts.append(each.reason or each.state)
    if each.remark:
        parts.append(f"PLEASE NOTE: {each.remark}")
    return ": ".join(_line(part) for part in parts if part)


def _finished(lines: list[str], report: Report) -> str:
    if report.link:
        lines.append(f"This batch on the web: {_line(report.link)}")
    if report.history_head:
        lines.append(f"Head of the history: {_line(' '.join(report.history_head.splitlines()[:3]))}")
    return "\n".join(lines).rstrip() + "\n"


def _line(text: str) -> str:
    """A depositor's text on one line, with nothing in it that a terminal or a mail reader would obey."""
    return "".join(character if character.isprintable() else " " for character in text).strip()


# -- as CSV and JSON ---------------------------------------------------------------------------------


def as_csv(outcomes: Iterable[Outcome]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for each in outcomes:
        values = asdict(each)
        writer.writerow([_cell(values[column]) for column in _COLUMNS])
    return out.getvalue()


def _cell(value: object) -> str:
    """A spreadsheet must not take a title for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_json(report: Report, change: Delta | None = None) -> str:
    whole: dict[str, Any] = {
        "batch": _dated(asdict(report.batch)),
        "made": report.made.isoformat(),
        "ok": report.ok,
        "counts": {state: report.count(state) for state in (COMPLETED, FAILED, DELETED)},
        "failure": report.failure,
        "history_head": report.history_head,
        "link": report.link,
        "jobs": [asdict(each) for each in report.outcomes],
    }
    if change is not None:
        whole["changes"] = {
            name: [each.job for each in getattr(change, name)]
            for name in ("newly_completed", "newly_unresolved", "still_unresolved")
        }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _dated(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
