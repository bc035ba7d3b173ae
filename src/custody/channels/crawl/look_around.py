"""Looking around: which channels have something new, and which are due for a look though they say nothing.

Each channel stands for itself. One that cannot be asked is told so, on its own item and with the time of its next try,
and the others are looked at all the same; only a refused token is everybody's. A quiet channel says nothing of edits,
deletions and reactions: so each is looked at again every `look_hours`, the newest pages and some of its past in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from custody.channels import notes, places
from custody.channels.condition import refusals, states
from custody.channels.context import (
    ASKED,
    THREADED,
    Context,
    Request,
    What,
    kept,
    mirrored,
    noted,
    number_of,
    parent_of,
)
from custody.channels.crawl import due, rounds, trust
from custody.channels.crawl.coverage import Coverage
from custody.channels.debts import payment, unseen_content
from custody.channels.discord import threads
from custody.channels.discord.client import BadToken, Gone, RateLimited, Unreadable
from custody.channels.files import fetch
from custody.channels.integrity import damage
from custody.channels.snowflake import parse
from custody.errors import CustodyError
from custody.kernel.model.item import Item

HOUR = 3_600 * 1_000_000
MOST_QUIET = 500  # channels that are looked at in one go though they say nothing; the longest unseen first

DUE_BY_ITEM = {  # a time on the item; why it is looked at then, and how far off that can be
    "look_again": ("some messages were not shown", trust.APART),
    "erase_at": ("some are to be erased", 10_000 * 24 * HOUR),
    payment.OWED_AT: ("something is owed", 6 * HOUR),
}


def around(mirror: Context, anew: bool = False) -> list[Request]:
    """One question per channel; one per guild for all its threads. `anew`: also where a pause is not over yet."""
    found, quiet, guilds = fetch.due(mirror), list[Item](), dict[int, list[Item]]()
    _told_of_file(mirror)
    try:
        for item in kept(mirror.store):
            asked = _by_itself(mirror, item, anew)
            found += asked
            if item.detail.get("mirrored") == "yes":
                guilds.setdefault(parse(str(item.detail.get("guild") or 0)), []).append(item)
                quiet += [] if asked else [item]
        for guild, items in guilds.items():
            found += _threads_of(mirror, guild, items) if guild else []
    except BadToken as refusal:
        _refused(mirror, refusal)
        return []
    known = {request.channel for request in found}
    return found + _unseen(mirror, [item for item in quiet if number_of(item) not in known])


def _by_itself(mirror: Context, item: Item, anew: bool) -> list[Request]:
    """What one channel's look comes to. Its trouble is written down, and is nobody else's."""
    try:
        return _looked_at(mirror, item, anew)
    except BadToken:
        raise
    except RateLimited:  # its sync waits for the limit, and is seen waiting
        return [Request("sync", number_of(item), why="it could not be asked yet")]
    except CustodyError as trouble:
        if damage.is_damage(trouble):  # its sync mends what it can
            return [Request("sync", number_of(item), why="it is damaged here")]
        refusals.stumbled(mirror, number_of(item), trouble)
        return []


def _looked_at(mirror: Context, item: Item, anew: bool) -> list[Request]:
    trouble = item.detail.get("trouble") or {}
    if request := _due_anyway(mirror, item):
        return [request]
    pausing = bool(trouble) and not anew
    if item.detail.get("mirrored") != "yes" or places.goes_with_its_parent(mirror, item) or pausing:
        return []
    requests = _asked(mirror, item)
    if trouble and not any(one.channel == number_of(item) for one in requests):
        requests.append(Request("sync", number_of(item), why="it answers again"))
    return requests


def _due_anyway(mirror: Context, item: Item) -> Request | None:
    """Whatever the channel says of itself: a second try, a second witness, or its round is due."""
    now, channel, trouble = mirror.store.now(), number_of(item), item.detail.get("trouble") or {}
    what: What = "add" if item.detail.get("mirrored") == ASKED else "sync"
    if trouble:
        waits, by = trouble.get("what") == "token", trouble.get(refusals.TOKEN)
        if not mirror.discord.dead and (waits or (by and by != mirror.discord.token_mark)):
            return Request(what, channel, why="there is another token")
        again = states.is_due(trouble, now)
        return Request(what, channel, why=f"tried again: {trouble.get('what')}") if again else None
    if item.detail.get("mirrored") != "yes" or places.has_no_messages(item):
        return None
    for name, (why, within) in DUE_BY_ITEM.items():
        if (then := item.detail.get(name)) and due.has_come(then, now, within):
            return Request("sync", channel, why=why)
    if item.detail.get(unseen_content.NO_INTENT) and unseen_content.sees_content(mirror):
        return Request("sync", channel, why="its content may be seen now")
    if rounds.is_due(mirror, item, Coverage.read(mirror.table(channel).mark)):
        return Request("sync", channel, why="every message is to be seen again")
    return None


def _asked(mirror: Context, item: Item) -> list[Request]:
    """What the channel says of itself."""
    channel = number_of(item)
    try:
        about = mirror.discord.channel(channel)
    except (Gone, Unreadable):
        return [Request("sync", channel, why="it cannot be seen any more")]
    item = places.learn(mirror, item, about, places.CHANNEL)
    found = list[Request]()
    if threads.is_due(mirror, item) or threads.hinted(mirror, about):
        told = threads.look(mirror, item, about, active=False)  # the guild's list is asked for once, for all
        if told.items or told.events:
            mirror.store.records.put(told.items, told.events, "watch")
        found = [*told.requests]
    if places.has_no_messages(item):  # its last message is a thread
        return found
    last = about.get("last_message_id")
    news = Coverage.read(mirror.table(channel).mark).behind(last) and str(last) != item.detail.get("hint")
    return [*found, Request("sync", channel, why="it says it has something new")] if news else found


def _threads_of(mirror: Context, guild: int, items: Sequence[Item]) -> list[Request]:
    """Threads with something new, those that are new, and those that went out of sight: archived, or deleted.

    A list that cannot be had is told on the channels whose threads it would have named.
    """
    try:
        active = mirror.discord.active_threads(guild)
    except (Gone, Unreadable):
        return []
    except BadToken:
        raise
    except RateLimited as limit:
        return _unlisted(mirror, items, limit)
    except CustodyError as trouble:
        return _unlisted(mirror, items, trouble)
    parents = {number_of(item) for item in mirrored(mirror.store)}
    told = threads.news(mirror, [one for one in active if one.get("parent_id") and parse(one["parent_id"]) in parents])
    if told.items or told.events:
        mirror.store.records.put(told.items, told.events, "watch")
    known = {number_of(item) for item in items if parent_of(item) and not item.detail.get("archived")}
    vanished = known - {parse(thread["id"]) for thread in active}
    return [*told.requests, *(Request("sync", one, why="it is no longer active") for one in sorted(vanished))]


def _unlisted(mirror: Context, items: Iterable[Item], trouble: CustodyError) -> list[Request]:
    for item in items:
        if not parent_of(item) and item.detail.get("kind") in THREADED and not item.detail.get("trouble"):
            refusals.stumbled(mirror, number_of(item), trouble)
    return []


def _unseen(mirror: Context, items: Sequence[Item]) -> list[Request]:
    """Quiet channels whose last look is longer ago than it should be, the longest first and not too many at once.

    Nobody edits in an archived thread, so rounds are enough for those.
    """
    period, now = int(mirror.look_hours * HOUR), mirror.store.now()
    if not period:
        return []
    looked = {one: told.get(notes.LOOKED, 0) for one, told in mirror.notes.every().items()}
    late = [
        (looked.get(number_of(item), 0), number_of(item))
        for item in items
        if not places.is_archived(item)
        and not item.detail.get("trouble")
        and not places.has_no_messages(item)
        and due.is_over(looked.get(number_of(item)), now, period)
    ]
    return [Request("sync", channel, why="it was quiet for long") for _, channel in sorted(late)[:MOST_QUIET]]


def _told_of_file(mirror: Context) -> None:
    """Who waits for another token is told what is wrong with its file by now, and not what was wrong with the last."""
    if not (said := mirror.discord.spoilt[: states.MOST_SAID]):
        return
    for item in kept(mirror.store):
        trouble = item.detail.get("trouble") or {}
        if trouble.get("what") == "token" and trouble.get("said") != said:
            mirror.store.records.put((noted(number_of(item), trouble={**trouble, "said": said}),), (), "watch")


def _refused(mirror: Context, refusal: BadToken) -> None:
    """The token is everybody's: all that is mirrored waits for another."""
    for item in mirrored(mirror.store):
        if (item.detail.get("trouble") or {}).get("what") != "token":
            told = refusals.set_aside(mirror, number_of(item), refusal)
            mirror.store.records.put(told.items, told.events, "watch")
