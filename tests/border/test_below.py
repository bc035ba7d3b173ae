"""The way from a folder of ours to what is below it: no link leads elsewhere, and nobody else may put one there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.border import below
from custody.errors import CustodyError, NotFound, Refused, Unsafe
from rig.program import room


@pytest.fixture
def top() -> Iterator[Path]:
    """Where others may come to."""
    folder = room("below")
    folder.chmod(0o755)
    (folder / "ours/a/b").mkdir(parents=True)
    for part in ("ours", "ours/a", "ours/a/b"):
        (folder / part).chmod(0o755)
    (folder / "elsewhere/b").mkdir(parents=True)
    (folder / "elsewhere/b/file").write_text("elsewhere")
    (folder / "ours/a/b/file").write_text("ours")
    yield folder / "ours"
    shutil.rmtree(folder, ignore_errors=True)


def test_what_is_there_and_what_is_not_there_yet_is_fine(top: Path) -> None:
    for path in ("a", "a/b", "a/b/file", "a/new/newer", "new"):
        below.must_be_plain(top, top / path)
        below.must_be_ours(top, top / path)
    assert below.read(top, "a/b/file") == b"ours"


@pytest.mark.parametrize("planted", ["a", "a/b", "a/b/file"])
@pytest.mark.parametrize("target", ["there", "nowhere", "itself"])
def test_a_link_anywhere_on_the_way_is_refused(top: Path, planted: str, target: str) -> None:
    place = top / planted
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    leads = {"there": top.parent / "elsewhere" / "/".join(planted.split("/")[1:]), "nowhere": "none", "itself": place}
    place.symlink_to(leads[target])
    for look in (below.must_be_plain, below.must_be_ours):
        with pytest.raises(Refused, match="a link is in the way") as refused:
            look(top, top / "a/b/file")
        assert (refused.value.code, refused.value.where) == ("place.link", str(place))
    with pytest.raises(Refused) as refused:
        below.read(top, "a/b/file")
    assert refused.value.code == "place.link"


def test_a_file_in_the_place_of_a_folder_and_nothing_at_all_are_told_as_such(top: Path) -> None:
    with pytest.raises(Refused):
        below.read(top, "a/b/file/more")
    with pytest.raises(Refused):
        below.read(top, "a/b")
    with pytest.raises(NotFound):
        below.read(top, "a/c")
    os.mkfifo(top / "a/pipe")
    with pytest.raises(Refused):
        below.read(top, "a/pipe")


@pytest.mark.parametrize("name", ["../elsewhere/b/file", "a/../../elsewhere/b/file", "/etc/passwd", "", "a//b", "."])
def test_a_name_that_leaves_is_none(top: Path, name: str) -> None:
    with pytest.raises(CustodyError) as refused:
        below.read(top, name)
    assert refused.value.code == "place.path"


def test_a_path_that_is_not_below_is_refused(top: Path) -> None:
    for path in (top.parent / "elsewhere", top / ".." / "elsewhere"):
        with pytest.raises(CustodyError):
            below.must_be_plain(top, path)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_where_we_write_nobody_else_may_put_a_link(top: Path, mode: int) -> None:
    (top / "a").chmod(mode)
    below.must_be_plain(top, top / "a/b/file")
    with pytest.raises(Unsafe, match="may write to the folder") as refused:
        below.must_be_ours(top, top / "a/b/file")
    assert refused.value.code == "folder.closed"
    (top / "a").chmod(0o755)
    below.must_be_ours(top, top / "a/b/file")
    (top / "a").chmod(mode)
    top.chmod(0o700)
    below.must_be_ours(top, top / "a/b/file")  # nobody comes there


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_where_we_write_no_folder_is_somebody_elses(top: Path) -> None:
    os.chown(top / "a", 65534, 65534)
    below.must_be_plain(top, top / "a/b/file")
    with pytest.raises(Unsafe, match="somebody else's") as refused:
        below.must_be_ours(top, top / "a/b/file")
    assert refused.value.code == "folder.closed"


def test_what_was_opened_stays_what_it_was(top: Path) -> None:
    """Whoever swaps a folder for a link afterwards changes nothing."""
    descriptor = below.opened(top, "a/b/file")
    (top / "a").rename(top / "old")
    (top / "a").symlink_to(top.parent / "elsewhere")
    with open(descriptor, "rb") as file:
        assert file.read() == b"ours"
