"""The promises of the object store, with ocfl-py as the independent judge of what is on the disk."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import ocfl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custody.errors import BadInput, CustodyError, KeyConflict, NotFound, Refused, Unavailable, Unsafe
from custody.formats.ocfl.inventory import object_folder
from custody.ingest.storage.ocfl import durable
from custody.ingest.storage.ocfl.change import Change, Given
from custody.ingest.storage.ocfl.durable import Durable
from custody.ingest.storage.ocfl.fixity import verify
from custody.ingest.storage.ocfl.open_root import DECLARATION, open_root
from custody.ingest.storage.ocfl.root import OcflRoot

ARK = "ark:/99999/fk4test"
NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


@pytest.fixture
def quick(tmp_path):
    """A folder in memory if there is one: these tests sync thousands of times, and no power is cut."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="custody-test-") as folder:
        yield Path(folder)


@pytest.fixture
def root(quick):
    return open_root(quick / "store")


class Desk:
    """Files to deposit: text by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def change(self, request: str, files: dict[str, str] | None = None, **more) -> Change:
        given = {}
        for name, text in (files or {}).items():
            path = self.folder / hashlib.sha256(text.encode()).hexdigest()
            draft = self.folder / f"draft-{threading.get_ident()}"
            draft.write_text(text)
            draft.replace(path)  # others may be reading the same text just now
            given[name] = Given(path)
        return Change(given, request, NOON, message="deposit", **more)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "desk")


def judge(root: OcflRoot) -> None:
    """A valid storage root of valid objects, in the opinion of a program that is not ours."""
    storage = ocfl.StorageRoot(root=str(root.path))
    assert storage.validate(log_warnings=True), str(storage.log)
    assert storage.good_objects == storage.num_objects, storage.errors
    notable = [message for _, message in storage.errors]
    assert not notable, notable


def contents(root: OcflRoot, identifier: str = ARK, version: int | None = None) -> dict[str, str]:
    inventory = root.inventory(identifier)
    names = inventory.versions[(version or 0) - 1].state
    return {name: root.file(identifier, name, version).read_text() for name in names}


# -- versions ----------------------------------------------------------------------------------------


def test_a_new_root_is_valid_and_is_opened_again_as_it_is(quick, root):
    judge(root)
    before = sorted(quick.rglob("*"))
    open_root(quick / "store")
    assert sorted(quick.rglob("*")) == before


def test_an_object_is_stored_as_version_1_and_read_back(root, desk):
    stored = root.store(ARK, desk.change("job-1", {"producer/a.txt": "alpha", "system/mrt-mom.txt": "mom"}))
    assert (stored.version, stored.new, stored.folder) == (1, True, root.folder(ARK))
    assert contents(root) == {"producer/a.txt": "alpha", "system/mrt-mom.txt": "mom"}
    assert root.inventory(ARK).versions[0].created == "2024-05-31T12:00:00+00:00"
    assert verify(root, ARK) == []
    judge(root)


def test_an_add_replaces_the_content_and_keeps_the_former_version(tmp_path, desk):
    root = open_root(tmp_path / "store")  # on a disk, with all its syncing
    root.store(ARK, desk.change("job-1", {"a": "one", "b": "same"}))
    stored = root.store(ARK, desk.change("job-2", {"a": "two", "b": "same"}))
    assert stored.version == 2
    assert contents(root) == {"a": "two", "b": "same"}
    assert contents(root, version=1) == {"a": "one", "b": "same"}
    judge(root)


def test_an_update_merges_into_the_last_version_and_honours_deletes(root, desk):
    root.store(ARK, desk.change("job-1", {"keep": "k", "old": "o", "go": "g", "back": "b"}))
    root.store(ARK, desk.change("job-2", {"old": "new", "back": "again"}, update=True, deletes=("go", "back")))
    assert contents(root) == {"keep": "k", "old": "new", "back": "again"}
    judge(root)


def test_an_update_of_nothing_but_deletes_is_a_version(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "a", "b": "b"}))
    assert root.store(ARK, desk.change("job-2", update=True, deletes=("b",))).version == 2
    assert contents(root) == {"a": "a"}
    judge(root)


def test_an_update_of_an_unknown_object_is_its_first_version(root, desk):
    assert root.store(ARK, desk.change("job-1", {"a": "a"}, update=True)).version == 1
    judge(root)


def test_the_same_bytes_are_stored_once(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "same", "folder/b": "same"}))
    root.store(ARK, desk.change("job-2", {"a": "same", "c": "same", "d": "other"}))
    stored = [path for path in root.folder(ARK).rglob("*") if path.is_file() and "content" in path.parts]
    assert sorted(path.read_text() for path in stored) == ["other", "same"]
    assert contents(root) == {"a": "same", "c": "same", "d": "other"}
    judge(root)


def test_unchanged_content_makes_no_version(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "a"}))
    stored = root.store(ARK, desk.change("job-2", {"a": "a"}))
    assert (stored.version, stored.new) == (1, False)
    judge(root)


# -- idempotence -------------------------------------------------------------------------------------


def test_the_same_request_again_answers_the_version_it_made(root, desk):
    first, second = desk.change("job-1", {"a": "1"}), desk.change("job-2", {"a": "2"}, update=True)
    for change in (first, second):
        root.store(ARK, change)
    assert [root.store(ARK, change).version for change in (first, second, first)] == [1, 2, 1]
    assert len(root.inventory(ARK).versions) == 2
    judge(root)


def test_an_update_with_deletes_can_be_asked_again(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "a", "b": "b"}))
    change = desk.change("job-2", {"c": "c"}, update=True, deletes=("b",))
    assert [root.store(ARK, change).version for _ in range(2)] == [2, 2]


def test_a_request_that_comes_back_with_other_content_is_refused(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "1"}))
    with pytest.raises(KeyConflict) as refused:
        root.store(ARK, desk.change("job-1", {"a": "2"}))
    assert refused.value.code == "object.request"


# -- two writers -------------------------------------------------------------------------------------


def test_a_second_writer_of_the_same_object_is_refused_and_others_are_not(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "1"}))
    answers: list[object] = []

    def intrude(step: str) -> None:
        if step.startswith("exchange"):
            for identifier in (ARK, "ark:/99999/other"):
                try:
                    answers.append(root.store(identifier, desk.change("job-3", {"a": "3"})).version)
                except Refused as refused:
                    answers.append(refused.code)

    busy = OcflRoot(root.path, root.staging, Durable(intrude), root.user)
    assert busy.store(ARK, desk.change("job-2", {"a": "2"})).version == 2
    assert answers == ["object.busy", 1]
    assert contents(root) == {"a": "2"}
    judge(root)


def test_many_writers_of_many_objects_do_not_disturb_each_other(root, desk):
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(8):
                # Two workers per object.
                identifier = f"urn:object-{worker // 2}-{number}"
                change = desk.change(f"job-{worker}-{number}", {"a": f"{worker}", "b": f"{number}"})
                while True:
                    try:
                        root.store(identifier, change)
                        break
                    except Refused as refused:
                        assert refused.code == "object.busy"  # noqa: PT017
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert all(len(root.inventory(f"urn:object-{pair}-{n}").versions) == 2 for pair in range(2) for n in range(8))
    assert list(root.staging.iterdir()) == []
    judge(root)


def test_a_lock_that_was_removed_while_it_was_awaited_is_no_lock(quick, monkeypatch):
    disk, bench = Durable(), quick / "bench"
    first = durable.lock_folder(bench, disk)
    real = durable.fcntl.flock

    def end_first_then_lock(descriptor: int, how: int) -> None:
        monkeypatch.setattr(durable.fcntl, "flock", real)
        durable.unlock_folder(bench, first, disk)
        real(descriptor, how)

    monkeypatch.setattr(durable.fcntl, "flock", end_first_then_lock)
    second = durable.lock_folder(bench, disk)
    assert durable.lock_folder(bench, disk) is None
    durable.unlock_folder(bench, second, disk)
    assert not bench.exists()


def test_two_new_objects_that_share_the_folders_above_them_both_arrive(root, desk):
    first = "urn:object"
    shares = (f"urn:object-{n}" for n in range(10**6))
    other = next(each for each in shares if object_folder(each)[:3] == object_folder(first)[:3])

    def intrude(step: str) -> None:
        if step.endswith(f"-> {root.path / object_folder(first)[:3]}"):
            root.store(other, desk.change("job-2", {"a": "2"}))

    slow = OcflRoot(root.path, root.staging, Durable(intrude), root.user)
    slow.store(first, desk.change("job-1", {"a": "1"}))
    assert (contents(root, first), contents(root, other)) == ({"a": "1"}, {"a": "2"})
    judge(root)


def test_a_change_made_from_an_older_version_is_refused_if_the_caller_cares(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "1"}, head=0))
    with pytest.raises(Refused) as refused:
        root.store(ARK, desk.change("job-2", {"a": "2"}, head=0))
    assert refused.value.code == "object.moved"
    assert root.store(ARK, desk.change("job-2", {"a": "2"}, head=1)).version == 2


# -- fixity ------------------------------------------------------------------------------------------


def test_the_depositors_digests_are_checked_and_recorded(root, desk):
    text = "alpha"
    change = desk.change("job-1", {"a": text})
    digests = {name: hashlib.new(name, text.encode()).hexdigest() for name in ("md5", "sha1", "sha256", "sha384")}
    root.store(ARK, Change({"a": Given(change.files["a"].path, digests)}, "job-1", NOON))
    (content,) = root.inventory(ARK).content.values()
    assert content.fixity == {name: digests[name] for name in ("md5", "sha1", "sha256")}
    judge(root)


@pytest.mark.parametrize("stored_before", [False, True])
def test_bytes_that_are_not_what_was_sent_are_refused_and_nothing_is_left(root, desk, stored_before):
    change = desk.change("job-1", {"a": "alpha"})
    if stored_before:
        root.store(ARK, change)
    sent = {"md5": hashlib.md5(b"alphb").hexdigest()}
    with pytest.raises(BadInput) as refused:
        root.store(ARK, Change({"b": Given(change.files["a"].path, sent)}, "job-2", NOON))
    assert refused.value.code == "digest.mismatch"
    assert refused.value.facts["expected"] == sent["md5"]
    assert list(root.staging.iterdir()) == []
    judge(root)


def _reword(inventory: Path) -> None:
    inventory.write_text(inventory.read_text().replace("deposit", "deposed"))


DAMAGES = {
    "a reworded inventory": lambda folder: _reword(folder / "inventory.json"),
    "a reworded old inventory": lambda folder: _reword(folder / "v1/inventory.json"),
    "a changed byte": lambda folder: (folder / "v1/content/a").write_text("alphA"),
    "a lost file": lambda folder: (folder / "v1/content/a").unlink(),
    "a stray file": lambda folder: (folder / "v2/content/stray").write_text("?"),
    "a changed inventory": lambda folder: (folder / "inventory.json").write_text("{}"),
    "a changed old inventory": lambda folder: (folder / "v1/inventory.json").write_text("{}"),
    "a lost declaration": lambda folder: (folder / "0=ocfl_object_1.1").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_verify_finds_what_happened_to_an_object(root, desk, damage):
    root.store(ARK, desk.change("job-1", {"a": "alpha"}))
    root.store(ARK, desk.change("job-2", {"a": "alpha", "b": "beta"}))
    assert verify(root, ARK) == []
    damage(root.folder(ARK))
    assert len(verify(root, ARK)) == 1


def test_a_damaged_object_gets_no_further_version(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "alpha"}))
    (root.folder(ARK) / "v1/content/a").unlink()
    with pytest.raises(Refused) as refused:
        root.store(ARK, desk.change("job-2", {"a": "beta"}))
    assert refused.value.code == "object.damaged"


# -- refusals ----------------------------------------------------------------------------------------

BAD = {
    "no file at all": ({}, {}, "object.empty"),
    "a path that leaves the object": ({"../a": "a"}, {}, "object.path"),
    "an absolute path": ({"/a": "a"}, {}, "object.path"),
    "a folder where a file is": ({"a": "a", "a/b": "b"}, {}, "object.path"),
    "a name no disk can hold": ({"a" * 256: "a"}, {}, "object.path"),
    "deletes in an add": ({"a": "a"}, {"deletes": ("b",)}, "object.deletes"),
    "a delete of nothing": ({"a": "a"}, {"deletes": ("zz",), "update": True}, "object.delete-missing"),
}


@pytest.mark.parametrize(("files", "more", "code"), BAD.values(), ids=BAD.keys())
def test_a_change_that_makes_no_sense_is_refused_and_leaves_nothing(root, desk, files, more, code):
    with pytest.raises(BadInput) as refused:
        root.store(ARK, desk.change("job-1", files, **more))
    assert refused.value.code == code
    assert not root.folder(ARK).exists()
    assert list(root.staging.iterdir()) == []


@pytest.mark.parametrize("request_id", ["", "a b", "x]", "é", "a" * 129])
def test_a_request_id_that_could_not_be_found_again_is_refused(root, desk, request_id):
    with pytest.raises(BadInput):
        root.store(ARK, desk.change(request_id, {"a": "a"}))


@pytest.mark.parametrize("stored_before", [False, True])
def test_a_symbolic_link_is_not_followed(root, desk, tmp_path, stored_before):
    (tmp_path / "file").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    if stored_before:
        root.store(ARK, desk.change("job-1", {"a": "a"}))
    with pytest.raises(BadInput):
        root.store(ARK, Change({"a": Given(tmp_path / "link")}, "job-1", NOON))


def test_a_time_without_its_zone_is_refused(root, desk):
    change = desk.change("job-1", {"a": "a"})
    with pytest.raises(BadInput):
        root.store(ARK, Change(change.files, "job-1", NOON.replace(tzinfo=None)))


def test_a_full_disk_is_worth_another_try_and_leaves_the_object_as_it_was(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "a"}))

    def full(step: str) -> None:
        if step.startswith("write") and "v2" in step:
            raise OSError(28, "No space left on device")

    broken = OcflRoot(root.path, root.staging, Durable(full), root.user)
    with pytest.raises(Unavailable):
        broken.store(ARK, desk.change("job-2", {"a": "b"}))
    assert contents(root) == {"a": "a"}
    assert list(root.staging.iterdir()) == []
    judge(root)


def test_a_folder_with_other_things_in_it_is_no_root(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "letter.txt").write_text("mine")
    with pytest.raises(Refused):
        open_root(tmp_path / "store")


def test_a_root_with_another_layout_is_refused(root):
    (root.path / "ocfl_layout.json").write_text('{"extension": "0002-flat-direct-storage-layout"}')
    with pytest.raises(Refused):
        open_root(root.path)


def test_a_staging_folder_on_another_file_system_is_unsafe(tmp_path):
    elsewhere = Path("/dev/shm") / f"custody-{os.getpid()}"
    if not elsewhere.parent.is_dir() or elsewhere.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    try:
        with pytest.raises(Unsafe):
            open_root(tmp_path / "store", staging=elsewhere)
    finally:
        elsewhere.rmdir()


def test_what_is_not_there_is_not_found(root, desk):
    root.store(ARK, desk.change("job-1", {"a": "a"}))
    for look in (
        lambda: root.inventory("ark:/99999/none"),
        lambda: root.file(ARK, "zz"),
        lambda: root.file(ARK, "a", 2),
        lambda: verify(root, "ark:/99999/none"),
    ):
        with pytest.raises(NotFound):
            look()


@pytest.mark.parametrize("identifier", ["object-01", "..hor/rib:le-$id", "é" * 40, "a" * 200, "ark:/13030/m5xyz"])
def test_objects_are_where_the_layout_says(identifier):
    layout = ocfl.layout_registry.get_layout("0003-hash-and-id-n-tuple-storage-layout")
    assert object_folder(identifier) == layout.identifier_to_path(identifier)


# -- crashes -----------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone. Nothing it would do later happens."""


