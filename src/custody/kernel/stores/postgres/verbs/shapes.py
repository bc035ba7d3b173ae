"""What the jobs of a request have in common, and therefore travels once: their shapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from custody.formats.text.compact_json import json_text
from custody.kernel.model.job import NewJob
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import columns, first_detail

if TYPE_CHECKING:
    from custody.kernel.stores.postgres.verbs.submit import Order


class Shapes:
    """The distinct shapes of a request, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._rows: list[dict[str, object]] = []

    def number(self, order: Order) -> int:
        job = order.job
        shape = (
            job.kind,
            job.start(),
            job.machine.name,
            job.lane,
            job.place,
            job.collection,
            job.priority,
            job.delay,
            job.parent,
            job.open,
            job.when_empty,
            job.line,
            job.supersedes,
            job.everywhere,
            order.acting.agent,
            order.acting.by,
        )
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = len(self._rows)
            common = {name: value for name, value in columns(job, 0, "", order.acting.by).items() if name in _SHAPE}
            detail = event_text(first_detail(replace(job, key=None, facts={}, needs=())))
            self._rows.append(common | {"number": number, "agent": order.acting.agent, "detail": detail})
        return number

    def own_detail(self, job: NewJob, number: int) -> str | None:
        """What the first event says, where it is not what its shape says."""
        if job.facts or any(edge.on > PLAIN_NUMBER for edge in job.needs):
            return event_text(first_detail(job))
        detail = str(self._rows[number]["detail"])
        if job.needs:
            detail = with_needs(detail, [edge.on for edge in job.needs])
        return with_key(detail, job.key) if job.key else detail if job.needs else None

    def text(self) -> str:
        return json.dumps(self._rows, ensure_ascii=False)


def with_key(detail: str, key: str) -> str:
    """The detail with its key put in, in the order of names: most jobs with a key differ in nothing else."""
    before, after = detail.split('"kind":', 1)
    return f'{before}"key":{json_text(key)},"kind":{after}'


def with_needs(detail: str, needs: Sequence[int]) -> str:
    """The detail with its needs put in. (No text before that place can hold these words: quotes are escaped.)"""
    before, after = detail.split(_BEFORE_NEEDS, 1)
    return f'{before}{_BEFORE_NEEDS}"needs":[{",".join(map(str, needs))}],{after}'


PLAIN_NUMBER = 10**15 - 1
"""Up to here nobody has to ask whether a number can be sealed."""
_BEFORE_NEEDS = '"last_passed":null,'
_SHAPE = frozenset(
    (
        "kind",
        "state",
        "runnable",
        "ended",
        "lane",
        "place",
        "collection",
        "priority",
        "delay",
        "parent",
        "open",
        "when_empty",
        "line",
        "supersedes",
        "by",
        "everywhere",
    )
)
