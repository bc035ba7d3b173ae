"""Whatever a program does to its folder is no surprise: what can be kept is, the rest is told, and all is cleared."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border import leftovers, modes
from custody.border.copy_out import Allowance
from custody.errors import Unavailable, Unsafe

DEPTH = 3000


def fill(made: Path) -> None:
    (made / "more").mkdir(parents=True)
    (made / "one").write_text("one")
    (made / "more" / "two").write_text("two")


def deep(folder: Path) -> None:
    """Folders in folders, deeper than a path is long and than Python recurses."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_what_is_no_file_is_told_and_files_are_named_in_order(tmp_path: Path) -> None:
    fill(tmp_path / "made")
    (tmp_path / "made" / "link").symlink_to("/etc/passwd")
    (tmp_path / "made" / "folder-link").symlink_to("/etc")
    os.mkfifo(tmp_path / "made" / "pipe")
    assert leftovers.files(tmp_path / "made") == {
        "folder-link": "it is a link, not a file",
        "link": "it is a link, not a file",
        "more/two": "",
        "one": "",
        "pipe": "it is a pipe, a socket or a device, not a file",
    }


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "vanishes": (lambda made: (made / "one").unlink(), "it vanished while we looked"),
    "becomes a link": (lambda made: swap(made / "one", lambda one: one.symlink_to("/etc/passwd")), "it is a link"),
    "becomes a pipe": (lambda made: swap(made / "one", os.mkfifo), "it is no file"),
    "becomes a folder": (lambda made: swap(made / "one", Path.mkdir), "it is no file"),
}


def swap(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


@pytest.mark.parametrize("how", CHANGES)
def test_what_changes_after_it_was_seen_is_left_out_and_the_rest_is_kept(how: str, tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    fill(made)
    change, why = CHANGES[how]
    names = list(leftovers.files(made))
    change(made)
    left_out = leftovers.keep(made, names, kept, Allowance(1))
    assert list(left_out) == ["one"]
    assert left_out["one"].startswith(why)
    assert [path.name for path in kept.rglob("*")] == ["more", "two"]


def test_a_folder_on_the_way_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    fill(made)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "two").write_text("secret")
    (made / "more" / "two").unlink()
    (made / "more").rmdir()
    (made / "more").symlink_to(tmp_path / "secret")
    assert leftovers.keep(made, ["more/two"], tmp_path / "kept", Allowance(1)) == {
        "more/two": "it changed while we looked"
    }


def test_what_is_kept_has_none_of_the_rights_that_it_was_given(tmp_path: Path) -> None:
    fill(tmp_path / "made")
    for path in (tmp_path / "made" / "one", tmp_path / "made" / "more"):
        path.chmod(0o7777)
    leftovers.keep(tmp_path / "made", ["more/two", "one"], tmp_path / "kept", Allowance(1))
    assert {path.stat().st_mode & 0o7022 for path in (tmp_path / "kept").rglob("*")} == {0}


def test_where_nothing_can_be_written_that_is_said(tmp_path: Path) -> None:
    fill(tmp_path / "made")
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be written where it would be kept"):
        leftovers.keep(tmp_path / "made", ["more/two"], tmp_path / "kept" / "below", Allowance(1))


def test_folders_too_deep_for_a_path_are_told_and_cleared(tmp_path: Path) -> None:
    made = tmp_path / "made"
    fill(made)
    deep(made)
    try:
        found = leftovers.files(made)
        assert [name for name, why in found.items() if not why] == ["more/two", "one"]
        assert list({why for name, why in found.items() if name.startswith("d/")}) == ["its path is too long"]
        assert leftovers.clear(made)
        assert not made.exists()
    finally:
        subprocess.run(["rm", "-rf", str(made)], check=True)


AS_OTHER = """
import os, sys
from pathlib import Path
from custody.border import leftovers
os.setgid(54321); os.setuid(54321)
os.makedirs("made/shut/in"); Path("made/shut/in/x").write_text("x"); os.chmod("made/shut/in", 0); os.chmod("made/shut", 0)
print(leftovers.files(Path("made")), leftovers.clear(Path("made")), os.path.exists("made"))
"""


def test_rights_that_were_taken_away_keep_nobody_from_clearing(tmp_path: Path) -> None:
    """Seen as somebody who is not root, for whom rights count."""
    if os.geteuid() != 0:
        pytest.skip("needs a user of its own")
    folder = Path(f"/var/tmp/custody-test-left-{os.getpid()}")
    folder.mkdir()
    os.chown(folder, 54321, 54321)
    try:
        done = subprocess.run([sys.executable, "-c", AS_OTHER], cwd=folder, capture_output=True, text=True)
        assert done.stdout == "{'shut': 'it cannot be read'} True False\n", done.stderr
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_somebody_who_writes_into_it_meanwhile_is_outlasted_or_told_of(tmp_path: Path) -> None:
    made, stop = tmp_path / "made", threading.Event()
    fill(made)

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                (made / "more" / f"n{number}").write_text("x")
            except OSError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert leftovers.clear(made) is not made.exists()
    finally:
        stop.set()
        writer.join()
    assert leftovers.clear(made)


def test_a_link_in_its_place_is_removed_and_not_followed(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere")
    (tmp_path / "made").symlink_to(tmp_path / "elsewhere")
    assert leftovers.clear(tmp_path / "made")
    assert (tmp_path / "elsewhere" / "one").read_text() == "one"


# --- The folder above ---


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("before", [None, 0o777, 0o2755, 0o700])
def test_a_closed_folder_is_closed_whatever_the_umask_and_whatever_it_was(
    tmp_path: Path, umask: int, before: int | None
) -> None:
    folder = tmp_path / "work"
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    old = os.umask(umask)
    try:
        modes.make_closed(folder, "tasks")
    finally:
        os.umask(old)
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_one_that_is_somebody_elses_or_a_link_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(Unsafe, match=r"tasks need the folder .*link, which is somebody else's, or a link"):
        modes.make_closed(tmp_path / "link", "tasks")
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be made: File exists"):
        modes.make_closed(tmp_path / "file", "tasks")
    if os.geteuid() == 0:
        os.chown(tmp_path / "there", 65534, 65534)
        with pytest.raises(Unsafe, match="somebody else's"):
            modes.make_closed(tmp_path / "there", "tasks")
        (tmp_path / "there").chmod(0o700)
        assert modes.is_reachable(tmp_path / "there") is False, "the folder above it keeps everybody out"


def test_nothing_is_run_where_others_can_come_to_it(tmp_path: Path) -> None:
    folder = Path(f"/var/tmp/custody-test-open-{os.getpid()}")
    (folder / "work").mkdir(parents=True)
    try:
        folder.chmod(0o711)
        with pytest.raises(Unsafe, match="others on this machine could come to what a sandbox writes") as caught:
            modes.must_be_closed(folder / "work")
        assert caught.value.hint == f"close the folder above it: chmod 700 {folder}"
        folder.chmod(0o744)
        modes.must_be_closed(folder / "work")
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
