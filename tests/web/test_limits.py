"""Too often, too slow, too large, too clever: each gets its 4xx from the real server, and others are served on."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from custody.web.access import request_limits
from custody.web.access.rate_limits import MOST_CALLERS, Doorstep, Rate, Rates
from custody.web.server import Server
from web.house import House, open_house

# How often


def test_a_bucket_gives_its_burst_then_one_by_one_and_fills_again() -> None:
    now = [0.0]
    rates = Rates(Rate(per_second=2, burst=3), clock=lambda: now[0])
    assert [rates.take("ann") for _ in range(3)] == [0, 0, 0]
    assert rates.take("ann") == pytest.approx(0.5)
    assert rates.take("bob") == 0, "others have buckets of their own"
    now[0] += 0.5
    assert rates.take("ann") == 0
    assert rates.take("ann") > 0
    now[0] += 1000
    assert [rates.take("ann") > 0 for _ in range(4)] == [False, False, False, True], "it never holds more than a burst"


@pytest.mark.proves("H13")
def test_callers_beyond_counting_are_forgotten_and_memory_is_bounded() -> None:
    rates = Rates(Rate(1, 1), clock=lambda: 0.0)
    for number in range(MOST_CALLERS + 10):
        rates.take(str(number))
    assert rates.take("5") == 0, "forgotten"
    assert rates.take(str(MOST_CALLERS + 5)) > 0


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    rates = {"rate": Rate(0.001, 5), "unknown_rate": Rate(0.001, 4)}
    with open_house(tmp_path_factory.mktemp("strict"), filled=False, **rates) as made:
        yield made


def test_whoever_is_sent_away_waits_for_it_and_only_so_many_wait(strict: House) -> None:
    """Who asks again as soon as he is answered would have the server do little else."""
    client = strict.client("depositor")
    while client.get("/api/v1/batches").status_code != 429:
        pass
    began = time.monotonic()
    assert client.get("/api/v1/batches").status_code == 429
    assert time.monotonic() - began >= 0.25
    asyncio.run(asyncio.wait_for(Doorstep(seconds=3600, most=0).wait(), 60))


@pytest.mark.proves("H13")
def test_each_caller_is_told_when_to_come_back_and_no_other_is_kept_out(strict: House) -> None:
    answers = [strict.client("reader").get("/api/v1/jobs") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    last = answers[-1]
    assert int(last.headers["retry-after"]) > 1
    assert last.headers["content-type"] == "application/problem+json"
    assert last.json()["code"] == "rate"
    assert strict.client("operator").get("/api/v1/jobs").status_code == 200
    page = strict.client("reader", Accept="text/html").get("/jobs")
    assert page.status_code == 429
    assert page.headers["retry-after"]
    assert 'role="alert"' in page.text


@pytest.mark.proves("H13")
def test_whoever_tries_tokens_is_slowed_down_but_not_who_has_one(strict: House) -> None:
    tried = [
        strict.client(Authorization=f"Bearer custody_{number:051}").get("/api/v1/jobs").status_code
        for number in range(6)
    ]
    assert tried == [401] * 4 + [429] * 2
    assert strict.client("admin").get("/api/v1/jobs").status_code == 200, "from the same address"


# How slowly, how much, and how oddly


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Server]]:
    with open_house(tmp_path_factory.mktemp("odd"), filled=False) as made:
        server = Server(made.app).start()
        yield made, server
        server.stop()


@pytest.fixture(scope="module")
def hurried(served: tuple[House, Server]) -> Iterator[Server]:
    """The same behind a server that waits for headers and bodies less than a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_limits, "SILENCE_SECONDS", 0.6)
        server = Server(served[0].app, header_seconds=0.6).start()
        yield server
        server.stop()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def answer(server: Server, sent: bytes) -> bytes:
    """What comes back until the server closes or has said how it ends."""
    with closing(connected(server)) as line:
        line.sendall(sent)
        got = b""
        while b"\r\n\r\n" not in got and (piece := line.recv(65536)):
            got += piece
        return got


def status(got: bytes) -> int:
    return int(got.split()[1]) if got.startswith(b"HTTP/1.1 ") else 0


