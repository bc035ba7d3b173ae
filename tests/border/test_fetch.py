"""Fetching one file from a server that may misbehave in every way it can."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.border.http.fetch import Fetcher
from custody.errors import BadInput, CustodyError, LeaseLost, Refused, Unavailable, Unsafe

from .server import Request, Server, range_start, ranged, reply

MakeFetcher = Callable[..., Fetcher]
BODY = b"0123456789" * 1000
MD5, SHA256, SHA512 = (hashlib.new(name, BODY).hexdigest() for name in ("md5", "sha256", "sha512"))


def content(folder: Folder, name: str = "x") -> bytes:
    return Path(folder.path, name).read_bytes()


def test_a_file_arrives_whole_with_its_digests(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = reply(BODY)

    fetched = fetcher().download(
        server.url("/x"), folder, "a/b.bin", size=len(BODY), digests={"MD5": MD5.upper(), "SHA-512": SHA512}
    )

    assert content(folder, "a/b.bin") == BODY
    assert fetched.digests == {"sha256": SHA256, "md5": MD5, "sha512": SHA512}
    assert (fetched.name, fetched.size, fetched.tries, fetched.resumed) == ("a/b.bin", len(BODY), 1, 0)
    assert os.listdir(folder.path) == ["a"]


def test_it_is_on_the_disk_before_it_has_its_name(
    server: Server, fetcher: MakeFetcher, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        events.append("fsync " + ("folder" if os.path.isdir(path) else "file"))
        fsync(descriptor)

    def watched_replace(*args: object, **kwargs: object) -> None:
        events.append("name")
        replace(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    server.routes["/x"] = reply(BODY)

    fetcher().download(server.url("/x"), folder, "x")

    assert events == ["fsync file", "name", "fsync folder"]


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


GOOD_ANSWERS = {
    "plain": reply(BODY),
    "empty": reply(b""),
    "chunks": chunked(BODY[:1], BODY[1:17], BODY[17:]),
    "chunk extensions and trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"3;name=value\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n",
    "interim answers first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + reply(BODY),
    "the same length twice": reply(b"abc", Content_length="3"),
    "identity": reply(BODY, Content_Encoding="identity"),
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "203": reply(BODY, 203),
}


@pytest.mark.parametrize("answer", GOOD_ANSWERS.values(), ids=GOOD_ANSWERS)
def test_every_right_way_to_answer_is_understood(
    answer: bytes, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = answer
    one = fetcher()
    one.download(server.url("/x"), folder, "x")
    one.download(server.url("/x"), folder, "again")

    assert content(folder) == content(folder, "again")
    assert content(folder) in (b"", b"abc", BODY)


HEADER = b"HTTP/1.1 200 OK\r\n"
BAD_ANSWERS: dict[str, tuple[bytes, str]] = {
    "not HTTP": (b"220 mail.example ESMTP\r\n\r\n", "http.malformed"),
    "HTTP/0.9": (b"hello world\r\n\r\n", "http.malformed"),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n", "http.malformed"),
    "a status of four digits": (b"HTTP/1.1 2000 OK\r\n\r\n", "http.malformed"),
    "two lengths": (reply(b"abc", Content_length="4"), "http.malformed"),
    "a negative length": (HEADER + b"Content-Length: -1\r\n\r\n", "http.malformed"),
    "a signed length": (HEADER + b"Content-Length: +3\r\n\r\nabc", "http.malformed"),
    "a length in words": (HEADER + b"Content-Length: three\r\n\r\nabc", "http.malformed"),
    "a superscript length": (HEADER + b"Content-Length: \xb2\r\n\r\nabc", "http.malformed"),
    "a huge length": (HEADER + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nabc", "http.malformed"),
    "a length and chunks": (
        HEADER + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "http.malformed",
    ),
    "gzipped transfer": (HEADER + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "http.malformed"),
    "a folded line": (HEADER + b"X-A: 1\r\n 2\r\nContent-Length: 3\r\n\r\nabc", "http.malformed"),
    "a space before the colon": (HEADER + b"Content-Length : 3\r\n\r\nabc", "http.malformed"),
    "a line without a colon": (HEADER + b"Hello\r\n\r\n", "http.malformed"),
    "a NUL in the header": (HEADER + b"X-A: \0\r\nContent-Length: 3\r\n\r\nabc", "http.malformed"),
    "endless interim answers": (b"HTTP/1.1 100 Continue\r\n\r\n" * 50, "http.malformed"),
    "a bad chunk size": (chunked(end=b"xyz\r\n"), "http.malformed"),
    "a negative chunk size": (chunked(end=b"-1\r\n"), "http.malformed"),
    "a huge chunk size": (chunked(end=b"f" * 17 + b"\r\n"), "http.malformed"),
    "a chunk longer than it says": (chunked(end=b"2\r\nabc\r\n0\r\n\r\n"), "http.malformed"),
    "an endless size line": (chunked(end=b"1;" + b"x" * 9000), "http.malformed"),
    "endless trailers": (chunked(b"abc", end=b"0\r\n" + b"X-A: 1\r\n" * 20000), "http.malformed"),
    "a header of 100 KB": (HEADER + b"X-A: " + b"x" * 100_000, "http.header_too_large"),
    "a header of 70 KB": (HEADER + b"X-A: 12345678901234567890\r\n" * 2800 + b"\r\n", "http.header_too_large"),
    "gzip without a digest": (reply(b"abc", Content_Encoding="gzip"), "body.encoded"),
    "no end in sight": (HEADER + b"\r\n" + BODY, "body.unbounded"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "http.204"),
    "202": (reply(b"later", 202), "http.202"),
    "a part nobody asked for": (reply(b"abc", 206, Content_Range="bytes 5-7/100"), "http.bad_range"),
    "a first part nobody asked for": (reply(b"abc", 206, Content_Range="bytes 0-2/100"), "http.bad_range"),
    "a redirect to nowhere": (reply(b"", 302), "http.302"),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\n\r\n", "http.304"),
    **{
        str(status): (reply(b"no", status), f"http.{status}")
        for status in (300, 400, 401, 403, 404, 405, 410, 451, 501, 505)
    },
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("answer", "code"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_wrong_answer_is_final_and_leaves_nothing(
    answer: bytes, code: str, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def route(_: Request, connection: socket.socket) -> bool:
        connection.sendall(answer)
        return False

    server.routes["/x"] = route
    with pytest.raises((BadInput, Refused)) as caught:
        fetcher().download(server.url("/x"), folder, "x")

    assert caught.value.code == code
    assert "127.0.0.1" in caught.value.where
    assert len(server.requests) == 1
    assert folder.is_empty()


@pytest.mark.parametrize("status", [408, 423, 425, 429, 500, 502, 503, 504, 520])
def test_what_may_pass_by_itself_is_tried_again(
    status: int, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def route(_: Request, connection: socket.socket) -> bool:
        connection.sendall(reply(b"wait", status) if len(server.requests) < 3 else reply(BODY))
        return True

    server.routes["/x"] = route
    assert fetcher().download(server.url("/x"), folder, "x").tries == 3
    assert server.connections == 1  # a refusal is no reason to hang up

    server.routes["/y"] = reply(b"wait", status)
    with pytest.raises(Unavailable) as caught:
        fetcher().download(server.url("/y"), folder, "y")
    assert caught.value.code == f"http.{status}"
    assert len(server.asked("/y")) == 3
    assert os.listdir(folder.path) == ["x"]


def test_a_server_may_say_when_to_come_back(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    def route(_: Request, connection: socket.socket) -> bool:
        first = len(server.requests) == 1
        connection.sendall(reply(b"", 429, Retry_After="1") if first else reply(BODY))
        return True

    server.routes["/x"] = route
    began = time.monotonic()
    fetcher(patience_seconds=2).download(server.url("/x"), folder, "x")
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"Retry-After": "3600"}, 3600),
        ({"Retry-After": "Wed, 21 Oct 2015 08:28:00 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 3600),
    ],
)
def test_a_server_that_asks_for_a_long_wait_is_left_to_the_engine(
    fields: dict[str, str], seconds: float, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = reply(b"", 503, **fields)
    with pytest.raises(Unavailable) as caught:
        fetcher().download(server.url("/x"), folder, "x")
    assert caught.value.facts["retry_after"] == seconds
    assert len(server.requests) == 1


def cut(answer: bytes) -> Callable[[Request, socket.socket], bool]:
    def route(_: Request, connection: socket.socket) -> bool:
        connection.sendall(answer)
        return False

    return route


CUT_SHORT = {
    "a length that lies": reply(BODY[:500], length=len(BODY)),
    "in the middle of a chunk": HEADER + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "between two chunks": chunked(b"abc", end=b""),
    "before the last line": chunked(b"abc", end=b"0\r\n"),
    "in the header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "before anything": b"",
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize("answer", CUT_SHORT.values(), ids=CUT_SHORT)
def test_a_body_that_was_cut_short_never_gets_its_name(
    answer: bytes, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = cut(answer)
    with pytest.raises(Unavailable) as caught:
        fetcher().download(server.url("/x"), folder, "x")

    assert caught.value.code in ("body.truncated", "net.lost")
    assert len(server.requests) == 3
    assert not Path(folder.path, "x").exists()


def test_a_file_longer_than_it_may_be_is_refused_before_or_while_it_comes(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def endless(_: Request, connection: socket.socket) -> bool:
        connection.sendall(HEADER + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"1000\r\n" + bytes(0x1000) + b"\r\n")

    server.routes |= {"/endless": endless, "/long": reply(b"", length=10_000_000)}
    for path in ("/endless", "/long"):
        with pytest.raises(Refused) as caught:
            fetcher(max_bytes=1_000_000).download(server.url(path), folder, "x")
        assert caught.value.code == "body.too_large"

    before = len(server.requests)
    with pytest.raises(Refused):
        fetcher(max_bytes=10).download(server.url("/x"), folder, "x", size=11)
    assert len(server.requests) == before
    assert folder.is_empty()


@pytest.mark.parametrize("size", [len(BODY) - 1, len(BODY) + 1, 0])
@pytest.mark.parametrize("answer", [reply(BODY), chunked(BODY)], ids=["length", "chunks"])
def test_a_file_of_another_size_than_expected_is_refused(
    size: int, answer: bytes, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = answer
    with pytest.raises(BadInput) as caught:
        fetcher().download(server.url("/x"), folder, "x", size=size)
    assert caught.value.code == "size.mismatch"
    assert caught.value.facts["expected"] == size
    assert folder.is_empty()


def test_a_wrong_digest_is_final_and_both_values_are_told(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = reply(BODY)
    with pytest.raises(BadInput) as caught:
        fetcher().download(server.url("/x"), folder, "x", digests={"md5": MD5, "sha256": "0" * 64})
    assert caught.value.code == "digest.mismatch"
    assert caught.value.facts == {"algorithm": "sha256", "expected": "0" * 64, "found": SHA256}
    assert len(server.requests) == 1
    assert folder.is_empty()


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("digests", "code"),
    [
        ({"crc32": "0" * 8}, "digest.unknown"),
        ({"shake_128": "00"}, "digest.unknown"),
        ({"md5": "0" * 31}, "digest.syntax"),
        ({"sha256": "g" * 64}, "digest.syntax"),
        ({"md5": "٣" * 32}, "digest.syntax"),
        ({"md5": ""}, "digest.syntax"),
    ],
)
def test_a_digest_that_cannot_be_is_refused_before_anything_is_sent(
    digests: dict[str, str], code: str, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    with pytest.raises(BadInput) as caught:
        fetcher().download(server.url("/x"), folder, "x", digests=digests)
    assert (caught.value.code, server.requests) == (code, [])


@pytest.mark.proves("H1")
@pytest.mark.parametrize("name", ["../x", ".partial/x", ".PARTIAL/x", "/x"])
def test_a_bad_name_is_refused_before_anything_is_sent(
    name: str, server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    with pytest.raises(BadInput) as caught:
        fetcher().download(server.url("/x"), folder, name)
    assert caught.value.code.startswith("name.")
    assert server.requests == []


def test_packed_bytes_are_kept_if_the_depositor_vouches_for_them(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    # Apache serves x.tar.gz like this.
    server.routes["/x"] = reply(BODY, Content_Encoding="x-gzip")
    fetcher().download(server.url("/x"), folder, "x", digests={"md5": MD5})
    assert content(folder) == BODY
    assert server.requests[0].fields["accept-encoding"] == "identity"


@pytest.mark.parametrize("known", [{"size": len(BODY)}, {"digests": {"md5": MD5}}], ids=["size", "digest"])
def test_a_body_without_an_end_is_taken_if_something_tells_a_part_from_the_whole(
    known: dict[str, object], server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes["/x"] = cut(HEADER + b"\r\n" + BODY)
    fetcher().download(server.url("/x"), folder, "x", **known)  # type: ignore[arg-type]
    assert content(folder) == BODY

    server.routes["/y"] = cut(HEADER + b"\r\n" + BODY[:-1])
    with pytest.raises(CustodyError) as caught:
        fetcher().download(server.url("/y"), folder, "y", **known)  # type: ignore[arg-type]
    assert caught.value.code in ("size.mismatch", "digest.mismatch")


def trickle(first: bytes, rest: bytes, every: float = 0.02) -> Callable[[Request, socket.socket], bool]:
    def route(_: Request, connection: socket.socket) -> bool:
        connection.sendall(first)
        for number in range(len(rest)):
            connection.sendall(rest[number : number + 1])
            time.sleep(every)
        return False

    return route


def fat_chunks(_: Request, connection: socket.socket) -> bool:
    """Many bytes on the wire, hardly any of the file."""
    connection.sendall(chunked(end=b""))
    while True:
        connection.sendall(b"1;" + b"x" * 2000 + b"\r\na\r\n")
        time.sleep(0.02)


def silent(_: Request, connection: socket.socket) -> bool:
    return connection.recv(1) != b""


SLOW = {  # the trickles go on for twenty seconds, the others for ever
    "no answer at all": (silent, "http.silent"),
    "a header that never ends": (trickle(HEADER, b"X-A: " + b"x" * 1000), "http.silent"),
    "a body that crawls": (trickle(reply(b"", length=1000), bytes(1000)), "body.too_slow"),
    "chunks that crawl": (trickle(chunked(end=b"ffff\r\n"), bytes(1000)), "body.too_slow"),
    "chunks that are all wrapping": (fat_chunks, "body.too_slow"),
    "size lines that crawl": (trickle(chunked(end=b"1;"), b"x" * 1000), "body.too_slow"),
}


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("route", "code"), SLOW.values(), ids=SLOW)
def test_a_server_that_plays_for_time_is_given_up_on(
    route: Callable[[Request, socket.socket], bool],
    code: str,
    server: Server,
    fetcher: MakeFetcher,
    folder: Folder,
) -> None:
    server.routes["/x"] = route
    began = time.monotonic()
    impatience = {"answer_seconds": 0.4} if code == "http.silent" else {"slow_seconds": 0.4}
    with pytest.raises(Unavailable) as caught:
        fetcher(tries=1, **impatience).download(server.url("/x"), folder, "x")
    assert caught.value.code == code
    assert time.monotonic() - began < 18, "it was not heard to the end"


def test_a_file_has_one_deadline_for_all_its_tries(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = trickle(reply(b"", length=1000), bytes(1000))
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        fetcher(tries=100, total_seconds=0.5, slow_seconds=0.2).download(server.url("/x"), folder, "x")
    assert caught.value.code == "fetch.deadline"
    assert time.monotonic() - began < 18, "it was not heard to the end"


def test_a_slow_but_steady_body_arrives(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = trickle(reply(b"", length=60), bytes(60))
    steady = fetcher(slow_bytes=5, slow_seconds=0.4, tries=30)  # a machine that stands still may make it too slow once
    assert steady.download(server.url("/x"), folder, "x").size == 60


def test_a_closed_port_is_worth_another_try(fetcher: MakeFetcher, server: Server, folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable) as caught:
        fetcher(ports=frozenset({port})).download(f"http://127.0.0.1:{port}/", folder, "x")
    assert caught.value.code == "net.unreachable"


def test_connections_are_used_again_until_the_server_closes_them(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes |= {"/x": reply(BODY), "/close": reply(BODY, Connection="close"), "/chunks": chunked(BODY)}
    one = fetcher()
    for number in range(5):
        one.download(server.url("/x"), folder, f"{number}")
        one.download(server.url("/chunks"), folder, f"chunks {number}")
    assert server.connections == 1
    one.download(server.url("/close"), folder, "close")
    one.download(server.url("/x"), folder, "after")
    assert server.connections == 2


def test_a_connection_unused_for_long_is_not_trusted(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = reply(BODY)
    one = fetcher(idle_seconds=-1)
    for number in range(3):
        one.download(server.url("/x"), folder, f"{number}")
    assert server.connections == 3


def test_a_connection_that_died_while_idle_costs_no_try(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = cut(reply(BODY))  # says nothing of closing, and closes
    one = fetcher(tries=1)
    for number in range(3):
        assert one.download(server.url("/x"), folder, f"{number}").tries == 1
    assert server.connections == 3


def test_bytes_after_an_answer_are_not_taken_for_the_next_one(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes |= {"/x": reply(b"abc") + reply(b"smuggled"), "/y": reply(b"right")}
    one = fetcher()
    one.download(server.url("/x"), folder, "x")
    one.download(server.url("/y"), folder, "y")
    assert content(folder, "y") == b"right"


def partly(folder: Path) -> bool:
    """Has something come? Notes beside it come and go meanwhile."""
    with suppress(FileNotFoundError):
        return any(path.stat().st_size >= 500 for path in folder.iterdir())
    return False


def test_cancelling_stops_at_once_and_keeps_what_has_come(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    def cancel() -> bool:
        return bool(server.requests) and partly(Path(folder.path, ".partial"))

    def stall(_: Request, connection: socket.socket) -> bool:
        connection.sendall(reply(b"", length=1000) + bytes(500))
        return connection.recv(1) != b""

    server.routes["/x"] = stall
    began = time.monotonic()
    with pytest.raises(Refused) as caught:
        fetcher(slow_seconds=60).download(server.url("/x"), folder, "x", cancel=cancel)
    assert caught.value.code == "fetch.cancelled"
    assert time.monotonic() - began < 30, "it did not wait for the rest"
    assert not folder.is_empty()


def test_a_lost_lease_passes_through_and_the_partial_file_stays(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def lost() -> bool:
        if server.requests:
            raise LeaseLost("the token is no longer current")
        return False

    def stall(_: Request, connection: socket.socket) -> bool:
        connection.sendall(reply(b"", length=1000) + bytes(500))
        return connection.recv(1) != b""

    server.routes["/x"] = stall
    with pytest.raises(LeaseLost):
        fetcher(slow_seconds=60).download(server.url("/x"), folder, "x", cancel=lost)
    assert len(list(Path(folder.path, ".partial").iterdir())) == 2


def test_a_redirect_is_followed(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes |= {
        "/a/start": reply(b"moved", 301, Location="../b/next?x=1"),
        "/b/next": reply(b"", 302, Location=server.url("/%C3%A9nd")),
        "/%C3%A9nd": reply(b"", 308, Location="/é".encode().decode("latin-1")),
        "/%C3%A9": reply(BODY),
    }
    assert fetcher().download(server.url("/a/start"), folder, "x").size == len(BODY)
    assert [request.path for request in server.requests] == ["/a/start", "/b/next?x=1", "/%C3%A9nd", "/%C3%A9"]
    assert server.connections == 1


def test_sizes_are_asked_for_without_fetching(server: Server, fetcher: MakeFetcher) -> None:
    def no_head(answer: bytes) -> Callable[[Request, socket.socket], bool]:
        def route(request: Request, connection: socket.socket) -> bool:
            connection.sendall(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n" if request.method == "HEAD" else answer)
            return True

        return route

    server.routes |= {
        "/plain": reply(BODY),
        "/ranges": no_head(reply(b"0", 206, Content_Range="bytes 0-0/12345")),
        "/no ranges": no_head(reply(BODY)),
        "/unknown": no_head(chunked(BODY)),
        "/star": no_head(reply(b"0", 206, Content_Range="bytes 0-0/*")),
        "/nonsense": no_head(reply(b"0", 206, Content_Range="bytes 5-2/1")),
        "/packed": reply(BODY, Content_Encoding="gzip"),
        "/busy": reply(b"", 503),
        "/moved": reply(b"", 302, Location="/plain"),
        "/silent": silent,
        "/broken": b"nonsense\r\n\r\n",
    }
    server.routes["/no%20ranges"] = server.routes["/no ranges"]
    one, hurried = fetcher(), fetcher(answer_seconds=0.3)

    sizes = {
        path: (hurried if path == "/silent" else one).head(server.url(path.replace(" ", "%20")))
        for path in server.routes
        if "%" not in path
    }

    assert sizes == {
        "/plain": len(BODY),
        "/ranges": 12345,
        "/no ranges": len(BODY),
        "/unknown": None,
        "/star": None,
        "/nonsense": None,
        "/packed": None,
        "/busy": None,
        "/moved": len(BODY),
        "/silent": None,
        "/broken": None,
    }
    assert one.head(server.url("/missing")) is None


def test_sizes_of_many_are_asked_for_at_once(server: Server, fetcher: MakeFetcher) -> None:
    server.routes["/x"] = reply(BODY)
    found = fetcher().head_many([server.url("/x"), "ftp://x/", server.url("/missing"), server.url("/x")], parallel=4)
    assert [getattr(size, "code", size) for size in found] == [len(BODY), "url.forbidden_scheme", None, len(BODY)]


def test_a_callback_is_sent_once_and_its_answer_told(server: Server, fetcher: MakeFetcher) -> None:
    def route(request: Request, connection: socket.socket) -> bool:
        connection.sendall(reply(request.body[::-1], 202))
        return True

    server.routes |= {"/hook": route, "/no": reply(b"", 410), "/later": reply(b"", 503)}
    server.routes["/moved"] = reply(b"", 307, Location="/hook")
    one = fetcher()

    assert one.post(server.url("/hook"), b"abc", {"Content-Type": "text/plain"}) == (202, b"cba")
    assert server.requests[0].fields["content-type"] == "text/plain"
    with pytest.raises(BadInput):
        one.post(server.url("/no"), b"", {})
    with pytest.raises(Unavailable):
        one.post(server.url("/later"), b"", {})
    with pytest.raises(BadInput) as caught:
        one.post(server.url("/moved"), b"", {})
    assert caught.value.code == "http.307"
    with pytest.raises(BadInput):
        one.post(server.url("/hook"), b"", {"X-A": "1\r\nX-B: 2"})
    assert [request.path for request in server.requests] == ["/hook", "/no", "/later", "/moved"]


def test_an_answer_to_a_callback_that_was_cut_short_is_none(server: Server, fetcher: MakeFetcher) -> None:
    server.routes["/hook"] = cut(reply(b"acc", length=8))
    with pytest.raises(Unavailable) as caught:
        fetcher().post(server.url("/hook"), b"", {})
    assert caught.value.code == "body.truncated"


def test_a_callback_reads_no_endless_answer(server: Server, fetcher: MakeFetcher) -> None:
    server.routes["/hook"] = reply(bytes(1_000_000))
    _, answer = fetcher().post(server.url("/hook"), b"", {})
    assert len(answer) == 64 << 10


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates as an authority of ours would hand them out, and one that it did not."""
    folder = tmp_path_factory.mktemp("certificates")
    run = lambda *words: subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)  # noqa: E731
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-days", "2")
    made = {
        "right": ("subjectAltName=IP:127.0.0.1,DNS:localhost", "2"),
        "wrong": ("subjectAltName=DNS:elsewhere.example", "2"),
        "expired": ("subjectAltName=IP:127.0.0.1", "-1"),
    }
    for name, (extension, days) in made.items():
        (folder / "extension").write_text(extension)
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "extension",
            "-days",
            days,
            "-out",
            f"{name}.pem",
        )
    run(
        "req",
        "-x509",
        *key,
        "-keyout",
        "self.key",
        "-out",
        "self.pem",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    )
    return folder


