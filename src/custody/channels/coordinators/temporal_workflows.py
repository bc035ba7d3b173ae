"""Workflows for Temporal: who does what next, and nothing else. The sandbox imports this file by itself.

One workflow per channel, named after it, so there is one writer. It is started by the first thing that is asked and
ends when nothing is asked any more; one activity is one page. No message travels through Temporal: an activity
fetches and stores its page, and answers with numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

TASK_QUEUE = "custody-channels"
PAGES_PER_RUN = 500  # then the workflow goes on as a new one: a history may not grow without end
HEARTBEAT = 10.0  # seconds without a sign of life after which an activity is given to another worker
FOR_A_PAGE = timedelta(minutes=10)
FOR_ALL_TIERS = timedelta(hours=2)
RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20))


@dataclass
class Asked:
    what: str  # add, sync, review, files, remove
    message: str = ""
    newest_first: bool = False
    why: str = ""
    along: list[str] = field(default_factory=list)  # of a removal: the threads that were shown


@dataclass
class Ask:
    channel: str
    asked: Asked


@dataclass
class Answer:
    done: bool
    progress: dict[str, int] = field(default_factory=dict)
    follows: list[Ask] = field(default_factory=list)  # what is to be asked of other channels, or of this one


@dataclass
class Going:
    """All that a workflow knows: what is not here is forgotten when it goes on as a new one."""

    channel: str
    asks: list[Asked] = field(default_factory=list)
    progress: dict[str, int] = field(default_factory=dict)
    heartbeat: float = HEARTBEAT
    pages: int = PAGES_PER_RUN


@workflow.defn(name="channel")
class ChannelFlow:
    def __init__(self) -> None:
        self._asks: list[Asked] = []
        self._progress: dict[str, int] = {}

    @workflow.signal
    def ask(self, asked: Asked) -> None:
        if asked not in self._asks[1:]:  # the first is being done, and may have been done too early for this
            self._asks.append(asked)

    @workflow.query
    def standing(self) -> dict[str, int]:
        """What was counted so far, and how much is still asked."""
        return {**self._progress, "asked": len(self._asks)}

    @workflow.run
    async def run(self, going: Going) -> dict[str, int]:
        self._asks = [*going.asks, *self._asks]  # signals may have come first
        self._progress, pages = going.progress, 0
        while self._asks:
            if pages >= going.pages:
                workflow.continue_as_new(
                    Going(
                        channel=going.channel,
                        asks=self._asks,
                        progress=self._progress,
                        heartbeat=going.heartbeat,
                        pages=going.pages,
                    )
                )
            given = [going.channel, self._asks[0], self._progress]
            answer: Answer = await _done("step", given, Answer, going.heartbeat)
            pages += 1
            if answer.follows:
                await _send(answer.follows, going.heartbeat)
            self._progress = {} if answer.done else answer.progress
            if answer.done:
                self._asks.pop(0)
        return self._progress


@workflow.defn(name="watch")
class WatchFlow:
    """Looks around once; a schedule starts it again and again, but never while one is still under way."""

    @workflow.run
    async def run(self, heartbeat: float = HEARTBEAT) -> int:
        found: list[Ask] = await _done("look_around", [], list[Ask], heartbeat)
        if found:
            await _send(found, heartbeat)
        return len(found)


@workflow.defn(name="tiers")
class TiersFlow:
    @workflow.run
    async def run(self, heartbeat: float = HEARTBEAT) -> int:
        moved: int = await _done("tiers", [], int, heartbeat, within=FOR_ALL_TIERS)
        return moved


async def _send(asks: list[Ask], heartbeat: float) -> None:
    await _done("send", [asks], None, heartbeat)


async def _done(name: str, given: list[Any], answers: Any, heartbeat: float, within: timedelta = FOR_A_PAGE) -> Any:
    """What an activity answers. Each must give signs of life: else, when its worker is killed, nobody begins it again
    before all its time is over, and whatever waits for it waits as long."""
    return await workflow.execute_activity(
        name,
        args=given,
        result_type=answers,
        start_to_close_timeout=within,
        heartbeat_timeout=timedelta(seconds=heartbeat),
        retry_policy=RETRIES,
    )
