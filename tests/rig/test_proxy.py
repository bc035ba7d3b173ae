"""The proxy cuts at the moment it was told to, and at no other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from rig.postgres import Postgres
from rig.program import LOOPBACK
from rig.proxy import Proxy


class Echo:
    """Answers every line with "did " and the line, and remembers what it did."""

    def __init__(self) -> None:
        self.listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self.listener.getsockname()[1]
        self.did: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed already
            pass
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    self.did.append(line.strip())
                    connection.sendall(b"did " + line)
            except OSError:
                pass


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


def say(client: socket.socket, word: bytes) -> bytes:
    client.sendall(word + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        got = client.recv(4096)
        if not got:
            raise ConnectionError("closed")
        answer += got
    return answer.strip()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, proxy.port), timeout=60) as client:
        yield client


def test_what_goes_in_comes_out(client: socket.socket) -> None:
    assert say(client, b"one") == b"did one"
    assert say(client, b"two" * 100_000) == b"did " + b"two" * 100_000


def test_a_cut_answer_is_of_a_thing_that_was_done(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    cut = proxy.cut_answer(b"commit")
    assert say(client, b"begin") == b"did begin"
    assert not cut.is_set()
    with pytest.raises(ConnectionError):
        say(client, b"commit")
    assert cut.is_set()
    assert echo.did == [b"begin", b"commit"]


def test_a_cut_request_is_of_a_thing_that_was_never_done(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    cut = proxy.cut_request(b"commit")
    assert say(client, b"begin") == b"did begin"
    with pytest.raises(ConnectionError):
        say(client, b"commit")
    assert cut.is_set()
    assert echo.did == [b"begin"]


def test_a_word_that_comes_in_two_pieces_is_found(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    cut = proxy.cut_request(b"commit")
    client.sendall(b"com")
    assert not cut.wait(0.05)
    with pytest.raises(ConnectionError):
        say(client, b"mit")
    assert echo.did in ([], [b"com"])


def test_a_cut_happens_once_and_only_to_the_one_who_said_it(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut_answer(b"commit")
    with socket.create_connection((LOOPBACK, proxy.port), timeout=60) as other:
        with pytest.raises(ConnectionError):
            say(other, b"commit")
    assert say(client, b"commit") == b"did commit"


def test_a_second_cut_does_not_remember_what_was_said_before_it(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut_answer(b"never said")
    assert say(client, b"commit") == b"did commit"
    cut = proxy.cut_answer(b"commit")
    assert say(client, b"begin") == b"did begin"
    assert not cut.is_set()


def test_a_frozen_network_is_silent_until_it_is_resumed(proxy: Proxy, client: socket.socket) -> None:
    proxy.freeze()
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        say(client, b"one")
    proxy.resume()
    client.settimeout(60)
    assert client.recv(100) == b"did one\n"


def test_all_connections_can_be_cut_and_new_ones_made(proxy: Proxy, client: socket.socket) -> None:
    assert say(client, b"one") == b"did one"
    proxy.cut_all()
    with pytest.raises(ConnectionError):
        say(client, b"two")
    with socket.create_connection((LOOPBACK, proxy.port), timeout=60) as another:
        assert say(another, b"three") == b"did three"


def test_a_client_of_a_server_that_is_down_is_refused(proxy: Proxy, echo: Echo) -> None:
    echo.close()
    with pytest.raises(ConnectionError):
        with socket.create_connection((LOOPBACK, proxy.port), timeout=60) as client:
            say(client, b"one")


def test_a_stopped_proxy_lets_nobody_in(echo: Echo) -> None:
    proxy = Proxy(echo.port)
    proxy.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, proxy.port), timeout=60)


def test_after_a_cut_answer_to_commit_postgres_has_committed(postgres: Postgres, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as direct:
        direct.execute("create table kept (word text)")
    with Proxy(postgres.port) as proxy:
        through = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")
        connection = psycopg.connect(through)
        connection.execute("insert into kept values ('yes')")
        cut = proxy.cut_answer(b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert cut.is_set()
        connection.close()
    with psycopg.connect(postgres_url) as direct:
        assert direct.execute("select word from kept").fetchall() == [("yes",)]
