"""custody channel run: work on channels alone, for a while, also on a machine that keeps nothing."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from custody.channels import jobs as work
from custody.channels.blobs.port import Blobs
from custody.channels.condition.standing import all_standing, ending, jobs_of, told_before
from custody.channels.context import Context, kept, number_of
from custody.channels.coordinators import ephemeral
from custody.channels.coordinators.ephemeral import Shard, Stop
from custody.channels.discord.shared_rate_limit import StoreSlots
from custody.channels.integrity import expected
from custody.channels.kinds import WATCH_SECONDS, daily, open_blobs, open_mirror
from custody.cli.log import Logging
from custody.cli.needs_config import ConfigFile, StoreUrl, opened
from custody.cli.signals import stop_on_signals
from custody.config import Config
from custody.errors import BadInput, Unavailable
from custody.kernel.engine import Settings
from custody.kernel.engine.listeners import NOTHING, Listener
from custody.kernel.engine.maintenance.chores import Chores
from custody.kernel.stores import Store, open_store

FOREVER = 10 * 365 * 1440.0  # minutes
PAUSE_SECONDS = 5.0  # between two looks for something new


def run(
    until_idle: Annotated[bool, typer.Option("--until-idle", help="end when nothing is left to fetch")] = False,
    max_minutes: Annotated[float, typer.Option(help="end after so many minutes; the next run goes on")] = 0.0,
    shard: Annotated[
        str, typer.Option(help="i/n: one part of the channels, its state kept in the blob store between runs")
    ] = "",
    threads: Annotated[int, typer.Option(help="channels at once")] = 4,
    lease: Annotated[float, typer.Option(help="seconds after which the work of a killed process is taken over")] = 30.0,
    log: Annotated[bool, typer.Option("--log", help="a line on standard error for each thing that happens")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Keep channels up to date: those of the configuration's list, and those that were added."""
    deadline = time.monotonic() + 60 * (max_minutes or FOREVER)
    stop, settings = Stop(), Settings(threads=threads, lease=lease)
    tell: Listener = Logging() if log else NOTHING
    stop_on_signals(stop)
    if shard:
        _run_shard(Shard.read(shard), config, deadline, settings, tell=tell, stop=stop)
        return
    with opened(config, store) as (handle, found):
        if found.channels.queues == "temporal":
            raise BadInput(
                "these channels are Temporal's to run", where="channels.queues", hint="custody channel temporal"
            )
        mirror = _mirror(handle, found)

        def work_on() -> bool:
            if found.channels.queues == "azure":
                return _post(mirror, found, deadline, until_idle, stop=stop, lease=lease)
            ephemeral.ask_for(mirror, found.channels, anew=until_idle)
            return ephemeral.run_until_idle(mirror, deadline, settings, tell, stop=stop)

        chore = daily(mirror)
        chores = Chores(handle, (chore,), handle.new_move(), tell)
        if until_idle:
            before = told_before(handle, mirror.blobs)
            finished = _lived_through(work_on)
            if finished:
                chores.run(chore)
            alone = not any(True for _ in mirror.blobs.list("state/"))  # shards have stores of their own
            _end(
                handle,
                mirror.blobs,
                before,
                finished,
                strangers=expected.unknown(handle, mirror.blobs) if alone else (),
            )
        _run_on(_telling(handle, work_on), lambda: chores.run(chore), chore.every, deadline, stop=stop)


def _run_on(
    work_on: Callable[[], bool], chore: Callable[[], object], every: float, deadline: float, stop: Stop
) -> None:
    """Until told to stop, or the time is over."""
    due = 0.0
    while not stop.asked and time.monotonic() < deadline:
        finished = _lived_through(work_on)
        if finished and time.monotonic() >= due:
            chore()
            due = time.monotonic() + every
        stop.wait(min(PAUSE_SECONDS, deadline - time.monotonic()))


def _telling(store: Store, work_on: Callable[[], bool]) -> Callable[[], bool]:
    """Say each trouble of a channel once: who runs for ever has no end at which it would be told."""
    told = set[tuple[str, str]]()

    def working() -> bool:
        finished = work_on()
        for item in kept(store):
            trouble = item.detail.get("trouble") or {}
            if trouble and (item.id, str(trouble.get("since"))) not in told:
                told.add((item.id, str(trouble.get("since"))))
                print(
                    f"custody: {item.detail.get('title')} ({number_of(item)}): {trouble.get('said')}", file=sys.stderr
                )
        return finished

    return working


