"""Fanning out a long manifest: each row one job, in bounded memory, and on from where a crash stopped it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from custody.formats.checkm.form import BATCH_OF_MANIFESTS, Row
from custody.formats.checkm.writer import write
from custody.ingest.adapters import Adapters
from custody.ingest.config import IngestConfig
from custody.ingest.kinds import kinds
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.ingest.submission.submission import Submission, submit
from custody.ingest.world import open_world
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter
from custody.kernel.stores import open_store
from faults.crash import Memory, Stage, play, points
from ingest.bench import Archive
from rig.memory import in_own_process


def long_manifest(world: Adapters, rows: int) -> str:
    listed = (Row(n, f"https://depositor.example/{n}.checkm", f"{n}.checkm", title=f"No. {n}") for n in range(rows))
    return world.staging.put((line.encode() for line in write(BATCH_OF_MANIFESTS, listed)), "long.checkm").url


def fan_out(world: Adapters, rows: int) -> int:
    """The batch, after only its own first step has been worked on."""
    batch, _ = submit(
        world.store, Submission("papers", long_manifest(world, rows), "batch-manifest"), None, system("m")
    )
    only = [kind for kind in kinds(world) if kind.kind == BATCH_KIND and kind.state == "pending"]
    Worker(world.store, Serving(tuple(only)), Settings(threads=1, schedules=False)).run_until_idle()
    return batch


def test_every_row_becomes_one_job(home: Archive) -> None:
    batch = fan_out(home.world, 1_234)
    assert (home.batch(batch).state, home.batch(batch).open) == ("processing", 1_234)
    assert [job.payload["row"] for job in home.jobs(batch)] == list(range(1, 1_235))
    assert {job.priority for job in home.jobs(batch)} == {76}, "a large batch waits behind small ones"


def peak(folder: Path, rows: int) -> int:
    """Most bytes that Python had in use while fanning out."""
    (folder / "profiles").mkdir(parents=True)
    (folder / "profiles" / "papers.toml").write_text('owner = "ark:/99999/owner"\n')
    with open_store("sqlite://:memory:") as store:
        world = open_world(store, IngestConfig(), folder)
        tracemalloc.start()
        try:
            fan_out(world, rows)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def peaks(folder: Path) -> tuple[int, int]:
    peak(folder / "first", 50)  # what is loaded once is loaded now
    return peak(folder / "few", 700), peak(folder / "many", 2_800)


def test_a_further_row_needs_no_more_memory_than_its_names_fingerprint(tmp_path: Path) -> None:
    few, many = in_own_process(peaks, tmp_path)
    assert (many - few) / 2_100 < 300, f"{many} bytes for 2,800 rows, {few} for 700; a job takes more than a thousand"


def test_a_crash_between_any_two_chunks_leaves_each_row_one_job(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "papers.toml").write_text('owner = "ark:/99999/owner"\n')
    memory = Memory()

    def story(stage: Stage) -> None:
        world = open_world(stage.store, IngestConfig(), tmp_path)
        given = Submission("papers", long_manifest(world, 510), "batch-manifest")
        stage.act("submit", lambda: submit(stage.store, given, "k1", system("m")))
        stage.run(*(kind for kind in kinds(world) if kind.kind == BATCH_KIND and kind.state == "pending"))

    verbs = play(story, memory.stage()).verbs
    for point in points(verbs):
        stage = play(story, memory.stage(), [point])
        rows = [job.payload["row"] for job in stage.store.queue.every(Filter(kind=JOB_KIND))]
        assert rows == list(range(1, 511)), f"after {point}"
        (batch,) = stage.store.queue.every(Filter(kind=BATCH_KIND))
        assert (batch.state, batch.open) == ("processing", 510)
