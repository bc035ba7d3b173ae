"""Many files at once: order, limits per host, failures side by side, and stopping."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.border.http.fetch import Fetched, Fetcher, Wanted
from custody.border.http.parallel import spread
from custody.errors import CustodyError, LeaseLost, Refused
from rig.descriptors import connections_with, descriptors_below

from .server import Request, Server, reply

MakeFetcher = Callable[..., Fetcher]


def body_of(number: int) -> bytes:
    return b"%d," % number * 300


def test_many_files_arrive_and_one_that_fails_stops_no_other(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    server.routes |= {f"/{number}": reply(body_of(number)) for number in range(300) if number != 7}
    wanted = [
        Wanted(server.url(f"/{n}"), f"d{n % 7}/{n}", digests={"md5": hashlib.md5(body_of(n)).hexdigest()})
        for n in range(300)
    ]
    wanted.append(Wanted("ftp://good.example/x", "bad"))
    told: list[str] = []

    results = fetcher().download_many(wanted, folder, parallel=8, tell=lambda one, _: told.append(one.name))

    codes = [result.code for result in results if isinstance(result, CustodyError)]
    assert codes == ["http.404", "url.forbidden_scheme"]
    assert [result.name for result in results if isinstance(result, Fetched)] == [
        one.name for number, one in enumerate(wanted[:-1]) if number != 7
    ]
    for number in set(range(300)) - {7}:
        assert Path(folder.path, f"d{number % 7}/{number}").read_bytes() == body_of(number)
    assert sorted(told) == sorted(one.name for one in wanted)
    assert server.connections <= 8
    assert not Path(folder.path, ".partial").exists()


def test_nothing_to_do_is_done_at_once(fetcher: MakeFetcher, folder: Folder) -> None:
    assert fetcher().download_many([], folder) == []


def test_one_host_gets_no_more_connections_than_it_may_have(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def slow(_: Request, connection: socket.socket) -> bool:
        end = time.monotonic() + 60
        while server.busiest < 3 and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(0.02)
        connection.sendall(reply(b"x"))
        return True

    server.routes["/x"] = slow
    wanted = [Wanted(server.url("/x"), f"{number}") for number in range(20)]
    results = fetcher(per_host=3).download_many(wanted, folder, parallel=10)
    assert all(isinstance(result, Fetched) for result in results)
    assert server.busiest == 3


def test_the_limit_of_a_host_holds_for_all_who_use_the_fetcher(
    server: Server, fetcher: MakeFetcher, folder: Folder
) -> None:
    def slow(_: Request, connection: socket.socket) -> bool:
        time.sleep(0.02)
        connection.sendall(reply(b"x"))
        return True

    server.routes["/x"] = slow
    one = fetcher(per_host=1)
    threads = [
        threading.Thread(target=one.download, args=(server.url("/x"), folder, f"{number}")) for number in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (server.busiest, len(server.requests)) == (1, 5)


def fetching() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("fetch-")}


def test_cancelling_ends_everything_at_once(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    def stall(_: Request, connection: socket.socket) -> bool:
        return connection.recv(1) != b""

    server.routes["/stall"] = stall
    server.routes["/x"] = reply(b"x")
    wanted = [Wanted(server.url("/x" if number < 5 else "/stall"), f"{number}") for number in range(1000)]
    before = fetching()
    began = time.monotonic()
    with pytest.raises(Refused) as caught:
        fetcher(answer_seconds=60).download_many(
            wanted, folder, parallel=8, cancel=lambda: len(server.asked("/stall")) >= 8
        )
    assert caught.value.code == "fetch.cancelled"
    assert time.monotonic() - began < 30, "nobody waited for an answer"
    assert fetching() <= before
    assert len(server.requests) <= 5 + 8


def test_a_surprise_in_one_thread_is_raised_and_stops_the_others(folder: Folder) -> None:
    stopped: list[int] = []

    def work(number: int, stop: Callable[[], bool]) -> int:
        if number == 3:
            raise ZeroDivisionError
        while not stop():
            time.sleep(0.005)
        stopped.append(number)
        return number

    with pytest.raises(ZeroDivisionError):
        spread(range(100), lambda number: number, work, parallel=4, per_host=1)
    assert sorted(stopped) == [0, 1, 2]


def test_a_lost_lease_is_raised_not_listed(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    def lost() -> bool:
        raise LeaseLost("the token is no longer current")

    with pytest.raises(LeaseLost):
        fetcher().download_many([Wanted(server.url("/x"), "x")] * 3, folder, cancel=lost)
    assert server.requests == []


def test_a_slow_host_does_not_hold_up_the_others() -> None:
    # Given a slow host first in the line, allowed two at once
    items = ["slow"] * 10 + ["quick"] * 50
    order: list[str] = []
    free = threading.Event()
    lock = threading.Lock()

    def work(host: str, stop: Callable[[], bool]) -> str:
        if host == "slow":
            assert free.wait(60)
        with lock:
            order.append(host)
            if order.count("quick") == 50:
                free.set()
        return host

    # When four threads work, then the quick ones are done while the slow ones wait
    assert spread(items, str, work, parallel=4, per_host=2) == items
    assert order[:50] == ["quick"] * 50


def test_results_are_in_the_order_of_the_items() -> None:
    done: list[int] = []
    another_is_done = threading.Event()

    def work(number: int, stop: Callable[[], bool]) -> int:
        if number == 0:
            assert another_is_done.wait(60)
        time.sleep((7 * number % 5) / 1000)
        done.append(number)
        another_is_done.set()
        return -number

    assert spread(range(50), lambda number: number % 3, work, parallel=6, per_host=2) == [-n for n in range(50)]
    assert done != sorted(done)


def test_no_descriptor_is_left_open(server: Server, fetcher: MakeFetcher, folder: Folder) -> None:
    server.routes["/x"] = reply(b"x")
    wanted = [Wanted(server.url("/x" if number % 2 else "/missing"), f"{number}") for number in range(40)]
    one = fetcher()
    port, before = server.port, len(descriptors_below(folder.path))
    one.download_many(wanted, folder)
    assert server.connections >= 1
    one.close()
    server.stop()
    assert connections_with(port) == []
    assert len(descriptors_below(folder.path)) == before
    server.start()
