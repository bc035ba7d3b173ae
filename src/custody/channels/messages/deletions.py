"""What becomes here of messages that are gone there: kept, unless somebody decided otherwise, and never many at once.

A message is gone there by two witnesses (`trust.Doubt.confirmed`). Erasing it here is the only act that cannot be taken
back, so it needs a policy that says so, its time, room under the brake, and three more refusals just before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from custody.channels import places
from custody.channels.context import Context, channels, item_id, noted, number_of
from custody.channels.crawl import rounds, trust, walk
from custody.channels.crawl.kept import Kept, Live
from custody.errors import BadInput
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem

DAY = 86_400 * 1_000_000
AT_ONCE = 100  # messages that are erased in one sync
EACH = 5  # and in one step of it: three looks at each


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done with a message that is gone there: nothing, or it is erased after so many days."""

    erases: bool = False
    days: float = 0.0

    @classmethod
    def read(cls, text: str, where: str = "") -> Policy:
        if text == "keep":
            return cls()
        if text == "tombstone":
            return cls(True)
        found = re.fullmatch(r"honour after (\d{1,4}) days?", text)
        if found is None:
            hint = "keep, tombstone, or honour after N days"
            raise BadInput(f"deleted is {text!r}", code="channel.deleted", where=where, hint=hint)
        return cls(True, float(found[1]))

    def __str__(self) -> str:
        return ("tombstone" if not self.days else f"honour after {self.days:.0f} days") if self.erases else "keep"


class Policies(Protocol):
    """What is configured: a mirror has it, and the configuration itself."""

    @property
    def deleted(self) -> str: ...

    @property
    def policies(self) -> Mapping[str, str]: ...


def policy_of(told: Policies, item: Item) -> Policy:
    """The channel's own, else its guild's, else the archive's. While one answer alone has named its guild, and guilds
    differ, nothing is erased."""
    number, guild = item.id.removeprefix("channel/"), str(item.detail.get("guild", ""))
    own = item.detail.get("deleted") or told.policies.get(number)
    said = own or told.policies.get(guild) or told.deleted
    unsure = not own and bool(told.policies) and not places.is_of_its_server(item)
    return Policy() if unsure else Policy.read(str(said), item.id)


def hidden_since(told: Policies, item: Item) -> int | None:
    """Messages that are gone there since a later moment than this are to be erased; None: none ever are."""
    return _moment(item.detail.get("disbelieved")) if policy_of(told, item).erases else None


def erased_from(told: Policies, item: Item, gone: str) -> str:
    """From when on a message that is gone there since then may be erased; empty if it never is."""
    policy, since = policy_of(told, item), trust.moment(gone)
    if not policy.erases or since <= _moment(item.detail.get("disbelieved")):
        return ""
    return trust.stamp(_due_at(policy, since, _moment(item.detail.get("believed"))))


@dataclass(frozen=True, slots=True)
class Settled:
    erased: int = 0
    waiting: int = 0  # kept back by the brake
    items: tuple[NewItem, ...] = ()
    events: tuple[NewEvent, ...] = ()


def settle(mirror: Context, item: Item, live: Live, kept: Kept, found: walk.Found) -> Settled:
    """Erase what is due, as far as the brake has room. An operator's word permits what was confirmed by then."""
    policy, number = policy_of(mirror, item), number_of(item)
    if not policy.erases:
        return _told(item, number, 0, 0)
    now, detail = live.now(), item.detail
    believed, kept_back = (_said(detail, name, now) for name in ("believed", "disbelieved"))
    confirmed = dict(kept.gone())
    gone = {one: since for one, since in confirmed.items() if since > kept_back}
    when = {one: _due_at(policy, since, believed) for one, since in gone.items()}
    due = [one for one, at in when.items() if at <= now]
    later = min((at for at in when.values() if at > now), default=None)
    then = trust.stamp(later) if later is not None else ""
    if not due:
        return _told(item, number, 0, 0, then=then)
    permitted = [one for one in due if gone[one] <= believed]
    braked = [one for one in due if gone[one] > believed]
    if braked:
        settled = confirmed.keys() - gone.keys()  # an operator has set them to be kept: they are no news
        doubted = {one for one in {*found.denied, *gone} - settled if gone.get(one, now) > believed}
        in_round = rounds.denied(mirror, item, max(believed, kept_back))
        room = _room(mirror, item, kept.count(), max(len(doubted), in_round), now=now)
        permitted += braked[:room]
        braked = braked[room:]
    batch = found.due = permitted[:AT_ONCE]
    kept.take_out_copies(batch)
    if counted := sum(gone[one] > believed for one in batch):
        _take(mirror, item, counted, now)
    if len(permitted) > AT_ONCE:
        then = trust.stamp(now)
    return _told(item, number, _some(live, kept, found), len(braked), then=then)


