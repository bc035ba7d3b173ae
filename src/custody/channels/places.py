"""What a channel is, by what the service says of it: its kind, its server, the channel it is a thread of, its name.

Each of these is one answer's word and can be taken back by the next. A name is believed at once. A kind that makes us
ask for less, a forum, which has no messages of its own, or a thread, which is looked at with its parent, needs a second
witness first: the answer to another question, or to the same one ten minutes later. Until then it is asked as if it
might be either; a channel of which messages are kept is never taken for one without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from custody.channels import due, trust
from custody.channels.crawl import Coverage
from custody.channels.mirror import POSTS_ONLY, Mirror, described, kind_of, noted, number_of, parent_of
from custody.model.event import NewEvent
from custody.model.item import Item, NewItem

SURE: Final = "kind_sure"  # on an item: two witnesses have said what it is
SAID_BY: Final = "kind_said"  # by which question, and when, it was first said
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


def goes_with_its_parent(item: Item) -> bool:
    """Is it known, by two witnesses, to be a thread? Who is not sure asks the channel itself; of those that were found
    before anybody counted witnesses, their next round does."""
    return bool(parent_of(item)) and bool(item.detail.get(SURE) or not item.detail.get(SAID_BY))


def is_odd(about: Raw) -> bool:
    """Does an answer contradict itself: a thread by its kind and not by its facts, or the other way?"""
    kind, thread = kind_of(about), bool(about.get("thread_metadata"))
    return kind in KINDS and (kind in THREADS) != thread


def learn(mirror: Mirror, item: Item, about: Raw, by: str) -> Item:
    """Write down what an answer says of a channel; answers the item."""
    return _written(mirror, item, learnt(mirror, item, about, by))


def learnt(mirror: Mirror, item: Item, about: Raw, by: str) -> dict[str, Any]:
    """What an answer says otherwise than the item, and whether it is a second witness: facts for the item."""
    now, detail = mirror.store.now(), item.detail
    told = {name: value for name, value in described(about).detail.items() if name in (*PLACE, "title")}
    told["parent"] = "" if is_odd(about) else told.get("parent", "")
    if not about.get("name"):
        told.pop("title", None)
    if not about.get("guild_id"):  # lists do not always say it
        told.pop("guild", None)
    other = {name: value for name, value in told.items() if (detail.get(name) or _none(name)) != value}
    facts: dict[str, Any] = {}
    if any(name in other for name in PLACE):
        if _asks_less(item, other) and not _has_stood(detail, now):
            return {}  # one that changes its word with every answer is believed less often
        facts = {**other, SAID_BY: _said(by, now), SURE: False}
    elif not detail.get(SAID_BY):
        facts = {**other, SAID_BY: _said(by, now)}
    elif _needs_another(item) and not is_odd(about) and _is_another(detail, by, now):
        facts = {**other, **_made_sure(mirror, item)}
    elif other and _has_stood(detail, now):
        facts = {**other, SAID_BY: _said(by, now)}
    return facts


def refused(mirror: Mirror, item: Item) -> Item:
    """Messages were asked of what was said to have none, and the service says the same: another question's answer."""
    return _written(mirror, item, _made_sure(mirror, item))


def new(mirror: Mirror, about: Raw, by: str) -> NewItem:
    """The item of a channel that is new, by the first answer that tells of it."""
    item = described(about)
    aside = {"parent": ""} if is_odd(about) and "parent" in item.detail else {}
    return replace(item, detail={**item.detail, **aside, SAID_BY: _said(by, mirror.store.now()), SURE: False})


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
    """Only what makes us ask for less does."""
    return not item.detail.get(SURE) and (may_be_without(item) or bool(parent_of(item)))


def _is_another(detail: Mapping[str, Any], by: str, now: int) -> bool:
    question, at = detail[SAID_BY]
    return question != by or due.is_over(at, now, trust.APART)


def _has_stood(detail: Mapping[str, Any], now: int) -> bool:
    said = detail.get(SAID_BY)
    return not said or due.is_over(said[1], now, trust.APART)


def _asks_less(item: Item, other: Mapping[str, Any]) -> bool:
    less = other.get("kind") in POSTS_ONLY or bool(other.get("parent"))
    return less or not ({"kind", "parent"} & other.keys())


def _made_sure(mirror: Mirror, item: Item) -> dict[str, Any]:
    if may_be_without(item) and Coverage.read(mirror.table(number_of(item)).mark).upto:
        return {}  # messages of it are kept: no answer makes them never written
    return {SURE: True}


def _written(mirror: Mirror, item: Item, facts: Mapping[str, Any]) -> Item:
    if not facts:
        return item
    mirror.store.records.put((noted(number_of(item), **facts),), events_of(item, facts), "channels")
    return mirror.item(number_of(item)) or item


def events_of(item: Item, facts: Mapping[str, Any]) -> list[NewEvent]:
    """For the history: what is said otherwise."""
    changed = {name: [item.detail.get(name), facts[name]] for name in (*PLACE, "title") if name in facts}
    events = [NewEvent(item.id, "described otherwise", detail=changed)] if changed else []
    return events + (told_of(item.id, facts["kind"]) if "kind" in facts else [])
