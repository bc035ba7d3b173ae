"""Named leases: the same promises on SQL and on a real ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.errors import LeaseLost, Unavailable
from custody.kernel.ports import Leases
from custody.kernel.stores import open_store
from custody.kernel.stores.zookeeper_leases import ZooKeeperLeases


@pytest.fixture(params=["sqlite", "zookeeper"])
def leases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Leases]:
    if request.param == "sqlite":
        with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
            yield store.leases
    else:
        with ZooKeeperLeases(request.getfixturevalue("zookeeper_hosts"), session_seconds=20) as opened:
            yield opened


def test_one_holder_at_a_time_and_the_token_rises_with_each(leases: Leases) -> None:
    first = leases.claim("line/fixity", "ann", 30)
    assert first is not None
    assert leases.claim("line/fixity", "bo", 30) is None
    assert leases.settle(first)
    second = leases.claim("line/fixity", "bo", 30)
    assert second is not None
    assert second.token > first.token
    with pytest.raises(LeaseLost):
        leases.renew(first, 30)
    assert not leases.settle(first), "an old token gives nothing back"
    assert leases.get("line/fixity") is not None


def test_names_with_slashes_and_other_letters_are_kept_apart(leases: Leases) -> None:
    names = ["a/b", "a_b", "a%2Fb", "ark:/99999/fk4x", "Ærø"]
    held = [leases.claim(name, "ann", 30) for name in names]
    assert all(held)
    assert [leases.claim(name, "bo", 30) for name in names] == [None] * 5


def test_renewing_ones_own_lease_keeps_its_token(leases: Leases) -> None:
    mine = leases.claim("x", "ann", 30)
    assert mine is not None
    assert leases.renew(mine, 30).token == mine.token


HOLD = """
import sys, time
from custody.kernel.stores.zookeeper_leases import ZooKeeperLeases
leases = ZooKeeperLeases(sys.argv[1], session_seconds=4)
mine = leases.claim("x", "zombie", 30)
print("held", mine.token, flush=True)
sys.stdin.readline()
try:
    leases.renew(mine, 30)
    print("renewed", flush=True)
except Exception as error:
    print(type(error).__name__, leases.settle(mine) if type(error).__name__ == "LeaseLost" else "", flush=True)
"""


def holding(hosts: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, hosts],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("held")
    return process


def claimed_within(leases: ZooKeeperLeases, seconds: float) -> float:
    start = time.monotonic()
    while leases.claim("x", "heir", 30) is None:
        assert time.monotonic() - start < seconds, "the lease of a dead holder never ended"
        time.sleep(0.05)
    return time.monotonic() - start


def test_the_lease_of_a_killed_process_ends_with_its_session(zookeeper_hosts: str) -> None:
    process = holding(zookeeper_hosts)
    with ZooKeeperLeases(zookeeper_hosts, session_seconds=20) as leases:
        assert leases.claim("x", "heir", 30) is None
        process.kill()
        process.wait()
        claimed_within(leases, 60)


def test_a_holder_that_was_stopped_past_its_session_is_refused_when_it_wakes(zookeeper_hosts: str) -> None:
    process = holding(zookeeper_hosts)
    with ZooKeeperLeases(zookeeper_hosts, session_seconds=20) as leases:
        process.send_signal(signal.SIGSTOP)
        claimed_within(leases, 60)
        process.send_signal(signal.SIGCONT)
        answer, _ = process.communicate("\n", timeout=120)
        assert answer.strip() in ("LeaseLost False", "Unavailable"), answer
        held = leases.get("x")
        assert held is not None
        assert held.holder == "heir", "the sleeper took nothing from its heir"


def test_an_address_that_nobody_answers_is_a_typed_error() -> None:
    with pytest.raises(Unavailable, match="ZooKeeper does not answer"):
        ZooKeeperLeases("127.0.0.1:1", connect_seconds=0.5)


def test_a_passing_lock_is_one_persons_and_leaves_nothing_behind(zookeeper_hosts: str) -> None:
    with ZooKeeperLeases(zookeeper_hosts, 20) as ann, ZooKeeperLeases(zookeeper_hosts, 20) as bo:
        mine, theirs = ann.passing(), bo.passing()
        first = mine.claim("robot/fixity/ark:/99999/x", "ann", 4)
        assert first is not None
        assert mine.renew(first, 4).token == first.token
        assert theirs.claim("robot/fixity/ark:/99999/x", "bo", 4) is None
        held = theirs.get("robot/fixity/ark:/99999/x")
        assert held is not None
        assert held.holder == "ann"
        assert mine.settle(first)
        assert theirs.get("robot/fixity/ark:/99999/x") is None
        assert bo._zk.get_children("/custody/passing") == []
        second = theirs.claim("robot/fixity/ark:/99999/x", "bo", 4)
        assert second is not None
        assert second.token > first.token
        assert not mine.settle(first), "an old one gives nothing back"
        with pytest.raises(LeaseLost):
            mine.renew(first, 4)
        assert theirs.get("robot/fixity/ark:/99999/x") == second


def test_a_passing_lock_ends_with_its_session(zookeeper_hosts: str) -> None:
    with ZooKeeperLeases(zookeeper_hosts, 20) as bo:
        with ZooKeeperLeases(zookeeper_hosts, 20) as ann:
            assert ann.passing().claim("x", "ann", 4)
        assert bo.passing().claim("x", "bo", 4), "a session that was closed holds nothing"


def test_a_passing_lock_whose_return_was_lost_is_not_held_for_ever_by_the_session_it_was_made_in(
    zookeeper_hosts: str,
) -> None:
    with ZooKeeperLeases(zookeeper_hosts, 20) as ann, ZooKeeperLeases(zookeeper_hosts, 20) as bo:
        lost = ann.passing().claim("x", "ann", 4)
        assert lost is not None
        afterwards = ann.passing()  # the same session, and nobody in it who knows of the lock
        assert bo.passing().claim("x", "bo", 4) is None
        again = afterwards.claim("x", "ann", 4)
        assert again is not None
        assert again.token > lost.token
        assert afterwards.claim("x", "ann", 4) is None, "one thread at a time"
        assert afterwards.settle(again)
        assert bo.passing().claim("x", "bo", 4)
