"""What a channel is, by what the service says of it: its kind, its server, the channel it is a thread of, its name.

Each of these is one answer's word and can be taken back by the next. A name is believed at once. A kind that makes us
ask for less, a forum, which has no messages of its own, or a thread, which is looked at with its parent, needs a second
witness first: the answer to another question, or to the same one ten minutes later, and one of them its own answer:
lists speak of many, and one that lied had a channel deleted as a thread. Until then it is asked as if it might be
either; a channel of which messages are kept is never taken for one without. A server, which may have a policy of its
own, stays until another is said twice. What is not sure decides nothing that loses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from custody.channels import notes
from custody.channels.context import POSTS_ONLY, Context, described, kind_of, noted, number_of, parent_of
from custody.channels.crawl import due, trust
from custody.channels.crawl.coverage import Coverage
from custody.channels.snowflake import HIGHEST
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.stores import Store

SURE: Final = "kind_sure"  # on an item: which two questions have said what it is; `true`: of an earlier version
SAID_BY: Final = "kind_said"  # by which question, and when, it was first said
BY_NUMBER: Final = "by_number"  # somebody has added it by its own number: nobody's removal takes it along
GUILD_SURE: Final = "guild_sure"  # false: one answer has named its server; those of before are sure
PLACE: Final = ("kind", "guild", "parent")
LIST, CHANNEL, MESSAGES = "list", "channel", "messages"  # questions that say what a channel is
KINDS: Final = frozenset(range(6)) | frozenset(range(10, 17))  # those that have a name today
THREADS: Final = frozenset({10, 11, 12})

Raw = Mapping[str, Any]


def has_no_messages(item: Item) -> bool:
    """Is it known, by two witnesses, to have nothing but threads?"""
    return item.detail.get("kind") in POSTS_ONLY and bool(item.detail.get(SURE))


def may_be_without(item: Item) -> bool:
    """Was it said to have nothing but threads, be it by one answer?"""
    return item.detail.get("kind") in POSTS_ONLY


def goes_with_its_parent(mirror: Context, item: Item) -> bool:
    """Is it known, by two witnesses, to be a thread of a channel that is mirrored? Who is not sure asks the channel
    itself; of those that were found before anybody counted witnesses, their next round does."""
    parent = mirror.item(parent_of(item)) if parent_of(item) else None
    listed = parent is not None and parent.detail.get("mirrored") == "yes"
    return listed and bool(item.detail.get(SURE) or not item.detail.get(SAID_BY))


def is_surely_under(item: Item, channel: int) -> bool:
    """Is it a thread of this channel by its own answer and a second witness?"""
    sure = item.detail.get(SURE)
    return parent_of(item) == channel and isinstance(sure, list | tuple) and CHANNEL in sure


def is_archived(item: Item) -> bool:
    """Is it surely a thread, and archived? Nobody writes there."""
    return bool(item.detail.get("archived") and parent_of(item) and item.detail.get(SURE))


def by_number(store: Store, item: Item) -> bool:
    """Has somebody added it by its own number? Of items of before the history knows; what it does not know, stays."""
    if item.detail.get(BY_NUMBER):
        return True
    added = [event for event in store.records.events(f"item/{item.id}") if event.type == "added"]
    return not added or not all(event.detail.get("thread") for event in added)


def is_of_its_server(item: Item) -> bool:
    """Is it sure to which server it belongs?"""
    return item.detail.get(GUILD_SURE) is not False


def is_odd(about: Raw) -> bool:
    """Does an answer contradict itself: a thread by its kind and not by its facts, or the other way?"""
    kind, thread = kind_of(about), bool(about.get("thread_metadata"))
    return kind in KINDS and (kind in THREADS) != thread


def learn(mirror: Context, item: Item, about: Raw, by: str) -> Item:
    """Write down what an answer says of a channel; answers the item."""
    return _written(mirror, item, learnt(mirror, item, about, by))


def learnt(mirror: Context, item: Item, about: Raw, by: str) -> dict[str, Any]:
    """What an answer says otherwise than the item, and whether it is a second witness: facts for the item."""
    now, detail = mirror.store.now(), item.detail
    told = {name: value for name, value in described(about).detail.items() if name in (*PLACE, "title")}
    told["parent"] = "" if is_odd(about) else told.get("parent", "")
    if not about.get("name"):
        told.pop("title", None)
    server = _server(mirror, item, str(about.get("guild_id") or ""), by)
    if detail.get("guild") or not about.get("guild_id"):  # lists do not always say it; another one must be said twice
        told.pop("guild", None)
    other = {name: value for name, value in told.items() if (detail.get(name) or _none(name)) != value}
    facts: dict[str, Any] = {}
    if any(name in other for name in PLACE):
        if _asks_less(item, other) and not _has_stood(detail, now):
            return server  # one that changes its word with every answer is believed less often
        facts = {**other, SAID_BY: _said(by, now), SURE: False}
    elif not detail.get(SAID_BY):
        facts = {**other, SAID_BY: _said(by, now)}
    elif _needs_another(item) and not is_odd(about) and _is_another(detail, by, now):
        facts = {**other, **_made_sure(mirror, item, by)}
    elif other and _has_stood(detail, now):
        facts = {**other, SAID_BY: _said(by, now)}
    return facts | server


def _server(mirror: Context, item: Item, said: str, by: str) -> dict[str, Any]:
    """What the channel's own answer says of its server: the same ten minutes later makes it sure, and so does another.

    That another was said is a note beside the item: whoever changes his word with each answer fills no history.
    """
    known, now, channel = str(item.detail.get("guild") or ""), mirror.store.now(), number_of(item)
    if by != CHANNEL or not said.isdecimal() or int(said) > HIGHEST:
        return {}
    if not known:
        return {GUILD_SURE: False}
    told = mirror.notes.of(channel)
    other, since = told.get(notes.GUILD, 0), told.get(notes.GUILD_SINCE, 0)
    if said == known:
        if other:
            mirror.notes.put(channel, **{notes.GUILD: 0})
        again = not is_of_its_server(item) and _has_stood(item.detail, now)
        return {GUILD_SURE: True} if again else {}
    if other != int(said):
        mirror.notes.put(channel, **{notes.GUILD: int(said), notes.GUILD_SINCE: now})
        return {}
    return {"guild": said, GUILD_SURE: True} if due.is_over(since, now, trust.APART) else {}


def refused(mirror: Context, item: Item) -> Item:
    """Messages were asked of what was said to have none, and the service says the same: another question's answer."""
    return _written(mirror, item, _made_sure(mirror, item, MESSAGES))


