"""custody schedule, as somebody uses it who has not read anything."""

from __future__ import annotations

import pytest

from rig.commands import Run

SAID = ("--zone", "Europe/Copenhagen", "--overlap", "allow", "--missed", "skip", "--lane", "night")


def test_what_is_not_said_when_it_is_set_again_stays_as_it_is(custody: Run) -> None:
    custody("schedule", "set", "nightly", "0 3 * * *", "sweep", '{"deep": 1}', *SAID)
    said = custody("schedule", "set", "nightly", "0 4 * * *", "sweep")
    assert "04:00:00 in Europe/Copenhagen" in said.out, "on the clocks there, and in UTC"
    (found,) = custody("schedule", "list", "--json").json()
    assert {part: found[part] for part in ("zone", "overlap", "missed", "lane", "payload")} == {
        "zone": "Europe/Copenhagen",
        "overlap": "allow",
        "missed": "skip",
        "lane": "night",
        "payload": {"deep": 1},
    }


def test_one_schedule_is_shown_with_all_that_was_said_and_what_keeps_it(custody: Run) -> None:
    custody("schedule", "set", "nightly", "0 3 * * *", "sweep", '{"deep": 1}', *SAID)
    shown = custody("schedule", "show", "nightly").out
    for words in ('{"deep":1}', "night", "allow: ", "skip: ", "no worker is running"):
        assert words in shown
    assert shown.count("03:00:00 in Europe/Copenhagen") == 3
    assert custody("schedule", "show", "nightly", "--json").json()["overlap"] == "allow"

    assert "custody schedule continue nightly" in custody("schedule", "pause", "nightly").out
    assert "03:00:00" not in custody("schedule", "show", "nightly").out
    assert "it is paused" in custody("schedule", "set", "nightly", "0 3 * * *", "sweep").out
    assert "next at" in custody("schedule", "continue", "nightly").out


def test_whoever_gives_a_time_zone_where_none_matters_is_told(custody: Run) -> None:
    said = custody("schedule", "set", "n", "every 1d", "sweep", "--zone", "Europe/Copenhagen")
    assert "counted in UTC" in said.out
    assert "counted in UTC" not in custody("schedule", "set", "n", "@daily", "sweep").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--overlap", "never"), "overlap is skip or allow, not 'never'"),
        (("--missed", "all"), "missed is once or skip, not 'all'"),
        (("--zone", "copenhagen"), "did you mean Europe/Copenhagen?"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(custody: Run, options: tuple[str, str], words: str) -> None:
    said = custody("schedule", "set", "n", "0 3 * * *", "sweep", *options)
    assert (said.code, words in said.err) == (2, True), said
    assert "no schedules" in custody("schedule", "list").out
