"""How all channels stand, and with which code a run ends: the same for the engine, Azure's queues, Temporal and shards.

0: all are whole, or were set aside by an operator's word. 1: somebody must look. 75: come again, only time is lacking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from custody.channels.blobs.port import Blobs
from custody.channels.condition.states import SET_ASIDE, Facts, State, damage_said, state_of
from custody.channels.context import CHANNEL, item_id, kept, number_of
from custody.channels.crawl.coverage import Coverage
from custody.channels.debts.debts import BLANK, DAMAGED, LOST, TORN, Debt, Debts
from custody.channels.discord import attachments
from custody.channels.files import fetch
from custody.channels.integrity import damage, expected
from custody.channels.messages import last_seen
from custody.channels.snowflake import HIGHEST
from custody.channels.table import Settings, Table
from custody.errors import CustodyError
from custody.kernel.model.item import Item
from custody.kernel.model.job import Filter, Job
from custody.kernel.stores import Store

HURT = (DAMAGED, TORN, LOST)
AGAIN = 75  # what a shell calls a temporary failure


@dataclass(frozen=True, slots=True)
class Standing:
    item: Item
    state: State

    def __str__(self) -> str:
        return f"{self.item.detail.get('title', self.item.id)} ({number_of(self.item)}): {self.state.sentence}"


def standing_of(store: Store, blobs: Blobs, item: Item, jobs: Iterable[Job] = ()) -> Standing:
    """One channel, from its item, its marks and what is asked of it."""
    return Standing(item, state_of(_facts(store, blobs, item, jobs)))


def _facts(store: Store, blobs: Blobs, item: Item, jobs: Iterable[Job] = ()) -> Facts:
    asked, detail = list(jobs), item.detail
    coverage, debts, unread = marks_of(blobs, number_of(item))
    gone = next(iter(expected.lacking(store, blobs, number_of(item)).values()), None)
    return Facts(
        item.detail,
        coverage,
        store.now(),
        failed=[job.id for job in asked if job.ended == "failed"],
        busy=any(job.ended is None for job in asked),
        owed=sum(debt.why not in HURT for debt in debts),
        damaged=sum(debt.why in (DAMAGED, TORN) for debt in debts),
        lost_parts=sum(debt.why == LOST for debt in debts),
        unread=unread or (f"{gone.where}: {gone.detail}" if gone else ""),
        wanted=int(detail.get(fetch.LEFT) or 0),
        lost=int(detail.get(fetch.LOST) or 0),
        foreign=int(detail.get(attachments.FOREIGN) or 0),
        no_intent=bool(item.detail.get("no_intent")),
        blank=sum(debt.why == BLANK for debt in debts),
    )


def hurt_of(store: Store, blobs: Blobs, channel: int, low: int = 0, high: int = HIGHEST) -> str:
    """What is known to be damaged of these messages, or may be lost, in the words of `why`; empty if nothing is."""
    item = store.records.item(item_id(channel))
    said = damage_said(_facts(store, blobs, item))
    if not said or item.detail.get(damage.DAMAGE):  # how far that goes is not known yet
        return said
    _, debts, unread = marks_of(blobs, channel)
    touched = any(debt.why in HURT and debt.low <= high and low <= debt.high for debt in debts)
    return said if touched or unread or expected.lacking(store, blobs, channel) else ""


LACKING = frozenset({"no-intent", "not-added", "failing", "hidden", "token", "gaps", "owed"})


def lack_of(store: Store, blobs: Blobs, channel: int) -> tuple[str, int]:
    """What is known not to be here of a channel, in words, and the code that says so: 75 if only time is lacking.

    What cannot be seen any more is whole as far as it was seen, and what is damaged is told by whoever reads it.
    """
    item = store.records.item(item_id(channel))
    jobs = [job for job in store.queue.every(Filter(kind=f"{CHANNEL}/*", lane=str(channel))) if job.ended == "failed"]
    state = standing_of(store, blobs, item, jobs).state
    trouble = (item.detail.get("trouble") or {}).get("what") == "failing"
    if not item.detail.get("round") and not marks_of(blobs, channel)[0].upto:
        fruitless = state.alarming or state.word in SET_ASIDE
        return f"it was never synced: {state.sentence}", 1 if fruitless else AGAIN
    if state.word not in LACKING and not (state.word == "behind" and trouble):
        return "", 0
    return state.sentence, 1 if state.alarming else AGAIN


def marks_of(blobs: Blobs, channel: int) -> tuple[Coverage, tuple[Debt, ...], str]:
    """How far a channel was shown, what is owed, and, where that cannot be read, why: that is nobody else's trouble."""
    coverage, debts, unread = Coverage(), tuple[Debt, ...](), ""
    try:
        coverage = Coverage.read(Table(blobs, channel, Settings()).mark)
    except CustodyError as error:
        unread = _told(error)
    try:
        debts = Debts.read(last_seen.of(blobs, channel).mark).open()
    except CustodyError as error:
        unread = unread or _told(error)
    return coverage, debts, unread


def _told(error: CustodyError) -> str:
    """What is damaged; a store that does not answer is not, and is nobody's to excuse."""
    if not damage.is_damage(error):
        raise error
    return f"{error.where}: {error.message}" if error.where else error.message


def jobs_of(store: Store) -> Mapping[str, list[Job]]:
    """What is asked of each channel, and what failed."""
    found: dict[str, list[Job]] = {}
    for job in store.queue.every(Filter(kind=f"{CHANNEL}/*")):
        found.setdefault(job.lane, []).append(job)
    return found


def all_standing(store: Store, blobs: Blobs) -> Iterator[Standing]:
    jobs = jobs_of(store)
    for item in kept(store):
        yield standing_of(store, blobs, item, jobs.get(str(number_of(item)), ()))


def told_before(store: Store, blobs: Blobs) -> dict[str, str]:
    """How each stands as a run begins, for its end."""
    return {one.item.id: one.state.known_as for one in all_standing(store, blobs)}


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run has to say, and its code."""

    code: int
    lines: tuple[str, ...]


def ending(
    found: Iterable[Standing],
    before: Mapping[str, str],
    finished: bool,
    failed: Iterable[Job] = (),
    strangers: Sequence[int] = (),
) -> Ending:
    """Judge how all channels stand after a run; `before` is how each stood when it began. Of strangers there are blobs
    that nobody knows here."""
    standings = [one for one in found if not one.item.detail.get("set_aside")]
    wrong = [one for one in standings if _is_wrong(one, before)]
    lines = [str(one) for one in wrong]
    orphans = [
        job for job in failed if job.ended == "failed" and f"channel/{job.lane}" not in {s.item.id for s in standings}
    ]
    lines += [
        f"job {job.id} ({job.kind} of {job.lane}) has ended as failed: `custody job show {job.id}`" for job in orphans
    ]
    if strangers:
        return Ending(1, (*lines, expected.said_of(strangers)))
    if lines:
        return Ending(1, (*lines, f"{len(lines)} of {len(standings) + len(orphans)} channels need somebody to look"))
    open_ = [one for one in standings if one.state.waits]
    if open_ or not finished:
        return Ending(AGAIN, (*map(str, open_), "stopped; the next run goes on"))
    aside = [str(one) for one in standings if one.state.word != "whole"]
    return Ending(0, (*aside, "everything else is up to date" if aside else "everything is up to date"))


def _is_wrong(one: Standing, before: Mapping[str, str]) -> bool:
    """What was set aside by an earlier run is known; what this run found is news."""
    state = one.state
    told = state.word in SET_ASIDE or (state.word == "files" and state.lost)
    return state.alarming or bool(told and before.get(one.item.id) != state.known_as)