class Countdown:
    def __init__(self, steps: int) -> None:
        self.left, self.taken = steps, []

    def __call__(self, step: str) -> None:
        if len(self.taken) >= self.left:
            raise Crash(step)
        self.taken.append(step)


def prepared(folder: Path, *, can_exchange: bool = True) -> tuple[OcflRoot, Desk]:
    root, desk = open_root(folder / "store"), Desk(folder / "desk")
    root = OcflRoot(root.path, root.staging, Durable(can_exchange=can_exchange), root.user)
    root.store(ARK, desk.change("job-1", {"a": "1", "x/b": "same", "gone": "g"}))
    return root, desk


def watched(root: OcflRoot, steps: int) -> tuple[OcflRoot, Countdown]:
    watch = Countdown(steps)
    return OcflRoot(root.path, root.staging, Durable(watch, root.disk.can_exchange), root.user), watch


CHANGES = {
    "a first version": ("ark:/99999/new", {"files": {"a": "1", "b/c": "2"}}),
    "a second version": (ARK, {"files": {"a": "2", "x/b": "same", "c": "3"}}),
    "an update": (ARK, {"files": {"a": "2", "new/d": "4"}, "update": True, "deletes": ("gone",)}),
}


def steps_of(tmp_path: Path, identifier: str, change: dict, **how) -> list[str]:
    root, desk = prepared(tmp_path, **how)
    dying, watch = watched(root, 10**9)
    dying.store(identifier, desk.change("job-2", **change))
    return watch.taken