@pytest.fixture
def secure_server(certificates: Path) -> Iterator[Callable[[str], Server]]:
    started: list[Server] = []

    def start(certificate: str) -> Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / f"{certificate}.pem", certificates / f"{certificate}.key")
        started.append(Server(tls=context))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.stop()


def test_https_works_with_an_authority_of_ones_own(
    certificates: Path, secure_server: Callable[[str], Server], fetcher: MakeFetcher, folder: Folder
) -> None:
    secure = secure_server("right")
    body = os.urandom(3_000_000)
    secure.routes |= {"/x": reply(body), "/down": reply(b"", 302, Location=secure.url("/x", "http"))}
    one = fetcher(ports=frozenset({secure.port}), ca_file=str(certificates / "ca.pem"))

    one.download(secure.url("/x", "https"), folder, "x")
    one.download(f"https://localhost:{secure.port}/x", folder, "y")
    assert content(folder) == content(folder, "y") == body

    with pytest.raises(Refused) as caught:
        one.download(secure.url("/down", "https"), folder, "z")
    assert caught.value.code == "url.downgrade"


@pytest.mark.parametrize("certificate", ["wrong", "expired", "self", "right without our authority"])
def test_a_certificate_that_is_not_trusted_is_refused_for_good(
    certificate: str,
    certificates: Path,
    secure_server: Callable[[str], Server],
    fetcher: MakeFetcher,
    folder: Folder,
) -> None:
    name, _, without = certificate.partition(" ")
    secure = secure_server(name)
    secure.routes["/x"] = reply(BODY)
    authority = None if without else str(certificates / "ca.pem")
    with pytest.raises(Refused) as caught:
        fetcher(ports=frozenset({secure.port}), ca_file=authority).download(secure.url("/x", "https"), folder, "x")
    assert caught.value.code == "tls.untrusted"
    assert secure.requests == []
    assert secure.connections == 1


