"""Temporal as coordinator, for real: workers killed, the server restarted on its file, signals, schedules, cancel."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.desk import ids_of
from channels.office import FULL, Office, Storm, kill, office, storm_over, until
from custody.channels.blobs.local import Files
from custody.channels.jobs import item_id
from custody.config import read
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Switches
from custody.kernel.stores import open_store

if TYPE_CHECKING:
    from rig.temporal import Temporal

pytest.importorskip("temporalio")
pytestmark = [pytest.mark.kills, pytest.mark.slow]


@contextmanager
def opened(
    folder: Path, temporal: Temporal, pages: int, world: World | None = None, switches: Switches | None = None
) -> Iterator[Office]:
    told = {"queues": "temporal", "temporal": temporal.address, "heartbeat": 3, "pages_per_workflow": pages}
    with office(folder, world or World(seed=21), switches, **told) as here:
        yield here


def worker(here: Office, watch: str = "1") -> subprocess.Popen[bytes]:
    return here.start("channel", "temporal", "--watch-seconds", watch)


def after_pages(here: Office, channel: int, more: int) -> None:
    wanted = here.standin.pages.get(channel, 0) + more
    until(lambda: here.standin.pages.get(channel, 0) >= wanted, here.log())


def detail(here: Office, channel: int) -> Any:
    with open_store(read(here.folder / "custody.toml").store) as store:
        return store.records.item(item_id(channel)).detail


def runs_of(address: str, channel: int) -> list[str]:
    """How each run of a channel's workflow ended, or that it has not."""
    from temporalio.client import Client

    async def asked() -> list[str]:
        client = await Client.connect(address)
        found = client.list_workflows(f"WorkflowId = '{item_id(channel)}'")
        return [one.status.name if one.status else "" async for one in found]

    return asyncio.run(asked())


def cancel(address: str, channel: int) -> None:
    from temporalio.client import Client

    async def cancelling() -> None:
        client = await Client.connect(address)
        await client.get_workflow_handle(item_id(channel)).cancel()

    asyncio.run(cancelling())


def trigger(address: str, schedule: str) -> None:
    from temporalio.client import Client

    async def triggering() -> None:
        client = await Client.connect(address)
        await client.get_schedule_handle(schedule).trigger()

    asyncio.run(triggering())


def heartbeats(address: str) -> dict[str, float]:
    """The activities that were ever asked for, and after how many seconds of silence each is given to another."""
    from temporalio.client import Client

    async def asked() -> dict[str, float]:
        client, found = await Client.connect(address), dict[str, float]()
        async for flow in client.list_workflows("WorkflowType != 'temporal-sys-scheduler-workflow'"):
            async for event in client.get_workflow_handle(flow.id, run_id=flow.run_id).fetch_history_events():
                told = event.activity_task_scheduled_event_attributes
                if told.activity_type.name:
                    found[told.activity_type.name] = told.heartbeat_timeout.ToTimedelta().total_seconds()
        return found

    return asyncio.run(asked())


def is_now(here: Office, channel: int, state: str) -> None:
    until(lambda: detail(here, channel)["mirrored"] == state, here.log(), pause=0.1)


@pytest.mark.proves("G19")
def test_a_channel_is_mirrored_by_temporal_in_any_weather_whoever_is_killed(tmp_path: Path, temporal: Temporal) -> None:
    world = World(seed=21)
    channel = world.add(0, "general", 12_000 if FULL else 1_000)
    storm, switches = storm_over(world, channel, seed=9)
    with opened(tmp_path, temporal, 4, world, switches) as here:
        _kill_and_restart(here, temporal, channel, storm)


def _kill_and_restart(here: Office, temporal: Temporal, channel: Channel, storm: Storm) -> None:
    world, dice = here.world, random.Random(3)
    thread = world.add_thread(channel, 600, 30)
    number = str(channel.id)

    # Given a channel that is being mirrored through a storm, whose workers are killed and then the server
    here.run("channel", "add", number)
    for _ in range(8 if FULL else 2):
        storm.hold(here.standin.pages.get(channel.id, 0) + dice.randint(1, 3))
        first = worker(here)
        until(storm.reached.is_set, here.log())
        storm.release()
        time.sleep(dice.uniform(0, 0.02))  # anywhere within a page
        assert kill(first)
        here.honest(channel, storm)
    second = worker(here)
    after_pages(here, channel.id, 2)
    temporal.stop("kill")
    temporal.start()

    # And the right to see it is lost in the middle, and comes back
    channel.unreadable = True
    is_now(here, channel.id, "unreadable")
    channel.unreadable = False
    here.run("channel", "sync", number)
    is_now(here, channel.id, "yes")

    # Then it is whole all the same, with its thread, and what is new is found by the schedule
    here.settled(channel, storm)
    here.until_same(channel, thread)
    until(
        lambda: "CONTINUED_AS_NEW" in runs_of(temporal.address, channel.id),
        "a history may not grow without end",
        pause=0.1,
    )
    world.post(channel, 3)
    here.until_same(channel)
    assert "nothing is missing" in here.run("channel", "gaps", number)
    assert "nothing is wrong" in here.run("channel", "verify", number)
    assert here.standin.busiest_second() <= 50
    assert all(storm.seen.values()), storm.seen

    # And a message that is flagged is looked at again
    old = ids_of(world, channel)[10]
    world.edit(channel, old, datetime(2026, 5, 1, tzinfo=UTC), "mended")
    here.run("channel", "review", number, str(old))
    here.until_same(channel)

    # And after a kick everything of it can be removed, its thread as well
    channel.unreadable = True
    here.run("channel", "remove", number, "--yes", "--why", "kicked")
    until(lambda: detail(here, channel.id)["mirrored"] == detail(here, thread.id)["mirrored"] == "removed", pause=0.1)
    assert list(Files(here.folder / "channels").list("")) == []
    second.terminate()
    assert second.wait(60) == 0


