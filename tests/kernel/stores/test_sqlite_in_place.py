"""A SQLite file that other parts of the same program touch, take away, or leave behind by going elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3  # noqa: TID251 (what others use, in the same process)
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.errors import CustodyError, Refused, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sql import forks
from kernel.stores.acts import submit

ELSEWHERE = """
import json, sys
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
with open_store(sys.argv[1]) as store:
    made = [store.queue.submit_one(NewJob("parcel")).id for _ in range(int(sys.argv[2]))]
    print(json.dumps([made, sorted(job.id for job in store.queue.every())]))
"""


def elsewhere(file: Path, more: int = 0) -> tuple[list[int], list[int]]:
    """What another process makes there, and all it sees."""
    words = [sys.executable, "-c", ELSEWHERE, f"sqlite:///{file}", str(more)]
    made, seen = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return made, seen


def another_library(file: Path) -> None:
    db = sqlite3.connect(file)
    db.execute("select count(*) from job").fetchall()
    db.close()


def read_as_a_file(file: Path) -> None:
    """A digest, a copy; and then somebody else's SQLite is the last to close, as it thinks."""
    for name in (file, f"{file}-shm"):
        with open(name, "rb") as opened:
            opened.read()
    code = (
        f"import sqlite3; db = sqlite3.connect({str(file)!r}); db.execute('select 1 from job').fetchall(); db.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def file(quick_folder: Path) -> Path:
    return quick_folder / "custody.db"


@pytest.mark.parametrize("touch", [another_library, read_as_a_file])
def test_what_is_acknowledged_is_there_for_others_whoever_has_closed_the_file(
    file: Path, touch: Callable[[Path], None]
) -> None:
    with open_store(f"sqlite:///{file}") as store:
        acknowledged = [submit(store)]
        for _ in range(3):
            touch(file)
            acknowledged += [submit(store) for _ in range(3)]
            made, seen = elsewhere(file, 2)
            acknowledged += made
            assert seen == sorted(acknowledged)
            assert sorted(job.id for job in store.queue.every()) == seen
    assert elsewhere(file)[1] == sorted(acknowledged)
    assert [name.name for name in file.parent.iterdir()] == ["custody.db"], "the last to close folds the log"


ASKED = """
import fcntl, json, struct, sys
held = []
for name, start, length in ((sys.argv[1], 0x40000002, 510), (sys.argv[1] + "-shm", 128, 1)):
    with open(name, "r+b") as file:
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, 0, start, length, 0)
        held.append(struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))[0] == fcntl.F_RDLCK)
print(json.dumps(held))
"""


def test_the_file_and_the_index_of_its_log_are_seen_to_be_in_use_whoever_has_closed_them(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        submit(store)
        another_library(file)
        read_as_a_file(file)
        held = subprocess.run([sys.executable, "-c", ASKED, str(file)], check=True, capture_output=True, text=True)
        assert json.loads(held.stdout) == [True, True]


def test_two_stores_of_one_file_guard_it_until_the_second_is_closed(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        open_store(f"sqlite:///{file}").close()
        another_library(file)
        acknowledged = [submit(store) for _ in range(3)]
        assert elsewhere(file)[1] == acknowledged


def delete(file: Path) -> None:
    file.unlink()


def delete_the_log(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def put_another_there(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    os.replace(file.with_name("copy"), file)


@pytest.mark.parametrize("act", [delete, delete_the_log, put_another_there])
def test_nothing_is_acknowledged_into_a_file_that_was_taken_away(file: Path, act: Callable[[Path], None]) -> None:
    with open_store(f"sqlite:///{file}") as store:
        submit(store)
        act(file)
        for _ in range(2):
            with pytest.raises(Unsafe) as refused:
                submit(store)
            assert refused.value.code == "store.replaced"
            assert str(file) in refused.value.message


@pytest.fixture
def two_places(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two installations, with a store of the same name each."""
    places = (quick_folder / "ours", quick_folder / "theirs")
    for place in places:
        place.mkdir()
    with open_store(f"sqlite:///{places[1]}/custody.db") as theirs:
        theirs.queue.submit_one(NewJob("parcel", key="theirs"))
    monkeypatch.chdir(places[0])
    return places


def keys(store: Store) -> set[str | None]:
    return {job.key for job in store.queue.every()}


def test_a_store_stays_where_it_was_opened_wherever_the_program_goes(two_places: tuple[Path, Path]) -> None:
    with open_store("sqlite:///custody.db") as store:
        store.queue.submit_one(NewJob("parcel", key="first"))
        os.chdir(two_places[1])
        assert keys(store) == {"first"}
        subprocess.run(["true"], preexec_fn=os.getpid, check=True)  # a fork, for which all is closed and opened again
        store.queue.submit_one(NewJob("parcel", key="second"))
        assert keys(store) == {"first", "second"}
    with open_store(f"sqlite:///{two_places[1]}/custody.db") as theirs:
        assert keys(theirs) == {"theirs"}


def test_a_file_that_is_gone_after_a_fork_is_not_made_anew(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        submit(store)
        subprocess.run(["true"], preexec_fn=lambda: file.unlink(), check=True)
        with pytest.raises(CustodyError) as refused:
            submit(store)
        assert refused.value.code == "store.open"
    assert not file.exists()


@pytest.mark.parametrize("url", ["file", "postgres", "pooled"], indirect=True)
def test_a_signals_handler_that_submits_is_refused_and_nobody_hangs(url: str) -> None:
    """Whenever it comes: in the middle of a verb it would wait for the very thread it has interrupted."""
    refused: list[str] = []
    taken: list[int] = []
    with open_store(url) as store:

        def handler(*_: object) -> None:
            try:
                taken.append(submit(store))
            except Refused as error:
                refused.append(error.code)

        def in_the_middle(tx: object) -> int:
            os.kill(os.getpid(), signal.SIGUSR1)
            return 1

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            if url.startswith("sqlite"):
                assert store.db.write(in_the_middle) == 1
                assert refused == ["store.inside"]
            over = threading.Event()
            others = threading.Thread(target=lambda: [submit(store) for _ in iter(over.is_set, True)])
            kills = threading.Thread(
                target=lambda: [
                    (over.wait(0.003), signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
                    for _ in range(50)
                ]
            )
            others.start()
            kills.start()
            mine = []
            while kills.is_alive():
                mine.append(submit(store))
            over.set()
            others.join()
            assert set(refused) <= {"store.inside"}
            assert {*mine, *taken} <= {job.id for job in store.queue.every()}
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_nobody_joins_those_who_are_told_while_a_fork_is_made() -> None:
    joined = threading.Event()
    seen: list[bool] = []

    class Thing:
        def before_fork(self) -> None:
            threading.Thread(target=lambda: (forks.follow(other), joined.set())).start()
            seen.append(joined.wait(0.3))

        def after_fork(self) -> None:
            seen.append(joined.is_set())

        def in_child(self) -> None:
            pass

    class Other(Thing):
        def before_fork(self) -> None:
            pass

        def after_fork(self) -> None:
            pass

    thing, other = Thing(), Other()
    forks.follow(thing)
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    assert joined.wait(60)
    assert seen == [False, False]
