"""Witness files: appended to, forced to disk, and an early warning when a store goes back in time."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from custody.errors import Refused
from custody.kernel.history.proofs import consistency
from custody.kernel.history.witness import TAIL, append_head, continues, disagree, read_heads, refuse_to_go_back
from kernel.history.archive import INTRUDER, SIGNER, Archive, grown_archive

KEYS = [SIGNER.public]


@pytest.fixture
def archive() -> Archive:
    return grown_archive(Random(1))


def test_every_head_is_kept_in_order(tmp_path: Path, archive: Archive) -> None:
    for head in archive.heads():
        append_head(tmp_path / "heads", head, KEYS)
    assert read_heads(tmp_path / "heads") == archive.heads()


def test_a_head_told_twice_is_kept_once(tmp_path: Path, archive: Archive) -> None:
    for head in (archive.last.head, archive.last.head):
        append_head(tmp_path / "heads", head, KEYS)
    assert read_heads(tmp_path / "heads") == [archive.last.head]


def test_a_head_is_on_disk_before_the_sealer_goes_on(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def fsync(file: int) -> None:
        status = os.fstat(file)
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
        synced.append((kind, 0 if kind == "folder" else status.st_size))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    append_head(tmp_path / "heads", archive.last.head, KEYS)
    assert synced == [("file", (tmp_path / "heads").stat().st_size), ("folder", 0)]


def test_an_older_store_is_refused_where_a_later_head_was_seen(tmp_path: Path, archive: Archive) -> None:
    append_head(tmp_path / "heads", archive.last.head, KEYS)
    with pytest.raises(Refused, match="ends at block 3, but a witness has seen block 6") as caught:
        append_head(tmp_path / "heads", archive.blocks[3].head, KEYS)
    assert caught.value.code == "history.went-back"
    assert read_heads(tmp_path / "heads") == [archive.last.head]


def test_another_block_of_the_same_number_is_refused(tmp_path: Path, archive: Archive) -> None:
    one, other = archive.copy(), archive.copy()
    one.seal()
    other.append("job/1")
    other.seal()
    append_head(tmp_path / "heads", one.last.head, KEYS)
    with pytest.raises(Refused, match="another block 7") as caught:
        append_head(tmp_path / "heads", other.last.head, KEYS)
    assert caught.value.code == "history.forked"
    assert disagree(one.last.head, other.last.head)
    assert not disagree(one.last.head, one.last.head)
    assert not disagree(one.last.head, archive.last.head)


def test_a_head_that_nobody_we_know_signed_does_not_stop_the_sealer(tmp_path: Path, archive: Archive) -> None:
    forged = replace(archive.last.head, blocks=999)
    forged = replace(forged, signatures=((INTRUDER.name, INTRUDER.sign(forged.text)),))
    (tmp_path / "heads").write_text(str(forged))
    append_head(tmp_path / "heads", archive.last.head, KEYS)
    assert read_heads(tmp_path / "heads") == [forged, archive.last.head]


def test_two_histories_may_share_a_witness(tmp_path: Path, archive: Archive) -> None:
    other = replace(SIGNER, name="elsewhere.example.org")
    head = replace(archive.blocks[2].head, origin=other.name)
    head = replace(head, signatures=((other.name, other.sign(head.text)),))
    append_head(tmp_path / "heads", archive.last.head, KEYS)
    append_head(tmp_path / "heads", head, [*KEYS, other.public])
    assert read_heads(tmp_path / "heads") == [archive.last.head, head]


@pytest.mark.parametrize("kept", [1, 50, 150, 200])
def test_a_head_torn_by_a_crash_does_not_spoil_the_next(tmp_path: Path, archive: Archive, kept: int) -> None:
    first, second, third = archive.heads()[:3]
    append_head(tmp_path / "heads", first, KEYS)
    with (tmp_path / "heads").open("a") as file:
        file.write(("\n" + str(second))[:kept])
    append_head(tmp_path / "heads", third, KEYS)
    heads = read_heads(tmp_path / "heads")
    assert heads[0] == first
    assert heads[-1] == third


def test_appending_reads_only_the_end_of_a_long_file(tmp_path: Path, archive: Archive) -> None:
    path = tmp_path / "heads"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a sparse terabyte: reading all of it would never end
        file.seek(0, 2)
        file.write(b"\n")
    append_head(path, archive.blocks[5].head, KEYS)
    with pytest.raises(Refused):
        append_head(path, archive.blocks[4].head, KEYS)
    assert len(str(archive.last.head)) * 20 < TAIL


def test_a_witness_is_not_written_through_a_link(tmp_path: Path, archive: Archive) -> None:
    (tmp_path / "heads").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        append_head(tmp_path / "heads", archive.last.head, KEYS)
    assert not (tmp_path / "elsewhere").exists()


def test_sealers_that_write_at_once_do_not_mix_their_lines(tmp_path: Path, archive: Archive) -> None:
    def tell(head: object) -> None:
        try:
            append_head(tmp_path / "heads", head, KEYS)  # type: ignore[arg-type]
        except Refused:
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, archive.heads() * 8))
    found = read_heads(tmp_path / "heads")
    assert found[-1] == archive.last.head
    assert found == sorted(found, key=lambda head: head.blocks)
    assert all(head.signed_by(KEYS) for head in found)


@pytest.mark.parametrize("blocks", [1, 2, 7, 8, 9, 21])
def test_a_later_head_is_shown_to_continue_each_earlier_one(blocks: int) -> None:
    archive = grown_archive(Random(2), blocks=blocks, subjects=2, most=3)
    forked = archive.copy()
    archive.seal()
    forked.append("job/1")
    forked.seal()
    heads = archive.heads()
    for old in heads:
        path = consistency(archive.blocks.__getitem__, old.blocks, blocks + 1)
        assert continues(old, archive.last.head, path)
        assert old.blocks == blocks + 1 or not continues(old, archive.last.head, path[:-1])
        assert not continues(old, forked.last.head, path)
        assert not continues(replace(old, origin="elsewhere.example.org"), archive.last.head, path)
    refuse_to_go_back(archive.last.head, heads)