GET = b"GET /api/v1/health HTTP/1.1\r\n"
POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"
ODD = [
    # what, sent, expected
    ("no host", GET + b"\r\n", {400}),
    ("two hosts", GET + b"Host: a\r\nHost: b\r\n\r\n", {400}),
    ("a line of nonsense", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
    ("an old protocol", b"GET /\r\n\r\n", {400}),
    ("a header with NUL", GET + b"Host: x\r\nX: a\x00b\r\n\r\n", {400}),
    ("a header without a name", GET + b"Host: x\r\n: a\r\n\r\n", {400}),
    ("a name with a space", GET + b"Host: x\r\nContent-Length : 5\r\n\r\n", {400}),
    ("an unknown method", b"EXPLODE /jobs HTTP/1.1\r\nHost: x\r\n\r\n", {405}),
    ("a long address", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {400, 414}),
    ("many headers", GET + b"Host: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", {400, 431}),
    ("two lengths", POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", {400}),
    ("a negative length", POST + b"Content-Length: -2\r\n\r\n{}", {400}),
    ("a length in letters", POST + b"Content-Length: two\r\n\r\n{}", {400}),
    ("a piece that is no number", POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", {400}),
    ("an unknown encoding", POST + b"Transfer-Encoding: rot13\r\n\r\n{}", {400, 501}),
    ("a promise of too much", POST + b"Content-Length: 99999999\r\n\r\n", {413}),
    ("an address elsewhere", b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", {400, 404, 405}),
    ("a host with a path", b"GET /jobs HTTP/1.1\r\nHost: x/../y\r\nAccept: text/html\r\n\r\n", {303, 400}),
]
SLOW = [
    ("headers that never end", GET + b"Host: x\r\nX: "),
    ("a body that never ends", POST + b'Content-Length: 20\r\n\r\n{"kind"'),
    ("nothing at all", b""),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("what", "sent", "expected"), ODD, ids=[case[0] for case in ODD])
def test_odd_requests_get_their_4xx_and_the_next_one_is_served(
    served: tuple[House, Server], what: str, sent: bytes, expected: set[int]
) -> None:
    house, server = served
    filled = sent.replace(b"%s", house.token("operator").encode())
    assert status(answer(server, filled)) in expected
    assert status(answer(server, GET + b"Host: x\r\n\r\n")) == 200


@pytest.mark.proves("H13")
@pytest.mark.parametrize(("what", "sent"), SLOW, ids=[case[0] for case in SLOW])
def test_slow_requests_are_ended(served: tuple[House, Server], hurried: Server, what: str, sent: bytes) -> None:
    filled = sent.replace(b"%s", served[0].token("operator").encode())
    assert status(answer(hurried, filled)) == 408
    assert status(answer(served[1], GET + b"Host: x\r\n\r\n")) == 200


def test_a_byte_now_and_then_does_not_help(served: tuple[House, Server], hurried: Server) -> None:
    house, server = served[0], hurried
    drips = (
        (GET + b"Host: x\r\nX: ", b"y"),
        (POST.replace(b"%s", house.token("operator").encode()) + b"Content-Length: 500\r\n\r\n", b" "),
    )
    for begun, drop in drips:
        with closing(connected(server)) as line:
            line.sendall(begun)
            line.settimeout(0.1)
            got, until = b"", time.monotonic() + 60
            while not got:
                assert time.monotonic() < until, "it went on for ever"
                try:
                    line.sendall(drop)
                    got = line.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    break
            assert status(got) in (408, 0)


@pytest.mark.proves("H13")
def test_a_slow_reader_of_news_keeps_nobody_waiting(served: tuple[House, Server]) -> None:
    house, server = served
    token = house.token("reader").encode()
    streams = [connected(server) for _ in range(20)]
    for line in streams:
        line.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
    try:
        for _ in range(20):
            assert status(answer(server, GET + b"Host: x\r\n\r\n")) == 200
    finally:
        for line in streams:
            line.close()


def test_small_answers_are_sent_at_once(served: tuple[House, Server]) -> None:
    """The event loop waits for no second packet only on sockets that say they are TCP."""
    assert served[1].listens_at.proto == socket.IPPROTO_TCP


def test_two_requests_on_one_connection_are_both_answered_and_neither_is_hidden_in_the_other(
    served: tuple[House, Server],
) -> None:
    """A length and pieces at once: whatever is believed, what follows must not become a request of its own."""
    house, server = served
    hidden = b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + house.token("admin").encode()
    sent = POST.replace(b"%s", house.token("operator").encode()) + (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden + b"\r\n\r\n"
    )
    with closing(connected(server)) as line:
        line.sendall(sent)
        line.settimeout(2)
        got = b""
        try:
            while piece := line.recv(65536):
                got += piece
        except TimeoutError:
            pass
    assert b'"jobs"' not in got


@pytest.mark.parametrize("end", ["%0a", "%0A", "%0d", "%0d%0a"])
def test_an_address_with_the_end_of_a_line_in_it_is_no_other_address(house: House, end: str) -> None:
    operator = house.client("operator")
    asked = {"spec": "@daily", "kind": "tidy"}
    assert operator.put(f"/api/v1/schedules/newone{end}", json=asked).status_code == 400
    assert operator.get(f"/api/v1/jobs{end}").status_code == 400
    assert "newone" not in [each.name for each in house.archive.store.schedules.list()]
