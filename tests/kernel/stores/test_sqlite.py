"""What SQLite is refused for, and how it is opened."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from custody.errors import BadInput, Unavailable, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sqlite import connection, readers
from custody.kernel.stores.sqlite.connection import (
    SqliteTx,
    check_file_system,
    check_version,
    connect,
    file_system_of,
    translate,
)
from custody.kernel.stores.sqlite.file_address import file_of
from kernel.stores.acts import state, submit, take, take_one
from kernel.stores.clock import HandClock
from rig.descriptors import descriptors_below

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/export /srv/nfs nfs4 rw,vers=4.2 0 0
//nas/archive /srv/the\\040archive cifs rw 0 0
/dev/sdb1 /srv/nfs/local ext4 rw 0 0
host:/home /mnt/ssh fuse.sshfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> str:
    file = tmp_path / "mounts"
    file.write_text(MOUNTS)
    return str(file)


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7", "2.8.17", "unknown", ""])
def test_a_library_that_may_corrupt_a_database_or_cannot_say_its_version_is_refused(version: str) -> None:
    with pytest.raises(Unsafe) as refusal:
        check_version(version)
    assert refusal.value.code == "sqlite.version"
    assert "apsw" in refusal.value.hint


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.100.0", "4.0.0"])
def test_newer_libraries_are_fine(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/nfs", "nfs4"),
        ("/srv/nfs/deep/down", "nfs4"),
        ("/srv/the archive/custody", "cifs"),
        ("/mnt/ssh", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_refused(mounts: str, path: str, kind: str) -> None:
    with pytest.raises(Unsafe) as refusal:
        check_file_system(Path(path), mounts)
    assert refusal.value.code == "sqlite.network"
    assert kind in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "kind"), [("/home", "ext4"), ("/srv/nfs-not", "ext4"), ("/srv/nfs/local/x", "ext4"), ("/tmp/x", "tmpfs")]
)
def test_a_local_file_system_is_fine_also_below_or_beside_a_network_one(mounts: str, path: str, kind: str) -> None:
    check_file_system(Path(path), mounts)
    assert file_system_of(Path(path), mounts) == kind


def test_where_the_kernel_does_not_say_nothing_is_refused(tmp_path: Path) -> None:
    check_file_system(tmp_path, str(tmp_path / "no such file"))


def test_every_connection_has_the_settings_that_the_promises_rest_on(quick_folder: Path) -> None:
    path = str(quick_folder / "custody.db")
    with open_store(f"sqlite:///{path}", HandClock()) as store:
        assert store.settings() == {"journal_mode": "wal", "synchronous": "2"}
    for read_only in (False, True):
        db = connect(path, read_only=read_only)
        assert (db.pragma("journal_mode"), db.pragma("synchronous")) == ("wal", 2)
        db.close()


def test_a_reader_cannot_write(quick_folder: Path) -> None:
    path = str(quick_folder / "custody.db")
    open_store(f"sqlite:///{path}", HandClock()).close()
    db = connect(path, read_only=True)
    with pytest.raises(apsw.ReadOnlyError):
        db.execute("delete from job")
    db.close()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///custody.db", "custody.db"),
        ("sqlite:////var/lib/custody.db", "/var/lib/custody.db"),
        ("sqlite://:memory:", ":memory:"),
    ],
)
def test_addresses_are_read_as_they_are_documented(url: str, path: str) -> None:
    assert file_of(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///",
        "sqlite://",
        "sqlite:",
        "sqlite:/",
        "sqlite:///  ",
        "sqlite:///:memory:",
        "sqlite::memory:",
        "sqlite:custody.db",
        "sqlite://custody.db",
        "sqlite:///custody.db?mode=ro",
        "sqlite:///custody.db?immutable=1",
        "sqlite:///custody.db?nolock",
        "sqlite:///file::memory:?cache=shared",
        "sqlite:///custody.db?",
    ],
)
def test_an_address_that_names_no_file_or_says_more_than_a_file_is_refused_and_nothing_is_made(
    url: str, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(quick_folder)
    with pytest.raises(BadInput) as refusal:
        open_store(url, HandClock())
    assert refusal.value.code == "store.address"
    assert refusal.value.hint
    for setting in ("mode", "immutable", "nolock", "cache"):
        if f"{setting}" in url:
            assert setting in refusal.value.message.rpartition(":")[2]
    assert list(quick_folder.iterdir()) == []


def test_a_folder_that_does_not_exist_is_unavailable_and_says_what_to_do(quick_folder: Path) -> None:
    with pytest.raises(Unavailable) as refusal:
        open_store(f"sqlite:///{quick_folder / 'nowhere' / 'custody.db'}", HandClock())
    assert refusal.value.hint


def test_a_file_that_is_no_database_is_unavailable(quick_folder: Path) -> None:
    file = quick_folder / "letter.txt"
    file.write_text("Dear archivist, " * 100)
    with pytest.raises(Unavailable) as refusal:
        open_store(f"sqlite:///{file}", HandClock())
    assert refusal.value.code == "store.corrupt"
    assert file.read_text().startswith("Dear archivist")


@pytest.mark.parametrize("url", ["mysql://localhost/custody", "custody.db", ""])
def test_an_address_of_no_known_sort_is_refused(url: str) -> None:
    with pytest.raises(BadInput) as refusal:
        open_store(url)
    assert refusal.value.code == "store.url"


def test_readers_do_not_wait_for_the_writer(quick_folder: Path) -> None:
    with open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock()) as store:
        job = submit(store)
        inside, done = threading.Event(), threading.Event()

        def slow(tx: object) -> None:
            inside.set()
            assert done.wait(60)

        writer = threading.Thread(target=lambda: store.db.write(slow))
        writer.start()
        assert inside.wait(60)
        assert state(store, job) == "queued"
        done.set()
        writer.join()


def test_a_store_closes_when_the_looks_under_way_are_over_and_refuses_new_ones(quick_folder: Path) -> None:
    store = open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock())
    job = submit(store)
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx: Tx) -> str:
        inside.set()
        assert go_on.wait(60)
        return str(tx.run("job", id=job)[0][3])

    with ThreadPoolExecutor(2) as pool:
        looking = pool.submit(store.db.read, slow)
        assert inside.wait(60)
        closing = pool.submit(store.close)
        while not store.db._readers._closed:  # type: ignore[attr-defined]
            time.sleep(0.001)
        for late in (lambda: state(store, job), store.heard):
            with pytest.raises(Unavailable) as refusal:
                late()
            assert refusal.value.code == "store.closed"
        assert not closing.done()
        go_on.set()
        assert looking.result(60) == "queued"
        closing.result(60)
    assert [file.name for file in quick_folder.iterdir()] == ["custody.db"]


def test_a_look_that_outlasts_the_closing_still_ends_well(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "CLOSE_SECONDS", 0.0)
    store = open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock())
    job = submit(store)

    def slow(tx: Tx) -> str:
        store.close()
        return str(tx.run("job", id=job)[0][3])

    assert store.db.read(slow) == "queued"
    assert not store.db._readers._loans  # type: ignore[attr-defined]


def test_whoever_writes_while_it_closes_is_served_or_refused_but_never_left_waiting(quick_folder: Path) -> None:
    store = open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock())
    ready = threading.Barrier(5)

    def write() -> int:
        ready.wait(60)
        for count in range(100_000):
            try:
                submit(store)
            except Unavailable:
                return count
        raise AssertionError("it was never closed")

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write) for _ in range(4)]
        ready.wait(60)
        store.close()
        served = sum(each.result(60) for each in writing)
    with open_store(store.url, HandClock()) as again:
        assert len(again.queue.list(limit=100_000)) == served


def test_threads_that_come_and_go_leave_no_connections_behind(quick_folder: Path) -> None:
    with open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock()) as store:
        job = submit(store)
        state(store, job)
        before = len(descriptors_below(quick_folder))
        for _ in range(20):
            thread = threading.Thread(target=state, args=(store, job))
            thread.start()
            thread.join()
        assert len(descriptors_below(quick_folder)) < before + 20


def test_another_process_is_noticed_by_its_commits(quick_folder: Path) -> None:
    url = f"sqlite:///{quick_folder / 'custody.db'}"
    with open_store(url, HandClock()) as mine, open_store(url, HandClock()) as theirs:
        before = mine.db.changed_elsewhere()
        assert mine.db.changed_elsewhere() == before
        submit(theirs)
        assert mine.db.changed_elsewhere() != before
        assert take_one(mine).id
        assert take(theirs) == []


def test_a_store_that_was_closed_is_one_file(quick_folder: Path) -> None:
    with open_store(f"sqlite:///{quick_folder / 'custody.db'}", HandClock()) as store:
        state(store, submit(store))
    assert [file.name for file in quick_folder.iterdir()] == ["custody.db"]


def test_a_store_in_use_is_copied_whole_and_nothing_is_left_of_a_copy_that_failed(tmp_path: Path) -> None:
    from custody.errors import NotFound
    from custody.kernel.stores.sqlite.backup import copy_to

    source, target = tmp_path / "custody.db", tmp_path / "copy.db"
    with open_store(f"sqlite:///{source}") as store:
        store.queue.submit([NewJob("parcel", {"n": n}) for n in range(50)])
        assert copy_to(source, target) == 50, "also while it is open, with its newest pages in the log"
        store.queue.submit([NewJob("parcel")])
    with open_store(f"sqlite:///{target}") as copy:
        assert len(list(copy.queue.every())) == 50
    with pytest.raises(NotFound):
        copy_to(tmp_path / "nothing.db", tmp_path / "other.db")
    (tmp_path / "torn.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(Unavailable):
        copy_to(tmp_path / "torn.db", tmp_path / "other.db")
    assert sorted(path.name for path in tmp_path.glob("other*")) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (apsw.ReadOnlyError("attempt to write a readonly database"), "store.rights"),
        (apsw.CantOpenError("unable to open database file"), "store.rights"),
        (apsw.FullError("disk is full"), "store.disk"),
        (apsw.BusyError("database is locked"), "store.busy"),
        (apsw.CorruptError("malformed"), "store.corrupt"),
    ],
)
def test_what_the_library_says_is_told_in_our_words(error: Exception, code: str) -> None:
    told = translate(error)
    assert isinstance(told, Unavailable)
    assert told.code == code


def test_a_store_whose_tables_cannot_be_made_now_is_unavailable(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0)
    other = apsw.Connection(str(quick_folder / "custody.db"))
    other.execute("pragma journal_mode = wal")
    other.execute("begin immediate")
    with pytest.raises(Unavailable) as refusal:
        open_store(f"sqlite:///{quick_folder / 'custody.db'}")
    assert refusal.value.code == "store.busy"
    other.close()


def test_a_look_during_which_the_disk_gave_up_says_so(quick_folder: Path) -> None:
    def fails(tx: SqliteTx) -> None:
        tx._db.execute("rollback")  # as SQLite does by itself then
        raise apsw.IOError("disk I/O error")

    with open_store(f"sqlite:///{quick_folder / 'custody.db'}") as store:
        with pytest.raises(Unavailable) as refusal:
            store.db.read(fails)  # type: ignore[arg-type]
    assert refusal.value.code == "store.disk"
