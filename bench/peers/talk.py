"""The contestant's side of the line: requests in, answers out, one line of JSON each.

Runs in the peers' environment too, hence the standard library only. Times are on the system's monotonic clock,
which all processes of a machine share.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Act = Callable[..., Any]


def serve(acts: Mapping[str, Act]) -> None:
    """Answer until standard input ends. Whatever a peer prints itself goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        answer = acts[asked.pop("act")](**asked)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def timed(count: int, work: Callable[[], object]) -> float:
    """How many per second."""
    started = time.monotonic()
    work()
    return count / (time.monotonic() - started)


class Last:
    """When the last of them was done."""

    def __init__(self) -> None:
        self.began, self.at, self.count = time.monotonic(), 0.0, 0

    def one(self, *_: Any) -> None:
        self.count += 1
        self.at = time.monotonic()

    def told(self) -> dict[str, float]:
        return {"began": self.began, "ended": self.at, "count": self.count}
