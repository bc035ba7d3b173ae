"""Moves that share one `multi` are still done or refused each by itself; and what we moved ourselves is not read again,
unless someone else has touched it since."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from custody.ingest.states import JOB_KIND
from custody.ingest.zookeeper.client import packets, session
from custody.ingest.zookeeper.client.multi import Create
from custody.ingest.zookeeper.tree import id_of, name_of
from custody.kernel.model.job import Claim
from faults.processes import until
from ingest.bench import Archive, archive
from ingest.peer import Peer
from ingest.test_mixed_fleet import orphans, passed, peers, plant_job, tree_url


@pytest.fixture
def fleet(zookeeper_hosts: str, tmp_path: Path) -> Iterator[tuple[Archive, Peer]]:
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home, peers(zookeeper_hosts) as service:
        yield home, service
    assert orphans(url) == []


def claim_all(home: Archive, state: str) -> list[Claim]:
    return home.store.queue.claim([f"{JOB_KIND}|{state}||"], "us", 10, 50)


def the_session(home: Archive) -> Any:
    return home.store.queue._at.session  # type: ignore[attr-defined]


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operations each `multi` has that is sent from now on."""
    sent: list[int] = []
    call = packets.call

    def counted(zk: Any, request: Any) -> Any:
        if isinstance(request, packets.Multi):
            sent.append(len(request.ops))
        return call(zk, request)

    monkeypatch.setattr(packets, "call", counted)
    return sent


def test_many_moves_go_in_one_request(fleet: tuple[Archive, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    home, service = fleet
    for _ in range(5):
        plant_job(service)
    sent = requests_of(monkeypatch)
    claims = claim_all(home, "recording")
    assert (len(claims), len(sent)) == (5, 1)
    assert all(answer.done for answer in home.store.queue.settle([passed(home, claim) for claim in claims]))
    assert len(sent) == 2


def test_of_moves_that_go_together_only_those_are_refused_that_would_be_alone(fleet: tuple[Archive, Peer]) -> None:
    home, service = fleet
    names = [plant_job(service) for _ in range(4)]
    assert service.take("recording") == names[0]
    claims = claim_all(home, "recording")
    assert [name_of(claim.id) for claim in claims] == names[1:], "the one that is locked keeps nobody from the others"
    service.zk.delete(f"/jobs/{names[2]}/lock")  # as an administrator does who believes that we are dead
    answers = home.store.queue.settle([passed(home, claim) for claim in claims])
    assert [answer.done for answer in answers] == [True, False, True]
    assert answers[1].code == "lease.lost"
    states = [service.get(f"/jobs/{name}/status")["status"] for name in names]
    assert states == ["Recording", "Notify", "Recording", "Notify"]
    service.unlock(names[0])
    (taken,) = home.store.queue.claim_expired([f"{JOB_KIND}|recording||"], "other", 10)
    assert home.store.queue.settle([passed(home, taken)])[0].done


@pytest.mark.parametrize("refused", [[], [1]], ids=["all are done", "one is refused"])
def test_every_answer_is_that_of_its_own_move(fleet: tuple[Archive, Peer], refused: Sequence[int]) -> None:
    home, service = fleet
    for number in refused:
        service.zk.create(f"/jobs/x{number}", makepath=True)
    verdicts = the_session(home).commit_many([[Create(f"/jobs/x{number}")] for number in range(3)])
    assert [verdict.done for verdict in verdicts] == [number not in refused for number in range(3)]
    assert all(service.zk.exists(f"/jobs/x{number}") for number in range(3))
    for number in range(3):
        service.zk.delete(f"/jobs/x{number}")


def test_what_does_not_fit_into_one_request_goes_in_several(
    fleet: tuple[Archive, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, service = fleet
    sent = requests_of(monkeypatch)
    paths = [f"/jobs/x{number}" for number in range(3 * session.TOGETHER)]
    assert all(verdict.done for verdict in the_session(home).commit_many([[Create(path)] for path in paths]))
    assert sent == [session.TOGETHER] * 3
    large = [[Create(f"/jobs/y{number}", b"y" * (session.TOGETHER_BYTES // 2))] for number in range(4)]
    assert all(verdict.done for verdict in the_session(home).commit_many(large))
    assert sent[3:] == [1] * 4
    for path in [*paths, *(ops[0].path for ops in large)]:
        service.zk.delete(path)


def test_what_another_service_did_to_a_job_that_we_moved_is_seen_by_the_next_claim(
    fleet: tuple[Archive, Peer],
) -> None:
    home, service = fleet
    name = plant_job(service, "Storing", "Processing")
    (claim,) = claim_all(home, "storing")
    assert home.store.queue.settle([passed(home, claim)])[0].done
    status = service.get(f"/jobs/{name}/status") | {"retry_count": 7}
    service.zk.set(f"/jobs/{name}/status", json.dumps(status).encode())
    claims: list[Claim] = []

    def is_claimed() -> bool:
        claims.extend(claim_all(home, "recording"))
        return bool(claims)

    until(is_claimed, why="it is claimed as it is now")
    assert (claims[0].job.id, claims[0].job.retries) == (id_of(name), 7)
    assert home.store.queue.settle([passed(home, claims[0])])[0].done
    assert service.get(f"/jobs/{name}/status")["retry_count"] == 7


def test_a_job_that_we_moved_is_claimed_again_without_being_read(
    fleet: tuple[Archive, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, service = fleet
    name = plant_job(service, "Storing", "Processing")
    (claim,) = claim_all(home, "storing")
    assert home.store.queue.settle([passed(home, claim)])[0].done
    read: list[str] = []
    ask = the_session(home).get_many

    def get_many(paths: Sequence[str], *more: Any, **others: Any) -> Any:
        read.extend(paths)
        return ask(paths, *more, **others)

    monkeypatch.setattr(the_session(home), "get_many", get_many)
    (again,) = claim_all(home, "recording")
    assert not [path for path in read if name in path]
    fresh = home.store.queue.get(again.id)
    assert (again.job.state, again.job.last_passed, again.job.payload, again.job.facts, again.job.token) == (
        fresh.state,
        fresh.last_passed,
        fresh.payload,
        fresh.facts,
        fresh.token,
    )
    assert home.store.queue.settle([passed(home, again)])[0].done
