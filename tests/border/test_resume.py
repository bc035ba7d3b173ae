"""A download that was cut off goes on where it was, and only if that is the same file."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.border.http import partial
from custody.border.http.fetch import Fetcher
from custody.border.http.partial import PARTIALS, Partial
from custody.errors import BadInput, Refused, Unavailable

from .server import Request, Server, range_start, ranged, reply

MakeFetcher = Callable[..., Fetcher]
BODY = os.urandom(300_000)
MD5 = hashlib.md5(BODY).hexdigest()
HALF = 100_000


def content(folder: Folder, name: str = "x") -> bytes:
    return Path(folder.path, name).read_bytes()


def partials(folder: Folder) -> list[Path]:
    below = Path(folder.path, PARTIALS)
    return sorted(below.iterdir()) if below.exists() else []


def breaking(first: bytes = BODY, etag: str = '"v1"', at: int = HALF, **fields: str) -> object:
    """A file whose first answer breaks off, and that is served with ranges afterwards."""
    seen: list[Request] = []

    def route(request: Request, connection: socket.socket) -> bool:
        seen.append(request)
        if len(seen) == 1:
            connection.sendall(reply(first[:at], length=len(first), ETag=etag, **fields))
            return False
        return bool(ranged(BODY, etag, **fields)(request, connection))  # type: ignore[operator]

    return route


def left_over(folder: Folder, url: str, data: bytes = BODY[:HALF], **marks: str) -> None:
    """What an attempt left that was killed."""
    made = Partial(folder, "x", url)
    made.marks = marks
    made.write(data)
    made.pause()


def test_the_next_try_asks_for_the_rest_of_the_same_version(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = breaking()  # type: ignore[assignment]

    fetched = fetcher().download(server.url("/x"), folder, "x", digests={"md5": MD5})

    assert content(folder) == BODY
    assert (fetched.tries, fetched.resumed) == (2, HALF)
    again = server.requests[1].fields
    assert (again["range"], again["if-range"]) == (f"bytes={HALF}-", '"v1"')
    assert partials(folder) == []


def test_a_later_attempt_goes_on_from_what_an_earlier_one_left(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    server.routes["/x"] = ranged(BODY)

    fetched = fetcher().download(server.url("/x"), folder, "x")

    assert (content(folder), fetched.resumed) == (BODY, HALF)
    assert fetched.digests["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert os.listdir(folder.path) == ["x"]


def test_last_modified_serves_where_there_is_no_etag(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    left_over(folder, server.url("/x"), **{"last-modified": date})
    server.routes["/x"] = ranged(BODY, date)
    assert fetcher().download(server.url("/x"), folder, "x").resumed == HALF
    assert server.requests[0].fields["if-range"] == date


def test_a_file_that_has_changed_is_fetched_from_its_beginning(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), data=b"old" * 1000, etag='"v0"')
    server.routes["/x"] = ranged(BODY, '"v1"')
    fetched = fetcher().download(server.url("/x"), folder, "x")
    assert (content(folder), fetched.resumed) == (BODY, 0)


def test_without_a_mark_only_a_digest_allows_going_on(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = ranged(BODY)

    left_over(folder, server.url("/x"))
    assert fetcher().download(server.url("/x"), folder, "x").resumed == 0
    assert "range" not in server.requests[0].fields

    Path(folder.path, "x").unlink()
    left_over(folder, server.url("/x"))
    assert fetcher().download(server.url("/x"), folder, "x", digests={"md5": MD5}).resumed == HALF


@pytest.mark.parametrize("etag", ['W/"weak"', '"é"', ""])
def test_a_weak_or_odd_mark_is_not_relied_on(etag: str, server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = breaking(etag=etag)  # type: ignore[assignment]
    assert fetcher().download(server.url("/x"), folder, "x").resumed == 0
    assert "range" not in server.requests[1].fields


def test_a_beginning_that_was_of_another_file_is_found_out_and_thrown_away(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), data=bytes(HALF))  # without a mark, so that the server cannot know
    server.routes["/x"] = ranged(BODY)

    fetched = fetcher().download(server.url("/x"), folder, "x", digests={"md5": MD5})

    assert (content(folder), fetched.resumed, fetched.tries) == (BODY, 0, 2)


def test_a_whole_file_that_only_lacked_its_name_is_not_fetched_again(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), data=BODY, etag='"v1"')
    fetched = fetcher().download(server.url("/x"), folder, "x", size=len(BODY), digests={"md5": MD5})
    assert (content(folder), fetched.resumed, server.requests) == (BODY, len(BODY), [])


def test_more_bytes_than_the_file_has_are_thrown_away(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/x"), data=BODY + b"more", etag='"v1"')
    server.routes["/x"] = ranged(BODY)
    fetched = fetcher().download(server.url("/x"), folder, "x")
    assert (content(folder), fetched.resumed) == (BODY, 0)


def test_a_finished_file_is_recognised_by_its_digest_alone(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    Path(folder.path, "x").write_bytes(BODY)
    server.routes["/x"] = ranged(BODY)
    one = fetcher()

    assert one.download(server.url("/x"), folder, "x", digests={"md5": MD5}).tries == 0
    assert server.requests == []

    Path(folder.path, "x").write_bytes(BODY[:-1] + b"?")
    assert one.download(server.url("/x"), folder, "x", digests={"md5": MD5}).tries == 1
    assert one.download(server.url("/x"), folder, "x").tries == 1
    assert content(folder) == BODY


def test_a_finished_file_is_made_durable_all_the_same(
    server: Server, fetcher: MakeFetcher, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The attempt that wrote it may have died before its fsync.
    Path(folder.path, "d").mkdir()
    Path(folder.path, "d/x").write_bytes(BODY)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))

    fetcher().download(server.url("/x"), folder, "d/x", digests={"md5": MD5})

    assert {os.path.relpath(path, folder.path) for path in synced} == {"d", "d/x"}


@pytest.mark.parametrize(
    ("start", "rest"), [(HALF, BODY[HALF:-1]), (HALF + 1, BODY[HALF + 1 :])], ids=["too short", "another part"]
)
def test_a_rest_in_chunks_must_be_the_rest(
    start: int, rest: bytes, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    lies = [
        f'HTTP/1.1 206 Part\r\nETag: "v1"\r\nContent-Range: bytes {start}-{len(BODY) - 1}/{len(BODY)}\r\n'
        "Transfer-Encoding: chunked\r\n\r\n".encode()
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest)
    ]

    def route(request: Request, connection: socket.socket) -> bool:
        if lies:
            connection.sendall(lies.pop())
            return True
        return bool(ranged(BODY)(request, connection))  # type: ignore[operator]

    server.routes["/x"] = route
    assert fetcher().download(server.url("/x"), folder, "x").tries == 2
    assert content(folder) == BODY


def damage_bytes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lose_note(path: Path) -> None:
    path.with_suffix(".json").unlink()


def tear_note(path: Path) -> None:
    note = path.with_suffix(".json")
    note.write_bytes(note.read_bytes()[:40])


def change_note(**changes: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        note = path.with_suffix(".json")
        note.write_text(json.dumps(json.loads(note.read_text()) | changes))

    return change


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a byte changed": damage_bytes,
    "bytes lost": shorten,
    "no note": lose_note,
    "a torn note": tear_note,
    "a note that is a list": lambda path: path.with_suffix(".json").write_text("[]") and None,
    "a note with an impossible length": change_note(length=-5),
    "a note with a text for a length": change_note(length="many"),
    "a note of another file": change_note(source="0" * 64),
    "a note with a wrong digest": change_note(sha256="0" * 64),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_only_bytes_that_are_proved_are_kept(
    damage: Callable[[Path], None], server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    damage(next(path for path in partials(folder) if not path.suffix))
    server.routes["/x"] = ranged(BODY)

    fetched = fetcher().download(server.url("/x"), folder, "x")

    assert (content(folder), fetched.resumed) == (BODY, 0)
    assert os.listdir(folder.path) == ["x"]


def test_bytes_after_the_last_note_are_cut_off(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    with next(path for path in partials(folder) if not path.suffix).open("ab") as file:
        file.write(b"what had come since" * 20_000)
    next(path for path in partials(folder) if path.suffix).with_suffix(".json.new").write_text('{"torn')
    server.routes["/x"] = ranged(BODY)
    assert fetcher().download(server.url("/x"), folder, "x").resumed == HALF
    assert content(folder) == BODY
    assert os.listdir(folder.path) == ["x"]


def test_a_mark_from_a_changed_note_cannot_add_a_header(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    change_note(marks={"etag": '"v1"\r\nX-Evil: 1'})(next(path for path in partials(folder) if not path.suffix))
    server.routes["/x"] = ranged(BODY)
    fetcher().download(server.url("/x"), folder, "x")
    assert all("x-evil" not in request.fields for request in server.requests)
    assert content(folder) == BODY


def test_another_url_starts_anew(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/y"), etag='"v1"')
    server.routes["/x"] = ranged(BODY)
    assert fetcher().download(server.url("/x"), folder, "x").resumed == 0
    assert content(folder) == BODY


def test_a_file_for_good_refused_leaves_no_partial(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    with pytest.raises(BadInput):
        fetcher().download(server.url("/x"), folder, "x")  # there is no such file any more
    assert folder.is_empty()


def test_a_busy_server_does_not_cost_what_has_come(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    left_over(folder, server.url("/x"), etag='"v1"')
    server.routes["/x"] = reply(b"", 503)
    with pytest.raises(Unavailable):
        fetcher().download(server.url("/x"), folder, "x")
    server.routes["/x"] = ranged(BODY)
    assert fetcher().download(server.url("/x"), folder, "x").resumed == HALF


def test_a_second_worker_waits_for_the_first(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    first = Partial(folder, "x", server.url("/x"))
    first.write(b"abc")
    server.routes["/x"] = ranged(BODY)

    with pytest.raises(Unavailable) as caught:
        fetcher().download(server.url("/x"), folder, "x")
    assert caught.value.code == "fetch.busy"

    first.close()  # as when its process is killed
    assert fetcher().download(server.url("/x"), folder, "x").size == len(BODY)


def test_a_partial_that_was_finished_meanwhile_is_not_written_into(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given one worker that has finished between another's opening of the file and its locking
    first = Partial(folder, "x", "source")
    first.write(b"finished")
    lock = Partial._lock

    def late(second: Partial) -> None:
        monkeypatch.setattr(Partial, "_lock", lock)
        first.finish()
        lock(second)

    monkeypatch.setattr(Partial, "_lock", late)

    # When the other goes on
    second = Partial(folder, "x", "another source")
    second.write(b"second")

    # Then it has a file of its own
    assert content(folder) == b"finished"
    second.discard()


def test_a_write_that_failed_half_way_leaves_no_hole(
    server: Server, fetcher: MakeFetcher, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, calls = os.pwrite, iter(range(1000))

    def full_for_a_moment(descriptor: int, data: memoryview, place: int) -> int:
        number = next(calls)
        if number == 2:
            raise OSError(28, "No space left on device")
        return pwrite(descriptor, data[:1000] if number < 2 else data, place)

    monkeypatch.setattr(os, "pwrite", full_for_a_moment)
    server.routes["/x"] = ranged(BODY)

    fetched = fetcher().download(server.url("/x"), folder, "x")

    assert fetched.tries == 2
    assert content(folder) == BODY
    assert fetched.digests["sha256"] == hashlib.sha256(BODY).hexdigest()


def test_a_disk_that_stays_full_is_told(
    server: Server, fetcher: MakeFetcher, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    server.routes["/x"] = ranged(BODY)
    with pytest.raises(Unavailable) as caught:
        fetcher().download(server.url("/x"), folder, "x")
    assert caught.value.code == "disk.full"


def test_a_link_in_place_of_the_partial_folder_is_not_followed(
    server: Server, fetcher: MakeFetcher, folder: Folder, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    Path(folder.path, PARTIALS).symlink_to(tmp_path / "outside")
    server.routes["/x"] = ranged(BODY)
    with pytest.raises(Refused):
        fetcher().download(server.url("/x"), folder, "x")
    assert os.listdir(tmp_path / "outside") == []


PROGRAM = """
import sys
from custody.border.http.fetch import Fetcher
from custody.border.folder import Folder
from custody.border.http.policy import Policy
from custody.border.http import partial

