"""A build that is replaced again and again is let finish at last, if its definition says so."""

from __future__ import annotations

import pytest

from custody.workflows.definition.task import Cancels
from custody.workflows.plan.starvation import Instance, spared
from workflows.desk import Desk, until

SECOND = 1_000_000


def history(letters: str) -> list[Instance]:
    """Oldest first: s superseded, p passed, f failed, r running; one per second. Answered newest first."""
    ends = {"s": "superseded", "p": "passed", "f": "failed", "r": None}
    made = [Instance(n, ends[letter], n * SECOND, n * SECOND) for n, letter in enumerate(letters)]
    return made[::-1]


@pytest.mark.parametrize(
    ("letters", "in_a_row", "age", "wanted"),
    [
        ("", 1, None, None),
        ("p", 1, None, None),
        ("r", 1, None, None),
        ("sr", 1, None, 1),
        ("sr", 2, None, None),
        ("ssr", 2, None, 2),
        ("psr", 2, None, None),
        ("ssrr", 2, None, 2),
        ("ssfr", 2, None, None),
        ("sss", 1, None, None),
        ("ssr", None, None, None),
        ("psr", None, 10, 2),
        ("psr", None, 11, None),
        ("ssr", None, 10, 2),
        ("r", 0, None, 0),
    ],
)
def test_who_is_spared(letters: str, in_a_row: int | None, age: int | None, wanted: int | None) -> None:
    bound = Cancels("build", True, in_a_row, age)
    assert spared(history(letters), bound, now=10 * SECOND) == wanted


def test_after_so_many_replacements_the_newer_one_waits_visibly(one_desk: Desk) -> None:
    text = """
- name: build
  cancels: [{task: PREV, max_in_a_row: 1}]
  script: |
    if [ "$(cat n.txt)" -lt 3 ]; then sleep 600; fi
"""
    with one_desk.working(grace=0.1):
        for number in (1, 2, 3):
            one_desk.commit({"_workflows/a.yaml": text, "n.txt": str(number)})
            one_desk.notify(number)
            until(lambda number=number: one_desk.task(number, "build").holder or number == 3)
        until(lambda: one_desk.task(3, "COMMIT").ended)
        assert one_desk.states("build", 1) == ["superseded"]
        assert one_desk.task(2, "build").ended is None, "it is spared"
        (reason,) = one_desk.store.queue.why(one_desk.task(3, "build").id)
        assert "build at 2" in reason.text
        one_desk.operator.cancel(one_desk.task(2, "build").id, "long enough")
        until(lambda: one_desk.task(3, "build").ended == "passed")
