"""Ingest against what one would use instead: fan-out of a long manifest, the way through eight steps, downloads.

    python -m bench.ingest [--quick] [--json FILE]

Fan-out reads, checks and turns a batch manifest into jobs with their history, fsynced in chunks; the bare loop next
to it splits the same lines and inserts a row for each. The eight steps have a stubbed world: what is left is what
the queue costs, and the engine's own cost per job is its measure. Downloads go side by side with aria2c, with the
same number of connections to the same server; ours are checked, synced and digested. Ten thousand jobs a second, the
aim of the fan-out, is a twentieth of what the bare loop does on an idle machine of two cores.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw

from bench.depositor import depositor
from bench.rounds import Measure, Options, Row, in_turns, main
from bench.server import database, postgres
from custody.border.folder import Folder
from custody.border.http.fetch import Fetcher, Wanted
from custody.border.http.policy import Policy
from custody.formats.checkm.form import BATCH_OF_MANIFESTS
from custody.formats.checkm.form import Row as Line
from custody.formats.checkm.writer import write
from custody.ingest.config import IngestConfig, open_world
from custody.ingest.kinds import kinds
from custody.ingest.states import BATCH_KIND, JOB, JOB_KIND, STEPS
from custody.ingest.submission.submission import Submission, submit
from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Passed
from custody.kernel.stores import open_store

PARALLEL = 16
PROFILE = 'owner = "ark:/99999/owner"\n'
MIB = 1 << 20


# -- fan-out -----------------------------------------------------------------------------------------


def write_manifest(path: Path, rows: int) -> None:
    lines = (
        Line(n, f"https://depositor.example/{n}.checkm", f"{n}.checkm", local_ids=(f"loc{n}",), title=f"No. {n}")
        for n in range(1, rows + 1)
    )
    with path.open("w") as file:
        file.writelines(write(BATCH_OF_MANIFESTS, lines))


def fan_out(url: str, folder: Path, rows: int) -> float:
    """Jobs a second, from the claim of the batch to its last job."""
    (folder / "profiles").mkdir(exist_ok=True)
    (folder / "profiles" / "papers.toml").write_text(PROFILE)
    with open_store(url) as store:
        world = open_world(store, IngestConfig(), folder)
        write_manifest(folder / "batch.checkm", rows)
        staged = world.staging.put_file(folder / "batch.checkm")
        batch, _ = submit(store, Submission("papers", staged.url, "batch-manifest"), None, system("bench"))
        only = [kind for kind in kinds(world) if kind.kind == BATCH_KIND and kind.state == "pending"]
        started = time.perf_counter()
        Worker(store, Serving(tuple(only)), Settings(threads=1, schedules=False)).run_until_idle()
        seconds = time.perf_counter() - started
        found = store.queue.get(batch)
        assert (found.state, found.open) == ("processing", rows), found
    return rows / seconds


def bare_fan_out(folder: Path, rows: int) -> float:
    """Split the lines, insert a row for each, five hundred to a commit: nothing is checked, nothing remembered."""
    write_manifest(folder / "bare.checkm", rows)
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table job (id integer primary key, state text, payload text); create index s on job (state, id)")
    started = time.perf_counter()
    with (folder / "bare.checkm").open() as source:
        waiting: list[tuple[str]] = []
        for line in source:
            if line.startswith("#"):
                continue
            waiting.append((json.dumps([part.strip() for part in line.split("|")]),))
            if len(waiting) == 500:
                _insert(db, waiting)
        _insert(db, waiting)
    seconds = time.perf_counter() - started
    db.close()
    return rows / seconds


def _insert(db: apsw.Connection, waiting: list[tuple[str]]) -> None:
    with db:
        db.executemany("insert into job (state, payload) values ('queued', ?)", waiting)
    waiting.clear()


def peak_mib(rows: int) -> float:
    """The most memory that a process needs to fan out so many rows."""
    code = f"from bench.ingest import tell_peak; tell_peak({rows})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def tell_peak(rows: int) -> None:
    with scratch() as folder:
        fan_out(f"sqlite:///{folder / 'custody.db'}", folder, rows)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def fanning_out(options: Options) -> list[Row]:
    rows = 20_000 if options.quick else 100_000

    def on_sqlite() -> float:
        with scratch() as folder:
            return fan_out(f"sqlite:///{folder / 'custody.db'}", folder, rows)

    def bare() -> float:
        with scratch() as folder:
            return bare_fan_out(folder, rows)

    with postgres() as server:

        def on_postgres() -> float:
            with scratch() as folder, database(server) as url:
                return fan_out(url, folder, rows)

        figures = in_turns({"sqlite": on_sqlite, "postgres": on_postgres, "bare": bare})
    grown = peak_mib(rows) - peak_mib(rows // 10)
    return [
        figures.against("fan-out.sqlite", "sqlite", "bare", 0.05),
        figures.against("fan-out.postgres", "postgres", "bare", 0.05),
        # 64 of them are the page cache that SQLite may have; Python's own share does not grow: see the tests
        Row(f"fan-out.memory.{rows}-rows-more-than-{rows // 10}", grown, 0, 80, "MiB", limit=True),
    ]


# -- eight steps -------------------------------------------------------------------------------------


def through_eight_steps(count: int) -> float:
    """Jobs a second from pending to completed, when every step has nothing to do."""
    steps = [Kind(JOB_KIND, lambda work: Passed(), state=name, machine=JOB) for name in STEPS]
    return drained(count, steps, lambda n: NewJob(JOB_KIND, {"row": n}, machine=JOB))


def through_one_state(count: int) -> float:
    return drained(count, [Kind("parcel", lambda work: Passed())], lambda n: NewJob("parcel", {"row": n}))


def drained(count: int, steps: list[Kind], make: Callable[[int], NewJob]) -> float:
    with scratch() as folder, open_store(f"sqlite:///{folder / 'custody.db'}") as store:
        for at in range(0, count, 1000):
            store.queue.submit([make(n) for n in range(at, min(count, at + 1000))])
        worker = Worker(store, Serving(tuple(steps)), Settings(threads=2, schedules=False))
        started = time.perf_counter()
        worker.run_until_quiet()
        return count / (time.perf_counter() - started)


def stepping(options: Options) -> list[Row]:
    count = 1_000 if options.quick else 5_000
    contest: dict[str, Measure] = {
        "eight steps": lambda: through_eight_steps(count),
        "an eighth of one state": lambda: through_one_state(8 * count) / 8,  # as many moves, so as long a round
    }
    return [in_turns(contest, 9).even("eight-steps.engine-times-8", "eight steps", "an eighth of one state")]


# -- downloads ---------------------------------------------------------------------------------------


def by_us(url: str, names: list[str], size: int) -> float:
    policy = replace(Policy.local(int(url.rpartition(":")[2])), per_host=PARALLEL)
    with scratch() as folder, Fetcher(policy) as fetcher, Folder(folder) as target:
        wanted = [Wanted(f"{url}/{name}", name) for name in names]
        started = time.perf_counter()
        found = fetcher.download_many(wanted, target, parallel=PARALLEL)
        seconds = time.perf_counter() - started
        assert all(getattr(each, "size", None) == size for each in found)
    return len(names) / seconds


def by_aria2(url: str, names: list[str], size: int) -> float:
    with scratch() as folder:
        (folder / "list").write_text("".join(f"{url}/{name}\n" for name in names))
        command = [
            "aria2c",
            "--quiet",
            "--no-conf",
            f"--max-concurrent-downloads={PARALLEL}",
            "--split=1",
            f"--max-connection-per-server={PARALLEL}",
            "--file-allocation=none",
            f"--dir={folder / 'files'}",
            f"--input-file={folder / 'list'}",
        ]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
        assert all((folder / "files" / name).stat().st_size == size for name in names)
    return len(names) / seconds


def downloading(options: Options) -> list[Row]:
    if not shutil.which("aria2c"):
        print("  aria2c is not installed: no downloads are compared")
        return []
    cases = [
        # what, files, bytes each, pause of the server, target
        ("tiny", 500 if options.quick else 3_000, 1024, 0.0, 0.5),
        ("tiny-20ms-away", 500 if options.quick else 3_000, 1024, 0.02, 0.9),
        ("large", 4, (16 if options.quick else 128) * MIB, 0.0, 0.9),
    ]
    rows = []
    for what, count, size, pause, target in cases:
        with scratch() as folder:
            names = [f"{n}.bin" for n in range(count)]
            for name in names:
                (folder / name).write_bytes(b"x" * size)
            with depositor(folder, pause) as url:
                contest = {"ours": _bound(by_us, url, names, size), "aria2c": _bound(by_aria2, url, names, size)}
                rows.append(in_turns(contest).against(f"download.{what}.aria2c", "ours", "aria2c", target))
    return rows


def _bound(fetch: Callable[[str, list[str], int], float], url: str, names: list[str], size: int) -> Measure:
    return lambda: fetch(url, names, size)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as name:
        yield Path(name)


def measure(options: Options) -> list[Row]:
    return [*fanning_out(options), *stepping(options), *downloading(options)]


if __name__ == "__main__":
    sys.exit(main(__doc__, measure))