def new(mirror: Context, about: Raw, by: str) -> NewItem:
    """The item of a channel that is new, by the first answer that tells of it."""
    item = described(about)
    aside = {"parent": ""} if is_odd(about) and "parent" in item.detail else {}
    said = {SAID_BY: _said(by, mirror.store.now()), SURE: False, GUILD_SURE: False}
    return replace(item, detail={**item.detail, **aside, **said})


def told_of(item_id: str, kind: int) -> list[NewEvent]:
    """For the history: a kind that has no name here."""
    return [] if kind in KINDS else [NewEvent(item_id, "unknown kind", "warning", detail={"kind": kind})]


def sentence(item: Item) -> str:
    """What a reader should know of its kind; empty if that is nothing."""
    kind = item.detail.get("kind", 0)
    if item.detail.get("mirrored") == "yes" and kind not in KINDS:
        return f"its type, {kind}, is not known here: it is read like a channel that has messages"
    return ""


def _none(name: str) -> Any:
    return 0 if name == "kind" else ""


def _said(by: str, now: int) -> list[str]:
    return [by, trust.stamp(now)]


def _needs_another(item: Item) -> bool:
    """Only what makes us ask for less does; of a parent, that it was said by the channel itself."""
    known = parent_of(item)
    return (not item.detail.get(SURE) and (may_be_without(item) or bool(known))) or (
        bool(known) and not is_surely_under(item, known)
    )


def _is_another(detail: Mapping[str, Any], by: str, now: int) -> bool:
    question, at = detail[SAID_BY]
    return _are_two(question, by, at, now)


def _are_two(first: str, then: str, at: str, now: int) -> bool:
    """Are these two witnesses: two questions, or ten minutes apart, and one of them asked of the channel itself?"""
    return {first, then} != {LIST} and (first != then or due.is_over(at, now, trust.APART))


def _has_stood(detail: Mapping[str, Any], now: int) -> bool:
    said = detail.get(SAID_BY)
    return not said or due.is_over(said[1], now, trust.APART)


def _asks_less(item: Item, other: Mapping[str, Any]) -> bool:
    less = other.get("kind") in POSTS_ONLY or bool(other.get("parent"))
    return less or not ({"kind", "parent"} & other.keys())


def _made_sure(mirror: Context, item: Item, by: str) -> dict[str, Any]:
    if may_be_without(item) and Coverage.read(mirror.table(number_of(item)).mark).upto:
        return {}  # messages of it are kept: no answer makes them never written
    said = item.detail.get(SAID_BY)
    return {SURE: [said[0] if said else CHANNEL, by]}


def _written(mirror: Context, item: Item, facts: Mapping[str, Any]) -> Item:
    if not facts:
        return item
    mirror.store.records.put((noted(number_of(item), **facts),), events_of(item, facts), "channels")
    return mirror.item(number_of(item)) or item


def events_of(item: Item, facts: Mapping[str, Any]) -> list[NewEvent]:
    """For the history: what is said otherwise."""
    changed = {name: [item.detail.get(name), facts[name]] for name in (*PLACE, "title") if name in facts}
    events = [NewEvent(item.id, "described otherwise", detail=changed)] if changed else []
    return events + (told_of(item.id, facts["kind"]) if "kind" in facts else [])
