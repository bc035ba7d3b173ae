"""An item's whole history: its own events, and those of the jobs and the other items that they name.

The applications do not know each other; they meet in what events say. An event that names a job, or a revision of
an archive, leads on to what happened there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from custody.errors import NotFound
from custody.kernel.access.caller import Caller
from custody.kernel.model.event import Event
from custody.kernel.stores import Store

MOST_SUBJECTS = 25
DEPTH = 3  # an object, the revision that a robot made of it, the tasks of that revision
MOST_EVENTS = 300
QUIET = frozenset({"kept"})
Related = Callable[[Event], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Chapter:
    """A subject that the story leads to, and which event named it."""

    subject: str
    title: str
    depth: int
    events: Sequence[Event]


def chapters(
    store: Store, caller: Caller, item: str, events: Sequence[Event], related: Sequence[Related] = ()
) -> Sequence[Chapter]:
    """The item itself first, then what its events lead to, nearest first; applications say what theirs lead to."""
    found = [Chapter(f"item/{item}", "the item itself", 0, events)]
    seen, at = {f"item/{item}"}, 0
    while at < len(found) and len(found) < MOST_SUBJECTS:
        here = found[at]
        at += 1
        for subject in _named(here.events, related) if here.depth < DEPTH else ():
            if subject not in seen and len(found) < MOST_SUBJECTS:
                seen.add(subject)
                chapter = _chapter(store, caller, subject, here.depth + 1)
                found += [chapter] if chapter else []
    return found


def merged(found: Sequence[Chapter]) -> Sequence[Event]:
    """All of it in the order in which it happened."""
    every = [event for chapter in found for event in _told(chapter)]
    return sorted(every, key=lambda event: event.id)[-MOST_EVENTS:]


def _told(chapter: Chapter) -> Sequence[Event]:
    """Of a job only how it began, how it stands and what went wrong: its own page has every step."""
    if not chapter.subject.startswith("job/"):
        return chapter.events
    moves = [event for event in chapter.events if event.type not in QUIET]
    return [event for event in moves if event in (moves[0], moves[-1]) or event.outcome in ("failure", "warning")]


def _named(events: Sequence[Event], related: Sequence[Related]) -> Iterator[str]:
    """Subjects that these events lead to."""
    for event in events:
        detail = event.detail
        if isinstance(detail.get("job"), int):
            yield f"job/{detail['job']}"
        for leads in related:
            yield from leads(event)
        for name in ("item", "source", "derived"):
            if isinstance(detail.get(name), str):
                yield f"item/{detail[name]}"


def _chapter(store: Store, caller: Caller, subject: str, depth: int) -> Chapter | None:
    """None for what is not there, or not the caller's to see."""
    sort, _, rest = subject.partition("/")
    try:
        if sort == "job":
            job = caller.must_see(store.queue.get(int(rest)))
            title = f"{job.kind}{f' {job.task}' if job.task else ''}"
        else:
            item = store.records.item(rest)
            if not caller.sees(item.collection):
                return None
            title = " ".join(sorted(item.types)) or "item"
    except NotFound:
        return None
    return Chapter(subject, title, depth, store.records.events(subject, limit=MOST_EVENTS))
