"""The history checker finds every forged history, and none that is sound."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from custody.kernel.engine import Kind, Serving, Work, Worker
from custody.kernel.model.event import Event
from custody.kernel.model.job import Answer, Change, Job, NewJob
from custody.kernel.model.outcome import Failed, Outcome, Passed
from custody.kernel.stores import open_store
from faults.checker import RULES, Entry, Final, Log, check, final_state, read_log, read_worker_log
from kernel.stores.clock import HandClock

History = tuple[list[Entry], Final]


def sound() -> History:
    """Three jobs, honestly done: one passed, one failed, one never started."""
    clock, log = HandClock(), list[Entry]()
    with open_store("sqlite://:memory:", clock) as store:
        for key in ("a", "b"):
            log.append(Entry("client", "invoke", "submit", key=key))
            made = store.queue.submit_one(NewJob("parcel", {"schedule": "nightly", "slot": len(log)}, key=key))
            log.append(Entry("client", "ok", "submit", made.id, key))

        class Watch:
            def started(self, job: Job) -> None:
                log.append(Entry("worker", "ok", "begin", job.id))

            def settled(self, job: Job, change: Change, answer: Answer) -> None:
                log.append(Entry("worker", "ok", "end", job.id))
                log.append(Entry("worker", "ok", "settle", job.id, token=answer.token, said=change.type))

            def lost(self, job: Job, reason: str) -> None: ...

            def trouble(self, error: Exception) -> None: ...

        def handler(work: Work) -> Outcome:
            return Passed(keep={"x": 1}) if work.job.key == "a" else Failed("torn")

        Worker(store, Serving((Kind("parcel", handler),)), listener=Watch()).run_until_idle()
        log.append(Entry("worker", "ok", "stop"))
        store.queue.submit_one(NewJob("letter", delay=60, key="c"))
        return log, final_state(store)


def with_job(final: Final, id_: int, **changes: object) -> Final:
    return replace(final, jobs={**final.jobs, id_: replace(final.jobs[id_], **changes)})  # type: ignore[arg-type]


def with_event(final: Final, id_: int, *more: Event) -> Final:
    job = replace(final.jobs[id_], seq=final.jobs[id_].seq + len(more))
    return replace(final, jobs={**final.jobs, id_: job}, events={**final.events, id_: [*final.events[id_], *more]})


def without(final: Final, id_: int) -> Final:
    jobs = {job: row for job, row in final.jobs.items() if job != id_}
    return Final(final.now, jobs, {job: told for job, told in final.events.items() if job != id_})


def last(final: Final, id_: int, **changes: object) -> Event:
    event = final.events[id_][-1]
    return replace(event, **{"seq": event.seq + 1, "move": "forged", **changes})  # type: ignore[arg-type]


Forge = Callable[[list[Entry], Final], History]


def forge(entries: Sequence[Entry] = ()) -> Forge:
    return lambda log, final: ([*log, *entries], final)


FORGED: dict[str, tuple[str, Forge]] = {
    "a state that is none": ("E1", lambda log, final: (log, with_job(final, 3, state="lost"))),
    "an end that can be claimed": ("E1", lambda log, final: (log, with_job(final, 1, runnable=True))),
    "a holder of what cannot be claimed": ("E1", lambda log, final: (log, with_job(final, 3, holder="x", until=2**60))),
    "two settles with one token": ("E2", lambda log, final: ([*log, log[-2]], final)),
    "an acknowledged settle that is not there": ("E2", forge([Entry("w", "ok", "settle", 1, token=9, said="passed")])),
    "a move written with an old token": ("E2", lambda log, final: (log, with_event(final, 1, last(final, 1, token=1)))),
    "one move written twice": (
        "E2",
        lambda log, final: (log, with_event(final, 1, last(final, 1, token=9, move=final.events[1][-1].move))),
    ),
    "an acknowledged submit that is not there": ("E3", lambda log, final: (log, without(final, 1))),
    "a word after the end": (
        "E4",
        lambda log, final: (log, with_event(final, 1, last(final, 1, type="failed", token=9))),
    ),
    "passed although asked to stop": (
        "E4",
        lambda log, final: (
            log,
            replace(
                final,
                events={
                    1: [
                        final.events[1][0],
                        replace(final.events[1][0], seq=2, type="revoked", move=""),
                        replace(final.events[1][1], seq=3),
                    ]
                },
            ),
        ),
    ),
    "a lease that ended long ago": (
        "E5",
        lambda log, final: (log, with_job(final, 3, holder="gone", until=final.now - 3_000_000, unmet=0, due=None)),
    ),
    "a ready job for which nobody came": ("E5", lambda log, final: (log, with_job(final, 3, unmet=0, due=None))),
    "a body that kills for ever": ("E6", forge([Entry("w", "ok", "begin", 3)] * 6)),
    "two jobs for one key": ("E7", lambda log, final: ([*log, Entry("client", "ok", "submit", 2, "a")], final)),
    "two jobs with one key in the store": ("E7", lambda log, final: (log, with_job(final, 2, key="a"))),
    "two runs of one slot": (
        "E9",
        lambda log, final: (log, with_job(final, 2, payload=final.jobs[1].payload)),
    ),
    "a graceful stop in the middle of work": ("E12", forge([Entry("worker", "ok", "begin", 3)])),
    "an attempt charged for a graceful stop": ("E12", lambda log, final: (log, with_job(final, 3, attempts=1))),
    "a row that is not its history": ("E13", lambda log, final: (log, with_job(final, 1, facts={"x": 2}))),
    "a number without an event": ("E13", lambda log, final: (log, with_job(final, 1, seq=7))),
    "refused, and done all the same": ("E20", forge([Entry("client", "fail", "submit", key="c")])),
}


def test_a_sound_history_passes() -> None:
    assert check(*sound()) == []


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_history_is_found(name: str) -> None:
    invariant, forged = FORGED[name]
    found = check(*forged(*sound()))
    assert invariant in {wrong.invariant for wrong in found}, [str(wrong) for wrong in found]


def test_every_invariant_has_a_forgery() -> None:
    assert {invariant for invariant, _ in FORGED.values()} == set(RULES)


def test_an_answer_that_never_came_proves_nothing() -> None:
    log, final = sound()
    unknown = [Entry("client", "unknown", "submit", key="c"), Entry("client", "fail", "submit", key="c")]
    assert check([*log, *unknown], final) == []


def test_the_order_of_the_logs_does_not_matter() -> None:
    log, final = sound()
    random.Random(1).shuffle(log)
    assert check(log, final) == []


def test_logs_are_read_back_as_written_and_a_cut_line_of_a_killed_worker_is_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path / "client", "ann")
    log.write("invoke", "submit", key="a")
    log.write("ok", "submit", key="a", job=3)
    read = [replace(entry, at=0.0) for entry in read_log(tmp_path / "client")]
    assert read == [Entry("ann", "invoke", "submit", key="a"), Entry("ann", "ok", "submit", 3, "a")]

    (tmp_path / "worker").write_text(
        '{"subject": "job/3", "token": 2, "event": "started", "level": "debug"}\n'
        '{"subject": "job/3", "token": 3, "to": "done", "event": "passed"}\n'
        '{"subject": "job/4", "token": 5, "to": "done", "event": "refused", "code": "lease.lost"}\n'
        '{"subject": "job/5", "tok'
    )
    assert list(read_worker_log(tmp_path / "worker", "w")) == [
        Entry("w", "ok", "settle", 3, token=3, said="passed"),
        Entry("w", "fail", "settle", 4, token=5, said="done"),
    ]
