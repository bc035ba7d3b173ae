"""Temporal as coordinator, for real: workers killed, the server restarted on its file, signals, schedules, cancel."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.desk import ids_of
from channels.office import FULL, Office, kill, office, until
from custody.channels.files import Files
from custody.channels.standins.world import World
from custody.channels.work import item_id
from custody.cli.config import read
from custody.stores import open_store

if TYPE_CHECKING:
    from rig.temporal import Temporal

pytest.importorskip("temporalio")
pytestmark = [pytest.mark.kills, pytest.mark.slow]


@contextmanager
def opened(folder: Path, temporal: Temporal, pages: int) -> Iterator[Office]:
    told = {"queues": "temporal", "temporal": temporal.address, "heartbeat": 3, "pages_per_workflow": pages}
    with office(folder, World(seed=21), **told) as here:
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


@pytest.mark.proves("G19")
def test_a_channel_is_mirrored_by_temporal_whoever_is_killed(tmp_path: Path, temporal: Temporal) -> None:
    with opened(tmp_path, temporal, pages=4) as here:
        _kill_and_restart(here, temporal)


def _kill_and_restart(here: Office, temporal: Temporal) -> None:
    world = here.world
    channel = world.add(0, "general", 12_000 if FULL else 1_000)
    thread = world.add_thread(channel, 600, 30)
    number = str(channel.id)

    # Given a channel that is being mirrored, whose worker is killed and then the server
    here.run("channel", "add", number)
    for _ in range(6 if FULL else 1):
        first = worker(here)
        after_pages(here, channel.id, 3)
        assert kill(first)
    second = worker(here)
    after_pages(here, channel.id, 2)
    temporal.stop("kill")
    temporal.start()

    # Then it is whole all the same, with its thread, and what is new is found by the schedule
    here.until_same(channel, thread)
    until(
        lambda: "CONTINUED_AS_NEW" in runs_of(temporal.address, channel.id),
        "a history may not grow without end",
        pause=0.1,
    )
    world.post(channel, 3)
    here.until_same(channel)

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
        assert len(kept) == 300
        assert kept == ids_of(here.world, channel)[: len(kept)]
        gate.set()
        here.run("channel", "sync", str(channel.id))
        here.until_same(channel)
        kill(process)


def test_nothing_of_temporal_or_azure_is_loaded_unless_it_is_wanted() -> None:
    code = "import sys, custody.cli.channel; print([name for name in sys.modules if name in ('temporalio', 'azure')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
