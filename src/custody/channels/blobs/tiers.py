"""Which storage tier a blob belongs in, and what moving it costs. Pure rules.

Hot, then Cool after 15 days without use, then Cold after 45. Back to Hot only if it was read since it was
moved: going by the date of the last access alone would warm up every blob right after cooling it. Nothing
moves before the tier's minimum stay is over, because leaving earlier is charged. Indexes and the last leaf
are in use all the time and stay Hot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta

from custody.channels.blobs.port import Properties, Tier
from custody.errors import BadInput

GIGABYTE = 2**30
MONTH = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Rules:
    cool_after: timedelta = timedelta(days=15)
    cold_after: timedelta = timedelta(days=45)
    stays: Mapping[Tier, timedelta] = field(
        default_factory=lambda: {"Hot": timedelta(), "Cool": timedelta(days=30), "Cold": timedelta(days=90)}
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a blob belongs now, and why; `when` is the earliest time at which this may change by itself."""

    blob: Properties
    tier: Tier
    why: str
    when: datetime | None = None

    @property
    def moves(self) -> bool:
        return self.tier != self.blob.facts.tier


def judge(blob: Properties, now: datetime, rules: Rules, stays_hot: bool = False) -> Verdict:
    tier = blob.facts.tier
    moved = blob.tier_changed or blob.modified
    used = max(blob.modified, blob.accessed or blob.modified)
    wanted, why, when = _wanted(blob, tier, moved, used, now=now, rules=rules)
    if stays_hot:
        wanted, why, when = "Hot", "in use all the time", None
    free = moved + rules.stays[tier]
    if wanted != tier and now < free:
        return Verdict(blob, tier, f"would be {wanted}, but {tier} is charged until then", free)
    return Verdict(blob, wanted, why, when)


def _wanted(
    blob: Properties, tier: Tier, moved: datetime, used: datetime, now: datetime, rules: Rules
) -> tuple[Tier, str, datetime | None]:
    if tier == "Hot":
        due = max(used, moved) + rules.cool_after
        return ("Cool", "not used for a while", None) if now > due else ("Hot", "used lately", due)
    read_here = blob.accessed is not None and blob.accessed > moved
    if read_here and now - used <= rules.cool_after:
        return "Hot", f"read since it became {tier}", None
    due = used + rules.cold_after
    if tier == "Cool" and now > due:
        return "Cold", "not used for long", None
    return tier, "not read since it was moved", due if tier == "Cool" else None


# --- What it costs ---


@dataclass(frozen=True, slots=True)
class Price:
    """Of one tier, in whatever currency: prices differ by place and year, so they are configuration."""

    month: float  # to keep a gigabyte for a month
    write: float  # one operation
    read: float  # one operation
    retrieval: float  # to read a gigabyte


# Examples of the order of magnitude, in dollars: put your own into custody.toml.
PRICES: Mapping[Tier, Price] = {
    "Hot": Price(month=0.018, write=0.000005, read=0.0000004, retrieval=0.0),
    "Cool": Price(month=0.01, write=0.00001, read=0.000001, retrieval=0.01),
    "Cold": Price(month=0.0036, write=0.000018, read=0.00001, retrieval=0.03),
}


def prices_of(given: Mapping[str, Mapping[str, float]]) -> dict[Tier, Price]:
    """The examples, with what a configuration says instead."""
    known = {field.name for field in fields(Price)}
    for tier, told in given.items():
        if tier not in PRICES or not set(told) <= known:
            raise BadInput(
                f"cannot read the prices of {tier!r}",
                code="tiers.prices",
                where="channels.prices",
                hint=f"tables {', '.join(PRICES)} with {', '.join(sorted(known))}",
            )
    return {tier: replace(price, **given.get(tier, {})) for tier, price in PRICES.items()}


@dataclass(frozen=True, slots=True)
class Preview:
    moves: int
    size: int
    once: float  # the moves themselves
    early: float  # of this, for leaving a tier too soon
    monthly: float  # what a month costs more, or less if negative


def preview(verdicts: Iterable[Verdict], prices: Mapping[Tier, Price], now: datetime, rules: Rules) -> Preview:
    moves, size, once, early, monthly = 0, 0, 0.0, 0.0, 0.0
    for verdict in (one for one in verdicts if one.moves):
        blob, source, target = verdict.blob, prices[verdict.blob.facts.tier], prices[verdict.tier]
        gigabytes = blob.size / GIGABYTE
        left = (blob.tier_changed or blob.modified) + rules.stays[blob.facts.tier] - now
        penalty = max(left, timedelta()) / MONTH * gigabytes * source.month
        up = verdict.tier == "Hot"
        move = source.read + gigabytes * source.retrieval if up else target.write
        moves, size = moves + 1, size + blob.size
        once, early = once + move + penalty, early + penalty
        monthly += gigabytes * (target.month - source.month)
    return Preview(moves=moves, size=size, once=once, early=early, monthly=monthly)
