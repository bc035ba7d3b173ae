"""A copy in the place of a store: beside the log of a store that was killed, by hand, and by `custody store restore`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from custody.cli.doctor.report import examine
from custody.cli.times import moment
from custody.errors import CustodyError, Refused, Unavailable, Unsafe
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.sqlite import connection, former_store
from custody.kernel.stores.sqlite import restore as restoring
from custody.kernel.stores.sqlite.backup import copy_to
from custody.kernel.stores.sqlite.restore import restore
from rig.commands import Run

KILLED = """
import os, sys
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
store = open_store(f"sqlite:///{sys.argv[1]}")
for number in range(int(sys.argv[2])):
    store.queue.submit_one(NewJob("killed", {"fill": "x" * int(sys.argv[3])}))
os.kill(os.getpid(), 9)
"""


def killed(file: Path, jobs: int, size: int = 2000) -> None:
    """Work that ends with its log where it was."""
    subprocess.run([sys.executable, "-c", KILLED, str(file), str(jobs), str(size)], check=False, timeout=60)
    assert Path(f"{file}-wal").stat().st_size


def fill(file: Path, jobs: int) -> None:
    with open_store(f"sqlite:///{file}") as store:
        for _ in range(jobs):
            store.queue.submit_one(NewJob("kept"))


def jobs_in(file: Path) -> list[int]:
    with open_store(f"sqlite:///{file}") as store:
        assert recount(store) == []
        return sorted(job.id for job in store.queue.every())


@pytest.fixture
def file(quick_folder: Path) -> Path:
    return quick_folder / "custody.db"


@pytest.fixture
def copy(file: Path) -> Path:
    """A copy of 3 jobs, of a store that has 3 more and the log of 40 others whose process was killed."""
    fill(file, 3)
    copy_to(file, file.with_name("copy.db"))
    fill(file, 3)
    killed(file, 40)
    return file.with_name("copy.db")


def refused(file: Path) -> str:
    with pytest.raises(Unsafe) as error:
        open_store(f"sqlite:///{file}")
    assert error.value.hint
    return error.value.code


def files(file: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in file.parent.iterdir() if not each.name.endswith("-shm")}


@pytest.mark.parametrize("was", ["as it was made", "opened since", "opened and written to since"])
def test_a_copy_beside_the_log_of_another_is_refused_and_neither_is_touched(file: Path, copy: Path, was: str) -> None:
    if was != "as it was made":
        fill(copy, 0 if was == "opened since" else 200)
    shutil.copyfile(copy, file)
    before = files(file)
    assert refused(file) == "store.log"
    assert refused(file) == "store.log"
    with pytest.raises(Unsafe):
        copy_to(file, file.with_name("second.db"))
    assert files(file) == before
    for end in ("-wal", "-shm"):
        os.rename(f"{file}{end}", f"{file}{end}.away")
    assert len(jobs_in(file)) == (203 if was == "opened and written to since" else 3)


def test_a_plain_copy_of_an_earlier_file_is_refused_if_the_log_goes_on_from_a_later_one(file: Path) -> None:
    fill(file, 3)
    shutil.copyfile(file, file.with_name("plain"))
    for _ in range(3):
        fill(file, 200)
    killed(file, 100)
    shutil.copyfile(file.with_name("plain"), file)
    assert refused(file) == "store.log"


@pytest.mark.parametrize("how", ["emptied", "gone"])
def test_a_log_beside_no_file_is_not_deleted(file: Path, copy: Path, how: str) -> None:
    os.truncate(file, 0) if how == "emptied" else file.unlink()
    assert refused(file) == "store.log"
    assert Path(f"{file}-wal").stat().st_size


@pytest.mark.parametrize("jobs", [1, 2, 7, 40, 400])
@pytest.mark.parametrize("size", [1, 9000])
def test_a_store_whose_process_was_killed_is_opened_with_its_own_log(file: Path, jobs: int, size: int) -> None:
    count = 0
    for times in range(4):
        killed(file, jobs, size)
        count += jobs
        if times % 2:
            assert len(jobs_in(file)) == count


# custody store restore


def test_a_restored_store_is_the_copy_and_the_old_one_is_beside_it(file: Path, copy: Path) -> None:
    done = restore(copy, file, "ada")
    assert (done.jobs, done.missing and (done.missing.jobs, done.missing.subjects[0])) == (3, (43, "job/4"))
    with open_store(f"sqlite:///{file}") as store:
        assert recount(store) == []
        (told,) = [event for event in store.records.events("store") if event.type == "went-back"]
        assert (told.agent, told.detail["jobs"], told.detail["restored"]) == ("ada", 43, str(copy))
        assert store.queue.submit_one(NewJob("new")).id == 47, "no number is given out a second time"
    assert done.aside
    assert len(jobs_in(done.aside)) == 46
    found = [finding for finding in examine(f"sqlite:///{file}", None) if "history went back" in finding.what]
    assert [finding.grade for finding in found] == ["unsafe"]


def test_a_store_is_restored_where_the_old_one_cannot_be_read_or_is_gone(file: Path, copy: Path) -> None:
    file.write_bytes(b"x" * 5000)
    done = restore(copy, file, "ada")
    assert done.missing is None
    assert done.aside
    assert done.aside.read_bytes() == b"x" * 5000
    assert jobs_in(file) == [1, 2, 3]
    file.unlink()
    assert restore(copy, file, "ada").aside is None
    assert jobs_in(file) == [1, 2, 3]


def test_a_store_that_somebody_has_open_is_not_restored(file: Path, copy: Path) -> None:
    code = f"from custody.kernel.stores import open_store\nopen_store('sqlite:///{file}')\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(Refused) as told:
            restore(copy, file, "ada")
        assert told.value.code == "restore.open"
        other.communicate(b"\n")
    assert len(jobs_in(file)) == 46


def test_what_is_no_sound_copy_is_not_put_in_place(file: Path, copy: Path) -> None:
    raw = bytearray(copy.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 4096] = b"y" * 4096
    copy.write_bytes(raw)
    for bad in (copy, file, file.with_name("none")):
        with pytest.raises(CustodyError) as told:
            restore(bad, file, "ada")
        assert told.value.code in ("backup.unsound", "restore.failed", "restore.same", "restore.unknown")
    assert len(jobs_in(file)) == 46
    assert sorted(each.name for each in file.parent.iterdir()) == ["copy.db", "custody.db"]


class Interrupted(Exception):
    """As if it were killed."""


def outcome(file: Path) -> str:
    try:
        return f"{len(jobs_in(file))} jobs"
    except Unsafe as error:
        return error.code


@pytest.mark.parametrize("step", range(9))
def test_whenever_it_is_interrupted_nothing_is_lost_and_it_is_done_by_saying_it_again(
    file: Path, copy: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each change of a name, and each time that is made sure to be on disk."""
    steps = iter(range(100))

    def once(act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Path, *more: Any, **options: Any) -> Any:
            ours = ".restoring" not in str(path) or act is replace
            if ours and next(steps) == step:
                raise Interrupted
            return act(path, *more, **options)

        return wrapped

    replace = os.replace
    with monkeypatch.context() as patch, suppress(Interrupted):
        for owner, name in ((os, "link"), (os, "replace"), (os, "unlink"), (restoring, "sync")):
            patch.setattr(owner, name, once(getattr(owner, name)))
        restore(copy, file, "ada")
    assert outcome(file) in ("3 jobs", "46 jobs", "store.linked")
    done = restore(copy, file, "ada")
    assert jobs_in(file) == [1, 2, 3]
    kept = [
        each for each in file.parent.glob("custody.db.before-restore-*") if not each.name.endswith(("-wal", "-shm"))
    ]
    assert done.aside in kept
    assert 46 in [len(jobs_in(each)) for each in kept]


