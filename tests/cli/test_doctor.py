"""What the doctor finds: one row per case, each made ill on purpose."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from custody.cli.doctor import report
from custody.cli.doctor.report import Finding, examine
from custody.config import read
from custody.kernel.history.keys import load_key, make_key
from custody.kernel.history.ledger import seal_once
from custody.kernel.model.authority.acting import system
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import open_store
from custody.kernel.stores.clock import SystemClock
from custody.kernel.stores.sqlite import connection
from rig.need import need
from rig.postgres import Postgres

Usage = namedtuple("Usage", "total used free")


@dataclass
class House:
    """An installation in a folder of its own; well, until a case makes it ill."""

    home: Path
    patch: pytest.MonkeyPatch

    @property
    def url(self) -> str:
        return f"sqlite:///{self.home}/custody.db"

    def configure(self, more: str = "") -> None:
        (self.home / "custody.toml").write_text(f'store = "{self.url}"\n[history]\n{more}\n')

    def submit(self, clock: Any = None) -> None:
        with open_store(self.url, clock) as store:
            store.queue.submit([NewJob("parcel", facts={"n": 1})])

    def seal(self, *witnesses: Path) -> None:
        key = self.home / "history.key"
        signer = load_key(key, "custody") if key.exists() else make_key(key, "custody")
        with open_store(self.url) as store:
            seal_once(store.ledger, signer, store.now(), witnesses)

    def change(self, sql: str) -> None:
        db = connection.connect(f"{self.home}/custody.db")
        db.execute(sql)
        db.close()

    def findings(self) -> list[Finding]:
        return list(examine(self.url, read(self.home / "custody.toml")))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    made = House(tmp_path, monkeypatch)
    made.configure('witnesses = ["witness.txt"]')
    made.submit()
    made.seal(tmp_path / "witness.txt")
    return made


class LongAgo:
    def now(self) -> int:
        return SystemClock().now() - 3_600_000_000


class FarAhead:
    def now(self) -> int:
        return SystemClock().now() + 365 * 24 * 3_600_000_000


def old_sqlite(house: House) -> None:
    house.patch.setattr(connection, "FIRST_SAFE", (99, 0, 0))


def network(house: House) -> None:
    house.patch.setattr(connection, "file_system_of", lambda path, mounts: "nfs4")


def full_disk(house: House) -> None:
    house.patch.setattr(shutil, "disk_usage", lambda folder: Usage(100 << 30, 99 << 30, 1 << 30))


def no_witness(house: House) -> None:
    house.configure()


def witness_gone(house: House) -> None:
    (house.home / "witness.txt").unlink()


def witness_knows_more(house: House) -> None:
    house.submit()
    shutil.copy(house.home / "custody.db", house.home / "older.db")
    house.seal(house.home / "witness.txt")
    shutil.copy(house.home / "older.db", house.home / "custody.db")


def backlog(house: House) -> None:
    house.submit(LongAgo())


def unsealable(house: House) -> None:
    house.submit()
    house.change("""update event set detail = '{"n":9007199254740993}' where id = (select max(id) from event)""")


def open_key(house: House) -> None:
    (house.home / "history.key").chmod(0o644)


def never_sealed(house: House) -> None:
    house.change("delete from block")
    house.change("delete from sealed")


def miscounted(house: House) -> None:
    house.change("update job set unmet = 5")


def still_schedule(house: House) -> None:
    with open_store(house.url, LongAgo()) as store:
        store.schedules.put(Schedule("nightly", "every 1m", "sweep"), system("eva"))
    house.change("update schedule set zone = 'Mars/Base', spec = '* * * * *'")
    with open_store(house.url) as store:
        store.schedules.run_due()
    house.seal(house.home / "witness.txt")


def mended_schedule(house: House) -> None:
    """What was wrong with it is put right, and it still stands still."""
    still_schedule(house)
    with open_store(house.url) as store:
        store.schedules.put(Schedule("nightly", "every 1m", "sweep"), system("eva"))
    house.seal(house.home / "witness.txt")


def early_schedule(house: House) -> None:
    with open_store(house.url, FarAhead()) as store:
        store.schedules.put(Schedule("nightly", "every 1h", "sweep"), system("eva"))
    house.seal(house.home / "witness.txt")


def folder_elsewhere(house: House) -> None:
    """Told before items had places, and below no root that is named."""
    house.change("insert into unplaced (item, folder) values ('map-1', '/srv/maps/1')")


def open_root(house: House) -> None:
    (house.home / "shared" / "store").mkdir(parents=True)
    (house.home / "shared").chmod(0o777)
    house.configure('witnesses = ["witness.txt"]\n[storage]\nroots = {shelf = "shared/store"}')


CASES: dict[str, tuple[Callable[[House], None], str, str]] = {
    "a SQLite with known faults": (old_sqlite, "unsafe", "can corrupt a database"),
    "a store on a network disk": (network, "unsafe", "network file system"),
    "a disk that is nearly full": (full_disk, "warning", "the store's disk: only 1 GiB free"),
    "a history that nobody witnesses": (no_witness, "warning", "no witness keeps"),
    "a witness that is gone": (witness_gone, "unsafe", "witness.txt is gone"),
    "a witness that has seen more than the store": (witness_knows_more, "unsafe", "has seen block 2"),
    "events that wait for their seal": (backlog, "warning", "1 events wait to be sealed, the oldest for 60 minutes"),
    "an event that can never be sealed": (unsealable, "unsafe", "can never be sealed: n is 9007199254740993"),
    "a key that others may read": (open_key, "unsafe", "other users may use the signing key"),
    "a history that was never sealed": (never_sealed, "warning", "is not sealed"),
    "a schedule that cannot be run": (still_schedule, "warning", "nightly stands still: there is no time zone"),
    "a schedule that was mended and not continued": (mended_schedule, "warning", "nightly stands still"),
    "a schedule that a wrong clock sent far ahead": (early_schedule, "warning", "nightly comes no sooner than"),
    "a folder that no robot sees any more": (folder_elsewhere, "warning", "1 item had a folder below no storage root"),
    "a root that others may swap": (open_root, "unsafe", "storage root shelf: everybody may write to"),
    "a counter that is wrong": (miscounted, "unsafe", "unmet"),
}


def test_a_house_in_order_has_nothing_but_missing_workers_and_folders(house: House) -> None:
    ill = [finding for finding in house.findings() if finding.grade != "fine"]
    assert {finding.grade for finding in ill} == {"warning"}
    assert all("no worker" in finding.what or "there is no" in finding.what for finding in ill), ill


@pytest.mark.proves("H12")
@pytest.mark.parametrize("name", CASES)
def test_the_doctor_finds(house: House, name: str) -> None:
    make_ill, grade, words = CASES[name]
    make_ill(house)
    said = [finding for finding in house.findings() if words in finding.what]
    assert [finding.grade for finding in said] == [grade], house.findings()
    assert said[0].do, "it says what to do"


def test_a_folder_becomes_a_place_as_soon_as_its_root_is_named(house: House) -> None:
    with open_store(house.url) as store:
        store.records.put([NewItem("map-1")])
    folder_elsewhere(house)
    assert any("/srv/maps/1" in finding.what for finding in house.findings())
    house.configure('witnesses = ["witness.txt"]\n[storage]\nroots = {shelf = "/srv/maps"}')
    assert not any("/srv/maps/1" in finding.what for finding in house.findings())
    with open_store(house.url) as store:
        assert store.records.item("map-1").place == "shelf:1"


def test_the_doctor_says_that_it_knows_of_no_witness_without_a_configuration(house: House) -> None:
    said = [finding for finding in examine(house.url, None) if "no witness" in finding.what]
    assert [finding.grade for finding in said] == ["warning"]
    assert "custody.toml" in said[0].do


@pytest.fixture(scope="module")
def forgetful() -> Iterator[str]:
    """A PostgreSQL with fsync off."""
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    database = server.fresh_database()
    open_store(f"{database}?unsafe=1").close()
    yield database
    server.remove()


@pytest.mark.parametrize(
    ("admitted", "words"),
    [("", "runs with fsync=off"), ("?unsafe=1", "fsync is off")],
    ids=["as it is", "though it was let in on purpose"],
)
def test_the_doctor_finds_a_server_that_forgets(forgetful: str, admitted: str, words: str) -> None:
    (said,) = [finding for finding in examine(forgetful + admitted, None) if words in finding.what]
    assert said.grade == "unsafe"
    assert said.do


def test_the_doctor_finds_clocks_that_disagree(forgetful: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = report.local_seconds
    monkeypatch.setattr(report, "local_seconds", lambda: right() + 120)
    (said,) = [finding for finding in examine(forgetful + "?unsafe=1", None) if "clock" in finding.what]
    assert said.grade == "warning"
    assert "differ by 1" in said.what
    monkeypatch.setattr(report, "local_seconds", right)
    (said,) = [finding for finding in examine(forgetful + "?unsafe=1", None) if "clock" in finding.what]
    assert said.grade == "fine"


def test_the_doctor_says_what_an_acknowledgement_is_worth_and_that_history_went_back(forgetful: str) -> None:
    url = forgetful + "?unsafe=1"
    with open_store(url) as store:
        store.records.note("store", "went-back", "engine", missing=3, subjects=["job/7"], timeline=2, before=1)
    said = list(examine(url, None))
    assert [finding.grade for finding in said if "no standby" in finding.what] == ["fine"]
    (lost,) = [finding for finding in said if "history went back" in finding.what]
    assert (lost.grade, "3 acknowledged moves" in lost.what, "job/7" in lost.do) == ("unsafe", True, True)
