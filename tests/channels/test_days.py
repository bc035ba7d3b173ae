"""The days that a policy leaves are the store's: a machine whose own clock is ahead erases nothing early."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from channels.desk import opened
from custody.channels.context import noted
from custody.channels.crawl import trust, walk
from custody.channels.crawl.kept import Kept, Live
from custody.channels.messages import deletions
from custody.kernel.stores import open_store

MONTH = 30 * 86_400


def test_a_clock_of_this_machine_that_is_a_month_ahead_erases_nothing(
    memory_folder: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(memory_folder, count=60) as desk, open_store(postgres_url) as store:
        desk.mirror_all()
        number, gone = desk.channel.id, desk.theirs()[5]
        mirror = replace(desk.mirror, store=store, deleted="honour after 7 days")
        store.records.put((noted(number, mirrored="yes", title="general"),))
        now = store.now()
        refused = [[trust.stamp(now - ago * 60_000_000), trust.NO_SUCH, f"{ago:08d}"] for ago in (30, 15)]
        mirror.seen(number).upsert([{"id": str(gone), "seen": trust.stamp(now - MONTH * 1_000_000), "absent": refused}])
        assert dict(Kept(mirror, number).gone()), "it is known to be gone there"
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + MONTH * 10**9)
        item = store.records.item(f"channel/{number}")
        settled = deletions.settle(mirror, item, Live(mirror, number), Kept(mirror, number), walk.Found())
        assert (settled.erased, settled.waiting) == (0, 0)
        (told,) = settled.items
        due = trust.moment(str(told.detail["erase_at"]))
        assert 6 * 86_400 < (due - now) / 1_000_000 < 8 * 86_400
