"""Connections that are cut, held up, or reset after the commit: nothing lost, nothing done twice, no question open."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from custody.errors import Unavailable
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from faults.audit import audit
from faults.processes import PATIENCE, Fleet, until
from faults.test_kills import check_all, in_background, parcels, submit_all
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres
from rig.proxy import Proxy

pytestmark = [pytest.mark.kills, pytest.mark.slow]


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    with Proxy(postgres.port) as proxy:
        yield proxy


@pytest.fixture
def troubled_url(postgres: Postgres, postgres_url: str, proxy: Proxy) -> str:
    """The same empty database, by way of the proxy."""
    return postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")


def silence(proxy: Proxy, seconds: float, **way: bool) -> None:
    proxy.freeze(**way)
    time.sleep(seconds)
    proxy.resume()


FAULTS: dict[str, Callable[[Proxy, random.Random], threading.Event | None]] = {
    "everything is cut": lambda proxy, rng: proxy.cut_all(),
    "a commit is not answered": lambda proxy, rng: proxy.cut_answer(b"commit"),
    "a commit does not arrive": lambda proxy, rng: proxy.cut_request(b"commit"),
    "anything is not answered": lambda proxy, rng: proxy.cut_answer(),
    "nothing is heard for a while": lambda proxy, rng: silence(proxy, rng.uniform(0.05, 0.4)),
    "nothing is heard for two seconds": lambda proxy, rng: silence(proxy, 2.0),
    "only requests get through": lambda proxy, rng: silence(proxy, rng.uniform(0.05, 0.4), up=False),
    "only answers get through": lambda proxy, rng: silence(proxy, rng.uniform(0.05, 0.4), down=False),
}
OFTEN = [4 if "two seconds" not in what else 1 for what in FAULTS]


@pytest.mark.proves("G8")
def test_work_goes_on_whatever_becomes_of_the_connections(
    postgres_url: str, troubled_url: str, proxy: Proxy, tmp_path: Path, scaled: Scaled[int], seed: int, tell: Tell
) -> None:
    windows, rng = scaled(10, 300, 30_000), random.Random(3 + seed)
    count = 100 * windows
    with Fleet(troubled_url, tmp_path) as fleet:
        for _ in range(2):
            fleet.start()
        until(lambda: len(fleet.alive()) == 2)
        client = in_background(lambda: submit_all(fleet, parcels(count)))
        happened, sorts = 0, set[str]()
        while happened < windows:
            what = rng.choices(list(FAULTS), OFTEN)[0]
            moment = FAULTS[what](proxy, rng)
            if moment is None or moment.wait(5):  # a cut that waits for its moment is none yet
                happened += 1
                sorts.add(what)
            time.sleep(rng.uniform(0.05, 0.3))
        proxy.calm()
        client.join()
        until(fleet.is_done, PATIENCE + count * 0.1, why="everything is done")
        tell(
            f"{happened} troubles of the network of {len(sorts)} sorts, {count} jobs",
            fault_windows=happened,
            sorts=len(sorts),
        )
        assert all(process.poll() is None for process in fleet.running), fleet.last_words()
        fleet.store.close()
        fleet.store = open_store(postgres_url)  # to ask every job for its history is quicker without a detour
        check_all(fleet, count + count // 50 + 3 * count // 50)


def is_sound(store: Store) -> bool:
    """Once it can be asked: the connections of before may be gone."""
    try:
        return audit(store) == []
    except Unavailable:
        return False


@pytest.mark.proves("H8")
def test_what_is_asked_for_by_many_at_once_and_again_after_a_cut_is_one_job(
    troubled_url: str, proxy: Proxy, scaled: Scaled[int], seed: int, tell: Tell
) -> None:
    keys, callers, rng = scaled(20, 250, 25_000), 4, random.Random(seed)
    over, answers = threading.Event(), list[tuple[str, int]]()

    def insist(store: Store, key: str) -> int:
        while True:
            try:
                return store.queue.submit_one(NewJob("parcel", {"title": key}, key=key)).id
            except Unavailable:
                time.sleep(0.005)

    def ask(store: Store) -> None:
        answers.extend((f"parcel {number}", insist(store, f"parcel {number}")) for number in range(keys))

    def disturb() -> None:
        while not over.wait(0.06):
            FAULTS[rng.choice(["a commit is not answered", "a commit does not arrive", "everything is cut"])](
                proxy, rng
            )

    stores = [open_store(troubled_url) for _ in range(callers)]
    disturbing = in_background(disturb)
    asking = [in_background(lambda store=store: ask(store)) for store in stores]  # type: ignore[misc]
    for thread in asking:
        thread.join()
    over.set()
    disturbing.join()
    proxy.calm()
    assert len(answers) == keys * callers
    assert set(Counter(set(answers)).values()) == {1}
    assert len({job for _, job in answers}) == len(set(answers)) == keys, (
        "one job for each key, and all were told of it"
    )
    until(lambda: is_sound(stores[0]))
    assert len(list(stores[0].queue.every())) == keys
    for store in stores:
        store.close()
    tell("", duplicates=keys * callers)
