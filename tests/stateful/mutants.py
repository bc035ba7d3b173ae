"""Guards taken away one by one, each as somebody's queue once lacked it, and the tests that must notice.

A mutant is a change to one statement, or to one function. The failures are public: the issue or the behaviour is
named so that a reader can look up what it did to people.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from custody.kernel.model import trigger
from custody.kernel.model.suspicion import ALONE, NEAR
from custody.kernel.stores import Store, schedules
from custody.kernel.stores.rules import claim, graph, submit
from custody.kernel.stores.sql.statements import load
from custody.kernel.stores.sqlite import connection
from kernel.stores import (
    test_another_history,
    test_claim,
    test_edges,
    test_expiry,
    test_items,
    test_leases,
    test_onward,
    test_parents,
    test_revoke,
    test_schedules,
    test_sqlite,
    test_submit,
    test_supersession,
    test_tokens,
    test_triggers,
)
from kernel.stores.acts import execute

Patch = Callable[[pytest.MonkeyPatch], None]

expired, due = claim.expired, schedules.due


@dataclass(frozen=True)
class Caught:
    """A test, and what it is given besides its fixtures."""

    test: Callable[..., None]
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mutant:
    failure: str  # the public failure it models
    patch: Patch
    by: tuple[Caught, ...]  # every one of these turns red
    spoil: Callable[[Store], None] | None = None  # done to the opened store


WITHIN = "(case when everywhere = 1 then '' else collection end)"


def sql(name: str, old: str, new: str) -> Patch:
    """A statement that says something else in one place."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        statements = load("sqlite")
        assert statements[name].count(old) == 1, f"{name} no longer says {old!r}"
        monkeypatch.setitem(statements, name, statements[name].replace(old, new))  # type: ignore[arg-type]

    return patch


def function(owner: Any, name: str, new: Any) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        assert inspect.getattr_static(owner, name) is not None
        monkeypatch.setattr(owner, name, new)

    return patch


def both(*patches: Patch) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in patches:
            each(monkeypatch)

    return patch


def by(test: Callable[..., None], **given: Any) -> Caught:
    return Caught(test, given)


def no_unique_key(store: Store) -> None:
    store.db.write(lambda tx: execute(tx, "drop index job_key"))


def settles(old: str, new: str) -> Patch:
    """The same in both: one by one, and many at once."""
    return both(sql("settle", old, new), sql("settle_many", old, new))


def tells(old: str, new: str) -> Patch:
    return both(sql("meet_edges", old, new), sql("meet_many", old, new))


KIND_OPEN = "not exists (select 1 from hold where hold.scope = 'kind' and hold.name = job.kind)"
LANE_OPEN = "not exists (select 1 from hold where hold.scope = 'lane' and hold.name = job.lane)"

any_claim_settles = both(
    sql("settle", "and job.move = :claimed", ""), sql("settle_many", "and job.move = given.its_claim", "")
)

