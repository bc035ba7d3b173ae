"""What is done with a channel, a page at a time, whoever coordinates it: the engine, Azure's queues or Temporal.

Each page is written with its mark in one commit: whatever is killed when, the next worker reads the mark and goes on
behind it. What an archive has of a channel is always a contiguous beginning plus gaps that are written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from custody.channels import notes, places
from custody.channels.condition.refusals import REFUSALS, Hidden, NotMirrored, Unfit, files_wanted, not_added
from custody.channels.context import POSTS_ONLY, Context, Request, Told, item_id, noted, number_of
from custody.channels.crawl import close_looks, rounds, walk
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.kept import Kept, Live
from custody.channels.debts import payment
from custody.channels.discord import threads
from custody.channels.discord.client import RateLimited, WrongKind
from custody.channels.integrity import damage, expected
from custody.channels.messages import deletions
from custody.channels.removal import orders
from custody.channels.snowflake import HIGHEST, parse
from custody.channels.table import Table
from custody.errors import BadInput, Unavailable
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item

PHASES_KNOWN = 6
FORWARD, GAPS, BACK, AGAIN, OWED, SETTLE = range(PHASES_KNOWN)  # what a sync does; `SETTLE` comes after `BACK`
ROUND_PAGES = 20  # of a round through the whole channel, before what is new has its turn again
MANY = 10  # kept messages denied by one page: that is written down before anything else is done
NOTED_EVERY = 20  # pages, before what is held is compared with what the store knows, and noted there
MOST_TURNS = 3  # how often a sync begins anew because the newest page showed more


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one sync has come: numbers, which every queue can carry. What was fetched is not here but in the mark."""

    added: int = 0
    pages: int = 0
    newest_first: bool = False
    done: bool = False
    edited: int = 0
    marked: int = 0  # marks against messages that were not shown
    erased: int = 0
    phase: int = FORWARD
    below: int = HIGHEST + 1  # gaps from here on were tried in vain
    turns: int = 0
    round: int = 0  # pages of the round since what is new had its turn
    cursor: int = 0  # where the round stands
    denied: int = 0  # kept messages that it was denied so far
    rest: int = 0  # single messages are to be looked at before anything else is done
    more: int = 0  # the newest pages showed more than was known
    asked: int = 0  # questions so far
    fresh: int = 0  # nothing of it was kept when this began
    whole: int = 0  # the round goes on to its end; else some pages of it have their turn

    def counted(self) -> dict[str, int]:
        """As a letter or a workflow carries it."""
        return {name: int(getattr(self, name)) for name in COUNTED}

    @classmethod
    def read(cls, counted: Mapping[str, Any], newest_first: bool) -> Progress:
        """Raises BadInput for what nobody has counted: it comes from a queue."""
        given: dict[str, Any] = {name: _count(name, counted[name]) for name in COUNTED if name in counted}
        return cls(newest_first=newest_first, **given)


def _count(name: str, told: Any) -> int:
    """A whole number that a sync could have come to, or its digits."""
    most = PHASES_KNOWN - 1 if name == "phase" else HIGHEST + 1
    digits = isinstance(told, str) and told.isascii() and told.isdecimal() and len(told) < 20
    if type(told) is not int and not digits:
        told = -1
    if not 0 <= int(told) <= most:
        hint = "`custody channel sync` begins anew"
        raise BadInput(f"{name} is no number of a sync's progress", code="channel.progress", where=name, hint=hint)
    return int(told)


COUNTED = tuple(one.name for one in fields(Progress) if one.name not in ("newest_first", "done"))


# --- Adding ---


def add(mirror: Context, channel: int, newest_first: bool = False, ordered: bool = False) -> Told:
    """A channel is mirrored from now on. Adding a known one again is no news.

    One that is to be removed begins anew when that is over, if the store says that it is wanted again. One that was
    removed does not come back for a letter's word (`ordered`: it is the store's own).
    """
    known = mirror.item(channel)
    if known and orders.removal_of(known):
        return Told({"why": "it is being removed; if it was asked for since, it begins anew after that"})
    if known and known.detail.get("mirrored") in orders.GONE and not ordered and not orders.is_wanted_again(known):
        raise NotMirrored("it was removed, and nobody has asked for it since", where=item_id(channel))
    if known and known.detail.get("mirrored") == "yes":
        own = () if known.detail.get(places.BY_NUMBER) else (noted(channel, **{places.BY_NUMBER: True}),)
        return Told({"known": True, "name": known.detail.get("title", "")}, own)
    try:
        about = mirror.discord.channel(channel)
    except RateLimited:
        raise
    except (*REFUSALS, Unavailable) as refusal:
        return not_added(mirror, channel, known, refusal)
    item = places.new(mirror, about, places.CHANNEL)
    again = {name: "" for name in ("removed_with", orders.AGAIN) if known and known.detail.get(name)}
    item = replace(item, detail={**item.detail, places.BY_NUMBER: True, **again})
    name = str(item.detail["title"])
    if known and known.detail.get("trouble"):
        item = replace(item, detail={**item.detail, "trouble": {}})
    events = (NewEvent(item.id, "added", detail={"name": name}), *places.told_of(item.id, item.detail["kind"]))
    return Told({"name": name}, (item,), events, (Request("sync", channel, newest_first=newest_first),))