partial.NOTE_EVERY = 50_000
with Folder(sys.argv[2]) as folder, Fetcher(Policy.local(int(sys.argv[3]))) as fetcher:
    print(fetcher.download(sys.argv[1], folder, "x").resumed)
"""


@pytest.fixture
def stalling(server: Server) -> threading.Event:
    """A file of which 200,000 bytes come, and then nothing until the client is gone."""
    gone = threading.Event()

    def route(request: Request, connection: socket.socket) -> bool:
        if range_start(request) is not None:
            return bool(ranged(BODY)(request, connection))  # type: ignore[operator]
        try:
            connection.sendall(reply(BODY[:200_000], length=len(BODY), ETag='"v1"'))
            connection.recv(1)
        finally:
            gone.set()
        return False

    server.routes["/x"] = route
    return gone


def test_a_download_killed_in_the_middle_goes_on_in_another_process(
    server: Server, stalling: threading.Event, folder: Folder
) -> None:
    command = [sys.executable, "-c", PROGRAM, server.url("/x"), folder.path, str(server.port)]
    killed = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    until = time.monotonic() + 60
    while not any(path.suffix == ".json" and _noted(path) >= 150_000 for path in partials(folder)):
        assert time.monotonic() < until
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert stalling.wait(60)
    assert not Path(folder.path, "x").exists()

    second = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, timeout=120
    )

    assert second.returncode == 0, second.stderr
    assert 150_000 <= int(second.stdout) <= 200_000
    assert content(folder) == BODY
    assert os.listdir(folder.path) == ["x"]


def _noted(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["length"])
    except (ValueError, FileNotFoundError):
        return 0


def test_a_note_is_written_now_and_then_while_bytes_come(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "NOTE_EVERY", 1000)
    made = Partial(folder, "x", "source")
    for _ in range(25):
        made.write(bytes(100))
    note = next(path for path in partials(folder) if path.suffix == ".json")
    assert _noted(note) == 2000
    made.discard()
    assert partials(folder) == []