def _end(store: Store, blobs: Blobs, before: Mapping[str, str], finished: bool, strangers: Sequence[int] = ()) -> None:
    """Say how the channels stand, and end with the code that follows."""
    failed = [job for jobs in jobs_of(store).values() for job in jobs]
    told = ending(all_standing(store, blobs), before, finished, failed, strangers=strangers)
    for line in told.lines[:-1]:
        print(f"custody: {line}", file=sys.stderr)
    print(told.lines[-1], file=sys.stderr if told.code == 1 else sys.stdout)
    raise typer.Exit(told.code)


def _lived_through(work_on: Callable[[], bool]) -> bool:
    """Who runs for ever outlives the troubles of others: what cannot be reached now is asked again soon."""
    try:
        return work_on()
    except Unavailable as trouble:
        print(f"custody: {trouble}; asking again soon", file=sys.stderr)
        return False


def temporal(
    address: Annotated[str, typer.Option(help="of Temporal's server; the configuration's unless told")] = "",
    watch_seconds: Annotated[float, typer.Option(help="between two looks for something new")] = 30.0,
    threads: Annotated[int, typer.Option(help="channels at once")] = 4,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Work on channels as Temporal tells: a worker for its workflows, and the schedules that look around."""
    import asyncio

    from custody.channels.coordinators.temporal import connect, pace_of, serve

    async def working(mirror: Context, found: Config) -> None:
        over = asyncio.Event()
        for wish in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(wish, over.set)
        client = await connect(address or found.channels.temporal, found.channels.namespace)
        await serve(mirror, client, over, watch_seconds, pace=pace_of(found.channels, threads))

    with opened(config, store) as (handle, found):
        asyncio.run(working(_mirror(handle, found), found))


def _run_shard(
    shard: Shard, config: Path | None, deadline: float, settings: Settings, tell: Listener, stop: Stop
) -> None:
    with opened(config, "sqlite://:memory:") as (_, found), tempfile.TemporaryDirectory() as folder:
        if found.channels.queues != "store":
            raise BadInput("a shard has its queue in its own state", where="channels.queues", hint='queues = "store"')
        blobs, file = open_blobs(found.channels, found.home), Path(folder) / "state.db"
        before: dict[str, str] | None = None

        def work_on(store: Store, until: float) -> bool:
            nonlocal before
            mirror = _mirror(store, found, shard)
            if before is None:
                before = told_before(store, blobs)
                ephemeral.ask_for(mirror, found.channels, shard, anew=True)
            finished = ephemeral.run_until_idle(mirror, until, settings, tell, stop=stop)
            if finished:
                work.daily(mirror)
            return finished or stop.asked

        with ephemeral.state_of(blobs, shard, file) as state:
            opening: Callable[[], Store] = lambda: open_store(f"sqlite:///{file}")  # noqa: E731
            finished = _lived_through(lambda: ephemeral.run_shard(state, deadline, opening, work_on))
            print(f"shard {shard}: the state is kept in {shard.blob}")
            with open_store(f"sqlite:///{file}") as store:
                _end(store, blobs, before or {}, finished and not stop.asked)


def _mirror(store: Store, found: Config, shard: Shard | None = None) -> Context:
    slots = StoreSlots(store, per_second=shard.per_second) if shard else None
    mirror = open_mirror(store, found.channels, found.home, slots)
    if mirror is None:
        raise BadInput(
            "there is no bot's token", code="discord.token", where=str(found.home / found.channels.token_file)
        )
    return mirror


def _post(mirror: Context, found: Config, deadline: float, until_idle: bool, stop: Stop, lease: float) -> bool:
    """Look around, then deal with letters: until there are none, or for as long as one look lasts."""
    from custody.channels.coordinators.azure_queues import Post, open_queues

    queues = open_queues(found.channels, found.home)
    post = Post(queues, mirror, mirror.store.new_move(), max(1, round(lease)))
    while True:
        # Letters on their way may be about what is new: it is not asked for twice, but looked for again after them.
        busy = queues.waiting()["add-messages"] > 0
        for request in ephemeral.requests(mirror, found.channels, anew=until_idle):
            if request.what != "sync" or not busy:
                queues.send(request)
        end = deadline if until_idle else min(deadline, time.monotonic() + WATCH_SECONDS)
        post.run(lambda end=end: stop.asked or time.monotonic() >= end, until_idle)  # type: ignore[misc]
        over = stop.asked or time.monotonic() >= deadline
        if over or not (busy and until_idle):
            return not over
