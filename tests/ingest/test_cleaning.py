"""What is over and done with goes by itself, and nothing that is still spoken of goes with it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from custody.ingest.batch.cleanup import clean_up
from custody.ingest.kinds import chores
from custody.ingest.submission.staging import name_in
from ingest.bench import Archive


def deposited(home: Archive, name: str) -> tuple[int, Path]:
    """A batch from an upload, and where its bytes are staged."""
    url = home.world.staging.put([name.encode()], name).url
    batch = home.submit(url, type="file", filename=name_in(url))
    home.run()
    return batch, home.world.staging.path(url)


def grow_old(home: Archive) -> None:
    for path in home.world.staging.root.glob("*/*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3 * 86_400))


def test_a_batch_that_is_old_enough_goes_with_its_jobs_its_mails_and_its_bytes(home: Archive) -> None:
    batch, staged = deposited(home, "old.txt")
    grow_old(home)
    assert clean_up(home.world, days=1)["batches"] == 0, "it is not old enough"
    assert staged.exists(), "a batch speaks of it"
    assert clean_up(home.world, days=-1)["batches"] == 1
    assert list(home.store.queue.every()) == []
    assert not [path for path in home.world.staging.root.rglob("*") if path.is_file()]
    assert len(home.world.inventory.list()) == 1, "the object stays"
    assert [event.type for event in home.store.records.events(f"job/{batch}")][-1] == "deleted", "and its history"


def test_young_bytes_and_those_of_failed_batches_stay(home: Archive) -> None:
    home.store.queue.hold("collection", "papers", "lee", "wait")
    _, waiting = deposited(home, "waits.txt")
    grow_old(home)
    young = home.world.staging.path(home.world.staging.put([b"just handed in"], "young.txt").url)
    forgotten = home.world.staging.path(home.world.staging.put([b"forgotten"], "forgotten.txt").url)
    os.utime(forgotten, (0, 0))
    assert clean_up(home.world, days=-1) == {"batches": 0, "folders": 0, "staged": 1}
    assert waiting.exists()
    assert young.exists()
    assert not forgotten.exists()


def test_workers_have_it_among_their_chores(home: Archive) -> None:
    deposited(home, "old.txt")
    for chore in chores(replace(home.world, keep_days=-1)):
        chore.do()
    assert list(home.store.queue.every()) == []
