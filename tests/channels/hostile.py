"""A chat service that lies, forgets and repeats itself, and an archive in memory that walks through it.

The walks are the product's own (`custody.channels.crawl.walk`), and so is every judgement (`custody.channels.crawl.trust`). Times are
microseconds. After a hostile time comes a quiet one, in which the service is honest: what is then still wrong stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from custody.channels.crawl import trust, walk
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.trust import Ask, Doubt, Mark, Page, Raw, Span
from custody.channels.snowflake import HIGHEST

MINUTE = 60 * 1_000_000
CHANNEL = 7
FUTURE = 2**50  # ids of this simulation are far below


class Killed(Exception):
    """The worker died here."""


# --- What there is ---


@dataclass
class World:
    dice: random.Random
    live: dict[int, int] = field(default_factory=dict)  # the version of each message that is there
    ever: set[int] = field(default_factory=set)
    next: int = 10
    hidden: bool = False

    def post(self, count: int = 1) -> None:
        for _ in range(count):
            self.next += self.dice.randint(1, 9)
            self.live[self.next] = 1
            self.ever.add(self.next)

    def change(self) -> None:
        """Something happens in the channel."""
        what, ids = self.dice.random(), sorted(self.live)
        self.hidden = False
        if what < 0.45 or len(ids) < 4:
            self.post(self.dice.randint(1, 5))
        elif what < 0.60:
            self.live[self.dice.choice(ids)] += 1
        elif what < 0.66:
            del self.live[ids[-1]]
        elif what < 0.70:
            del self.live[ids[0]]
        elif what < 0.82:
            del self.live[self.dice.choice(ids)]
        elif what < 0.87:
            self._late()
        elif what < 0.90:
            first = self.dice.randrange(len(ids))
            for one in ids[first : first + self.dice.randint(2, 6)]:
                del self.live[one]
        elif what < 0.92:
            self.hidden = True

    def _late(self) -> None:
        """A message comes with an id below some that were there before."""
        one = self.next - self.dice.randint(1, 8)
        if one not in self.ever:
            self.live[one] = 1
            self.ever.add(one)

    def raw(self, one: int) -> dict[str, Any]:
        return {"id": str(one), "channel_id": str(CHANNEL), "content": "", "version": self.live[one]}

    def page(self, ask: Ask, denied: Span = (1, 0)) -> list[Any]:
        ids = [one for one in sorted(self.live) if ask.low < one < ask.high and not self.hidden]
        ids = [one for one in ids if not denied[0] <= one <= denied[1]]
        some = ids[: ask.limit] if ask.after is not None else ids[-ask.limit :]
        return [self.raw(one) for one in reversed(some)]


# --- How it lies ---

Lie = Callable[["Service", Ask, list[Any]], Any]


def _foreign(service: Service, ask: Ask, page: list[Any]) -> Any:
    return [{**one, "channel_id": "8"} for one in page]


def _elsewhere(service: Service, ask: Ask, page: list[Any]) -> Any:
    ids = sorted(service.world.live)
    return [service.world.raw(one) for one in service.dice.sample(ids, min(len(ids), ask.limit))]


def _former(service: Service, ask: Ask, page: list[Any]) -> Any:
    """Whatever was answered last, to whichever question."""
    return service.last


def _first(service: Service, ask: Ask, page: list[Any]) -> Any:
    """What was answered when this was asked for the first time."""
    return service.cache.get(ask, page)


def _insert(what: Callable[[Service], Any]) -> Lie:
    def lie(service: Service, ask: Ask, page: list[Any]) -> Any:
        at = service.dice.randint(0, len(page))
        return [*page[:at], what(service), *page[at:]][: ask.limit]

    return lie


def _odd(what: Any) -> Lie:
    return lambda service, ask, page: what


def _without(page: list[Any], lost: Iterable[int]) -> list[Any]:
    out = set(lost)
    return [one for at, one in enumerate(page) if at not in out]


LIES: dict[str, Lie] = {
    "empty": _odd([]),
    "one less, newest": lambda s, a, page: page[1:],
    "one less, oldest": lambda s, a, page: page[:-1],
    "one less, anywhere": lambda s, a, page: _without(page, [s.dice.randrange(max(1, len(page)))]),
    "half of it": lambda s, a, page: page[: len(page) // 2],
    "the other half": lambda s, a, page: page[len(page) // 2 :],
    "its newest alone": lambda s, a, page: page[:1],
    "its oldest alone": lambda s, a, page: page[-1:],
    "both ends alone": lambda s, a, page: page[:1] + page[-1:] if len(page) > 1 else page,
    "the last answer again": _former,
    "its first answer for ever": _first,
    "as if asked for nothing": lambda s, a, page: s.world.page(Ask(limit=a.limit)),
    "as if asked from the other side": lambda s, a, page: s.world.page(
        Ask(before=a.after + 2, limit=a.limit) if a.after is not None else Ask(after=max(a.high - 2, 0), limit=a.limit)
    ),
    "bounds with themselves": lambda s, a, page: s.world.page(
        Ask(after=a.after - 1, limit=a.limit) if a.after else Ask(before=a.high + 1, limit=a.limit)
    ),
    "more than asked for": lambda s, a, page: s.world.page(Ask(a.after, a.before, a.limit + 3)),
    "some at random": _elsewhere,
    "shuffled": lambda s, a, page: s.dice.sample(page, len(page)),
    "one twice": lambda s, a, page: (page + page[-1:])[: a.limit + 1],
    "all twice": lambda s, a, page: page + page,
    "another channel's": _foreign,
    "one of another channel": _insert(
        lambda s: {"id": str(s.world.next - 1), "channel_id": "8", "content": "", "version": 1}
    ),
    "not a list": _odd({"message": "what", "code": 0}),
    "nothing": _odd(None),
    "a number": _odd(7),
    "an element that is none": _insert(lambda s: None),
    "an element without an id": _insert(lambda s: {"channel_id": str(CHANNEL)}),
    "an id that is a word": _insert(lambda s: {"id": "seven"}),
    "an id beyond all": _insert(lambda s: {"id": str(2**63)}),
    "an id without end": _insert(lambda s: {"id": "9" * 5000}),
    "an id of the future": _insert(
        lambda s: {"id": str(2**62), "channel_id": str(CHANNEL), "content": "", "version": 1}
    ),
    "one of our own tombstones": _insert(lambda s: {"id": str(max(s.world.ever, default=9)), "deleted_at": "2026"}),
    "all unreadable": lambda s, a, page: [None for _ in page],
    "older versions": lambda s, a, page: [{**one, "version": 1} for one in page],
}

SINGLE = (
    "404 of one that is there",
    "404 of all",
    "404 without its code",
    "another message",
    "nothing at all",
    "an older version",
    "one that was deleted",
)


@dataclass
class Service:
    world: World
    dice: random.Random
    limit: int
    time: int = 0
    lying: float = 0.0
    lies: Sequence[str] = tuple(LIES)
    singles: Sequence[str] = SINGLE
    last: list[Any] = field(default_factory=list)
    cache: dict[Ask, list[Any]] = field(default_factory=dict)
    denied: Span = (1, 0)  # what it denies altogether, pages and single answers alike
    told: dict[str, int] = field(default_factory=dict)  # how often each lie was told
    asked: int = 0
    future: int = FUTURE

    def now(self) -> int:
        self.time += 1
        return self.time

    def page(self, after: int | None = None, before: int | None = None) -> Page:
        ask, at = Ask(after, before, self.limit), self.now()
        for _ in range(3):
            page = trust.judge(CHANNEL, ask, self.answer(ask), newest=self.future, at=at)
            if not page.bad:
                return page
        return page

    def answer(self, ask: Ask) -> Any:
        self.asked += 1
        honest = self.world.page(ask, self.denied)
        answer = self._lied(ask, honest) if self.dice.random() < self.lying else honest
        self.cache.setdefault(ask, honest)
        self.last = honest
        return answer

    def _lied(self, ask: Ask, honest: list[Any]) -> Any:
        name = self.dice.choice(self.lies)
        self.told[name] = self.told.get(name, 0) + 1
        return LIES[name](self, ask, honest)

    def message(self, one: int) -> tuple[str, Raw | None]:
        self.asked += 1
        there = one in self.world.live and not self.denied[0] <= one <= self.denied[1]
        raw = self.world.raw(one) if there and not self.world.hidden else None
        answer = ("200", raw) if raw else ("" if self.world.hidden else trust.NO_SUCH, None)
        if self.dice.random() >= self.lying or not self.singles:
            return answer
        name = self.dice.choice(self.singles)
        self.told[name] = self.told.get(name, 0) + 1
        if name == "404 of one that is there":
            return trust.NO_SUCH, None
        if name == "404 of all":
            self.denied = (0, HIGHEST)
            return trust.NO_SUCH, None
        if name == "one that was deleted" and one in self.world.ever:
            return "200", {"id": str(one), "channel_id": str(CHANNEL), "content": "", "version": 1}
        if name == "an older version" and raw:
            return "200", {**raw, "version": 1}
        return "", None


# --- What is kept ---


@dataclass
class Shelf:
    """An archive in memory. Every write is a join, or it is an erasure."""

    dice: random.Random
    killing: float = 0.0
    cover: tuple[Span, ...] = ()
    held: dict[int, int] = field(default_factory=dict)  # the newest version of each message
    doubts: dict[int, Doubt] = field(default_factory=dict)
    graves: dict[int, int] = field(default_factory=dict)  # erased when
    ever_erased: set[int] = field(default_factory=set)
    pages_revive: bool = False
    denied: int = 0  # kept messages that the last round was denied
    round: int = 0  # and this one so far

    def _dangerous(self) -> None:
        if self.dice.random() < self.killing:
            raise Killed

    @property
    def coverage(self) -> Coverage:
        return Coverage.of(self.cover)

    def keep(self, page: Page, spans: Sequence[Span]) -> None:
        self._dangerous()
        for one, raw in zip(page.ids, page.sights, strict=True):
            if one not in self.graves or self.pages_revive:
                self._hold(one, raw)
        self.cover = trust.cover(self.cover, *spans)
        self._dangerous()
        for one in page.ids:
            if one in self.doubts:
                self.doubts[one] = self.doubts[one].seen(page.at)

    def _hold(self, one: int, raw: Raw) -> None:
        self.graves.pop(one, None)
        self.held[one] = max(self.held.get(one, 0), raw["version"])

    def kept(self, low: int, high: int) -> Sequence[int]:
        return sorted(one for one in self.held if low < one < high)

    def erased(self, ids: Sequence[int]) -> list[int]:
        return [one for one in ids if one in self.graves]

    def doubt(self, one: int) -> Doubt:
        return self.doubts.get(one, Doubt())

    def confirmed(self, ids: Collection[int]) -> dict[int, int]:
        return {one: since for one in ids if (since := self.doubt(one).confirmed()) is not None}

    def mark(self, ids: Iterable[int], mark: Mark) -> None:
        self._dangerous()
        for one in ids:
            self.doubts[one] = self.doubt(one).marked(mark)

    def shown(self, raw: Raw, at: int) -> None:
        one = int(raw["id"])
        if self.graves.get(one, -1) < at:
            self._hold(one, raw)
            self.doubts[one] = self.doubt(one).seen(at)

    def erase(self, ids: Sequence[int]) -> None:
        for one in ids:
            self._dangerous()
            self.held.pop(one, None)
            self.graves[one] = 1
            self.ever_erased.add(one)
            self.doubts.pop(one, None)

    def gone(self) -> list[int]:
        return sorted(one for one in self.held if self.doubt(one).confirmed() is not None)


# --- One life ---


@dataclass
class Life:
    """What was wrong at the end of one seed, and what was done until then."""

    erased: int = 0
    falsely: int = 0  # erased here though the channel had it
    shrunk: int = 0  # kept no longer, and not erased
    unkept: int = 0  # shown at quiet and not kept
    stale: int = 0  # an older version than the channel's
    open: int = 0  # gaps that do not close
    false_marks: int = 0  # shown, and said to be gone
    missed: int = 0  # gone for long, and not known to be
    came_back: int = 0  # erased rightly, and here again
    strangers: int = 0  # kept, and never written in this channel
    boasts: int = 0  # steps after which the coverage said more than was kept
    slander: int = 0  # steps after which something was said to be gone that was there
    asked: int = 0
    told: dict[str, int] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        return self.falsely + self.shrunk + self.unkept + self.stale + self.open + self.false_marks + self.strangers


@dataclass
class Rules:
    """How this archive is run; each rule can be switched off to see what it is for."""

    policy: str = "keep"
    days: float = 0.0  # of grace
    witness: bool = True
    brake: bool = True
    pages_revive: bool = False
    apart: bool = True  # what erases comes some time after what confirms


def synced(service: Service, shelf: Shelf, rules: Rules, cursor: list[int], today: list[int]) -> None:
    """One sync as the product does it: forward, gaps, back, closer, erasures, and two pages of the round."""
    for _ in range(40):
        if walk.forward(service, shelf):
            break
    for gap in reversed(shelf.coverage.gaps):
        if not walk.into(service, shelf, gap):
            continue
    found = walk.back(service, shelf)
    _settle(service, shelf, rules, found, today)
    for _ in range(2):
        found = walk.Found()
        there = walk.again(service, shelf, cursor[0], found)
        shelf.round += len(found.denied)
        shelf.denied = max(shelf.denied, shelf.round)
        cursor[0] = there or 0
        if there is None:
            shelf.denied, shelf.round = shelf.round, 0
        _settle(service, shelf, rules, found, today)
        if there is None:
            break


def _settle(service: Service, shelf: Shelf, rules: Rules, found: walk.Found, today: list[int]) -> None:
    if not rules.witness:
        refused = [one for one in found.suspects if service.message(one)[0] == trust.NO_SUCH and one in shelf.held]
        shelf.mark(refused, (service.now(), trust.NO_SUCH, trust.NO_SUCH))
    else:
        walk.closer(service, shelf, found, most=12)
    if rules.policy == "keep" or (rules.witness and not found.witness):
        return
    room = trust.quota(len(shelf.held)) - today[0]
    gone = shelf.gone()
    if max(len((found.denied | set(gone)) & set(shelf.held)), shelf.denied) > trust.most_denied(len(shelf.held)):
        room = 0
    due = gone[: max(room, 0)] if rules.brake else gone
    since = {one: shelf.doubt(one).confirmed() or 0 for one in due}
    grace = max(rules.days * 1440 * MINUTE, trust.APART if rules.apart else 0)
    due = [one for one in due if since[one] + grace <= service.time]
    if not rules.witness:
        erased = [one for one in due if service.message(one)[0] == trust.NO_SUCH]
        shelf.erase(erased)
    else:
        erased = walk.erase(service, shelf, due, found.witness) if due else []
    today[0] += len(erased)


def live(
    seed: int,
    rules: Rules | None = None,
    *,
    large: bool = False,
    lies: Sequence[str] = tuple(LIES),
    singles: Sequence[str] = SINGLE,
    lying: Sequence[float] = (0.05, 0.2, 0.5),
) -> Life:
    """A hostile time and then a quiet one."""
    rules, dice = rules or Rules(), random.Random(seed)
    world, life = World(dice), Life()
    world.post(dice.randint(0, 40 if large else 12))
    service = Service(world, dice, limit=6 if large else 3, lies=lies, singles=singles)
    shelf = Shelf(dice, pages_revive=rules.pages_revive)
    cursor, today = [0], [0]
    paused: list[tuple[Page, Sequence[Span]]] = []
    for _ in range(40 if large else 18):
        service.time += dice.randint(1, 200) * MINUTE
        today[0] = 0 if dice.random() < 0.1 else today[0]
        service.lying, shelf.killing = dice.choice(lying), dice.choice((0.0, 0.02))
        service.denied = (1, 0)
        world.change()
        before, graves = set(shelf.held), set(shelf.graves)
        try:
            synced(service, shelf, rules, cursor, today)
        except (Killed, walk.Silent, walk.Bad):
            pass
        _late_writer(service, shelf, paused)
        lost = before - set(shelf.held)
        fresh = set(shelf.graves) - graves
        life.shrunk += len(lost - fresh)
        life.erased += len(fresh)
        life.falsely += len(fresh & set(world.live))
        life.slander += any(shelf.doubt(one).confirmed() is not None for one in set(shelf.held) & set(world.live))
        life.boasts += any(shelf.coverage.covers(one) for one in set(world.live) - set(shelf.held))
    _quiet(service, shelf, rules, cursor)
    return _judged(life, world, service, shelf)


def _late_writer(service: Service, shelf: Shelf, paused: list[tuple[Page, Sequence[Span]]]) -> None:
    """Somebody asked long ago and writes now."""
    killing, shelf.killing = shelf.killing, 0.0
    if paused and service.dice.random() < 0.3:
        shelf.keep(*paused.pop())
    shelf.killing = killing
    if service.dice.random() < 0.2:
        ask = Ask(before=HIGHEST, limit=service.limit)
        page = trust.judge(CHANNEL, ask, service.world.page(ask), newest=service.future, at=service.now())
        paused.append((page, page.spans()))


def _quiet(service: Service, shelf: Shelf, rules: Rules, cursor: list[int]) -> None:
    """Four honest rounds; nothing happens any more."""
    service.lying = shelf.killing = 0.0
    service.denied, service.world.hidden = (1, 0), False
    if not service.world.live:
        service.world.post(3)
    quiet = Rules(policy="keep")
    for _ in range(4):
        cursor[0] = 0
        for _ in range(60):
            service.time += 11 * MINUTE
            try:
                synced(service, shelf, quiet, cursor, [0])
            except (walk.Silent, walk.Bad):
                break
            if cursor[0] == 0:
                break


def _judged(life: Life, world: World, service: Service, shelf: Shelf) -> Life:
    life.strangers = len(set(shelf.held) - world.ever)
    life.unkept = len(set(world.live) - set(shelf.held))
    life.stale = sum(shelf.held.get(one, version) != version for one, version in world.live.items())
    life.open = len(shelf.coverage.gaps)
    life.false_marks = sum(shelf.doubt(one).confirmed() is not None for one in world.live)
    life.missed = sum(shelf.doubt(one).confirmed() is None for one in set(shelf.held) - set(world.live))
    life.came_back = sum(one in shelf.held for one in shelf.ever_erased - set(world.live))
    life.asked, life.told = service.asked, service.told
    return life


# --- Lies of one kind ---


def mass(rules: Rules, share: float) -> tuple[int, int]:
    """400 messages are kept; then part of them is denied, pages and single answers alike, for two days.

    Answers how many were erased, and how many are kept at the end.
    """
    dice = random.Random(1)
    world = World(dice)
    world.post(400)
    service, shelf, today, cursor = Service(world, dice, limit=20), Shelf(dice), [0], [0]
    for _ in range(12):
        synced(service, shelf, Rules(), cursor, today)
    ids = sorted(world.live)
    service.denied = (0, ids[int(len(ids) * share) - 1])
    for hour in range(48):
        today[0] = 0 if hour % 24 == 0 else today[0]
        service.time += 60 * MINUTE
        with suppress(walk.Silent):
            synced(service, shelf, rules, cursor, today)
    return len(shelf.graves), len(shelf.held)


def amnesia(seed: int, days: float, hours: int, apart: bool = True) -> int:
    """The service denies a range for so long and then has it again; answers how many were erased meanwhile."""
    dice = random.Random(seed)
    world = World(dice)
    world.post(60)
    service, shelf, today, cursor = Service(world, dice, limit=10), Shelf(dice), [0], [0]
    for _ in range(6):
        synced(service, shelf, Rules(), cursor, today)
    ids = sorted(world.live)
    first = dice.randrange(50)
    service.denied = (ids[first], ids[first + dice.randint(1, 5)])
    for hour in range(hours):
        today[0] = 0 if hour % 24 == 0 else today[0]
        service.time += 60 * MINUTE
        synced(service, shelf, Rules("tombstone", days, apart=apart), cursor, today)
    return len(shelf.graves)
