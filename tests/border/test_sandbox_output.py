"""What a task printed is kept: numbered, live, whole up to the limit, with secrets taken out."""

from __future__ import annotations

import base64
import html
import json
import os
import time
import urllib.parse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from border.sandbox_rig import PATIENCE, Box, box
from custody.border.sandbox import output
from custody.border.sandbox.masking import MASK, Masker, patterns
from custody.border.sandbox.output import ERR, OUT, Follower, Gatherer, Recorder
from custody.border.sandbox.sandbox import Limits

UNTIL = 'until_there() { until [ -e "$1" ]; do sleep 0.02; done; }'


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("output")) as made:
        yield made


def test_output_comes_live_in_numbered_chunks_with_its_stream(here: Box) -> None:
    running = here.start(f"{UNTIL}; echo one; until_there saw-1; echo two >&2; until_there saw-2; echo three")
    came = []
    for chunk in running.follow():  # nothing more is said before this has come: it is not kept until the end
        came.append(chunk)
        (here.work / f"saw-{chunk.number}").touch()
    assert [(chunk.number, chunk.stream, chunk.data) for chunk in came] == [
        (1, OUT, b"one\n"),
        (2, ERR, b"two\n"),
        (3, OUT, b"three\n"),
    ]
    assert [chunk.offset for chunk in came] == [0, 4, 8]


def test_following_can_go_on_after_a_known_chunk(here: Box) -> None:
    running = here.start(f"{UNTIL}; for i in 1 2 3; do echo $i; until_there followed-$i; done")
    for chunk in running.follow():
        (here.work / f"followed-{chunk.number}").touch()
    assert [chunk.data for chunk in running.follow(after=1)] == [b"2\n", b"3\n"]


def test_bytes_are_kept_as_they_are(here: Box) -> None:
    wanted = bytes(range(256)) * 20 + b"\x1b[31mred\x1b[0m no newline \xff\xfe"
    (here.work / "raw").write_bytes(wanted)
    end, _ = here.run("cat raw", name="raw")
    assert here.sandboxes.find("raw").output() == wanted  # type: ignore[union-attr]
    assert (end.output_bytes, end.dropped_bytes) == (len(wanted), 0)


def test_beyond_the_limit_head_and_tail_stay_with_the_number_of_bytes_dropped(here: Box) -> None:
    running = here.start("i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done", output_limit=16384)
    end = running.wait(PATIENCE)
    assert end is not None
    lines = "".join(f"line {i}\n" for i in range(4000)).encode()
    said = running.output()
    head, mark, tail = said.partition(b"\n[custody: %d bytes of output dropped here]\n" % end.dropped_bytes)
    assert mark
    assert lines.startswith(head)
    assert lines.endswith(tail)
    assert len(head) == 8192
    assert 7168 <= len(tail) <= 8192
    assert len(head) + len(tail) + end.dropped_bytes == end.output_bytes == len(lines)


def test_a_flood_of_output_neither_blocks_the_task_nor_fills_the_disk(here: Box) -> None:
    running = here.start("yes | head -c 100000000", output_limit=1024 * 1024, limits=Limits(memory=64 * 1024 * 1024))
    end = running.wait(PATIENCE)
    assert end is not None
    assert end.ok
    assert end.output_bytes == 100_000_000
    kept = sum(file.stat().st_size for file in running.folder.glob("output-*"))
    assert kept < 1.1 * 1024 * 1024


def test_the_output_of_a_killed_task_is_kept_to_its_last_byte(here: Box) -> None:
    running = here.start("echo before; sleep 60; echo after", lease=PATIENCE)
    next(iter(running.follow()))
    assert running.confirm(time.monotonic() + 0.3)
    end = running.wait(PATIENCE)
    assert end is not None
    assert (end.reason, running.output()) == ("lease", b"before\n")


@pytest.mark.proves("H6")
def test_secrets_are_files_only_for_the_task_and_masked_in_its_output(here: Box) -> None:
    secret = b"s3cr3t value/with+signs"
    script = """
        cat /run/secrets/token; echo; stat -c %a /run/secrets/token
        base64 -w0 /run/secrets/token; echo
        printf s3cr3t; sleep 0.1; printf ' value/with+signs'; sleep 0.1; echo .
        env; cat /proc/self/cmdline /proc/1/environ
    """
    running = here.start(script, secrets={"token": secret})
    end = running.wait(PATIENCE)
    assert end is not None
    assert end.ok
    said = running.output()
    assert said.split(b"\n")[:4] == [MASK, b"400", MASK + said.split(b"\n")[2][3:], MASK + b"."]
    for spelling in patterns(secret):
        assert spelling not in said
    for file in (*running.folder.rglob("*"), *here.work.rglob("*")):
        if file.is_file():
            assert secret not in file.read_bytes()


ENCODINGS = {
    "plain": lambda s: s,
    "each line": lambda s: b" : ".join(s.split(b"\n")),
    "JSON": lambda s: json.dumps(s.decode()).encode(),
    "JSON, not only ASCII": lambda s: json.dumps(s.decode(), ensure_ascii=False).encode(),
    "base64": base64.b64encode,
    "base64, one byte before": lambda s: base64.b64encode(b"x" + s + b"yz"),
    "base64, two bytes before": lambda s: base64.b64encode(b"xx" + s + b"y"),
    "base64 for addresses": base64.urlsafe_b64encode,
    "percent": lambda s: urllib.parse.quote(s, safe="").encode(),
    "percent, small letters": lambda s: urllib.parse.quote(s, safe="").lower().encode(),
    "a form": lambda s: urllib.parse.quote_plus(s).encode(),
    "hexadecimal": lambda s: s.hex().encode(),
    "HEXADECIMAL": lambda s: s.hex().upper().encode(),
    "HTML": lambda s: html.escape(s.decode()).encode(),
    "a shell's quotes": lambda s: s.replace(b"'", b"'\\''"),
}


