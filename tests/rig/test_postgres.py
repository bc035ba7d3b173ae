"""The private PostgreSQL: durable, crashable, and a clean database for every test."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import psycopg
import pytest

from rig.need import need
from rig.postgres import Postgres
from rig.program import LOOPBACK, family, is_running


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A cluster that a test may crash without its neighbours noticing."""
    need("postgresql")
    server = Postgres()
    server.start()
    yield server
    server.remove()


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def tell(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_what_the_shared_server_acknowledges_is_on_disk(postgres: Postgres, setting: str) -> None:
    assert ask(postgres.url(), f"show {setting}") == "on"


def test_the_server_listens_on_loopback_only(postgres: Postgres) -> None:
    assert ask(postgres.url(), "show listen_addresses") == "127.0.0.1"
    assert ask(postgres.url(), "show unix_socket_directories") == ""


def test_a_stranger_without_the_password_is_refused(postgres: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.url().replace(postgres.password, "guess"))


def test_an_immediate_stop_keeps_what_was_committed(own: Postgres) -> None:
    url = own.fresh_database()
    tell(url, "create table kept (word text)")
    tell(url, "insert into kept values ('yes')")
    first, port, processes = own.program.pid, own.port, family(own.program.pid)
    assert len(processes) > 3

    own.stop("immediate")
    assert not any(map(is_running, processes))
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    own.start()

    assert own.port == port
    assert own.program.pid != first
    assert ask(url, "select word from kept") == "yes"
    assert "was not properly shut down" in own.program.log.read_text()


def test_two_tests_never_share_a_database(postgres: Postgres) -> None:
    one, other = postgres.fresh_database(), postgres.fresh_database()
    tell(one, "create table mine (x int)")
    assert ask(other, "select to_regclass('mine')") is None
    postgres.give_back(one)
    postgres.give_back(other)


def test_a_database_given_back_comes_out_empty_even_if_somebody_is_still_inside(postgres: Postgres) -> None:
    url = postgres.fresh_database()
    tell(url, "create table left_over (x int); create schema attic; create table attic.box (x int)")
    inside = psycopg.connect(url)
    inside.execute("lock table left_over in access share mode")

    postgres.give_back(url)
    again = postgres.fresh_database()

    assert again == url
    schemas = "select count(*) from pg_namespace where nspname in ('public', 'attic')"
    assert ask(again, schemas) == 1
    assert ask(again, "select to_regclass('left_over')") is None
    with pytest.raises(psycopg.OperationalError):
        inside.execute("select 1")
    inside.close()
    postgres.give_back(again)


def test_a_database_can_start_as_a_copy_of_another(postgres: Postgres) -> None:
    model = postgres.fresh_database()
    tell(model, "create table shape (x int)")
    copy = postgres.fresh_database(template=model.rpartition("/")[2])
    assert ask(copy, "select to_regclass('shape')::text") == "shape"
    postgres.give_back(model)
    postgres.give_back(copy)


def test_a_fresh_database_answers(postgres_url: str) -> None:
    assert ask(postgres_url, "select count(*) from pg_tables where schemaname = 'public'") == 0


def test_a_frozen_server_is_silent_until_it_is_resumed(own: Postgres) -> None:
    ask_for_encryption = bytes.fromhex("0000000804d2162f")
    with socket.create_connection((LOOPBACK, own.port), timeout=60) as client:
        own.program.freeze()
        client.settimeout(0.2)
        client.sendall(ask_for_encryption)
        with pytest.raises(TimeoutError):
            client.recv(1)
        own.program.resume()
        client.settimeout(60)
        assert client.recv(1) == b"N"


def test_a_removed_server_leaves_neither_process_nor_files() -> None:
    need("postgresql")
    server = Postgres(fast=True)
    server.start()
    assert ask(server.url(), "show fsync") == "off"
    pids, folder = family(server.program.pid), server.folder
    server.remove()
    assert not any(map(is_running, pids))
    assert not folder.exists()