def test_the_command_says_what_is_kept_and_what_is_missing(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "greet")
    assert custody("store", "backup", "copy.db").code == 0
    custody("job", "submit", "greet")
    said = custody("store", "restore", "copy.db")
    assert said.code == 1, "what is missing is no good end"
    assert "custody.db.before-restore-1" in said.out
    assert "first submitted since: job/2" in said.out
    assert custody("job", "list", "--json").json() != []
    assert custody("store", "restore", "copy.db", "--store", "postgresql://localhost/none").code == 3
    again = custody("store", "restore", "copy.db", "--json")
    assert again.code == 1, "what the first has lost is not in the copy either"
    assert again.json()["aside"].endswith("before-restore-2")  # type: ignore[index, call-overload]


@pytest.mark.parametrize("was", ["garbage", "gone"])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["words", "json"])
def test_the_command_does_not_end_well_where_what_is_missing_is_not_known(
    custody: Run, tmp_path: Path, was: str, form: list[str]
) -> None:
    custody("job", "submit", "greet")
    assert custody("store", "backup", "copy.db").code == 0
    custody("job", "submit", "greet")
    (tmp_path / "custody.db").unlink()
    if was == "garbage":
        (tmp_path / "custody.db").write_bytes(b"no store" * 1000)
    said = custody("store", "restore", "copy.db", *form)
    assert said.code == 1, said
    assert form or "what is missing now is not known" in said.out
    assert [job["id"] for job in custody("job", "list", "--json").json()] == [1], "the copy is in place"