@pytest.mark.proves("H6")
@pytest.mark.parametrize("secret", [b"hunter22", b'it\'s a <pass> & "word"?', "pässwörd/ñ".encode()])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_masked_in_every_disguise(encoding: str, secret: bytes) -> None:
    disguised = ENCODINGS[encoding](secret)
    masker = Masker(patterns(secret))
    shown = masker.feed(b"before " + disguised + b" after") + masker.flush()
    assert shown.startswith(b"before ")
    assert shown.endswith(b" after")
    assert MASK in shown
    left = shown.replace(MASK, b"").replace(b'"', b"")
    assert len(left) <= len(b"before  after") + (8 if encoding.startswith("base64") else 0)  # characters at its edges


@pytest.mark.proves("H6")
@pytest.mark.parametrize("line", [b"-----BEGIN KEY-----", b"MIIEvQIBADANBg"])
def test_each_line_of_a_longer_secret_is_masked(line: bytes) -> None:
    masker = Masker(patterns(b"-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"))
    assert masker.feed(b"+ " + line + b"\n") + masker.flush() == b"+ ***\n"


@given(st.lists(st.binary(max_size=12), max_size=20), st.integers(0, 20))
def test_cutting_the_stream_anywhere_does_not_change_what_is_shown(pieces: list[bytes], place: int) -> None:
    secret = b"swordfish"
    pieces.insert(min(place, len(pieces)), secret)
    stream = b"".join(pieces)
    whole, cut = Masker({secret}), Masker({secret})
    expected = whole.feed(stream) + whole.flush()
    assert b"".join(cut.feed(bytes([byte])) for byte in stream) + cut.flush() == expected
    assert secret not in expected


def test_harmless_output_is_not_held_back() -> None:
    masker = Masker({b"swordfish"})
    assert masker.feed(b"progress 10% s") == b"progress 10% "
    assert masker.feed(b"till going") == b"still going"


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([OUT, ERR]), st.binary(max_size=3000)), max_size=40))
def test_the_kept_output_is_a_head_and_a_tail_of_what_was_printed(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("record")
    recorder = Recorder(folder, 4096)
    for stream, data in pieces:
        recorder.add(stream, data, 0.0)
    recorder.close()
    printed = b"".join(data for _, data in pieces)
    kept = list(output.chunks(folder))
    assert all(printed[chunk.offset : chunk.end] == chunk.data for chunk in kept)
    assert sum(len(chunk.data) for chunk in kept) + recorder.dropped == recorder.total == len(printed)
    assert recorder.dropped == 0 if len(printed) <= 4096 else recorder.dropped >= len(printed) - 4096
    assert [chunk.number for chunk in kept] == sorted({chunk.number for chunk in kept})


def test_a_reader_that_was_overtaken_goes_on_behind_the_gap(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path, 4096), Follower(tmp_path)
    recorder.add(OUT, b"first", 0.0)
    assert [chunk.data for chunk in reader.new()] == [b"first"]
    for _ in range(100):
        recorder.add(OUT, b"x" * 256, 0.0)
    later = list(reader.new())
    gaps = [b.offset - a.end for a, b in pairwise(later) if b.offset != a.end]
    assert gaps == [recorder.dropped]
    assert later[-1].end == recorder.total


def test_half_a_chunk_is_not_there_yet(tmp_path: Path) -> None:
    recorder, reader = Recorder(tmp_path, 4096), Follower(tmp_path)
    recorder.add(OUT, b"whole", 0.0)
    file = tmp_path / "output-000000"
    complete = file.read_bytes()
    for cut in range(len(complete)):
        file.write_bytes(complete[:cut])
        assert list(reader.new()) == []
    file.write_bytes(complete)
    assert [chunk.data for chunk in reader.new()] == [b"whole"]


def test_a_full_disk_loses_output_but_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path, 4096)
    recorder.add(OUT, b"kept", 0.0)
    real = os.write
    monkeypatch.setattr(output.os, "write", lambda file, data: _full(real(file, data[:-1])))
    bogus = output._HEADER.pack(99, 0, 0.0, 0, 5) + b"bogus"  # what is left of it must not be taken for a chunk
    recorder.add(OUT, b"x" * 10 + bogus + b"y" * 36, 0.0)
    monkeypatch.setattr(output.os, "write", real)
    recorder.add(OUT, b"kept again", 0.0)
    assert recorder.lost == 80
    assert output.whole(tmp_path) == b"kept\n[custody: 80 bytes of output dropped here]\nkept again"


def test_small_writes_become_one_chunk_and_streams_stay_in_order(tmp_path: Path) -> None:
    gatherer = Gatherer(tmp_path, 4096, set())
    assert not gatherer.add(OUT, b"a", 0.0)
    assert not gatherer.add(OUT, b"b", 0.001)
    assert gatherer.due == 0.01
    assert gatherer.add(ERR, b"c", 0.002)  # the other stream: what waited is written first
    assert gatherer.flush(0.02)
    assert [(chunk.stream, chunk.data) for chunk in output.chunks(tmp_path)] == [(OUT, b"ab"), (ERR, b"c")]


def _full(_: int) -> int:
    raise OSError(28, "No space left on device")
