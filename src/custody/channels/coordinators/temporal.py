"""Temporal as coordinator, instead of the engine's queue; needs the extra `temporal`.

The steps are the engine's, the store keeps items, history and the line that all who ask stand in. What Temporal adds
is its own: a worker that is killed is noticed by its missing heartbeats, a server that is restarted goes on with
what its database holds, and everything that runs can be seen and cancelled with its tools.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from custody.channels import jobs, removal
from custody.channels.condition import refusals
from custody.channels.condition.refusals import REFUSALS
from custody.channels.context import Context, Request, Told, checked, item_id
from custody.channels.coordinators.temporal_workflows import (
    HEARTBEAT,
    PAGES_PER_RUN,
    TASK_QUEUE,
    Answer,
    Ask,
    Asked,
    ChannelFlow,
    Going,
    TiersFlow,
    WatchFlow,
)
from custody.channels.crawl import crawler
from custody.channels.crawl import look_around as looking
from custody.channels.crawl.crawler import Progress
from custody.channels.discord.client import RateLimited
from custody.channels.files import fetch
from custody.channels.kinds import ChannelConfig
from custody.errors import Unavailable

WATCH, TIERS = "custody-watch", "custody-tiers"
TIERS_EVERY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pace:
    heartbeat: float = HEARTBEAT
    pages: int = PAGES_PER_RUN
    threads: int = 4


def pace_of(config: ChannelConfig, threads: int = 4) -> Pace:
    return Pace(config.heartbeat, config.pages_per_workflow, threads)


# --- Asking ---


def ask_of(request: Request) -> Ask:
    message = str(request.message) if request.message else ""
    along = [str(one) for one in request.along]
    asked = Asked(request.what, message, newest_first=request.newest_first, why=request.why, along=along)
    return Ask(str(request.channel), asked)


def flow_id(channel: str) -> str:
    """The workflow of a channel: there is never more than one."""
    return item_id(checked(channel))


async def send(client: Client, asks: list[Ask], pace: Pace) -> None:
    """Signal the channels' workflows, starting those that do not run."""
    for ask in asks:
        await client.start_workflow(
            "channel",
            Going(ask.channel, heartbeat=pace.heartbeat, pages=pace.pages),
            id=flow_id(ask.channel),
            task_queue=TASK_QUEUE,
            start_signal="ask",
            start_signal_args=[ask.asked],
        )


async def connect(address: str, namespace: str = "default") -> Client:
    try:
        return await Client.connect(address, namespace=namespace)
    except (RPCError, RuntimeError) as error:
        raise Unavailable(
            f"Temporal does not answer: {error}", code="temporal.down", where=address, hint="is its server running?"
        ) from error


def ask_for(config: ChannelConfig, *requests: Request) -> None:
    """From a program that is not asynchronous otherwise."""

    async def asking() -> None:
        client = await connect(config.temporal, config.namespace)
        await send(client, [ask_of(request) for request in requests], pace_of(config))

    asyncio.run(asking())


# --- Working ---


class Activities:
    """What a workflow asks for by name. Names are data: one that is under way on the server asks for them after an
    update too, so each is said here and does not follow from what a method is called."""

    def __init__(self, mirror: Context, client: Client, pace: Pace) -> None:
        self._mirror, self._client, self._pace = mirror, client, pace

    @activity.defn(name="step", no_thread_cancel_exception=True)
    def step(self, channel: str, asked: Asked, progress: dict[str, int]) -> Answer:
        """One page of what is asked. A worker that was told to stop finishes its page: then the archive is whole."""
        with _beating(self._pace.heartbeat), _retries():
            return STEPS[asked.what](self._mirror, checked(channel), asked, progress)

    @activity.defn(name="send")
    async def send(self, asks: list[Ask]) -> None:
        async with _beating_meanwhile(self._pace.heartbeat):
            await send(self._client, asks, self._pace)

    @activity.defn(name="look_around", no_thread_cancel_exception=True)
    def look_around(self) -> list[Ask]:
        with _beating(self._pace.heartbeat), _retries():
            return [ask_of(request) for request in looking.around(self._mirror)]

    @activity.defn(name="tiers", no_thread_cancel_exception=True)
    def tiers(self) -> int:
        with _beating(self._pace.heartbeat):
            return jobs.daily(self._mirror)

    def all(self) -> list[Callable[..., Any]]:
        return [self.step, self.send, self.look_around, self.tiers]


def _add(mirror: Context, channel: int, asked: Asked, _: dict[str, int]) -> Answer:
    return _told(mirror, crawler.add(mirror, channel, asked.newest_first))