def test_a_link_that_cannot_be_made_leaves_everything_as_it_is(
    file: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(1, "no links here")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuses)
        with pytest.raises(Unavailable) as told:
            restore(copy, file, "ada")
    assert told.value.code == "restore.failed"
    assert len(jobs_in(file)) == 46


def test_a_file_that_is_replaced_while_it_is_being_opened_is_not_written_to(
    file: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the locks of the old file has it open, and would go on with what was set aside."""
    real = connection.apsw.Connection

    def slow(path: str, flags: int) -> object:
        opened = real(path, flags=flags)
        os.replace(copy, file)
        return opened

    Path(f"{file}-wal").unlink()
    monkeypatch.setattr(connection.apsw, "Connection", slow)
    with pytest.raises(Unsafe) as told:
        connection.connect(str(file))
    assert told.value.code == "store.replaced"


# What lies beside the copy


def foreign_log(folder: Path) -> bytes:
    """The log of quite another store."""
    (folder / "elsewhere").mkdir()
    killed(folder / "elsewhere/other.db", 25)
    log = (folder / "elsewhere/other.db-wal").read_bytes()
    shutil.rmtree(folder / "elsewhere")
    return log


def test_the_log_of_another_is_not_played_into_the_copy(file: Path, copy: Path) -> None:
    Path(f"{copy}-wal").write_bytes(foreign_log(file.parent))
    before = files(file)
    with pytest.raises(Unsafe) as told:
        restore(copy, file, "ada")
    assert told.value.code == "store.log"
    assert files(file) == before
    Path(f"{copy}-wal").unlink()
    assert restore(copy, file, "ada").jobs == 3


def test_a_journal_beside_the_copy_is_not_played_into_it(file: Path, copy: Path) -> None:
    Path(f"{copy}-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7" + b"x" * 5000)
    before = files(file)
    with pytest.raises(Unsafe):
        restore(copy, file, "ada")
    assert files(file) == before


@pytest.mark.parametrize("was", ["as it was made", "opened since", "killed with its own log", "read-only"])
def test_the_copy_is_not_written_to(file: Path, copy: Path, was: str) -> None:
    if was == "opened since":
        fill(copy, 2)
    elif was == "killed with its own log":
        killed(copy, 2)
    elif was == "read-only":
        copy.chmod(0o400)
    before = {each.name: each.read_bytes() for each in file.parent.glob("copy.db*")}
    jobs = 5 if was in ("opened since", "killed with its own log") else 3
    assert restore(copy, file, "ada").jobs == jobs
    assert {each.name: each.read_bytes() for each in file.parent.glob("copy.db*")} == before
    assert len(jobs_in(file)) == jobs
    assert not list(file.parent.glob("*.restoring*"))


def test_what_this_program_has_open_is_neither_copied_from_nor_replaced(file: Path, copy: Path) -> None:
    for opened in (file, copy):
        with open_store(f"sqlite:///{opened}") as store:
            with pytest.raises(Refused) as told:
                restore(copy, file, "ada")
            assert told.value.code == "restore.open"
            store.queue.submit_one(NewJob("goes-on"))


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_no_copy_is_made_beside_what_would_be_taken_for_its_own(file: Path, end: str) -> None:
    fill(file, 3)
    left = file.with_name(f"copy.db{end}")
    left.write_bytes(b"left")
    with pytest.raises(Refused) as told:
        copy_to(file, file.with_name("copy.db"))
    assert told.value.code == "backup.exists"
    assert left.read_bytes() == b"left"
    assert not file.with_name("copy.db").exists()


# Killed at any moment

STOPS = """
import os, sys
from pathlib import Path
from custody.kernel.stores.sqlite import restore as restoring
left, after = int(sys.argv[3]), sys.argv[4] == "after"
def stopping(act):
    def wrapped(*words, **options):
        global left
        if act is unlink and ".restoring" in str(words[0]):
            return act(*words, **options)  # what is only made anew
        left -= 1
        if not left and not after:
            os._exit(9)
        answer = act(*words, **options)
        if not left:
            os._exit(9)
        return answer
    return wrapped
unlink = os.unlink
for name in ("link", "unlink", "replace", "fsync", "chmod", "chown"):
    setattr(os, name, stopping(getattr(os, name)))
restoring.restore(Path(sys.argv[1]), Path(sys.argv[2]), "ada")
"""


def every_stop(file: Path, copy: Path) -> Iterator[Path]:
    """The folder as a restore leaves it that is killed before, or after, each thing that it does with files."""
    template = file.parent.with_name(f"{file.parent.name}-template")
    shutil.copytree(file.parent, template)
    stops = 0
    try:
        for number in range(1, 100):
            for when in ("before", "after"):
                shutil.rmtree(file.parent)
                shutil.copytree(template, file.parent)
                command = [sys.executable, "-c", STOPS, str(copy), str(file), str(number), when]
                if not subprocess.run(command, check=False, timeout=60).returncode:
                    assert stops > 12, "it was stopped at all"
                    return
                stops += 1
                yield file
    finally:
        shutil.rmtree(template)


def told_in(file: Path) -> list[int | None]:
    """How many jobs the restores have lost, as the history says."""
    with open_store(f"sqlite:///{file}") as store:
        return [event.detail["jobs"] for event in store.records.events("store") if event.type == "went-back"]


def test_killed_at_any_moment_and_said_again_it_tells_what_is_missing(file: Path, copy: Path) -> None:
    for _ in every_stop(file, copy):
        if file.stat().st_nlink > 1:
            with pytest.raises(Unsafe, match="second name") as told:
                open_store(f"sqlite:///{file}")
            assert "custody store restore COPY" in told.value.hint
            assert "remove nothing" in told.value.hint
        else:
            assert len(jobs_in(file)) in (3, 46)
        done = restore(copy, file, "ada")
        assert 43 in told_in(file)
        assert done.missing is not None
        assert not done.is_whole, "whichever of the two attempts has lost them"
        assert 43 in (done.missing.jobs, *(note.detail["jobs"] for note in done.earlier))
        assert jobs_in(file) == [1, 2, 3]
        with open_store(f"sqlite:///{file}") as store:
            assert store.queue.submit_one(NewJob("new")).id == 47
        kept = [each for each in file.parent.glob("custody.db.before*") if not each.name.endswith(("-wal", "-shm"))]
        assert 46 in [len(jobs_in(each)) for each in kept]


def test_killed_where_the_old_one_cannot_be_read_it_never_says_that_nothing_is_missing(file: Path, copy: Path) -> None:
    shutil.copyfile(copy, file)  # beside the log of what was there
    log = Path(f"{file}-wal").read_bytes()
    for _ in every_stop(file, copy):
        restore(copy, file, "ada")
        assert None in told_in(file)
        assert jobs_in(file) == [1, 2, 3]
        assert log in [each.read_bytes() for each in file.parent.glob("custody.db.before-restore-*-wal")]


def test_a_log_that_cannot_be_folded_is_kept_beside_its_file(file: Path, copy: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(former_store.Former, "fold", lambda self: None)
    done = restore(copy, file, "ada")
    assert done.missing
    assert done.missing.jobs == 43
    assert done.aside
    assert len(jobs_in(done.aside)) == 46


def test_a_second_name_elsewhere_is_found_by_what_is_told(file: Path) -> None:
    fill(file, 3)
    away = file.parent / "away"
    away.mkdir()
    os.link(file, away / "name.db")
    with pytest.raises(Unsafe) as told:
        open_store(f"sqlite:///{file}")
    hint = told.value.hint
    assert f"-samefile {file}" in hint
    assert f"{file} stays" in hint
    assert "restore" not in hint


# What is replaced, by what, and whose it is


def test_a_link_stays_and_what_it_leads_to_is_replaced(file: Path, copy: Path) -> None:
    link = file.parent / "linked"
    link.mkdir()
    (link / "store.db").symlink_to(file)
    done = restore(copy, link / "store.db", "ada")
    assert (link / "store.db").is_symlink()
    assert done.missing
    assert done.missing.jobs == 43
    assert jobs_in(file) == jobs_in(link / "store.db") == [1, 2, 3]
    assert os.listdir(link) == ["store.db"]


def test_the_log_beside_what_a_link_leads_to_is_looked_at(file: Path, copy: Path) -> None:
    shutil.copyfile(copy, file)
    link = file.with_name("link.db")
    link.symlink_to(file)
    assert refused(link) == "store.log"


def test_the_copy_of_another_store_is_refused_unless_that_is_said(file: Path, copy: Path) -> None:
    other = file.with_name("other.db")
    fill(other, 7)
    copy_to(other, file.with_name("other-copy.db"))
    before = len(jobs_in(file))
    with pytest.raises(Refused) as told:
        restore(file.with_name("other-copy.db"), file, "ada")
    assert told.value.code == "restore.other"
    assert "--other" in told.value.hint
    assert len(jobs_in(file)) == before
    assert not list(file.parent.glob("*restor*"))
    assert restore(file.with_name("other-copy.db"), file, "ada", other=True).jobs == 7
    with open_store(f"sqlite:///{file}") as store:
        assert store.queue.submit_one(NewJob("new")).id == 47


def test_what_was_lost_stays_told_when_the_copy_is_put_back_again(file: Path, copy: Path) -> None:
    restore(copy, file, "ada")
    again = restore(copy, file, "ben")
    assert again.missing
    assert again.missing.events == 0
    assert told_in(file) == [43, 0]
    restore(copy, file, "cid")
    assert told_in(file) == [43, 0, 0]
    with open_store(f"sqlite:///{file}") as store:
        notes = [event for event in store.records.events("store") if event.type == "went-back"]
    assert [note.agent for note in notes] == ["ada", "ben", "cid"]
    assert notes[0].detail["noted"] < notes[2].at
    (found,) = [finding for finding in examine(f"sqlite:///{file}", None) if "history went back" in finding.what]
    assert moment(notes[0].detail["noted"]) in found.what


def test_the_new_file_is_as_the_old_one_was(file: Path, copy: Path) -> None:
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65533)
    was = file.stat()
    restore(copy, file, "ada")
    now = file.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (was.st_mode, was.st_uid, was.st_gid)


def test_what_is_no_plain_file_is_said_to_be_none(file: Path, copy: Path) -> None:
    file.with_name("dir.db").mkdir()
    os.mkfifo(file.with_name("pipe.db"))
    for name in ("dir.db", "pipe.db"):
        with pytest.raises(CustodyError, match="no plain file"):
            restore(file.with_name(name), file, "ada")


def test_said_again_after_it_was_done_it_does_not_call_whole_what_is_not(custody: Run) -> None:
    for _ in range(3):
        custody("job", "submit", "greet")
    custody("store", "backup", "copy.db")
    custody("job", "submit", "greet")
    custody("store", "restore", "copy.db")
    again = custody("store", "restore", "copy.db")
    assert again.code == 1
    assert "nothing of it is missing" not in again.out
    assert "job/4" in again.out
    assert custody("store", "restore", "copy.db", "--json").code == 1


def test_a_mistaken_restore_that_is_undone_has_lost_nothing(custody: Run) -> None:
    custody("job", "submit", "greet")
    custody("store", "backup", "copy.db")
    custody("job", "submit", "greet")
    custody("job", "submit", "greet")
    assert custody("store", "restore", "copy.db").code == 1
    lost = custody("doctor")
    assert lost.code == 1
    assert "submit again: job/2, job/3" in lost.out
    undone = custody("store", "restore", "custody.db.before-restore-1")
    assert undone.code == 0, undone.out
    assert "nothing of it is missing in the copy" in undone.out
    said = custody("doctor")
    assert (said.code, "went back" in said.out) == (0, False), said.out


def test_what_was_lost_is_a_warning_once_somebody_has_said_that_it_is_known(custody: Run) -> None:
    custody("job", "submit", "greet")
    custody("store", "backup", "copy.db")
    custody("job", "submit", "greet")
    custody("store", "restore", "copy.db")
    assert custody("doctor").code == 1
    assert custody("store", "restored", "--why", "submitted again by hand").code == 0
    said = custody("doctor")
    assert said.code == 0
    assert "WARNING  history went back" in said.out


@pytest.mark.parametrize("way", ["receipts", "beyond"])
def test_on_a_new_disk_what_is_missing_is_not_known_and_numbers_are_passed_over_by_word(
    custody: Run, tmp_path: Path, way: str
) -> None:
    custody("job", "submit", "greet", "--receipts", "kept")
    custody("store", "backup", "copy.db")
    for _ in range(4):
        custody("job", "submit", "greet", "--receipts", "kept")
    for each in tmp_path.glob("custody.db*"):
        each.unlink()
    said = custody("store", "restore", "copy.db")
    assert said.code == 1
    assert "not known" in said.out
    assert "custody store restored --receipts FILE" in said.out
    assert custody("doctor").code == 1
    words = ("--receipts", "kept") if way == "receipts" else ("--beyond", "5")
    noted = custody("store", "restored", "--why", "a new disk", *words)
    assert (noted.code, "above 5" in noted.out) == (0, True), noted.err
    assert custody("job", "submit", "greet").out == "job 6\n"
    assert custody("store", "restored", "--why", "a slip", "--beyond", "99999999999").code == 2


def test_what_is_no_copy_is_said_to_be_none_and_what_to_do(custody: Run, tmp_path: Path) -> None:
    custody("job", "submit", "greet")
    (tmp_path / "letter").write_text("Dear Ada, " * 1000)
    apsw.Connection(str(tmp_path / "other.sqlite")).execute("create table a (b)")
    (tmp_path / "empty").touch()
    for name in ("letter", "other.sqlite", "empty"):
        said = custody("store", "restore", name)
        assert said.code in (2, 3), (name, said.out)
        assert "is no copy" in said.err, (name, said.err)
        assert "custody store backup" in said.err
    assert len(custody("job", "list", "--json").json()) == 1  # type: ignore[arg-type]
