"""A SQLite store whose bytes others change where they are, that gets a second name, or loses its descriptors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from custody.cli.doctor.server import went_back
from custody.errors import CustodyError, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.sqlite.backup import copy_to
from custody.kernel.stores.sqlite.file_guard import InPlace
from kernel.stores.acts import submit

MORE = """
import sys
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
with open_store(f"sqlite:///{sys.argv[1]}") as store:
    for number in range(int(sys.argv[2])):
        store.queue.submit_one(NewJob("elsewhere", {"fill": "x" * 3000}))
"""
PLAY_BACK = """
import apsw, sys
source, target = apsw.Connection(sys.argv[1]), apsw.Connection(sys.argv[2])
with target.backup("main", source, "main") as backup:
    backup.step()
"""


def elsewhere(code: str, *words: object) -> None:
    subprocess.run([sys.executable, "-c", code, *map(str, words)], check=True, timeout=60)


@pytest.fixture
def file(quick_folder: Path) -> Path:
    return quick_folder / "custody.db"


def fill(store: Store, count: int) -> None:
    for _ in range(count):
        store.queue.submit_one(NewJob("parcel", {"fill": "x" * 3000}))


def earlier(file: Path) -> Path:
    return file.with_name("earlier.db")


def put_a_copy_over_it(file: Path) -> None:
    shutil.copyfile(earlier(file), file)


def put_a_copy_over_it_and_keep_its_times(file: Path) -> None:
    shutil.copyfile(earlier(file), file)
    shutil.copystat(earlier(file), file)


def empty_the_file(file: Path) -> None:
    os.truncate(file, 0)


def empty_the_log(file: Path) -> None:
    os.truncate(f"{file}-wal", 0)


def put_an_earlier_log_over_it(file: Path) -> None:
    """Its beginning, as somebody has copied it before."""
    log = Path(f"{file}-wal")
    begun = log.read_bytes()[: 32 + 3 * (24 + 4096)]
    log.write_bytes(begun)


def delete_the_index(file: Path) -> None:
    Path(f"{file}-shm").unlink()


def play_a_copy_back(file: Path) -> None:
    elsewhere(PLAY_BACK, earlier(file), file)


OVERWRITTEN = {
    put_a_copy_over_it: "store.replaced",
    put_a_copy_over_it_and_keep_its_times: "store.replaced",
    empty_the_file: "store.replaced",
    empty_the_log: "store.replaced",
    put_an_earlier_log_over_it: "store.replaced",
    delete_the_index: "store.replaced",
    play_a_copy_back: "store.went_back",
}


@pytest.mark.parametrize("folded", ["nothing folded", "all folded", "some folded"])
@pytest.mark.parametrize("act", OVERWRITTEN)
def test_nothing_is_acknowledged_any_more_once_the_file_or_its_log_was_overwritten(
    file: Path, act: Callable[[Path], None], folded: str
) -> None:
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 30)
    copy_to(file, earlier(file))
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 30)
        if folded != "nothing folded":
            fill(store, 300)
            fold(file)
        if folded == "some folded":
            fill(store, 3)
            elsewhere(MORE, file, 3)
        fill(store, 1)
        act(file)
        codes = set()
        for _ in range(3):
            with pytest.raises(Unsafe) as refused:
                submit(store)
            codes.add(refused.value.code)
            assert str(file) in refused.value.message
            assert refused.value.hint
        assert codes == {OVERWRITTEN[act]}


def fold(file: Path) -> None:
    elsewhere(
        "import apsw, sys; apsw.Connection(sys.argv[1]).execute('pragma wal_checkpoint(passive)').fetchall()", file
    )


def test_a_process_that_only_had_the_store_open_notices_that_it_went_back(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 3)
    copy_to(file, earlier(file))
    elsewhere(MORE, file, 5)
    with open_store(f"sqlite:///{file}") as store:
        play_a_copy_back(file)
        with pytest.raises(Unsafe) as refused:
            submit(store)
        assert refused.value.code == "store.went_back"
        with pytest.raises(Unsafe):
            submit(store)


def test_a_history_that_went_back_tells_so_once_for_each_who_noticed(file: Path) -> None:
    """Who opens it later sees a store that is whole, and would call it fine."""
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 3)
    shutil.copyfile(file, by_hand := file.with_name("by-hand.db"))
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 2)
        elsewhere(PLAY_BACK, by_hand, file)
        for _ in range(3):
            with pytest.raises(Unsafe):
                submit(store)
    with open_store(f"sqlite:///{file}") as store:
        (told,) = store.records.events("store")
        (found,) = went_back(store)
        assert submit(store)
    assert (told.type, told.outcome, told.detail["missing"]) == ("went-back", "failure", None)
    assert (found.grade, "went back to an earlier state while it was open" in found.what) == ("unsafe", True)


def test_what_is_taken_back_while_a_fork_is_made_is_noticed_after_it(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 3)
        copy_to(file, earlier(file))
        fill(store, 3)
        subprocess.run(["true"], preexec_fn=lambda: os.replace(earlier(file), file), check=True)
        with pytest.raises(Unsafe) as refused:
            submit(store)
        assert refused.value.code in ("store.replaced", "store.went_back")


def test_what_was_found_overwritten_is_left_as_it_is_when_the_store_is_closed(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 3)
    copy_to(file, earlier(file))
    with open_store(f"sqlite:///{file}") as store:
        fill(store, 30)
        put_a_copy_over_it(file)
        with pytest.raises(Unsafe):
            submit(store)
    assert file.read_bytes() == earlier(file).read_bytes()
    assert Path(f"{file}-wal").stat().st_size > 30 * 3000


def read_and_write(file: Path) -> None:
    elsewhere(MORE, file, 400)


def fold_and_empty(file: Path) -> None:
    elsewhere(
        "import apsw, sys; apsw.Connection(sys.argv[1]).execute('pragma wal_checkpoint(truncate)').fetchall()", file
    )


def make_smaller(file: Path) -> None:
    elsewhere("import apsw, sys; apsw.Connection(sys.argv[1]).execute('vacuum')", file)


def copy(file: Path) -> None:
    copy_to(file, earlier(file))


@pytest.mark.parametrize("act", [read_and_write, fold_and_empty, make_smaller, fold, copy, os.utime])
def test_what_other_processes_may_do_with_it_is_not_taken_for_that(file: Path, act: Callable[[Path], None]) -> None:
    with open_store(f"sqlite:///{file}") as store:
        for _ in range(3):
            fill(store, 20)
            act(file)
            fill(store, 400)
            act(file)
        assert store.queue.counts()


def test_a_store_that_is_opened_while_another_thread_closes_the_same_file_is_as_it_should_be(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its index was deleted, and the guard of the one who did so is still there."""
    first = open_store(f"sqlite:///{file}")
    fill(first, 3)
    second: list[Store] = []
    close = InPlace.close

    def slowly(guard: InPlace) -> None:
        if not second:
            second.append(open_store(f"sqlite:///{file}"))
        close(guard)

    monkeypatch.setattr(InPlace, "close", slowly)
    first.close()
    fill(second[0], 3)
    second[0].close()


