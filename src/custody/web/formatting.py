"""How things are said on pages: states as seven looks, times, sizes, names. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from custody.ingest.zookeeper import tree
from custody.kernel.model.authority.acting import name_of
from custody.kernel.model.event import Event
from custody.kernel.model.job import Job

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOOKS: Final = ("waiting", "running", "done", "failed", "held", "retrying", "cancelled")
"""Seven looks for every state of every application; each differs in shape as well as in colour."""

BY_END: Final = {"passed": "done", "failed": "failed"}
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_SAFE = "/:@!$'()*,;~"


def look(job: Job, now: int) -> str:
    """Which of the seven a job is shown as."""
    if job.ended:
        return BY_END.get(job.ended, "cancelled")
    if job.holder and job.until > now:
        return "running"
    if job.open and not job.runnable and job.state != "held":
        return "running"  # its children are
    if job.state == "held":
        return "held"
    return "retrying" if job.due and job.attempts else "waiting"


def look_of_state(state: str, ended: str | None, leased: bool) -> str:
    """The same for a count of jobs."""
    if ended:
        return BY_END.get(ended, "cancelled")
    if leased:
        return "running"
    return "held" if state == "held" else "waiting"


def said(job: Job, now: int) -> str:
    """A job's state in a word or two."""
    shown, state = look(job, now), job.state.replace("-", " ")
    if shown in ("running", "retrying") and shown != state and job.holder:
        return f"{state}, {shown}"
    if shown == "retrying":
        return f"{state}, will be tried again"
    return state


def shown(number: int) -> str:
    """A job's or a batch's number; the name of one that is in a tree."""
    return tree.shown(number)


def name(job: Job) -> str:
    """What a person would call it."""
    given = job.payload
    for field in ("title", "filename", "name", "item", "action", "schedule"):
        if given.get(field):
            return str(given[field])
    return job.key or f"{job.kind} {job.id}"


def when(microseconds: int | None) -> str:
    if not microseconds:
        return ""
    return (EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M:%S")


def iso(microseconds: int | None) -> str:
    return (EPOCH + timedelta(microseconds=microseconds or 0)).isoformat(timespec="seconds").replace("+00:00", "Z")


def span(microseconds: float) -> str:
    """A length of time in its largest unit: "41 minutes"."""
    seconds = int(abs(microseconds) // 1_000_000)
    for size, unit in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{int(abs(microseconds) // 1000)} ms"


def ago(microseconds: int | None, now: int) -> str:
    if not microseconds:
        return ""
    if now - microseconds < 1_000_000:
        return "just now" if microseconds <= now + 1_000_000 else f"in {span(microseconds - now)}"
    return f"{span(now - microseconds)} ago"


def time(microseconds: int | None, now: int) -> Markup:
    """Relative, with the moment itself in the same place for those who hover or focus the row."""
    if not microseconds:
        return Markup("–")
    return Markup('<time datetime="{}"><span>{}</span> <span class="moment">{} UTC</span></time>').format(
        iso(microseconds), ago(microseconds, now), when(microseconds)
    )


def size(count: int | None) -> str:
    if count is None:
        return "–"
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{count} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return ""


def number(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def many(count: int, one: str, more: str = "") -> str:
    return f"{number(count)} {one if count == 1 else more or one + 's'}"


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, default=str)


def reason(event: Event) -> str:
    """What an event says besides its type."""
    detail = event.detail
    told = detail.get("reason") or detail.get("why") or detail.get("wait") or ""
    if told:
        return str(told)
    if detail.get("state") and event.subject.startswith("job/"):
        return f"now {detail['state']}"
    if isinstance(detail.get("facts"), Mapping):
        return f"kept {', '.join(detail['facts'])}"
    rest = {
        key: value
        for key, value in detail.items()
        if isinstance(value, str | int) and value != "" and key not in ("fingerprint", "folder", "place", "definition")
    }
    return ", ".join(f"{key} {str(value)[:80]}" for key, value in list(rest.items())[:4])


def subject_link(subject: str) -> Markup:
    """A subject of the history as a link to its page, where it has one."""
    sort, _, rest = subject.partition("/")
    pages = {"job": "/jobs/", "item": "/items/", "schedule": "/schedules/", "archive": "/archives/"}
    if sort not in pages:
        return Markup(escape(subject))
    return Markup('<a href="{}{}">{}</a>').format(pages[sort], quote(rest, safe=_SAFE), subject)


def path_quote(text: str) -> str:
    return quote(text, safe=_SAFE)


def address(path: str, query: Mapping[str, str], **changes: str | int | None) -> str:
    """The same page with some of its filters changed; the URL is the filter."""
    merged = {**dict(query), **{key: "" if value is None else str(value) for key, value in changes.items()}}
    kept = {key: value for key, value in merged.items() if value}
    return f"{quote(path, safe=_SAFE)}?{urlencode(kept)}" if kept else quote(path, safe=_SAFE)


@cache
def static_address() -> str:
    """Changes whenever a static file does, so that browsers may keep them for ever."""
    digest = hashlib.sha256()
    for file in sorted((resources.files("custody.web") / "static").iterdir(), key=lambda file: file.name):
        digest.update(file.read_bytes())
    return f"/static/{digest.hexdigest()[:12]}"


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "ago": ago,
    "time": time,
    "when": when,
    "iso": iso,
    "span": span,
    "size": size,
    "number": number,
    "many": many,
    "said": said,
    "name": name,
    "shown": shown,
    "pretty": pretty,
    "reason": reason,
    "subject": subject_link,
    "path_quote": path_quote,
    "who": name_of,
    "plain_words": lambda text: str(text).replace("-", " ").replace(".", " ").replace("_", " "),
}