def _sync(mirror: Context, channel: int, asked: Asked, counted: dict[str, int]) -> Answer:
    table = mirror.table(channel)
    progress = Progress.read(counted, asked.newest_first)
    try:
        progress = crawler.page(mirror, channel, table, progress)
        if progress.done:
            return _told(mirror, crawler.ended(mirror, channel, table, progress))
    except REFUSALS as refusal:
        return _told(mirror, refusals.set_aside(mirror, channel, refusal))
    except RateLimited:
        raise
    except Unavailable as trouble:
        refusals.stumbled(mirror, channel, trouble)
        raise
    return Answer(False, progress.counted())


def _review(mirror: Context, channel: int, asked: Asked, _: dict[str, int]) -> Answer:
    message = checked(asked.message)
    try:
        return _told(mirror, crawler.review(mirror, channel, message))
    except REFUSALS as refusal:
        return _told(mirror, refusals.set_aside(mirror, channel, refusal))


def _files(mirror: Context, channel: int, asked: Asked, counted: dict[str, int]) -> Answer:
    try:
        crawler.still_mirrored(mirror, channel)
    except refusals.NotMirrored:
        return Answer(True)
    done, told = fetch.batch(mirror, channel)
    return replace(_told(mirror, told), done=done, progress={} if done else {"pages": counted.get("pages", 0) + 1})


def _remove(mirror: Context, channel: int, asked: Asked, counted: dict[str, int]) -> Answer:
    """Nobody else writes: whatever is asked of this channel comes through its one workflow."""
    if mirror.item(channel) is None:
        return Answer(True)
    if not counted:
        begun = removal.begin_removal(mirror, channel, [checked(one) for one in asked.along])
        return replace(_told(mirror, begun), done=False, progress={"pages": 1})
    if removal.remove_page(mirror, channel):
        return Answer(False, {"pages": counted["pages"] + 1})
    return _told(mirror, removal.removed(mirror, channel, asked.why))


STEPS: dict[str, Callable[[Context, int, Asked, dict[str, int]], Answer]] = {
    "add": _add,
    "sync": _sync,
    "review": _review,
    "files": _files,
    "remove": _remove,
}


def _told(mirror: Context, told: Told) -> Answer:
    if told.items or told.events:
        mirror.store.records.put(told.items, told.events, "temporal")
    return Answer(True, follows=[ask_of(request) for request in told.requests])


@contextmanager
def _retries() -> Iterator[None]:
    """Waiting for a limit is told as such: the server tries again after that time, not sooner."""
    try:
        yield
    except RateLimited as limit:
        wait = timedelta(seconds=float(limit.facts.get("retry_after", 1.0)))
        raise ApplicationError(limit.message, type=limit.code, next_retry_delay=wait) from limit


@contextmanager
def _beating(seconds: float) -> Iterator[None]:
    """Signs of life from a thread of its own: a page may wait long for its turn."""
    over, here = threading.Event(), contextvars.copy_context()

    def beat() -> None:
        while not over.wait(seconds / 4):
            activity.heartbeat()

    thread = threading.Thread(target=here.run, args=(beat,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@asynccontextmanager
async def _beating_meanwhile(seconds: float) -> AsyncIterator[None]:
    """The same for what has no thread: the server may be slow to take what it is sent."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(seconds / 4)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


async def serve(mirror: Context, client: Client, over: asyncio.Event, watch_seconds: float, pace: Pace) -> None:
    """A worker, and the schedules that look around, until it is over."""
    await schedule(client, WATCH, "watch", timedelta(seconds=watch_seconds), pace=pace)
    await schedule(client, TIERS, "tiers", TIERS_EVERY, pace=pace)
    with ThreadPoolExecutor(pace.threads, thread_name_prefix="temporal") as threads:
        worker = Worker(
            client,
            task_queue=TASK_QUEUE,
            workflows=[ChannelFlow, WatchFlow, TiersFlow],
            activities=Activities(mirror, client, pace).all(),
            activity_executor=threads,
            max_concurrent_activities=pace.threads,
            # How long the server waits for a worker that it believes to know the workflow already.
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=pace.heartbeat),
            # By itself it saves signs of life up until shortly before they are due: too late on a busy machine.
            max_heartbeat_throttle_interval=timedelta(seconds=pace.heartbeat / 4),
            default_heartbeat_throttle_interval=timedelta(seconds=pace.heartbeat / 4),
        )
        async with worker:
            await over.wait()


async def schedule(client: Client, name: str, flow: str, every: timedelta, pace: Pace) -> None:
    """Make it, or make it so again: a schedule outlives the worker that asked for it."""
    wanted = Schedule(
        action=ScheduleActionStartWorkflow(flow, pace.heartbeat, id=name, task_queue=TASK_QUEUE),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
    )
    try:
        await client.create_schedule(name, wanted)
    except ScheduleAlreadyRunningError:

        def updated(_: ScheduleUpdateInput) -> ScheduleUpdate:
            return ScheduleUpdate(wanted)

        await client.get_schedule_handle(name).update(updated)