def test_a_cancelled_workflow_leaves_a_beginning_and_the_next_one_goes_on(tmp_path: Path, temporal: Temporal) -> None:
    with opened(tmp_path, temporal, pages=500) as here:
        channel = here.world.add(0, "cancelled", 1_200, id=90_000_000_000_500)
        gate = threading.Event()

        def hold(_: int, page: int) -> None:
            if page > 3:
                gate.wait(60)

        here.standin.switches.between_pages = hold
        process = worker(here, watch="600")  # nobody looks around and begins again meanwhile
        here.run("channel", "add", str(channel.id))
        after_pages(here, channel.id, 4)
        cancel(temporal.address, channel.id)
        until(lambda: "CANCELED" in runs_of(temporal.address, channel.id), pause=0.1)
        kept = [found.id for found in here.table(channel.id).between()]
        assert len(kept) == 298  # three pages, each of which begins with the last message of the one before
        assert kept == ids_of(here.world, channel)[: len(kept)]
        gate.set()
        here.run("channel", "sync", str(channel.id))
        here.until_same(channel)
        kill(process)


def test_what_is_new_is_found_though_a_worker_was_killed_while_it_looked_around(
    tmp_path: Path, temporal: Temporal
) -> None:
    with opened(tmp_path, temporal, pages=500) as here:
        channel = here.world.add(0, "watched", 5, id=90_000_000_000_700)
        reached, gate = threading.Event(), threading.Event()

        def hold(_: int) -> None:
            reached.set()
            gate.wait(60)

        first = worker(here)
        here.run("channel", "add", str(channel.id))
        here.until_same(channel)
        until(lambda: set(runs_of(temporal.address, channel.id)) == {"COMPLETED"}, pause=0.1)
        here.standin.switches.trouble = hold  # whoever asks now looks around
        assert reached.wait(60)
        assert kill(first)
        here.standin.switches.trouble = None
        gate.set()
        here.world.post(channel, 3)
        worker(here)
        here.until_same(channel)


def test_every_activity_gives_signs_of_life(tmp_path: Path, temporal: Temporal) -> None:
    """Without, one whose worker was killed is begun again only when all its time is over: hours, for tiers."""
    with opened(tmp_path, temporal, pages=500) as here:
        channel = here.world.add(0, "alive", 5, id=90_000_000_000_800)
        worker(here)
        here.run("channel", "add", str(channel.id))
        here.until_same(channel)
        trigger(temporal.address, "custody-tiers")
        until(lambda: "tiers" in heartbeats(temporal.address), pause=0.1)
        assert heartbeats(temporal.address) == dict.fromkeys(("step", "send", "look_around", "tiers"), 3.0)


def test_nothing_of_temporal_or_azure_is_loaded_unless_it_is_wanted() -> None:
    code = "import sys, custody.channels.commands.channel; print([name for name in sys.modules if name in ('temporalio', 'azure')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("how", ["killed", "killed beside another", "vanished"])
def test_the_work_of_a_worker_that_is_gone_goes_on_soon_after_its_last_sign_of_life(
    tmp_path: Path, temporal: Temporal, how: str
) -> None:
    """Not after a minute: a server hands work also to the waiting questions of a machine that is no longer there."""
    with opened(tmp_path, temporal, pages=500) as here:
        channel = here.world.add(0, "gone", 900, id=90_000_000_000_900 + len(how))
        reached, gate = threading.Event(), threading.Event()

        def hold(_: int, page: int) -> None:
            if page == 4:
                reached.set()
                gate.wait(60)

        here.standin.switches.between_pages = hold
        first = worker(here, watch="600")
        here.run("channel", "add", str(channel.id))
        assert reached.wait(60)
        second = worker(here, watch="600") if how != "killed" else None
        if second:
            time.sleep(8)  # until it asks for work
        asked = here.standin.pages.get(channel.id, 0)
        if how == "vanished":  # its connections stay open, as those of a machine without power
            first.send_signal(signal.SIGSTOP)
        else:
            assert kill(first)
        gone = time.monotonic()
        gate.set()
        second = second or worker(here, watch="600")
        until(lambda: here.standin.pages.get(channel.id, 0) > asked, here.log())
        took = time.monotonic() - gone
        kill(first)
        here.until_same(channel)
        kill(second)
        assert took < 30, "a few times three seconds of silence, on a busy machine"
