"""One story across all four: deposited, checked by robots, catalogued in an archive, indexed there; seen on one page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from custody.border.sandbox.sandbox import Available
from custody.cli.composition import dashboard_kinds, machines
from custody.demo.stories.book import Book
from custody.demo.stories.robots import Line
from custody.ingest.kinds import kinds as ingest_kinds
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.event import Event
from custody.kernel.model.item import Item
from custody.kernel.stores import Store
from custody.robots.robot import Report
from custody.web.app import Options, build_app
from custody.web.pages.all_sections import SECTIONS
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import reconcile_all
from ingest.bench import Archive, archive


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Archive]:
    with archive(tmp_path, f"sqlite:///{tmp_path / 'custody.db'}") as made:
        yield made


def work(home: Archive, line: Line, book: Book) -> None:
    """Until nothing is left to do in any of the four."""
    store = home.store
    until = time.monotonic() + 60
    while True:
        kinds_ = (*ingest_kinds(home.world), *line.kinds(), *book.kinds(), *dashboard_kinds(store, line.keeping))
        Worker(store, Serving(kinds_), Settings(threads=2)).run_until_quiet()
        if not reconcile_all(store) and not any(job.due for job in store.queue.every() if not job.ended):
            return
        assert time.monotonic() < until
        time.sleep(0.05)


def told(store: Store, item: str) -> list[Event]:
    return list(store.records.events(f"item/{item}"))


def test_without_git_and_without_a_sandbox_the_archives_are_folders_and_the_index_is_the_ready_made_one(
    home: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Available(False, "bwrap is not installed", "apt-get install bubblewrap")
    monkeypatch.setattr("custody.workflows.kinds.available", lambda: nothing)
    monkeypatch.setattr("custody.demo.stories.catalogue.available", lambda: nothing)
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no git
    store = home.store
    line, book = Line.open(store, tmp_path), Book.open(store, tmp_path)
    line.begin()
    book.begin()
    home.submit(home.put("1.txt", b"Dear sister"), type="file", filename="1.txt", title="A letter")
    kinds_ = (*ingest_kinds(home.world), *line.kinds(), *book.kinds(), *dashboard_kinds(store, line.keeping))
    worker = Worker(store, Serving(kinds_), Settings(threads=2))
    until = time.monotonic() + 60
    while not (told(store, "catalogue@2") and told(store, "catalogue@2")[-1].type == "task index"):
        assert time.monotonic() < until
        worker.run_until_idle()
        reconcile_all(store)
    assert {kept.system for kept in Archives(store).list()} == {"folder"}
    assert told(store, "My-Project@4")[-1].type == "task index"
    (build,) = [job for job in store.queue.every() if job.task == "build-book" and not job.ended]
    assert "apt-get install bubblewrap" in " ".join(
        f"{reason.text} {reason.clears}" for reason in store.queue.why(build.id)
    )
    book.begin()
    line.begin()
    assert [Archives(store).open(kept).youngest() for kept in Archives(store).list()] == [4, 2], (
        "started again, it goes on"
    )


@pytest.mark.skipif(not shutil.which("git"), reason="git is missing: apt-get install git")
def test_an_object_is_ingested_checked_catalogued_and_indexed_and_its_page_shows_it_all(
    home: Archive, tmp_path: Path
) -> None:
    store = home.store
    line, book = Line.open(store, tmp_path), Book.open(store, tmp_path)
    if not book.shop.sandbox_works:
        pytest.skip(f"no sandbox: {book.shop.sandbox_works.hint}")
    line.begin()
    for number in (1, 2):
        home.submit(home.put(f"{number}.txt", b"Dear sister"), type="file", filename=f"{number}.txt", title="A letter")
    work(home, line, book)
    arks = [item.id for item in store.records.items(type_="object")]
    assert len(arks) == 2
    revisions = set()
    for ark in arks:
        events = told(store, ark)
        assert [event.type for event in events] == [
            "changed",
            "ingested",
            "fixity checked",
            "formats identified",
            "catalogued",
        ]
        revision = events[-1].detail["revision"]
        revisions.add(revision)
        indexed = told(store, f"catalogue@{revision}")
        assert [(event.type, event.outcome) for event in indexed] == [
            ("changed", "none"),
            ("planned", "success"),
            ("task index", "success"),
        ]
        client = page_of(store, home, line, book)
        page = client.get(f"/items/{ark}", headers={"Accept": "text/html"}).text
        for part in ("ingested", "fixity checked", "formats identified", "catalogued", "task index"):
            assert f">{part} " in page, part
        for link in (f"/items/catalogue@{revision}", f"/jobs/{indexed[-1].detail['job']}"):
            assert f'href="{link}"' in page
        log = client.get(f"/jobs/{indexed[-1].detail['job']}/log", headers={"Accept": "text/html"})
        assert "What attempt 1 printed" in log.text
    assert len(revisions) == 2, "every record is a revision of its own"


def page_of(store: Store, home: Archive, line: Line, book: Book) -> TestClient:
    options = Options(
        b"a secret of thirty-two bytes, no less",
        demo=True,
        machines=machines(),
        world=home.world,
        sections=SECTIONS,
        shop=book.shop,
        keeping=line.keeping,
    )
    return TestClient(build_app(store, options), base_url="http://127.0.0.1", client=("127.0.0.1", 50000))


def test_a_catalogue_is_written_once_however_often_its_robot_is_repeated(home: Archive, tmp_path: Path) -> None:
    line = Line.open(home.store, tmp_path)
    line.begin()
    assert line.catalogue is not None
    robot = line.catalogue.robot()
    item = Item("ark:/99999/fk4x", frozenset({"object"}), 1, 1, detail={"title": "Tides"})
    found = []
    for number in (0, 1, 2):
        report = Report()
        robot(item if number < 2 else replace(item, id="ark:/99999/fk4y"), report)
        found.append(report.facts)
    assert found[0] == found[1], "an attempt after a crash finds what the one before has done"
    assert found[2]["revision"] == found[0]["revision"] + 1
    kept = Archives(home.store).opened("catalogue")
    names = [entry.path for entry in kept.list(found[2]["revision"], "records")]
    assert names == ["records/about.txt", "records/fk4x.txt", "records/fk4y.txt"]
    line.begin()
    assert kept.youngest() == found[2]["revision"], "another start changes nothing"
