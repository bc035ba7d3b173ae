"""The table of claims is itself checked: every row is carried by tests, or says what stands in the way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prove.order import LONGEST
from prove.plugin import PROVES, TOLD, Listener, Proof, Standing
from prove.rows import ROWS, Row, least, most

TESTS = Path(__file__).parents[1]
MARK = re.compile(r"mark\.proves\(([^)]*)\)")


def carried() -> set[str]:
    found = set[str]()
    for file in TESTS.rglob("test_*.py"):
        for names in MARK.findall(file.read_text()):
            found |= set(re.findall(r'"(\w+)"', names))
    return found


def test_every_claim_is_carried_by_a_test_or_says_why_not() -> None:
    for name, row in ROWS.items():
        assert name in carried() or row.short, f"{name} is claimed by nobody"


def test_the_documentation_lists_every_claim_and_its_figures() -> None:
    text = (TESTS.parent / "docs" / "proof.md").read_text()
    for name, row in ROWS.items():
        assert f"| {name} | {row.claim} | {row.figures('quick')} |" in text, name


def test_what_is_said_to_be_long_is_there() -> None:
    texts = "\n".join(file.read_text() for file in TESTS.rglob("test_*.py"))
    assert [name for name in LONGEST if f"def {name}(" not in texts] == []


@pytest.mark.parametrize(
    ("told", "passed", "failed", "stands"),
    [
        ({"kills": [6, 4], "late": [0.5, 1.5]}, 1, [], True),
        ({"kills": [6], "late": [0.5]}, 1, [], False),
        ({"kills": [12], "late": [0.1, 2.5]}, 1, [], False),
        ({"kills": [12]}, 1, [], False),
        ({"kills": [12], "late": [0.5]}, 0, [], False),
        ({"kills": [12], "late": [0.5]}, 3, ["one of them"], False),
    ],
)
def test_sums_have_to_be_reached_the_worst_has_to_be_within_and_nothing_may_fail(
    told: dict[str, list[float]], passed: int, failed: list[str], stands: bool
) -> None:
    standing = Standing(Row("killed", {"kills": least(10), "late": most(2.0)}), passed=passed, failed=failed)
    for name, figures in told.items():
        for figure in figures:
            standing.add(name, figure)
    assert standing.stands("quick") is stands


def test_what_is_told_counts_once_whichever_process_ran_the_test() -> None:
    proof = Proof("quick", frozenset({"G4", "G8"}))
    told = [(PROVES, ["G4"]), (TOLD, ["six killed", {"kills": 6, "database_crashes": 2}]), (TOLD, ["", {"kills": 1}])]
    for test in ("one", "another"):
        for when in ("setup", "call", "teardown"):
            report = pytest.TestReport(
                test, ("file", 1, ""), {}, "passed", None, when, duration=2, user_properties=told
            )
            Listener(proof).pytest_runtest_logreport(report)
    standing = proof.of("G4")
    assert standing.figures == {"kills": 14, "database crashes": 4}
    assert (standing.passed, standing.failed, standing.seconds) == (2, [], 12)
    assert proof.texts == ["six killed", "six killed"]
    assert not proof.of("G8").passed
