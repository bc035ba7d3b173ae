"""Small stories, each told so that it can be told again from the beginning after a crash at any word.

What a story asks of the world (submits, orders) goes through the client's notebook; what handlers decide, they
decide from the job's own facts, never from memory of their process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from custody.kernel.engine import Kind, Work
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.outcome import Failed, Hold, Outcome, Passed, Wait
from custody.kernel.model.schedule import Schedule
from custody.kernel.model.trigger import Trigger
from faults.crash import Scenario, Stage
from faults.machines import RESUMABLE, STEPS
from kernel.stores.acts import BATCH, subscribe

SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__.replace("_", " ")] = play
    return play


def parcel(
    stage: Stage, handler: Callable[[Work], Outcome] | None = None, kind: str = "parcel", **options: object
) -> Kind:
    """A kind whose handler leaves a mark on the world, then does as told."""

    def act(work: Work) -> Outcome:
        stage.effects.append(f"{work.job.kind} {work.job.key}")
        return handler(work) if handler else Passed()

    return Kind(kind, act, **options)  # type: ignore[arg-type]


def fails_until_mended(work: Work) -> Outcome:
    return Passed() if work.job.retries else Failed("torn", "the paper is torn")


@scenario
def submit_claim_settle(stage: Stage) -> None:
    for key in ("a", "b", "c"):
        stage.submit(key)
    stage.run(parcel(stage))


@scenario
def a_line_along_which_one_goes_on(stage: Stage) -> None:
    """Each is claimed with the end of the one before it."""
    before: list[Edge] = []
    for key in ("a", "b", "c", "d"):
        before = [Edge(stage.submit(key, needs=before))]
    stage.run(parcel(stage, onward=True))


@scenario
def retry_after_a_transient_failure(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        tries = int(work.facts.get("tries", 0))
        return Passed() if tries == 2 else Failed("busy", transient=True, keep={"tries": tries + 1})

    stage.submit("a")
    for minutes in range(4):
        stage.at(600 * minutes)
        stage.run(parcel(stage, handler))


@scenario
def wait_for_a_while(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        return Passed() if work.facts.get("dried") else Wait(300, "the paint is drying", keep={"dried": True})

    stage.submit("a")
    stage.run(parcel(stage, handler))
    stage.at(600)
    stage.run(parcel(stage, handler))


@scenario
def keep_a_fact_and_spawn_children(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        if "ark" not in work.facts:
            work.keep(ark="ark:/1/only-once")
        for chunk in range(int(work.facts.get("chunks", 0)), 3):
            work.spawn([NewJob("letter", key=f"{chunk}-{n}") for n in range(2)], chunks=chunk + 1)
        return Passed({"ark": work.facts["ark"]})

    stage.submit("a")
    stage.run(parcel(stage, handler), parcel(stage, kind="letter"))


@scenario
def needs_met_in_a_diamond(stage: Stage) -> None:
    top = stage.submit("top")
    left, right = (stage.submit(side, needs=[Edge(top)]) for side in ("left", "right"))
    stage.submit("bottom", needs=[Edge(left), Edge(right)])
    stage.run(parcel(stage))


@scenario
def skipped_and_armed_again(stage: Stage) -> None:
    first = stage.submit("first")
    second = stage.submit("second", needs=[Edge(first, otherwise="skip")])
    stage.submit("third", needs=[Edge(second, otherwise="skip")])
    stage.run(parcel(stage, fails_until_mended_or_other))
    stage.act("resume", lambda: stage.operator.resume(first, "mended").done)
    stage.run(parcel(stage, fails_until_mended_or_other))


def fails_until_mended_or_other(work: Work) -> Outcome:
    return fails_until_mended(work) if work.job.key == "first" else Passed()


@scenario
def blocked_by_a_failure_that_is_accepted(stage: Stage) -> None:
    first = stage.submit("first")
    stage.submit("second", needs=[Edge(first)])
    stage.submit("any end", needs=[Edge(first, "finished")])
    handler = fails_until_mended_or_other
    stage.run(parcel(stage, handler))
    stage.act("accept", lambda: stage.operator.accept(first, "good enough").done)
    stage.run(parcel(stage, handler))


@scenario
def superseded_while_queued(stage: Stage) -> None:
    line: dict[str, Any] = {"line": "archive", "task": "build", "supersedes": True}
    gate = stage.submit("gate", "gate")
    for position in (1, 2, 3):
        stage.submit(
            f"build {position}", position=position, needs=[Edge(gate)] if position > 1 else [], delay=60, **line
        )
    stage.run(parcel(stage, kind="gate"))
    stage.at(600)
    stage.run(parcel(stage))


@scenario
def superseded_while_someone_works_on_it(stage: Stage) -> None:
    line: dict[str, Any] = {"line": "archive", "task": "build", "supersedes": True}

    def handler(work: Work) -> Outcome:
        if work.job.position == 1:  # while this is being built, the next revision comes
            stage.submit("build 2", position=2, **line)
        return Passed()

    stage.submit("build 1", position=1, **line)
    stage.run(parcel(stage, handler))


@scenario
def cancelled_while_queued(stage: Stage) -> None:
    first = stage.submit("first")
    stage.submit("second", needs=[Edge(first, "finished")])
    stage.act("cancel", lambda: stage.operator.cancel(first, "not wanted").done)
    stage.run(parcel(stage))


@scenario
def cancelled_while_someone_works_on_it(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        if work.job.key == "first":
            stage.act("cancel", lambda: stage.operator.cancel(work.job.id, "not wanted").done)
        return Passed()

    first = stage.submit("first")
    stage.submit("second", needs=[Edge(first, "finished")])
    stage.run(parcel(stage, handler))


@scenario
def a_batch_and_its_jobs(stage: Stage) -> None:
    stage.machines["batch"] = BATCH

    def fan_out(work: Work) -> Outcome:
        for row in range(int(work.facts.get("rows", 0)), 3):
            work.spawn([NewJob("parcel", key=f"row {row}", parent=work.job.id)], rows=row + 1)
        return Passed()

    stage.submit("batch", "batch", machine=BATCH, open=1, when_empty="reporting")
    reporting = Kind("batch", parcel(stage, kind="batch").handler, state="reporting", machine=BATCH)
    stage.run(Kind("batch", fan_out, state="pending", machine=BATCH), reporting, parcel(stage))


@scenario
def a_batch_that_fails_and_is_resumed_before_it_has_fanned_out(stage: Stage) -> None:
    stage.machines["batch"] = RESUMABLE

    def fan_out(work: Work) -> Outcome:
        if not work.job.retries:
            return Failed("manifest.faulty")
        if not work.facts.get("rows"):
            work.spawn([NewJob("parcel", key="row", parent=work.job.id)], rows=1)
        return Passed()

    kinds = (
        Kind("batch", fan_out, state="pending", machine=RESUMABLE),
        Kind("batch", parcel(stage, kind="batch").handler, state="reporting", machine=RESUMABLE),
        parcel(stage),
    )
    batch = stage.submit("batch", "batch", machine=RESUMABLE, open=1, when_empty="reporting")
    stage.run(*kinds)
    stage.act("resume", lambda: stage.operator.resume(batch, "mended").done)
    stage.run(*kinds)


@scenario
def held_and_released(stage: Stage) -> None:
    first = stage.submit("first")
    stage.act("hold", lambda: stage.operator.hold(first, "wait").done)
    stage.submit("second")
    handler: Callable[[Work], Outcome] = lambda work: Passed() if work.facts.get("seen") else Hold("look first")  # noqa: E731
    stage.run(parcel(stage, lambda work: handler(work) if work.job.key == "second" else Passed()))
    stage.act("release first", lambda: stage.operator.release(first, "go").done)
    second = stage.get("second").id
    stage.act("cancel second", lambda: stage.operator.cancel(second, "it is not right").done)
    stage.run(parcel(stage))


@scenario
def a_collection_is_held(stage: Stage) -> None:
    stage.act("hold", lambda: stage.store.queue.hold("collection", "maps", "ada", "rights"))
    first = stage.submit("first", collection="maps")
    stage.submit("other")
    stage.run(parcel(stage))
    stage.act("lift", lambda: stage.store.queue.lift("collection", "maps", "ada"))
    stage.act("release", lambda: stage.operator.release(first).done)
    stage.run(parcel(stage))


@scenario
def a_lane_is_paused(stage: Stage) -> None:
    stage.act("hold", lambda: stage.store.queue.hold("lane", "node 7", "ada", "full"))
    stage.submit("first", lane="node 7")
    stage.submit("other", lane="node 8")
    stage.run(parcel(stage))
    stage.act("lift", lambda: stage.store.queue.lift("lane", "node 7", "ada"))
    stage.run(parcel(stage))


@scenario
def a_schedule_comes_due(stage: Stage) -> None:
    stage.act("schedule", lambda: stage.store.schedules.put(Schedule("nightly", "every 12h", "parcel"), system("ada")))
    for hours in (12, 24):
        stage.at(hours * 3600 + 1)
        stage.run(parcel(stage))


@scenario
def a_pass_over_all_that_wait(stage: Stage) -> None:
    def decide(jobs: object) -> dict[int, Outcome]:
        assert isinstance(jobs, list)
        waiting: list[Job] = sorted(jobs, key=lambda job: job.key or "")
        return {job.id: Passed(keep={"room": True}) for job in waiting[:2]}

    for key in ("a", "b", "c"):
        stage.submit(key, "space")
    for minutes in range(3):
        stage.at(600 * minutes)
        stage.run(Kind("space", decide=decide))


@scenario
def an_item_wakes_a_robot(stage: Stage) -> None:
    stage.act("subscribe", lambda: subscribe(stage.store, "checker", Trigger(past=frozenset({"received"}))))

    def receive(work: Work) -> Outcome:
        return Passed(items=[NewItem("ark:/1/x", fingerprint="v1")], events=[NewEvent("ark:/1/x", "received")])

    def check(work: Work) -> Outcome:
        return Passed(events=[NewEvent(work.payload["item"], "checked")])

    stage.submit("a")
    stage.run(parcel(stage, receive), parcel(stage, check, "robot/*"))


@scenario
def a_name_is_leased(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        lease = stage.store.leases.claim("storage/7", work.claim.holder, 20)
        if lease is None:
            return Wait(60, "someone is writing there")
        renewed = stage.store.leases.renew(lease, 20)
        if not work.facts.get("written"):
            work.keep(written=True)
        stage.store.leases.settle(renewed)
        return Passed()

    stage.submit("a")
    stage.submit("b")
    for minutes in range(3):
        stage.at(600 * minutes)
        stage.run(parcel(stage, handler))


@scenario
def deleted_while_another_waits_for_it(stage: Stage) -> None:
    first = stage.submit("first")
    stage.submit("second", needs=[Edge(first, otherwise="skip")])
    stage.submit("third", needs=[Edge(first, "finished")])
    stage.act("hold", lambda: stage.operator.hold(first, "wait").done)
    stage.act("delete", lambda: stage.operator.delete(first, "a mistake"))
    stage.run(parcel(stage))


@scenario
def steps_of_its_own_machine_failed_and_resumed(stage: Stage) -> None:
    stage.machines["deposit"] = STEPS
    fetching = parcel(stage, kind="deposit", state="fetching", machine=STEPS)
    storing = parcel(stage, fails_until_mended, "deposit", state="storing", machine=STEPS)
    deposit = stage.submit("a", "deposit", machine=STEPS)
    stage.run(fetching, storing)
    stage.act("resume", lambda: stage.operator.resume(deposit, "mended").done)
    stage.run(fetching, storing)


@scenario
def a_chain_of_deliveries_written_with_the_move(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        return Passed(then=[NewJob("deliver/mail", {"to": "ada"}, key=f"report {work.job.key}")])

    stage.submit("a")
    stage.submit("b")
    stage.run(parcel(stage, handler), parcel(stage, kind="deliver/*"))


@scenario
def due_later_and_moved_forward(stage: Stage) -> None:
    late = stage.submit("late", delay=300)
    stage.act("prioritise", lambda: stage.get("late").priority == 3 or stage.operator.prioritise(late, 3).done)
    stage.run(parcel(stage))
    stage.at(600)
    stage.run(parcel(stage))


@scenario
def words_that_cannot_be_written(stage: Stage) -> None:
    def handler(work: Work) -> Outcome:
        if work.job.key == "bad":
            return Passed(then=[NewJob("no|such|kind")])
        return Passed()

    for key in ("a", "bad", "b"):
        stage.submit(key)
    stage.run(parcel(stage, handler))


@scenario
def given_back_unworked(stage: Stage) -> None:
    stage.submit("a")
    stage.submit("b")

    def shut_down() -> int:
        claims = stage.store.queue.claim(["parcel|queued||"], "leaving", 30, 2)
        return stage.store.queue.release(claims)

    stage.act("a worker comes and goes", shut_down)
    stage.run(parcel(stage))