# a second name


def test_a_file_with_a_second_name_is_opened_under_neither(file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    other = file.with_name("other.db")
    os.link(file, other)
    for name in (file, other):
        with pytest.raises(Unsafe) as refused:
            open_store(f"sqlite:///{name}")
        assert refused.value.code == "store.linked"
        assert ({"custody.db", "other.db"} - {name.name}).pop() in refused.value.message
    with pytest.raises(Unsafe):
        copy_to(file, earlier(file))
    other.unlink()
    open_store(f"sqlite:///{file}").close()


def test_nothing_is_acknowledged_any_more_once_the_file_has_a_second_name(file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:
        submit(store)
        os.link(file, file.with_name("other.db"))
        for _ in range(2):
            with pytest.raises(Unsafe) as refused:
                submit(store)
            assert refused.value.code == "store.linked"


# descriptors

ROBBED = """
import os, sys
from custody.errors import CustodyError
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
file, reuse = sys.argv[1], sys.argv[2] == "reused"
store = open_store(f"sqlite:///{file}")
store.queue.submit_one(NewJob("parcel"))
list(store.queue.every())
store.db.changed_elsewhere()
os.closerange(3, 256)
mine = [open(f"{file}.mine{number}", "w+") for number in range(40)] if reuse else []
for each in mine:
    each.write("mine")
    each.flush()
verbs = (lambda: store.queue.submit_one(NewJob("parcel")), lambda: list(store.queue.every()), store.db.changed_elsewhere)
for verb in verbs:
    try:
        verb()
        print("done")
    except CustodyError as error:
        print(error.code)
store.close()
try:
    open_store(f"sqlite:///{file}")
except CustodyError as error:
    print(error.code)
del store
for each in mine:
    each.seek(0)
    assert each.read() == "mine", each.name
    each.close()
print("whole")
"""


@pytest.mark.parametrize("how", ["closed", "reused"])
def test_descriptors_that_the_program_has_closed_are_told_and_those_of_others_left_alone(file: Path, how: str) -> None:
    words = [sys.executable, "-c", ROBBED, str(file), how]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    written, _, _, opened, whole = said.stdout.split()
    assert (written, opened, whole) == ("store.descriptors", "store.descriptors", "whole")
    with open_store(f"sqlite:///{file}") as store:
        assert len(list(store.queue.every())) == 1


def test_errors_of_locks_are_typed(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    with open_store(f"sqlite:///{file}") as store:

        def fails(tx: object) -> None:
            raise apsw.ProtocolError("locking protocol")

        with pytest.raises(CustodyError) as refused:
            store.db.write(fails)
        assert refused.value.code == "store.locks"
