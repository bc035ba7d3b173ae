"""Every requirement of the document this application comes from, and the test that shows it.

A test that is renamed or removed fails here, so that no requirement loses its proof unnoticed.
"""

from __future__ import annotations

import importlib

import pytest

REQUIREMENTS = {
    "after every commit a job is entered for that archive and revision": [
        "test_story.test_the_installed_hook_takes_a_commit_in_and_never_fails_the_committer",
        "test_notices.test_the_hook_tells_the_api_with_an_empty_environment_and_spools_while_it_is_down",
        "test_http_archive.test_a_commit_over_http_is_found_run_and_answered_by_another",
    ],
    "every revision is processed in commit order": [
        "test_story.test_the_hook_of_revision_three_before_that_of_two_changes_nothing",
        "test_permutations.test_a_thousand_permutations_losses_and_repetitions_give_the_same_graph_and_order",
        "test_story.test_a_blocking_task_holds_up_the_next_commit",
    ],
    "some jobs need no exclusive lock and do not block those that follow": [
        "test_index.test_the_index_is_never_blocked_by_long_tasks_of_earlier_revisions",
        "test_story.test_a_failed_task_skips_what_depends_on_it_and_holds_up_its_successor_visibly",
    ],
    "a complete history of jobs and their outputs is kept": [
        "test_story.test_an_older_build_is_dead_before_the_newer_one_starts",
        "test_story.test_outputs_are_mounted_read_only_for_those_who_depend",
    ],
    "the index of the archive is updated automatically": [
        "test_index.test_files_folders_copies_properties_and_deletions_are_followed",
        "test_index.test_brought_up_step_by_step_or_at_once_it_is_the_same",
    ],
    "updating the index is not blocked by long-running jobs of earlier revisions": [
        "test_index.test_the_index_is_never_blocked_by_long_tasks_of_earlier_revisions",
        "test_index.test_a_task_in_the_quick_lane_has_a_thread_kept_for_it",
    ],
    "jobs can create revisions, which trigger further jobs": [
        "test_commits.test_a_task_commits_from_inside_and_its_commit_runs_the_other_tasks",
        "test_commits.test_a_chain_of_commits_ends_after_so_many_and_the_history_says_why",
        "test_commits.test_a_worker_killed_right_after_the_commit_does_not_make_it_twice",
    ],
    "definitions are versioned: those of the revision count": [
        "test_runs.test_a_manual_run_uses_the_definition_of_its_revision_and_brings_what_it_depends_on",
        "test_story.test_a_faulty_definition_fails_visibly_and_later_revisions_go_on",
    ],
    "jobs can be triggered by hand, or on a schedule": [
        "test_runs.test_a_task_can_be_run_alone_and_a_workflow_whole",
        "test_runs.test_a_slot_runs_once_at_the_youngest_revision_and_what_was_missed_is_recorded",
        "test_runs.test_while_a_scheduled_run_has_not_ended_its_next_slot_is_left_out",
    ],
    "some jobs are canceled when a later version of the same job is ready": [
        "test_story.test_an_older_build_is_dead_before_the_newer_one_starts",
        "test_sparing.test_after_so_many_replacements_the_newer_one_waits_visibly",
    ],
    "separate archives are independent of each other": [
        "test_independence.test_an_archive_that_is_stuck_does_not_hold_up_another",
    ],
    "the worked example has exactly its eight edges": [
        "test_picture.test_the_edges_of_the_worked_example_are_those_in_the_queue",
    ],
    "failed, cancelled, superseded, skipped and absent dependencies behave as decided": [
        "test_independence.test_how_the_earlier_one_ended_decides_over_three_revisions",
        "test_story.test_a_retry_that_succeeds_brings_back_what_was_skipped",
    ],
    "hooks may be lost": [
        "test_story.test_a_lost_hook_is_repaired_by_asking_the_repository",
        "test_lost_hooks.test_revisions_that_were_loaded_are_found_although_no_hook_ran",
        "test_lost_hooks.test_a_hook_killed_before_it_could_tell_costs_nothing_but_time",
    ],
    "several managers may work on one queue": [
        "test_managers.test_killing_any_of_several_managers_loses_nothing_and_runs_nothing_twice_at_once",
    ],
    "a task may name the image it runs in": [
        "test_images.test_a_task_in_an_image_gets_its_revision_and_leaves_its_outputs",
        "test_images.test_a_container_outlives_its_worker_and_the_next_worker_goes_on_with_it",
    ],
    "a task has a command, or a script and its shell": [
        "test_definition.test_a_command_is_words_and_a_script_has_a_shell",
    ],
    "the previous revision may be any other": [
        "test_git.test_a_merge_has_both_tips_as_parents",
        "test_git.test_every_push_is_a_revision_however_late_its_hook_is_heard",
    ],
}


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_requirement_has_its_tests(requirement: str) -> None:
    for name in REQUIREMENTS[requirement]:
        module, _, function = name.partition(".")
        found = getattr(importlib.import_module(f"workflows.{module}"), function, None)
        assert callable(found), f"{requirement}: {name} is gone"