def unspoken(item: Item, kept: Kept, denied: Iterable[int], now: int) -> set[int]:
    """Of kept messages that a page denies, those that no operator has set to be kept."""
    ids, kept_back = set(denied), _said(item.detail, "disbelieved", now)
    gone = kept.confirmed(ids)
    return {one for one in ids if gone.get(one, now) > kept_back}


def _due_at(policy: Policy, since: int, believed: int) -> int:
    """When it may be erased. Looks of one sitting share their hour: the last ones come ten minutes after it was
    confirmed at the least, unless an operator has spoken."""
    grace = int(policy.days * DAY)
    return since + (grace if since <= believed else max(grace, trust.APART))


def go_on(item: Item, live: Live, kept: Kept, found: walk.Found) -> Settled:
    """The next ones of those that were due."""
    erased = _some(live, kept, found)
    return Settled(erased, events=(_erased(item, erased),) if erased else ())


def _some(live: Live, kept: Kept, found: walk.Found) -> int:
    some, found.due = found.due[:EACH], found.due[EACH:]
    return len(walk.erase(live, kept, some, found.witness)) if some else 0


def _room(mirror: Context, item: Item, kept: int, denied: int, now: int) -> int:
    """How many may be erased now without an operator's word."""
    if denied > trust.most_denied(kept):
        return 0
    guild = [one for one in channels(mirror.store) if one.detail.get("guild") == item.detail.get("guild")]
    of_guild = trust.guild_quota(kept * max(1, len(guild))) - sum(_today(one.detail, now) for one in guild)
    return max(0, min(trust.quota(kept) - _today(item.detail, now), of_guild))


def _take(mirror: Context, item: Item, count: int, now: int) -> None:
    """The quota is taken before: a crash makes us count too many, never too few. A word needs none."""
    taken = {"since": trust.stamp(now), "count": _today(item.detail, now) + count}
    mirror.store.records.put((noted(number_of(item), erasing=taken),), (), "deletions")


def _today(detail: Mapping[str, Any], now: int) -> int:
    told = detail.get("erasing")
    told = told if isinstance(told, Mapping) else {}
    return int(told.get("count", 0)) if now - DAY < _moment(told.get("since")) <= now + DAY else 0


def _said(detail: Mapping[str, Any], word: str, now: int) -> int:
    """Up to when an operator has spoken. A word is about what was confirmed by then: none is about the future."""
    upto = _moment(detail.get(word))
    return upto if upto <= now else -1


def _moment(text: Any) -> int:
    return trust.moment(str(text)) if text else -1


def _told(item: Item, number: int, erased: int, waiting: int, then: str = "") -> Settled:
    """What is noted: how many the brake keeps back, and when the next one is due."""
    facts = {"brake": waiting, "erase_at": then}
    changed = {name: value for name, value in facts.items() if (item.detail.get(name) or type(value)()) != value}
    items = (noted(number, **changed),) if changed else ()
    events: tuple[NewEvent, ...] = ()
    if erased:
        events += (_erased(item, erased),)
    if waiting and not item.detail.get("brake"):
        events += (NewEvent(item.id, "brake", "warning", detail={"messages": waiting}),)
    return Settled(erased, waiting, items, events)


def _erased(item: Item, count: int) -> NewEvent:
    return NewEvent(item.id, "erased", detail={"messages": count})


# --- What an operator says ---


def is_silent(item: Item) -> bool:
    """Did the last look see nothing of it, or not even itself?"""
    trouble = item.detail.get("trouble")
    return isinstance(trouble, Mapping) and trouble.get("what") in ("hidden", "gone")


def believed(kept: Kept, upto: int) -> list[int]:
    """The messages that a word up to this moment is about."""
    return [one for one, since in kept.gone() if since <= upto]


def say(mirror: Context, channel: int, *, upto: int, why: str, who: str, word: str, count: int) -> None:
    """Write down that what was confirmed by then is believed, or is to be kept for ever."""
    event = NewEvent(item_id(channel), word, detail={"up to": trust.stamp(upto), "messages": count, "why": why})
    now = trust.stamp(mirror.store.now())
    mirror.store.records.put((noted(channel, erase_at=now, **{word: trust.stamp(upto)}),), (event,), who)