MUTANTS: dict[str, Mutant] = {
    # leases and tokens
    "a settle does not ask for the token": Mutant(
        "River 1302: a rescuer overwrote a job that had been completed meanwhile",
        both(
            sql("settle", "and job.token = :token and job.move = :claimed", ""),
            sql("settle_many", "and job.token = given.its_token and job.move = given.its_claim", ""),
        ),
        (by(test_tokens.test_an_old_token_settles_renews_keeps_and_releases_nothing, happens=test_tokens._expired),),
    ),
    "the token rises at claims only": Mutant(
        "Kleppmann on locks: a second run of the same holder is not fenced out by a token that only claims raise",
        settles("token = job.token + 1", "token = job.token"),
        (by(test_tokens.test_a_settled_job_is_where_its_move_led_and_free),),
    ),
    "a settle does not ask for the state it starts from": Mutant(
        "Solid Queue 589: one job both finished and failed",
        settles("and job.state = :from_state", ""),
        (by(test_tokens.test_a_settle_from_a_state_the_job_is_not_in_is_refused),),
    ),
    "a release leaves the token": Mutant(
        "celery 5935: work given back was acknowledged by the one who gave it back",
        sql("release", "token = token + 1", "token = token"),
        (by(test_tokens.test_an_old_token_settles_renews_keeps_and_releases_nothing, happens=test_tokens._released),),
    ),
    "facts are kept without a token": Mutant(
        "Kleppmann on locks: the late write of a paused holder",
        sql("keep", "and job.token = :token and job.move = :claimed", ""),
        (by(test_parents.test_only_the_current_token_keeps, stale=-1),),
    ),
    "a renewal does not ask for the token": Mutant(
        "Solid Queue 778: a zombie goes on renewing what is no longer its own",
        sql("renew", "and job.token = :token and job.move = :claimed", ""),
        (
            by(
                test_tokens.test_an_old_token_settles_renews_keeps_and_releases_nothing,
                happens=test_tokens._settled_and_claimed_again,
            ),
        ),
    ),
    # another history: numbers and tokens are given out a second time
    "a settle asks for the token alone": Mutant(
        "a promoted standby that lacked the last claims: their workers ended other jobs of the same number and token",
        any_claim_settles,
        (
            by(test_another_history.test_nobody_settles_a_job_by_a_claim_of_another_history, holder="ann"),
            by(test_another_history.test_nobody_settles_a_job_by_a_claim_of_another_history, holder="bo"),
            by(test_another_history.test_nor_one_by_one, holder="bo"),
            by(test_another_history.test_nor_among_others_that_are_of_this_one),
        ),
    ),
    "facts are kept by the token alone": Mutant(
        "the same promotion: facts of a job that is no more in one that has its number",
        sql("keep", "and job.move = :claimed", ""),
        (by(test_another_history.test_nor_is_anything_kept_given_back_or_suspected_by_it, holder="bo"),),
    ),
    "a job is given back by the token and the holder alone": Mutant(
        "the same promotion: one worker held the job of before and the one of now",
        sql("release", "and job.move = :claimed", ""),
        (by(test_another_history.test_nor_is_anything_kept_given_back_or_suspected_by_it, holder="ann"),),
    ),
    "a job is suspected by the token and the holder alone": Mutant(
        "the same promotion: one worker held the job of before and the one of now",
        sql("suspect", "and job.move = :claimed", ""),
        (by(test_another_history.test_nor_is_anything_kept_given_back_or_suspected_by_it, holder="ann"),),
    ),
    "a renewal asks for the token and the holder alone": Mutant(
        "the same promotion: a worker that renewed both was never told that one of them was lost",
        sql("renew", "and job.move = :claimed", ""),
        (by(test_another_history.test_a_claim_of_another_history_is_not_renewed_and_is_told_so, holder="ann"),),
    ),
    "a lease is renewed by name, holder and token": Mutant(
        "the same promotion, for named leases",
        sql("renew_lease", "and lease.since = :since", ""),
        (by(test_another_history.test_a_named_lease_of_another_history_is_nobodys, holder="ann"),),
    ),
    "a lease is given back by name, holder and token": Mutant(
        "the same promotion, for named leases",
        sql("free_lease", "and lease.since = :since", ""),
        (by(test_another_history.test_a_named_lease_of_another_history_is_nobodys, holder="ann"),),
    ),
    "a lease is relied on by its token": Mutant(
        "the same promotion, for named leases",
        sql(
            "check_lease",
            "and lease.holder = :holder and lease.token = :token and lease.since = :since",
            "and lease.token = :token",
        ),
        (by(test_another_history.test_a_named_lease_of_another_history_is_nobodys, holder="bo"),),
    ),
    "an administrator moves what a worker holds": Mutant(
        "Archivematica and others: a job cancelled under its worker runs on, and reports later",
        sql("move", "and job.holder is null", ""),
        (by(test_tokens.test_an_administrator_cannot_move_what_a_worker_holds),),
    ),
    "a move sent again is refused": Mutant(
        "mrt-zk createLock: an answer that got lost is taken for a refusal",
        sql("event_of_move", "and move = :move", "and move = :move and 1 = 0"),
        (
            by(test_tokens.test_the_same_settle_sent_again_is_answered_as_done_and_done_once),
            by(test_tokens.test_the_same_settle_is_recognised_after_others_have_moved_the_job_on),
        ),
    ),
    "one bad move undoes its neighbours": Mutant(
        "Oban 1416, nextcloud-mcp 999: one conflict in a batch stopped all the others",
        both(
            sql("mark", "savepoint one_move", "select 1"),
            sql("back_to_mark", "rollback to savepoint one_move", "select 1"),
            sql("drop_mark", "release savepoint one_move", "select 1"),
        ),
        (
            by(
                test_tokens.test_a_move_that_brings_something_impossible_is_refused_and_its_neighbours_are_not,
                bad={"items": [], "detail": {"path": object()}},
            ),
        ),
    ),
    # claiming
    "what is leased is claimed": Mutant(
        "pretix 2058: mail sent four times, as many workers took one message",
        both(sql("claim", "and job.holder is null", ""), sql("queue_open", "and job.holder is null", "")),
        (by(test_claim.test_nobody_claims_what_another_holds),),
    ),
    "what waits for others is claimed": Mutant(
        "DAG schedulers that test readiness in a second place: a step runs before its input exists",
        sql("claim_job", "and job.unmet = 0", ""),
        (by(test_edges.test_a_job_that_waits_is_not_claimed),),
    ),
    "what is held is claimed": Mutant(
        "queues where pausing a job only changes how it is shown",
        both(*(sql(name, "job.runnable = 1 and", "") for name in ("claim", "queue_open", "claim_job"))),
        (by(test_claim.test_a_held_job_is_not_claimed_until_it_is_released),),
    ),
    "a paused kind is claimed": Mutant(
        "maintenance pauses that workers already running do not hear of",
        both(*(sql(name, KIND_OPEN, "1") for name in ("claim", "queue_open", "claim_job"))),
        (by(test_claim.test_nothing_is_claimed_from_a_paused_kind_or_lane, scope="kind", name="parcel"),),
    ),
    "a paused lane is claimed": Mutant(
        "a full storage node that goes on being written to",
        both(*(sql(name, LANE_OPEN, "1") for name in ("claim", "queue_open", "claim_job"))),
        (by(test_claim.test_nothing_is_claimed_from_a_paused_kind_or_lane, scope="lane", name="node-1"),),
    ),
    "urgent work waits its turn": Mutant(
        "first in, first out behind a backlog of a million",
        sql("claim", "order by priority, id", "order by id"),
        (by(test_claim.test_one_by_one_the_order_is_the_same),),
    ),
    "a delay never ends": Mutant(
        "scheduled jobs that stay scheduled for ever",
        sql("come_due", "unmet = unmet - 1", "unmet = unmet"),
        (by(test_claim.test_a_delayed_job_is_claimed_when_its_time_has_come_and_not_before),),
    ),
    "an attempt is counted when it ends": Mutant(
        "poison messages: a job that kills its worker is never counted, and tried for ever",
        sql("claim", "attempts = attempts + 1", "attempts = attempts"),
        (by(test_claim.test_a_claim_gives_the_job_a_holder_until_a_time_and_counts_an_attempt),),
    ),
    # going on
    "going on asks nobody whether the queue is paused": Mutant(
        "a pause that only holds for those who look for work",
        both(*(sql("claim_onward", words, "1") for words in (KIND_OPEN, LANE_OPEN))),
        (
            by(test_onward.test_only_what_anyone_could_claim_there_now_is_given, waiting=test_onward.kind_paused),
            by(test_onward.test_only_what_anyone_could_claim_there_now_is_given, waiting=test_onward.lane_paused),
        ),
    ),
    "going on takes what it has no handler for": Mutant(
        "a worker that is given whatever follows, of whatever kind and place",
        sql("claim_onward", "queue = :queue and ", ""),
        (
            by(test_onward.test_only_what_anyone_could_claim_there_now_is_given, waiting=test_onward.other_kind),
            by(test_onward.test_only_what_anyone_could_claim_there_now_is_given, waiting=test_onward.other_place),
        ),
    ),
    "a lost answer loses the next job": Mutant(
        "leased to somebody who was never told: it stands still until the lease ends",
        function(claim, "_next_again", lambda tx, change: None),
        (by(test_onward.test_whose_answer_was_lost_and_asks_again_finds_the_next_one_his_for_a_whole_lease),),
    ),
    # vanished workers
    "a live lease is taken over": Mutant(
        "hexpm 1825: a long job was rescued while it ran, and ran three times a night",
        both(sql("expired", "and job.until <= :now", ""), sql("claim_expired", "and job.until <= :now", "")),
        (by(test_expiry.test_a_live_lease_is_not_taken_over),),
    ),
    "neighbours are charged for a crash": Mutant(
        "batch consumers: one poison message sends its whole batch to the dead letters",
        sql("claim_expired", "case suspect when 4 then 2 when 3 then 1 else 0 end", "1"),
        (
            by(test_expiry.test_in_a_batch_of_a_hundred_only_the_poison_is_charged),
            by(test_expiry.test_what_a_death_says_depends_on_what_was_said_before, mark=NEAR, becomes=NEAR, points=0),
        ),
    ),
    "a crash alone is not counted": Mutant(
        "poison jobs that are tried for ever",
        sql("claim_expired", "when 4 then 2 when 3 then 1", "when 4 then 0 when 3 then 0"),
        (by(test_expiry.test_what_a_death_says_depends_on_what_was_said_before, mark=ALONE, becomes=NEAR, points=2),),
    ),
    "a place means nothing to those who take over": Mutant(
        "a pinned job's files are on one machine: elsewhere it would fetch everything again, or find nothing",
        sql("expired", "and (cast(:place as text) is null or job.place in ('', :place))", ""),
        (
            by(
                test_expiry.test_what_was_left_behind_at_one_place_is_not_taken_over_from_another,
                pinned="2",
                asked_from="",
                taken=False,
            ),
        ),
    ),
    "others' lost jobs hide ours": Mutant(
        "nextcloud-mcp 1062: a sweep that looks at the first so many rows never reaches the rest",
        both(
            sql("expired", "and queue >= :prefix and queue < :before", ""),
            function(
                claim,
                "expired",
                lambda tx, serves, place, limit: [
                    (until, job, suspect)
                    for until, job, suspect in tx.run("expired", prefix="", before="", place=place, limit=200)
                    if tx.run("job", id=job)[0][1] + "|" in serves
                ],
            ),
        ),
        (by(test_expiry.test_what_others_left_behind_never_hides_ours),),
    ),
    "the poison goes first again and again": Mutant(
        "head-of-line blocking by a job that keeps dying",
        sql("expired", "order by until, id", "order by id"),
        (by(test_expiry.test_in_a_batch_of_a_hundred_only_the_poison_is_charged),),
    ),
    # revoking
    "a revoked holder may still finish": Mutant(
        "dust 4272: the cancelled attempt went on and overwrote its successor",
        settles("(job.revoked is null or :ended in ('cancelled', 'superseded'))", "1"),
        (
            by(test_revoke.test_a_revoked_holder_may_no_longer_say_how_its_work_went, signal="pass"),
            by(test_supersession.test_a_running_older_one_is_told_to_stop_and_the_newer_waits_for_its_confirmed_end),
        ),
    ),
    "a revoked holder is not heard at all": Mutant(
        "actions/runner 4601: cancelled is shown, but nobody knows whether the work is dead",
        settles("or :ended in ('cancelled', 'superseded')", ""),
        (by(test_revoke.test_a_revoked_job_has_ended_only_when_its_holder_says_so),),
    ),
    "a revoked holder may give the job back": Mutant(
        "a cancelled job that is queued again by the shutdown of its worker",
        sql("release", "and revoked is null", ""),
        (by(test_revoke.test_a_revoked_holder_cannot_give_the_job_back),),
    ),
    "a job is revoked over and over": Mutant(
        "a second cancel that hides who asked first",
        sql("revoke", "and ended is null and revoked is null", "and ended is null"),
        (by(test_revoke.test_a_job_is_revoked_once),),
    ),
    # edges
    "any end satisfies any want": Mutant(
        "publishing steps that ran although the check before them had failed",
        tells("satisfies.wants = edge.wants and satisfies.ended = :ended", "1 = 1"),
        (by(test_edges.test_each_want_is_met_by_exactly_the_ends_in_its_table, wants="success", how="failed"),),
    ),
    "an end tells nobody": Mutant(
        "lost wake-ups: dependents that wait for ever behind a finished job",
        tells("and met = 0", "and met = 2"),
        (by(test_edges.test_a_job_with_many_needs_waits_for_the_last),),
    ),
    "an edge to something finished waits for its end": Mutant(
        "the same, for those who came late",
        function(submit, "satisfied", lambda wants, ended: False),
        (by(test_edges.test_an_edge_to_what_has_already_ended_is_decided_at_once, wants="success", how="passed"),),
    ),
    "a skipped job comes back for the wrong reason": Mutant(
        "schedulers that recompute one dependency at a time",
        function(graph, "_still_pointless", lambda tx, job: False),
        (
            by(test_edges.test_a_skipped_job_does_not_come_back_because_something_else_it_waited_for_ended),
            by(test_edges.test_whoever_needed_two_that_failed_comes_back_only_with_both),
        ),
    ),
    "nobody is skipped": Mutant(
        "runs that never end because one of their steps can never start",
        sql("disappointed", "and edge.otherwise = 'skip'", "and edge.otherwise = 'never'"),
        (by(test_edges.test_skips_spread_down_the_line_and_come_back_down_the_line),),
    ),
    # supersession
    "the newer starts while the older runs": Mutant(
        "temporalio/deputy 175: the old run's children survive, and two write to one place",
        sql(
            "need_more",
            "values (:job, :target, :wants, :otherwise, :met)",
            "select :job, :target, :wants, :otherwise, :met where 1 = 0",
        ),
        (by(test_supersession.test_a_running_older_one_is_told_to_stop_and_the_newer_waits_for_its_confirmed_end),),
    ),
    "an older one that comes late runs after the newer": Mutant(
        "deploys in the order of their builds' speed: yesterday's version wins",
        sql("newer_superseder", "and supersedes = 2", "and supersedes = 9"),
        (
            by(test_supersession.test_an_older_one_that_arrives_late_is_superseded_at_once),
            by(test_supersession.test_an_older_one_that_becomes_ready_late_is_superseded_then),
        ),
    ),
    "what has ended is superseded": Mutant(
        "finished work whose result is thrown away",
        sql("older_instances", "and ended is null", ""),
        (by(test_supersession.test_what_has_ended_is_not_touched),),
    ),
    # parents
    "a batch reports whenever its count is nothing": Mutant(
        "depositors who got the same report several times",
        sql("emptied", "when_empty = null", "when_empty = when_empty"),
        (by(test_parents.test_the_parent_moves_on_once_even_if_a_child_is_resumed_and_ends_again),),
    ),
    "a resumed child is not counted": Mutant(
        "batches reported as complete while one of their jobs was running again",
        function(graph.News, "reopened", lambda self, job: None),
        (by(test_parents.test_a_child_resumed_before_the_last_has_ended_keeps_the_parent_waiting),),
    ),
    "an accepted failure is counted twice": Mutant(
        "counters that drift below zero, and jobs that are reported early",
        function(claim, "_was_open", lambda tx, job: True),
        (by(test_parents.test_accepting_a_failure_does_not_count_the_child_twice),),
    ),
    "a deleted child is never counted out": Mutant(
        "Merritt operators' report: a batch that waits for ever for a job that was deleted",
        function(graph.News, "counts", lambda self, job, by: None),
        (by(test_parents.test_the_parent_moves_on_when_the_last_child_has_ended_however_it_ended),),
    ),
    # keys
    "uniqueness is a look before an insert": Mutant(
        "lobu 1286: 224,232 duplicate rows; Oban 1087",
        sql("insert_job", f"on conflict (kind, key, {WITHIN}) where key is not null do nothing", ""),
        (
            by(test_submit.test_the_same_key_and_payload_again_give_the_same_job),
            by(test_submit.test_the_same_key_with_another_payload_is_refused_and_names_the_job),
        ),
        spoil=no_unique_key,
    ),
    "the same key means the same job whatever it says": Mutant(
        "idempotency keys that answer with someone else's result",
        function(submit, "loads", lambda text: {"a": 1}),
        (by(test_submit.test_the_same_key_with_another_payload_is_refused_and_names_the_job),),
    ),
    # named leases
    "a lease is renewed by name": Mutant(
        "kazoo and Box: 'our' node belongs to an earlier session of ours",
        sql("renew_lease", "and lease.token = :token and lease.since = :since", ""),
        (by(test_leases.test_the_same_holder_again_is_outdated_by_itself),),
    ),
    "a restarted holder inherits its lease": Mutant(
        "procrastinate 1518, Oban 862: a restarted pod has the same name, and its dead jobs look alive",
        sql("take_lease", "or lease.until <= :now", "or lease.until <= :now or lease.holder = excluded.holder"),
        (by(test_leases.test_a_name_that_is_held_is_not_given_again_not_even_to_its_holder),),
    ),
    "a lease never ends": Mutant(
        "kazoo 732: a lock left behind by a dead process is held for ever",
        sql("take_lease", "or lease.until <= :now", ""),
        (by(test_leases.test_an_ended_lease_passes_on_and_its_token_rises),),
    ),
    # schedules
    "two schedulers take one slot": Mutant(
        "paseo 2819: a cron job fires twice",
        sql("advance_schedule", "and next_slot = :seen", ""),
        (by(test_schedules.test_a_scheduler_that_looked_before_another_ran_takes_no_slot),),
    ),
    "missed slots are dropped": Mutant(
        "schedulers that know only the next time: nobody hears of the nights that were left out",
        function(schedules, "due", lambda schedule, now, most: due(schedule, now, 1)),
        (by(test_schedules.test_slots_missed_while_nobody_looked_run_once_and_are_on_record),),
    ),
    "a restart forgets what was missed": Mutant(
        "timers set anew at every start of the program",
        sql("set_schedule", "then schedule.next_slot", "then excluded.next_slot"),
        (by(test_schedules.test_putting_the_same_schedule_again_forgets_no_slot),),
    ),
    # items and robots
    "the first event of a type counts": Mutant(
        "an index that lags behind the events: robots that run again on what they have done",
        sql("set_latest", "do update set seq = excluded.seq", "do update set seq = latest.seq"),
        (by(test_items.test_only_the_newest_event_of_a_type_counts_whatever_came_before),),
    ),
    "an event is a change": Mutant(
        "robots that trigger themselves, for ever",
        sql("number_item", "seq = seq + 1", "seq = seq + 1, changed = seq + 1"),
        (by(test_items.test_an_event_takes_a_number_and_never_moves_changed),),
    ),
    "as old as the change is older than it": Mutant(
        "comparisons of times that are equal",
        function(trigger, "_is_old", lambda event, item: event is None or event.seq <= item.changed),
        (by(test_triggers.test_an_event_with_the_number_of_the_change_is_not_older_than_it),),
    ),
    # history and disk
    "a handler's words are taken for the move": Mutant(
        "logs that cannot be told from records",
        function(claim, "FOLDED", frozenset()),
        (by(test_tokens.test_what_a_handler_tells_cannot_be_mistaken_for_the_move_itself),),
    ),
    "an administrator's move leaves no event": Mutant(
        "audit trails with holes where someone intervened",
        function(claim, "write_event", lambda *given, **named: 0),
        (by(test_claim.test_a_held_job_is_not_claimed_until_it_is_released),),
    ),
    "commits are not waited for": Mutant(
        "synchronous=NORMAL: what was acknowledged is gone after a power cut",
        function(connection, "PRAGMAS", tuple(p.replace("full", "normal") for p in connection.PRAGMAS)),
        (by(test_sqlite.test_every_connection_has_the_settings_that_the_promises_rest_on),),
    ),
}