@pytest.mark.parametrize(("identifier", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_a_crash_at_any_step_leaves_a_valid_root_and_the_redo_makes_one_version(quick, identifier, change):
    total = len(steps_of(quick / "count", identifier, change))
    assert total > 20
    for steps in range(total):
        root, desk = prepared(quick / f"{steps}")
        before = contents(root) if identifier == ARK else None
        dying, _ = watched(root, steps)
        with pytest.raises(Crash):
            dying.store(identifier, desk.change("job-2", **change))

        judge(root)  # valid as the crash left it
        assert verify(root, ARK) == []

        expected = 1 if before is None else 2
        assert root.store(identifier, desk.change("job-2", **change)).version == expected
        assert len(root.inventory(identifier).versions) == expected
        assert list(root.staging.iterdir()) == []
        judge(root)


@pytest.mark.parametrize("name", ["a second version", "an update"])
def test_without_exchange_a_crash_loses_nothing_and_tidying_up_heals_it(quick, name):
    identifier, change = CHANGES[name]
    total = len(steps_of(quick / "count", identifier, change, can_exchange=False))
    away = 0
    for steps in range(total):
        root, desk = prepared(quick / f"{steps}", can_exchange=False)
        dying, _ = watched(root, steps)
        with pytest.raises(Crash):
            dying.store(identifier, desk.change("job-2", **change))
        away += not root.folder(ARK).exists()

        root.tidy()
        assert list(root.staging.iterdir()) == []
        judge(root)
        assert verify(root, ARK) == []
        assert root.store(identifier, desk.change("job-2", **change)).version == 2
        judge(root)
    assert away  # the moment this is about was among them


@pytest.mark.parametrize(("identifier", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_nothing_is_made_visible_before_it_is_synced(tmp_path, identifier, change):
    steps = steps_of(tmp_path, identifier, change)
    shown = next(
        place
        for place, step in enumerate(steps)
        if step.startswith("exchange") or (step.startswith("rename") and "/store/" in step.partition("->")[2])
    )
    before, after = steps[:shown], steps[shown + 1 :]
    synced = {step.partition(" ")[2] for step in before if step.startswith("synced ")}
    written = {step.partition(" ")[2] for step in before if step.startswith("write ")}
    folders = {step.partition(" ")[2] for step in before if step.startswith("folder ")}
    assert written <= synced
    assert {each for each in folders if "/new" in each} <= synced
    above = [Path(each) for each in folders if "/above" in each]
    assert {str(each) for deepest in above for each in (deepest, *deepest.parents) if "above" in each.parts} <= synced
    # And what was made visible is made durable: the folder that has the name now.
    shown_at = Path(re.split(" (?:->|<->) ", steps[shown])[1])
    assert f"synced {shown_at.parent}" in after


def test_a_root_made_by_a_process_that_dies_is_made_by_the_next(quick):
    for steps in range(100):
        path = quick / f"{steps}" / "store"
        try:
            open_root(path, disk=Durable(Countdown(steps)))
        except Crash:
            root = open_root(path)
            judge(root)
            root.tidy()
            assert list(root.staging.iterdir()) == []
        else:
            return
    pytest.fail("never finished")


def test_many_processes_that_open_a_new_root_at_once_get_the_same_one(quick):
    roots: list[OcflRoot] = []
    threads = [threading.Thread(target=lambda: roots.append(open_root(quick / "store"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(roots) == 8
    assert list(roots[0].staging.iterdir()) == []
    judge(roots[0])


def test_a_root_that_another_process_finishes_between_two_looks_is_opened(quick, monkeypatch):
    exists, looked = Path.exists, []

    def slow(path: Path) -> bool:
        if path.name == DECLARATION and not looked:
            looked.append(path)
            open_root(quick / "store")  # by the other
            return False
        return exists(path)

    monkeypatch.setattr(Path, "exists", slow)
    judge(open_root(quick / "store"))
    assert looked


# -- any history -------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "x/a", "x/b", "y/z/a"])
files = st.dictionaries(names, st.sampled_from(["", "1", "2", "22"]), max_size=4)
histories = st.lists(st.tuples(files, st.booleans(), st.lists(names, max_size=2)), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories)
def test_any_history_of_changes_reads_back_as_it_was_made(quick, history):
    folder = Path(tempfile.mkdtemp(dir=quick))
    root, desk = open_root(folder / "store"), Desk(folder / "desk")
    made: list[dict[str, str]] = []
    for number, (given_files, update, deletes) in enumerate(history):
        change = desk.change(f"job-{number}", given_files, update=update, deletes=tuple(deletes) if update else ())
        expected = dict(made[-1]) if made and update else {}
        try:
            stored = root.store(ARK, change)
        except CustodyError:
            continue
        for name in change.deletes:
            del expected[name]
        expected |= given_files
        if stored.new:
            made.append(expected)
        assert made[stored.version - 1] == expected
        assert root.store(ARK, change).version == stored.version
    assert [contents(root, version=n + 1) for n in range(len(made))] == made
    judge(root)
