"""Files that came with messages."""

from __future__ import annotations

from hashlib import sha256

import pytest

from custody.channels.blobs.port import Blobs
from custody.channels.discord import media
from custody.errors import Unsafe


def test_a_file_is_kept_under_its_digest_and_once(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "BLOCK", 1000)
    data = bytes(range(256)) * 11
    first = media.keep(blobs, [data[:700], data[700:]], most=10_000, folder="7")
    etag = blobs.read(first.name).etag
    assert media.keep(blobs, [data], most=10_000, folder="7") == first
    assert (first.digest, first.size) == (sha256(data).hexdigest(), len(data))
    assert (blobs.read(first.name).data, blobs.read(first.name).etag) == (data, etag)
    assert len(blobs.blocks(first.name).ids) == 3


def test_an_empty_file_is_a_file(blobs: Blobs) -> None:
    kept = media.keep(blobs, [], most=10, folder="7")
    assert blobs.read(kept.name).data == b""


def test_a_file_without_end_is_refused_before_it_fills_the_disk(blobs: Blobs) -> None:
    def endless():  # type: ignore[no-untyped-def]
        while True:
            yield b"x" * 100

    with pytest.raises(Unsafe):
        media.keep(blobs, endless(), most=1_000, folder="7")
    assert list(blobs.list("")) == []
