"""In which order a proof runs its tests: the longest first, so that the processes which share them end together; what
has to be alone last, when nobody has long to be waited for."""

from __future__ import annotations

import pytest

LONGEST = (
    "test_a_transaction_that_stays_open_elsewhere_does_not_slow_claims_down",
    "test_workers_killed_at_random_lose_nothing_and_settle_nothing_twice",
    "test_nothing_is_lost_doubled_or_left_standing_whatever_goes_wrong",
    "test_a_manifest_of_sixty_thousand_rows_runs_through_and_every_folder_can_be_listed",
    "test_a_database_that_crashes_and_crashes_again_while_it_recovers_costs_nothing_but_time",
    "test_work_goes_on_whatever_becomes_of_the_connections",
    "test_a_channel_is_mirrored_by_temporal_in_any_weather_whoever_is_killed",
    "test_letters_in_azure_queues_survive_everything_as_well",
    "test_killing_any_of_several_managers_loses_nothing_and_runs_nothing_twice_at_once",
    "test_with_the_server_killed_and_sessions_ended_everything_arrives_once",
    "test_the_same_on_postgresql",
    "test_what_was_acknowledged_survives_a_power_cut_at_any_moment",
    "test_a_channel_survives_everything_at_once",
    "test_a_crash_at_any_point_of_a_workflow_loses_doubles_and_reorders_nothing",
    "test_sqlite_does_what_the_model_does",
    "test_a_sqlite_file_does_what_the_model_does",
    "test_postgresql_does_what_the_model_does",
    "test_every_item_has_exactly_one_event_of_each_robot_whatever_happens",
    "test_the_same_on_a_file",
    "test_nothing_grows_while_it_runs",
    "test_a_disk_that_is_full_at_any_write_costs_nothing_but_time",
    "test_what_is_asked_for_by_many_at_once_and_again_after_a_cut_is_one_job",
    "test_inputs_by_chance",
    "test_a_broken_statement_is_found",
    "test_a_sleeper_that_wakes_after_its_lease_is_refused_and_it_is_written_down",
    "test_a_sleeper_that_wakes_after_its_session_is_refused_and_it_is_written_down",
    "test_asked_to_leave_a_worker_finishes_what_it_began_and_charges_nobody",
    "test_planning_between_the_notices_changes_nothing",
    "test_the_slots_of_a_year_rise_and_are_the_same_computed_one_from_the_other",
    "test_a_crash_during_recovery_changes_nothing_either",
)
"""From minutes to seconds; what is not listed takes less."""


def place(item: pytest.Item) -> tuple[bool, int]:
    name = getattr(item, "originalname", item.name)
    alone = item.get_closest_marker("alone") is not None
    return alone, LONGEST.index(name) if name in LONGEST else len(LONGEST)
