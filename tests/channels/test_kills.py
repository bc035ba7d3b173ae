"""A channel is mirrored through everything at once: limits of every kind, failing servers, edits, lost rights, kill -9.

The quick form is part of every run. A proof (`make prove ROW=G19`) reads 12,000 messages and kills until they are all there.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.office import FULL, SECONDS, Office, Storm, kill, office, own_sources, storm_over, until
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Switches
from rig.azurite import Azurite

if TYPE_CHECKING:
    from azure.storage.queue import QueueClient

MESSAGES = 12_000 if FULL else 1_200
KILLS = 25 if FULL else 2
LEASE = "2"

pytestmark = [pytest.mark.kills, pytest.mark.slow]


def work(here: Office) -> subprocess.Popen[bytes]:
    return here.start("channel", "run", "--until-idle", "--max-minutes", "30", "--lease", LEASE)


def weather(here: Office, channel: Channel, storm: Storm, kills: int, dice: random.Random) -> tuple[int, int]:
    """Workers are killed, one after the other, each a few pages after the last.

    Answers how many it hit, and how often there was a gap then.
    """
    killed, gaps, workers = 0, 0, list[subprocess.Popen[bytes]]()
    for _ in range(kills):
        workers = [worker for worker in workers if worker.poll() is None]
        storm.hold(here.standin.pages.get(channel.id, 0) + dice.randint(1, 4 if FULL else 2))
        workers += [work(here) for _ in range((2 if FULL else 1) - len(workers))]
        _until_held(here, storm, workers)
        storm.release()
        time.sleep(dice.uniform(0, 0.02))  # anywhere within a page
        killed += kill(dice.choice(workers))
        gaps += bool(here.honest(channel, storm).gaps)
    # And to the end, in the same weather, in which a file or a try may be left for later: by then that is told.
    said = here.run("channel", "run", "--until-idle", "--lease", LEASE, code=(0, 75))
    if "the next run goes on" in said:
        later = ("could not be had since", "the last try met with")
        assert any(f"({channel.id}): " in line and any(one in line for one in later) for line in said.splitlines()), (
            said
        )
    return killed, gaps


def _until_held(here: Office, storm: Storm, workers: list[subprocess.Popen[bytes]]) -> None:
    until(
        lambda: storm.reached.is_set() or all(one.poll() is not None for one in workers),
        f"nothing is fetched: {here.log()}",
    )


def queue_of(azurite: Azurite, name: str) -> QueueClient:
    from azure.storage.queue import QueueServiceClient

    return QueueServiceClient.from_connection_string(azurite.connection_string).get_queue_client(name)


def settle(here: Office, channel: Channel, storm: Storm) -> None:
    """After the storm: whatever was set aside is asked for again, and what was flagged is looked at."""
    storm.calm()
    here.run("channel", "sync", str(channel.id))
    here.run("channel", "run", "--until-idle", "--lease", LEASE)
    here.settled(channel, storm)
    here.run("channel", "run", "--until-idle", "--lease", LEASE)


@pytest.mark.proves("G19")
def test_a_channel_survives_everything_at_once(tmp_path: Path) -> None:
    world, dice = World(seed=12), random.Random(7)
    channel = world.add(0, "storm", MESSAGES, begins=150_000_000_000)
    storm, switches = storm_over(world, channel, seed=5)
    with office(tmp_path, world, switches) as here:
        here.run("channel", "add", str(channel.id), "--newest-first")
        killed, gaps = weather(here, channel, storm, KILLS, dice)
        assert killed >= KILLS * 3 // 4
        assert gaps, "what was not yet fetched was a gap, and told as one"
        channel.unreadable = True  # the right to see it is lost in the middle, and comes back
        here.run("channel", "sync", str(channel.id))
        here.run("channel", "run", "--until-idle", "--lease", LEASE, code=1)
        assert "we may not read it" in here.run("channel", "why", str(channel.id))
        channel.unreadable = False
        settle(here, channel, storm)
        assert not (wrong := here.differs(channel)), f"{wrong}\n{here.log()}"
        assert "nothing is missing" in here.run("channel", "gaps", str(channel.id))
        assert "nothing is wrong" in here.run("channel", "verify", str(channel.id))
        busiest, asked = here.standin.busiest_second(), len(here.standin.asked)
        assert busiest <= 50
        assert all(storm.seen.values()), storm.seen
        print(f"{MESSAGES} messages, {killed} kills, {asked} requests, at most {busiest} in a second, {storm.seen}")


@pytest.mark.proves("G19")
def test_letters_in_azure_queues_survive_everything_as_well(tmp_path: Path, azurite: Azurite) -> None:
    world, dice = World(seed=13), random.Random(8)
    channel = world.add(0, "storm", MESSAGES // 2, begins=150_000_000_000)
    storm, switches = storm_over(world, channel, seed=6)
    with office(tmp_path, world, switches, queues="azure") as here:
        (here.folder / "azure.connection").write_text(azurite.connection_string)
        here.run("channel", "add", str(channel.id))
        queue_of(azurite, "add-messages").send_message("not a letter at all")
        killed, _ = weather(here, channel, storm, KILLS, dice)
        assert killed >= KILLS * 3 // 4
        settle(here, channel, storm)
        assert not (wrong := here.differs(channel)), f"{wrong}\n{here.log()}"
        world.post(channel, 3)
        here.run("channel", "run", "--until-idle", "--lease", LEASE)
        assert here.same(channel), "what is new is found by looking around"
        assert "nothing is missing" in here.run("channel", "gaps", str(channel.id))
        assert here.standin.busiest_second() <= 50
        assert all(storm.seen.values()), storm.seen
        aside = [base64.b64decode(one.content) for one in queue_of(azurite, "add-messages-poison").peek_messages(32)]
        assert [json.loads(one)["letter"] for one in aside] == ["not a letter at all"]


ASKING = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from custody.channels.kinds import open_mirror
from custody.config import read
from custody.kernel.stores import open_store

found = read(Path("custody.toml"))
with open_store(found.store) as store, ThreadPoolExecutor(2) as pool:
    discord = open_mirror(store, found.channels, found.home).discord
    print(len(list(pool.map(lambda _: discord.me(), range(70)))))
"""


def test_several_processes_together_ask_no_more_than_fifty_times_in_any_second(tmp_path: Path) -> None:
    """Two processes of two threads: who is late brings at most four of an earlier second into the next one."""
    with office(tmp_path, World(), Switches(bucket_limit=1_000, global_limit=1_000)) as here:
        here.run("channel", "list")  # makes the store
        words = [sys.executable, "-c", ASKING]
        running = [subprocess.Popen(words, cwd=tmp_path, env=own_sources()) for _ in range(2)]
        assert [one.wait(SECONDS) for one in running] == [0, 0]
        assert len(here.standin.asked) == 140
        assert here.standin.busiest_second() <= 50
