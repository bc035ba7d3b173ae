"""Links planted among the blobs of channels lead neither what is read nor what is written elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.channels.blobs.local import Files
from custody.errors import CustodyError
from rig.program import room

NAME = "ch/7/leaf/a.jsonl"


@pytest.fixture
def place() -> Iterator[Path]:
    folder = room("planted")
    folder.chmod(0o755)
    (folder / "elsewhere").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def opened(place: Path) -> Files:
    blobs = Files(place / "blobs")
    blobs.root.chmod(0o755)
    return blobs


def write(blobs: Files, text: bytes = b"text") -> None:
    blobs.stage(NAME, [("0", text)])
    blobs.commit(NAME, ["0"])


@pytest.mark.parametrize("planted", ["ch", "ch/7", "ch/7/leaf"])
def test_no_blob_is_written_or_read_through_a_link(place: Path, planted: str) -> None:
    blobs = opened(place)
    write(blobs)
    moved = place / "elsewhere/moved"
    (blobs.root / planted).rename(moved)
    (blobs.root / planted).symlink_to(moved)
    before = sorted(moved.rglob("*"))
    fresh = Files(blobs.root)
    for act in (lambda: write(fresh, b"other"), lambda: fresh.read(NAME), lambda: fresh.delete(NAME)):
        with pytest.raises(CustodyError, match="a link is in the way"):
            act()
    assert sorted(moved.rglob("*")) == before


@pytest.mark.parametrize("planted", [f"{NAME}@state~", "@locks/*"])
def test_no_file_of_a_blob_is_written_through_a_link(place: Path, planted: str) -> None:
    blobs = opened(place)
    write(blobs)
    target = place / "elsewhere/theirs"
    target.write_text("theirs")
    for path in list(blobs.root.glob(planted)) or [blobs.root / planted]:
        path.unlink(missing_ok=True)
        path.symlink_to(target if "~" in planted else place / "elsewhere/made")
    with pytest.raises((CustodyError, OSError)):
        write(blobs, b"other")
    assert target.read_text() == "theirs"
    assert [path.name for path in (place / "elsewhere").iterdir()] == ["theirs"]


def test_nothing_is_written_where_others_may_put_a_link(place: Path) -> None:
    blobs = opened(place)
    write(blobs)
    (blobs.root / "ch/7").chmod(0o777)
    with pytest.raises(CustodyError, match="may write to the folder"):
        write(blobs, b"other")
    assert blobs.read(NAME).data == b"text"
