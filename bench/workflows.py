"""Workflows: notices, planning, readiness and starting, each beside the least that could do the same.

    python -m bench.workflows [--quick] [--store URL] [--json FILE]

Notices against bare fsynced inserts, the same over HTTP, planning against submitting the same jobs without edges, a
thousand revisions against the first hundred (it must grow linearly), a claim among waiting tasks against one among
none. The repository is a stand-in that answers at once. Ratios count, absolute times do not. Exit 1 when a row falls
short of its target.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import apsw

from bench.rounds import Row, timed
from custody.border.sandbox import Sandboxes, Spec, available
from custody.engine import Kind, Serving, Settings, Worker
from custody.model.job import NewJob
from custody.model.machine import PLAIN
from custody.stores import Store, open_store
from custody.web.app import Options, build_app
from custody.web.serving import Server
from custody.web.tokens import Tokens
from custody.workflows import archives
from custody.workflows.archive import Change, Entry, Meta
from custody.workflows.draft import Draft
from custody.workflows.notify import COMMIT_KIND, notify
from custody.workflows.planning import commit

TASKS = 20
WORKFLOW = "".join(f"- name: task{n}\n  depends: [PREV]\n  command: 'true'\n" for n in range(TASKS)).encode()


class StandIn:
    """A repository that has whatever revision it is asked for."""

    def uuid(self) -> str:
        return "stand-in"

    def youngest(self) -> int:
        return 0

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        return (revision - 1,) if revision > 1 else ()

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        return [Entry("_workflows/a.yaml", False)] if folder else [Entry("_workflows", True)]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        return []

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        return {}

    def read(self, revision: int, path: str) -> bytes:
        return WORKFLOW

    def export(self, revision: int, into: Path) -> None: ...

    def meta(self, revision: int) -> Meta:
        return Meta(revision, str(revision), "ann", "2026-01-01T00:00:00Z", "more")

    def changed(self, revision: int) -> Sequence[Change]:
        return []

    def commit(self, draft: Draft, seconds: float) -> int:
        return 0

    def committed(self, key: str, since: int) -> int | None:
        return None


@contextmanager
def opened(folder: Path, url: str, name: str) -> Iterator[Store]:
    with open_store(url or f"sqlite:///{folder / name}.db") as store:
        yield store


def add(store: Store, name: str) -> None:
    store.db.write(
        lambda tx: tx.run("wf_add_archive", name=name, system="stand-in", location="/", uuid="stand-in", last=0)
    )


def planner(store: Store) -> Worker:
    kind = Kind(COMMIT_KIND, lambda work: commit(work, store))
    return Worker(store, Serving((kind,)), Settings(threads=1, schedules=False))


def notices(folder: Path, url: str, count: int) -> tuple[float, float]:
    """One notice each, as hooks come: how many per second, and the slowest but one in a hundred."""
    with opened(folder, url, "notices") as store:
        add(store, "noticed")
        took = []
        for revision in range(1, count + 1):
            started = time.perf_counter()
            notify(store, "noticed", revision)
            took.append(time.perf_counter() - started)
        return count / sum(took), sorted(took)[int(count * 0.99)] * 1000


def hooks(folder: Path, url: str, count: int) -> tuple[float, float]:
    """The same through the API, as a hook asks: socket in, durable, answer out. Per second, and the slowest in ms."""
    with opened(folder, url, "hooks") as store:
        add(store, "hooked")
        secret = Tokens(store).create("hook", ["worker"], ["hooked"], 1, "bench")[1]
        server = Server(build_app(store, Options(b"0" * 32, machines=PLAIN))).start()
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        took = []
        try:
            asking = http.client.HTTPConnection("127.0.0.1", server.port)
            for revision in range(1, count + 1):
                started = time.perf_counter()
                asking.request("POST", "/api/v1/archives/hooked/notify", f'{{"revision": {revision}}}', headers)
                answer = asking.getresponse()
                answer.read()
                took.append(time.perf_counter() - started)
                assert answer.status == 202, answer.status
            asking.close()
        finally:
            server.stop()
        return count / sum(took), sorted(took)[int(count * 0.99)] * 1000


def bare_inserts(folder: Path, count: int) -> float:
    """A row a time, fsynced."""
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute("pragma journal_mode = wal").fetchall()
    db.execute("pragma synchronous = full")
    db.execute("create table notice (id integer primary key, archive text, revision integer)")

    def insert() -> None:
        for revision in range(count):
            db.execute("insert into notice (archive, revision) values ('noticed', ?)", (revision,))

    rate = timed(count, insert)
    db.close()
    return rate


def planning(folder: Path, url: str, revisions: int) -> float:
    """Tasks planned per second."""
    with opened(folder, url, f"planning{revisions}") as store:
        name = f"planned{revisions}"
        add(store, name)
        notify(store, name, revisions)
        rate = timed(revisions * TASKS, planner(store).run_until_idle)
        planned = store.db.read(lambda tx: tx.run("wf_of_line", line=name, first=revisions, last=revisions))
        assert len(planned) == TASKS + 1, f"{len(planned)} jobs of the last revision"
        return rate


def plain_submits(folder: Path, url: str, revisions: int) -> float:
    """The same number of jobs, twenty at a time, that wait for nothing."""
    with opened(folder, url, "plain") as store:

        def submit() -> None:
            for revision in range(revisions):
                store.queue.submit([NewJob("plain", {"n": n, "revision": revision}) for n in range(TASKS)])

        return timed(revisions * TASKS, submit)


def claims(folder: Path, url: str, waiting: int, count: int = 300) -> float:
    """Claims per second of jobs beside which so many others wait for something."""
    with opened(folder, url, f"claims{waiting}") as store:
        kind = f"claimed{waiting}"
        gate = store.queue.submit_one(NewJob("gate")).id
        from custody.model.graph import Edge

        for at in range(0, waiting, 1000):
            store.queue.submit(
                [NewJob(kind, {"n": at + n}, needs=[Edge(gate)]) for n in range(min(1000, waiting - at))]
            )
        store.queue.submit([NewJob(kind, {"ready": n}) for n in range(count)])

        def claim() -> None:
            for _ in range(count):
                assert store.queue.claim([f"{kind}|queued||"], "bench", 60)

        return timed(count, claim)


def starts(folder: Path, count: int) -> tuple[float, float]:
    """Milliseconds until a sandbox's command has run: through our sandboxes; 0 where there are none."""
    if not available():
        return 0.0, 0.0
    took = []
    with Sandboxes(folder / "sandboxes") as sandboxes:
        work = folder / "work"
        work.mkdir()
        for number in range(count):
            started = time.perf_counter()
            running = sandboxes.start(Spec(name=f"start{number}", work=work, argv=("true",)))
            took.append((time.perf_counter() - started) * 1000)
            running.wait(20)
            running.remove()
    return statistics.median(took), max(took)


