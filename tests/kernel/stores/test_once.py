"""A key from outside stands for one thing: the same again is the same job, anything else is refused, on every store."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from custody.errors import BadInput, KeyConflict
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import NewJob
from custody.kernel.model.names.job_keys import Asked, asked, callers_key
from custody.kernel.stores import Store
from kernel.stores.acts import finish, submit

ADA, BEN = Acting("token:1/ada", "ada"), Acting("token:2/ben", "ben")


def request(key: str = "k", identity: str = "token:1", **said: object) -> Asked:
    return asked(callers_key(identity, key), "jobs", said)


def ask(store: Store, new: NewJob, of: Asked | None = None, acting: Acting = ADA) -> tuple[int, bool]:
    made = store.queue.submit_once(new, acting, of, lambda kind: not kind.startswith("ours/"))
    return made.id, made.new


def test_the_same_request_again_is_answered_as_the_first_was(store: Store) -> None:
    first = ask(store, NewJob("parcel", {"n": 1}), request(n=1))
    assert first[1]
    assert ask(store, NewJob("parcel", {"n": 1}), request(n=1)) == (first[0], False)
    assert store.queue.answered(request(n=1)) == first[0]
    assert len(store.queue.list()) == 1


def test_a_request_is_answered_when_its_job_is_deleted_and_what_it_needed_is_gone(store: Store) -> None:
    needed = submit(store)
    new = NewJob("parcel", key=callers_key("token:1", "k"), needs=[Edge(needed)])
    job, _ = ask(store, new, request(n=1))
    finish(store, needed)
    finish(store, job)
    for number in (job, needed):
        store.queue.delete(number, "ada", "tidy")
    assert ask(store, new, request(n=1)) == (job, False)
    assert store.queue.list() == []


@pytest.mark.parametrize("other", [NewJob("letter"), NewJob("parcel", {"n": 2}), NewJob("parcel", collection="maps")])
def test_another_request_with_a_callers_key_is_refused_and_makes_nothing(store: Store, other: NewJob) -> None:
    job, _ = ask(store, NewJob("parcel", {"n": 1}), request(n=1))
    with pytest.raises(KeyConflict) as refusal:
        ask(store, other, request(n=2))
    assert refusal.value.facts == {"job": job}
    with pytest.raises(KeyConflict):
        store.queue.answered(request(n=2))
    assert len(store.queue.list()) == 1


def test_a_refusal_never_shows_a_key_that_the_system_made(store: Store) -> None:
    own = callers_key("token:1", "k")
    store.queue.submit_one(NewJob("parcel", {"n": 1}, key=own, collection="maps"), ADA)
    for kind, number in (("parcel", 2), ("letter", 1)):
        with pytest.raises(KeyConflict) as refusal:
            ask(store, NewJob(kind, {"n": number}, key=own, collection="maps"), request("k2", n=2))
        assert "~" not in str(refusal.value)
    store.queue.submit_one(NewJob("parcel", {"n": 1}, key="mine"), ADA)
    with pytest.raises(KeyConflict, match="the key 'mine' was used before"):
        store.queue.submit_one(NewJob("parcel", {"n": 2}, key="mine"), ADA)


def test_another_callers_same_key_is_another_key(store: Store) -> None:
    mine = ask(store, NewJob("parcel"), request(n=1))
    theirs = ask(store, NewJob("parcel"), request(identity="token:2", n=2), BEN)
    assert mine[1]
    assert theirs[1]


def test_what_was_refused_has_used_up_no_key(store: Store) -> None:
    with pytest.raises(BadInput, match="no job 99"):
        ask(store, NewJob("parcel", needs=[Edge(99)]), request(n=1))
    assert ask(store, NewJob("parcel"), request(n=2))[1]


@pytest.mark.parametrize("kind", ["letter", "parcel"])
def test_a_key_of_before_requests_were_kept_stands_for_its_job_alone(store: Store, kind: str) -> None:
    own = callers_key("token:1", "k")
    job = store.queue.submit_one(NewJob("parcel", {"n": 1}, key=own, collection="maps"), ADA).id
    assert ask(store, NewJob("parcel", {"n": 1}, key=own, collection="maps"), request(n=1)) == (job, False)
    with pytest.raises(KeyConflict):
        ask(store, NewJob(kind, {"n": 1}, key=own, collection="papers"), request("k2", n=2))
    assert len(store.queue.list()) == 1


def test_a_given_key_is_one_job_of_its_collection_whatever_the_kind(store: Store) -> None:
    job, _ = ask(store, NewJob("parcel", key="k", collection="maps"))
    assert ask(store, NewJob("parcel", key="k", collection="maps")) == (job, False)
    with pytest.raises(KeyConflict) as refusal:
        ask(store, NewJob("letter", key="k", collection="maps"))
    assert refusal.value.facts == {"job": job}
    assert ask(store, NewJob("letter", key="k", collection="papers"))[1]


def test_jobs_of_before_that_share_a_key_each_answer_to_it(store: Store) -> None:
    jobs = {kind: store.queue.submit_one(NewJob(kind, key="k", collection="maps")).id for kind in ("parcel", "letter")}
    for kind, job in jobs.items():
        assert ask(store, NewJob(kind, key="k", collection="maps")) == (job, False)
    with pytest.raises(KeyConflict):
        ask(store, NewJob("card", key="k", collection="maps"))


def test_a_given_key_does_not_meet_those_of_applications(store: Store) -> None:
    store.queue.submit_one(NewJob("ours/sync", key="629"))
    assert ask(store, NewJob("parcel", key="629"))[1]


def at_once(*works: Callable[[], object]) -> list[object]:
    """What each came to: its answer, or its refusal."""
    answers: list[object] = [None] * len(works)
    line = threading.Barrier(len(works))

    def run(place: int) -> None:
        line.wait()
        try:
            answers[place] = works[place]()
        except KeyConflict as refusal:
            answers[place] = refusal

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("header", [True, False])
def test_of_two_kinds_that_come_at_once_with_one_key_one_is_refused(store: Store, turn: int, header: bool) -> None:
    def work(kind: str) -> Callable[[], object]:
        key = None if header else f"k{turn}"
        return lambda: ask(store, NewJob(kind, key=key), request(f"k{turn}", kind=kind) if header else None)

    answers = at_once(work("parcel"), work("letter"))
    assert sum(isinstance(answer, KeyConflict) for answer in answers) == 1, answers
    assert len(store.queue.list()) == 1