# --- Syncing ---


@damage.guarded
def page(mirror: Context, channel: int, table: Table, progress: Progress) -> Progress:
    """One step of a sync: a page forward, into a gap, back over the newest, or of the round through all of it."""
    item = still_mirrored(mirror, channel)
    if progress.pages % NOTED_EVERY == 0:
        damage.look(mirror, channel)
        expected.note(mirror.store, mirror.blobs, channel)
    if places.has_no_messages(item):
        return replace(progress, done=True)
    live, kept = Live(mirror, channel), Kept(mirror, channel, table)
    try:
        step = _closer if progress.rest else PHASES[progress.phase]
        after = step(mirror, item, live, kept, progress=progress)
    except walk.Silent as silence:
        close_looks.settle_at_once(mirror, item, live, kept, found=walk.Found())  # what an operator has spoken for
        raise Hidden("it shows no messages at all", where=item.id, hint="may the bot read its history?") from silence
    except (WrongKind, BadInput) as refusal:
        if not places.may_be_without(item) or damage.is_damage(refusal):
            raise
        places.refused(mirror, item)
        return replace(progress, done=True)
    except walk.Bad as bad:
        raise Unfit(f"a page is no answer: {bad}", where=item.id, hint="it is asked for again later") from bad
    finally:
        _note(mirror, item, kept)
    return replace(
        after,
        added=after.added + kept.added,
        edited=after.edited + kept.edited,
        marked=after.marked + kept.marked,
        pages=after.pages + 1,
        asked=after.asked + live.asked,
    )


