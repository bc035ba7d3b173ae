"""Workflows for Temporal: who does what next, and nothing else. The sandbox imports this file by itself.

One workflow per channel, named after it, so there is one writer. It is started by the first thing that is asked and
ends when nothing is asked any more; one activity is one page. No message travels through Temporal: an activity
fetches and stores its page, and answers with numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

TASK_QUEUE = "custody-channels"
PAGES_PER_RUN = 500  # then the workflow goes on as a new one: a history may not grow without end
FOR_A_PAGE = timedelta(minutes=10)
RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20))


@dataclass
class Asked:
    what: str  # add, sync, review, remove
    message: str = ""
    newest_first: bool = False
    why: str = ""


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
    heartbeat: float = 10.0  # seconds without a sign of life after which a page is given to another worker
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
                workflow.continue_as_new(Going(going.channel, self._asks, self._progress, going.heartbeat, going.pages))
            answer = await workflow.execute_activity(
                "step",
                args=[going.channel, self._asks[0], self._progress],
                result_type=Answer,
                start_to_close_timeout=FOR_A_PAGE,
                heartbeat_timeout=timedelta(seconds=going.heartbeat),
                retry_policy=RETRIES,
            )
            pages += 1
            if answer.follows:
                await _send(answer.follows)
            self._progress = {} if answer.done else answer.progress
            if answer.done:
                self._asks.pop(0)
        return self._progress


@workflow.defn(name="watch")
class WatchFlow:
    """Looks around once; a schedule starts it again and again."""

    @workflow.run
    async def run(self) -> int:
        found = await workflow.execute_activity(
            "look_around", result_type=list[Ask], start_to_close_timeout=FOR_A_PAGE, retry_policy=RETRIES
        )
        if found:
            await _send(found)
        return len(found)


@workflow.defn(name="tiers")
class TiersFlow:
    @workflow.run
    async def run(self) -> int:
        moved: int = await workflow.execute_activity(
            "tiers", result_type=int, start_to_close_timeout=timedelta(hours=2), retry_policy=RETRIES
        )
        return moved


async def _send(asks: list[Ask]) -> None:
    await workflow.execute_activity("send", asks, start_to_close_timeout=timedelta(minutes=10), retry_policy=RETRIES)