def measure(url: str, revisions: int, waiting: int) -> list[Row]:
    archives.SYSTEMS["stand-in"] = lambda location: StandIn()
    with tempfile.TemporaryDirectory(prefix="custody-bench-") as name:
        folder = Path(name)
        rate, slowest = notices(folder, url, 400)
        answered, slowest_answer = hooks(folder, url, 400)
        few, many = planning(folder, url, max(10, revisions // 10)), planning(folder, url, revisions)
        alone, among = claims(folder, url, 0), claims(folder, url, waiting)
        middle, worst = starts(folder, 20)
        rows = [
            Row("notices-against-bare-inserts", rate, bare_inserts(folder, 400), 0.05),
            Row("hooks-over-http-against-notices", answered, rate, 0.05),
            Row("planning-against-plain-submits", many, plain_submits(folder, url, revisions), 0.1),
            Row(f"planning-{revisions}-revisions-against-a-tenth", many, few, 0.5),
            Row(f"claim-among-{waiting}-waiting-against-none", among, alone, 0.5),
        ]
    print(f"99 of 100 notices within {slowest:.1f} ms, hooks over HTTP within {slowest_answer:.1f} ms")
    print(f"a sandbox starts in {middle:.0f} ms (at most {worst:.0f})")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer revisions and tasks")
    parser.add_argument("--store", default="", help="a store, instead of SQLite files of its own; it is filled")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows = measure(options.store, 100 if options.quick else 1_000, 5_000 if options.quick else 100_000)
    for row in rows:
        print(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