def test_speaking_tls_to_a_plain_server_is_worth_another_try(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def plain(_: Request, connection: socket.socket) -> bool:
        return False

    server.routes["/x"] = plain
    with pytest.raises(Unavailable) as caught:
        fetcher(connect_seconds=0.3, tries=1).download(server.url("/x", "https"), folder, "x")
    assert caught.value.code in ("tls.failed", "net.unreachable")


def test_a_missing_authority_file_is_told_when_the_fetcher_is_made(fetcher: MakeFetcher, tmp_path: Path) -> None:
    with pytest.raises(Unsafe) as caught:
        fetcher(ca_file=str(tmp_path / "missing.pem"))
    assert caught.value.code == "tls.ca_file"


def test_a_body_over_tls_that_ends_without_a_goodbye_is_cut_short(
    certificates: Path, secure_server: Callable[[str], Server], fetcher: MakeFetcher, folder: Folder
) -> None:
    secure = secure_server("right")

    def rude(_: Request, connection: socket.socket) -> bool:
        connection.sendall(HEADER + b"\r\n" + BODY)
        connection.shutdown(socket.SHUT_RDWR)  # of the socket below, so that TLS says nothing
        return False

    secure.routes["/x"] = rude
    one = fetcher(ports=frozenset({secure.port}), ca_file=str(certificates / "ca.pem"), tries=1)
    with pytest.raises(Unavailable):
        one.download(secure.url("/x", "https"), folder, "x", digests={"md5": MD5})


def test_the_whole_file_is_asked_for_again_when_the_rest_makes_no_sense(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def route(request: Request, connection: socket.socket) -> bool:
        if len(server.requests) == 1:
            connection.sendall(reply(BODY[:100], length=len(BODY), ETag='"v1"'))
            return False
        if range_start(request) is not None:
            connection.sendall(reply(b"abc", 206, Content_Range="bytes 7-9/10000", ETag='"v1"'))
            return True
        return bool(ranged(BODY)(request, connection))  # type: ignore[operator]

    server.routes["/x"] = route
    fetched = fetcher().download(server.url("/x"), folder, "x")
    assert (fetched.tries, fetched.resumed, content(folder)) == (3, 0, BODY)
