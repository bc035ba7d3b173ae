"""The round over a channel's blobs that `tiers` has the rules for: look, judge, move, and say what it costs.

A move names where a blob is to be, so a round that was cut short is simply done again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from custody.channels.blobs.port import Blobs, Broken, NoBlob
from custody.channels.blobs.tiers import Rules, Verdict, judge
from custody.channels.context import HELD, Context, Told, assets_of, files_of, item_id
from custody.channels.messages import last_seen
from custody.channels.table import Table, Torn
from custody.kernel.model.event import NewEvent

RULES = Rules()
NEVER = timedelta(days=36_500)


def verdicts(blobs: Blobs, channel: int, now: datetime, rules: Rules = RULES) -> Iterator[Verdict]:
    """Every blob of a channel, and where it belongs now."""
    tables = {"ch": Table(blobs, channel), "seen": last_seen.of(blobs, channel), "files": files_of(blobs, channel)}
    tables["assets"] = assets_of(blobs, channel)
    for folder in HELD:
        table = tables.get(folder)
        # What was last seen is written to again and again, wherever in the channel: it would leave Cold too soon.
        here = replace(rules, cold_after=NEVER) if folder == last_seen.FOLDER else rules
        for blob in blobs.list(f"{folder}/{channel}/"):
            if blob.facts.metadata.get("kind") != "broken":
                yield judge(blob, now, here, table is not None and _must_stay_hot(table, blob.name))


def _must_stay_hot(table: Table, name: str) -> bool:
    try:
        return table.must_stay_hot(name)
    except Torn:  # which leaf is the last cannot be read: none is moved away
        return True


def move(blobs: Blobs, found: Iterator[Verdict]) -> Counter[str]:
    """Move what must move; answers how many to where."""
    moved = Counter[str]()
    for verdict in found:
        if verdict.moves:
            with suppress(NoBlob, Broken):  # split or removed meanwhile
                blobs.set_tier(verdict.blob.name, verdict.tier)
                moved[verdict.tier] += 1
    return moved


def round_of(mirror: Context, channel: int, rules: Rules = RULES) -> Told:
    moved = move(mirror.blobs, verdicts(mirror.blobs, channel, mirror.now(), rules))
    event = NewEvent(item_id(channel), "tiered", detail=dict(moved))
    return Told(dict(moved), events=(event,) if moved else ())
