"""What a sandbox has left is copied as far as it may be kept: counted, without links, and holes stay holes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from custody.border.copy_out import MIB, Allowance, LeftOut, copy_file
from custody.errors import Refused, Unavailable


def copy_path(source: Path, target: Path, allowance: Allowance) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        copy_file(descriptor, target, allowance)
    finally:
        os.close(descriptor)


def test_a_file_of_holes_costs_no_more_than_what_is_in_it(tmp_path: Path) -> None:
    source = tmp_path / "holes"
    with source.open("wb") as file:
        file.write(b"begins")
        file.seek(1500 * MIB)
        file.write(b"middle")
        file.truncate(3000 * MIB)
    copy_path(source, tmp_path / "copy", Allowance(1))
    found = (tmp_path / "copy").stat()
    assert found.st_size == 3000 * MIB
    assert found.st_blocks * 512 <= MIB
    with (tmp_path / "copy").open("rb") as file:
        assert file.read(6) == b"begins"
        file.seek(1500 * MIB)
        assert file.read(7) == b"middle\0"


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 3 * MIB + 7])
def test_content_is_the_same(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "one").write_bytes(data)
    copy_path(tmp_path / "one", tmp_path / "two", Allowance(4))
    assert (tmp_path / "two").read_bytes() == data


def test_the_sum_of_all_files_and_their_number_are_limited(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(os.urandom(700_000))
    allowance = Allowance(1)
    copy_path(tmp_path / "one", tmp_path / "a", allowance)
    with pytest.raises(Refused, match="more than 1 MiB"):
        copy_path(tmp_path / "one", tmp_path / "b", allowance)
    few = Allowance(100, files=2)
    for name in ("c", "d"):
        copy_path(tmp_path / "one", tmp_path / name, few)
    with pytest.raises(Refused, match="more than 2 files"):
        copy_path(tmp_path / "one", tmp_path / "e", few)


def test_pipes_are_not_read_and_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LeftOut, match="no file"):
        copy_path(tmp_path / "pipe", tmp_path / "b", Allowance(1))
    (tmp_path / "there").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="File exists"):
        copy_path(tmp_path / "one", tmp_path / "there", Allowance(1))
    assert not (tmp_path / "elsewhere").exists()


def test_the_disk_keeps_some_room_and_whoever_must_stop_stops(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    with pytest.raises(Unavailable, match="nearly full"):
        copy_path(tmp_path / "one", tmp_path / "a", Allowance(1, keep_free=1 << 60))
    with pytest.raises(Unavailable, match="stopped"):
        copy_path(tmp_path / "one", tmp_path / "b", Allowance(1, stopped=lambda: True))
    with pytest.raises(Unavailable, match="took too long"):
        copy_path(tmp_path / "one", tmp_path / "c", Allowance(1, seconds=-1))