def _forward(_: Context, __: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    if not kept.coverage.upto:
        progress = replace(progress, fresh=1)  # it is shown whole by this very crawl: no round is due before its time
    if progress.newest_first and not progress.pages:
        walk.asked(live, kept, before=HIGHEST)
        return replace(progress, phase=GAPS)
    return replace(progress, phase=GAPS) if walk.forward(live, kept) else progress


def _gaps(_: Context, __: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """The newest gap that was not tried in vain."""
    gap = next((gap for gap in reversed(kept.coverage.gaps) if gap.high <= progress.below), None)
    if gap is None:
        return replace(progress, phase=BACK)
    return progress if walk.into(live, kept, gap) else replace(progress, below=max(gap.low, 0))


def _back(mirror: Context, item: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """Over the newest again, and then closer at what is missing there."""
    known = kept.coverage
    close_looks.leave(mirror, item, walk.back(live, kept, mirror.look_back))
    return replace(progress, phase=SETTLE, rest=1, more=int(kept.coverage != known))


def _closer(mirror: Context, item: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """At some of the messages that pages have left out."""
    return progress if close_looks.look(mirror, item, live, kept) else replace(progress, rest=0)


def _settle(mirror: Context, item: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """Erase what is due. If more was shown than we knew, we are not done."""
    erased, more = close_looks.settle(mirror, item, live, kept)
    progress = replace(progress, erased=progress.erased + erased)
    if more:
        return progress
    if progress.more and progress.turns < MOST_TURNS:
        return replace(progress, phase=FORWARD, below=HIGHEST + 1, turns=progress.turns + 1)
    whole = rounds.is_due(mirror, item, kept.coverage)
    if not progress.fresh and (whole or rounds.has_a_turn(mirror, item, kept.coverage)):
        cursor, denied = rounds.place(mirror, item)
        return replace(progress, phase=AGAIN, round=0, cursor=cursor, denied=denied, whole=int(whole))
    return replace(progress, phase=OWED, cursor=0)


def _again(mirror: Context, item: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """A page of the round through the whole channel; what is new has its turn between."""
    found = walk.Found()
    there = rounds.step(live, kept, progress.cursor, found)
    denied = deletions.unspoken(item, kept, found.denied, live.now())
    progress = replace(progress, denied=progress.denied + len(denied))
    if found.suspects:
        close_looks.leave(mirror, item, found)
        progress = replace(progress, rest=1)
    if there == rounds.OVER:
        rounds.ended(mirror, item, progress.denied, whole=bool(progress.whole))
        return replace(progress, phase=OWED, cursor=0)
    most = ROUND_PAGES if progress.whole else mirror.round_pages
    stuck, often = there == progress.cursor, progress.round + 1 >= most
    if stuck or often or len(denied) > MANY:
        rounds.saved(mirror, item, there, progress.denied, whole=bool(progress.whole))
    if stuck:  # the service does not say what comes next: another sync will ask
        return replace(progress, done=True)
    if often and not progress.whole:  # it had its turn
        return replace(progress, phase=OWED, cursor=0)
    if often:
        return replace(progress, phase=FORWARD, below=HIGHEST + 1, turns=0, round=0)
    return replace(progress, round=progress.round + 1, cursor=there)


def _owed(mirror: Context, item: Item, live: Live, kept: Kept, progress: Progress) -> Progress:
    """A page of what has to be fetched again. A page that shows nothing pays nothing."""
    there = payment.step(mirror, number_of(item), live, kept, cursor=progress.cursor)
    return replace(progress, done=True) if there is None else replace(progress, cursor=there)


PHASES = (_forward, _gaps, _back, _again, _owed, _settle)


def _note(mirror: Context, item: Item, kept: Kept) -> None:
    """What came back though it was erased, what was mended, and what could not be read, once each."""
    events = [NewEvent(item.id, "came back", "warning", detail={"message": str(one)}) for one in kept.revived]
    if kept.mended:
        events.append(NewEvent(item.id, "mended", detail={"messages": [str(one) for one in kept.mended]}))
    unread = sorted(set(kept.unread))
    if unread and list(item.detail.get("unread", ())) != unread[:5]:
        events.append(NewEvent(item.id, "unreadable element", "warning", detail={"elements": unread[:5]}))
        mirror.store.records.put((noted(parse(item.id.removeprefix("channel/")), unread=unread[:5]),), (), "channels")
    if events:
        mirror.store.records.put((), events, "channels")


@damage.guarded
def ended(mirror: Context, channel: int, table: Table, progress: Progress) -> Told:
    """The present was reached, and looked at again: what is told of it, and its threads."""
    item, about = still_mirrored(mirror, channel), mirror.discord.channel(channel)
    learnt = places.learnt(mirror, item, about, places.CHANNEL)
    coverage = Coverage.read(table.mark)
    silent = not coverage.upto and coverage.behind(about.get("last_message_id"))
    if silent and about.get("type") not in POSTS_ONLY:
        raise Hidden(
            "it shows no messages at all, and names a last one", where=item.id, hint="may the bot read its history?"
        )
    found = threads.look(mirror, item, about)
    if progress.edited or progress.marked or progress.erased:
        expected.turned(mirror.seen(channel))
    expected.sign(mirror.store, mirror.blobs, channel)
    expected.note(mirror.store, mirror.blobs, channel)
    told = {
        "added": progress.added,
        "edited": progress.edited,
        "upto": str(coverage.upto),
        "gaps": len(coverage.gaps),
        **({"not shown": progress.marked} if progress.marked else {}),
        **({"erased": progress.erased} if progress.erased else {}),
        **found.detail,
    }
    facts = {"archived": bool((about.get("thread_metadata") or {}).get("archived")), "mirrored": "yes"}
    first = bool(progress.fresh) or not rounds.told(item)  # the crawl that fetched all of it was a round
    facts |= {"round": {"ended": mirror.stamp()}} if first else {}
    last = about.get("last_message_id")
    facts |= {"hint": str(last)} if coverage.behind(last) else {}  # it names one that nobody shows: no news
    facts |= {"trouble": {}} if item.detail.get("trouble") else {}
    now = mirror.store.now()
    mirror.notes.put(channel, **{notes.LOOKED: now}, **({notes.TURN: now} if first else {}))
    changed = {name: value for name, value in facts.items() if (item.detail.get(name) or False) != value} | learnt
    items, events = [*found.items], [*found.events, *places.events_of(item, learnt)]
    if changed:
        items.append(noted(channel, **changed))
    if item.detail.get("mirrored") != "yes":
        events.append(NewEvent(item.id, "readable again"))
    if progress.added or progress.edited or progress.marked or progress.erased or found.events:
        events.append(NewEvent(item.id, "synced", detail=told))
    return Told(told, tuple(items), tuple(events), (*found.requests, *files_wanted(mirror, channel)))


def still_mirrored(mirror: Context, channel: int) -> Item:
    item = mirror.item(channel)
    if item is None or item.detail.get("mirrored") in ("removing", "removed"):
        raise NotMirrored("it is not mirrored", where=item_id(channel), hint="`custody channel add` it")
    return item


# --- One message ---


@damage.guarded
def review(mirror: Context, channel: int, message: int) -> Told:
    """Look at one message again: shown, it is brought up to date; denied, that is one mark against it."""
    item = still_mirrored(mirror, channel)
    damage.look(mirror, channel)
    live, kept = Live(mirror, channel), Kept(mirror, channel)
    at = live.now()
    answer, raw = live.message(message)
    if raw is not None:
        kept.shown(raw, at)
        _note(mirror, item, kept)
        expected.note(mirror.store, mirror.blobs, channel)
        event = NewEvent(item.id, "message reviewed", detail={"message": str(message)})
        return Told({"gone": False}, events=(event,), requests=files_wanted(mirror, channel))
    found = walk.back(live, kept, 1)
    found.suspects = {message} if message in kept.kept(message - 1, message + 1) else set()
    walk.closer(live, kept, found)
    erased = close_looks.settle_at_once(mirror, item, live, kept, found=found)
    doubt = kept.doubt(message)
    gone = doubt.confirmed() is not None or bool(kept.erased([message]))
    told = {"message": str(message), "answer": answer or "none", "gone there": gone, "erased here": erased}
    return Told({"gone": gone}, events=(NewEvent(item.id, "message not shown", detail=told),))
