"""Opening names below a folder, whatever lies in the way."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from rig.descriptors import descriptors_below


def write(folder: Folder, name: str, data: bytes = b"x") -> None:
    descriptor = folder.create(name)
    os.write(descriptor, data)
    os.close(descriptor)


def test_a_new_file_gets_its_folders_and_modest_rights(folder: Folder) -> None:
    write(folder, "a/b/c.txt", b"hello")

    made = Path(folder.path, "a/b/c.txt")
    assert made.read_bytes() == b"hello"
    assert stat.S_IMODE(made.stat().st_mode) & 0o137 == 0
    assert stat.S_IMODE(made.parent.stat().st_mode) & 0o027 == 0


def test_an_existing_file_is_never_written_into(folder: Folder) -> None:
    write(folder, "a", b"first")

    with pytest.raises(Refused) as caught:
        folder.create("a")

    assert caught.value.code == "name.exists"
    assert Path(folder.path, "a").read_bytes() == b"first"


def link_as_file(path: Path, outside: Path) -> None:
    (path / "trap").symlink_to(outside / "secret")


def link_as_folder(path: Path, outside: Path) -> None:
    (path / "trap").symlink_to(outside)


def dangling(path: Path, outside: Path) -> None:
    (path / "trap").symlink_to(outside / "new")


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path / "trap")


def local_socket(path: Path, outside: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path)  # such an address has room for a hundred characters only
    made.bind("trap")
    os.chdir(here)
    made.close()


Trap = Callable[[Path, Path], None]
ACTIONS: list[tuple[str, Callable[[Folder], object]]] = [
    ("read", lambda folder: folder.open("trap")),
    ("write", lambda folder: folder.open("trap", writing=True)),
    ("create", lambda folder: folder.create("trap")),
    ("create below", lambda folder: folder.create("trap/new")),
    ("make", lambda folder: folder.make("trap")),
    ("make below", lambda folder: folder.make("trap/new")),
    ("read below", lambda folder: folder.open("trap/secret")),
    ("remove below", lambda folder: folder.remove("trap/secret")),
    ("move below", lambda folder: folder.move("mine", "trap/new")),
]


@pytest.mark.parametrize("trap", [link_as_file, link_as_folder, dangling, pipe, local_socket], ids=lambda f: f.__name__)
@pytest.mark.parametrize("action", [action for _, action in ACTIONS], ids=[name for name, _ in ACTIONS])
def test_nothing_that_lies_in_the_way_leads_outside(
    tmp_path: Path, folder: Folder, trap: Trap, action: Callable[[Folder], object]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    write(folder, "mine")
    trap(Path(folder.path), outside)

    with pytest.raises((Refused, NotFound)):
        action(folder)

    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../../x"])
def test_every_way_in_judges_the_name(folder: Folder, name: str) -> None:
    for action in (folder.create, folder.open, folder.make, folder.remove, folder.remove_if_empty, folder.doubt):
        with pytest.raises(BadInput):
            action(name)
    with pytest.raises(BadInput):
        folder.move("a", name)


def test_a_file_where_a_folder_is_needed_is_refused(folder: Folder) -> None:
    write(folder, "a")
    with pytest.raises(Refused) as caught:
        folder.create("a/b")
    assert caught.value.code == "name.blocked"


def test_moving_replaces_a_file_and_removing_says_whether_there_was_one(folder: Folder) -> None:
    write(folder, "a", b"new")
    write(folder, "b/c", b"old")

    folder.move("a", "b/c")

    assert Path(folder.path, "b/c").read_bytes() == b"new"
    assert folder.remove("b/c")
    assert not folder.remove("b/c")


def test_clearing_removes_links_but_not_what_they_point_to(tmp_path: Path, folder: Folder) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"")
    write(folder, "a/b")
    Path(folder.path, "link").symlink_to(outside)
    Path(folder.path, "a/link").symlink_to(outside)

    folder.clear()

    assert folder.is_empty()
    assert os.listdir(outside) == ["kept"]


def test_settling_fsyncs_every_folder_that_changed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    write(folder, "a/b/c")

    folder.settle()
    assert {os.path.relpath(path, folder.path) for path in synced} == {".", "a", "a/b"}

    synced.clear()
    folder.settle()
    assert synced == []

    write(folder, "d/e")
    folder.clear()
    folder.settle()
    assert synced == [folder.path]


def test_a_folder_that_became_a_file_does_not_trouble_settling(folder: Folder) -> None:
    write(folder, "a/b")
    os.unlink(Path(folder.path, "a/b"))
    os.rmdir(Path(folder.path, "a"))
    write(folder, "a")
    folder.settle()

    folder.clear()
    write(folder, "a/b")
    folder.clear()
    write(folder, "a")
    folder.settle()
    assert os.listdir(folder.path) == ["a"]


def test_a_full_disk_is_worth_another_try(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Unavailable) as caught:
        folder.create("a")
    assert caught.value.code == "disk.full"


def test_no_descriptor_is_left_open(folder: Folder) -> None:
    before = len(descriptors_below(folder.path))
    for number in range(20):
        write(folder, f"a/b/{number}")
        with pytest.raises(CustodyError):
            folder.open(f"a/b/{number}/c")
        with pytest.raises(CustodyError):
            folder.create(f"a/b/{number}")
    folder.settle()
    assert len(descriptors_below(folder.path)) == before
