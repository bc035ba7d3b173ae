"""A folder with a configuration, a stand-in for Discord beside it, and processes that mirror from it and are killed."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from channels.desk import Running, ids_of
from custody.channels.blobs.port import Blobs
from custody.channels.context import Request
from custody.channels.crawl.coverage import Coverage
from custody.channels.jobs import job_of
from custody.channels.kinds import open_blobs, settings_of
from custody.channels.table import Table
from custody.cli import main
from custody.config import read
from custody.demo.standins.discord import Standin
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import LIMITS, Switches
from custody.kernel.stores import open_store
from rig.program import as_user

FULL = os.environ["CUSTODY_SCALE"] != "test"
SECONDS = 900.0 if FULL else 150.0  # to wait for something on a machine that has other things to do
TROUBLES: tuple[int | str, ...] = (*LIMITS, 500, 502, 503, "drop")
PROGRAM = [sys.executable, "-m", "custody"]


class Office:
    def __init__(self, folder: Path, standin: Standin, **channels: Any) -> None:
        self.folder, self.standin = folder, standin
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "discord.token").write_text("token\n")
        lines = {"api": standin.api, "capacity": 100, **channels}
        told = [
            f"{key} = {str(value) if isinstance(value, int | list) else repr(value)}" for key, value in lines.items()
        ]
        (folder / "custody.toml").write_text("\n".join(["[channels]", *told]) + "\n")

    @property
    def world(self) -> World:
        return self.standin.world

    # --- Commands ---

    def run(self, *words: str, code: int | tuple[int, ...] = 0) -> str:
        """A command as a user gives it, in this process; what it said."""
        said, handlers = io.StringIO(), {wish: signal.getsignal(wish) for wish in (signal.SIGINT, signal.SIGTERM)}
        ended: object = 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main([*words, *(["--config", str(self.folder / "custody.toml")] if words[0] == "channel" else [])])
            except SystemExit as end:
                ended = end.code
            finally:
                for wish, handler in handlers.items():
                    signal.signal(wish, handler)
        assert ended in ((code,) if isinstance(code, int) else code), (words, ended, said.getvalue())
        return said.getvalue()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "log").open("ab")
        process = subprocess.Popen(
            [*as_user(""), *PROGRAM, *words],  # it ends with us, even if we are killed
            cwd=self.folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=own_sources(),
        )
        log.close()
        self._processes.append(process)
        return process

    def log(self) -> str:
        return (self.folder / "log").read_text()[-3000:] if (self.folder / "log").exists() else ""

    def settled(self, channel: Channel, storm: Storm) -> None:
        """After the storm nothing fails or changes any more, and whatever was touched is flagged to be looked at."""
        storm.calm()
        first, *others = sorted(storm.touched)
        self.run("channel", "review", str(channel.id), str(first))
        self.review_all(channel, others)

    def stop_all(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def review_all(self, channel: Channel, messages: list[int]) -> None:
        """Flag many at once, as a program would."""
        found = read(self.folder / "custody.toml")
        requests = [Request("review", channel.id, message) for message in messages]
        if found.channels.queues == "azure":
            from custody.channels.coordinators.azure_queues import open_queues

            queues = open_queues(found.channels, found.home)
            for request in requests:
                queues.send(request)
            return
        if found.channels.queues == "temporal":
            from custody.channels.coordinators.temporal import ask_for

            ask_for(found.channels, *requests)
            return
        with open_store(found.store) as store:
            store.queue.submit([job_of(request) for request in requests])

    # --- Looking ---

    def blobs(self) -> Blobs:
        found = read(self.folder / "custody.toml")
        return open_blobs(found.channels, found.home)

    def table(self, channel: int) -> Table:
        found = read(self.folder / "custody.toml")
        return Table(self.blobs(), channel, settings_of(found.channels))

    def until_same(self, *channels: Channel) -> None:
        until(lambda: all(map(self.same, channels)), self.log(), pause=0.1)

    def coverage(self, channel: int) -> Coverage:
        return Coverage.read(self.table(channel).mark)

    def honest(self, channel: Channel, storm: Storm) -> Coverage:
        """What is there to be had and is not kept lies in a gap or beyond the mark: at any moment, whoever was killed."""
        coverage = self.coverage(channel.id)
        kept = {one.id for one in self.table(channel.id).between()}
        missing = set(ids_of(self.world, channel)) - kept - storm.touched
        assert not (hidden := [one for one in missing if coverage.covers(one)]), hidden[:3]
        return coverage

    def same(self, channel: Channel) -> bool:
        return not self.differs(channel)

    def differs(self, channel: Channel) -> str:
        """What is not as the channel is: its messages in their newest version, and no gaps. What was deleted there is
        kept here."""
        table, coverage = self.table(channel.id), self.coverage(channel.id)
        last = next((raw for n in reversed(range(channel.count)) if (raw := self.world.message(channel, n))), None)
        if coverage.gaps or (last and coverage.upto < int(last["id"])):  # cheap to know, and asked often
            return f"there is more to be had than {coverage}"
        kept = {one.id: one.message["content"] for one in table.between() if not one.deleted_at}
        world = self.world
        there = {int(raw["id"]): raw["content"] for n in range(channel.count) if (raw := world.message(channel, n))}
        both = (kept.keys() | there.keys()) - (kept.keys() & channel.deleted)
        odd = sorted(one for one in both if kept.get(one) != there.get(one))
        return ", ".join(f"{one}: {kept.get(one)!r} instead of {there.get(one)!r}" for one in odd[:3])


def own_sources() -> dict[str, str]:
    """This package's sources, whatever is installed."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@contextmanager
def office(folder: Path, world: World, switches: Switches | None = None, **channels: Any) -> Iterator[Office]:
    with Standin(world, Running(), switches or Switches(bucket_limit=60)) as standin:
        here = Office(folder, standin, **channels)
        try:
            yield here
        finally:
            here.stop_all()


QUICK = Switches(bucket_limit=10_000, global_limit=100_000)


@contextmanager
def reading_room(folder: Path) -> Iterator[Office]:
    """An office with one channel of 240 messages that nobody mirrors yet."""
    world = World(seed=41)
    world.add(0, "reading-room", 240)
    with office(folder, world, QUICK) as here:
        yield here


def add(here: Office, *words: str, code: int = 0) -> Channel:
    """Mirror the first channel, to its end."""
    channel = next(iter(here.world.channels.values()))
    here.run("channel", "add", str(channel.id), *words)
    here.run("channel", "run", "--until-idle", code=code)
    return channel


def until(condition: Callable[[], object], why: str = "", seconds: float = SECONDS, pause: float = 0.01) -> None:
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        assert time.monotonic() < end, why or "it did not come about"
        time.sleep(max(pause, time.monotonic() - asked))  # a look that takes long leaves the others half of the time


# --- Everything that goes wrong ---


class Storm:
    """Troubles by chance, and people who edit and delete while a channel is read."""

    def __init__(self, channel: Channel, world: World, seed: int, rate: float) -> None:
        self.channel, self.world, self.rate = channel, world, rate
        self.dice = random.Random(seed)
        self.seen = dict.fromkeys(TROUBLES, 0)
        self._due = self.dice.sample(TROUBLES, len(TROUBLES))  # each at least once, then as it comes
        self.touched: set[int] = set()
        self._hold_at = 0
        self._over = False
        self.reached, self._released = threading.Event(), threading.Event()

    def hold(self, page: int) -> None:
        """Keep whoever asks for this page waiting, until `release`: a busy machine's test may be late to see it."""
        self._hold_at = page
        self.reached.clear()
        self._released.clear()

    def release(self) -> None:
        self._hold_at = 0
        self._released.set()

    def trouble(self, _: int) -> int | str | None:
        if self.dice.random() > (0.7 if self._due else self.rate):
            return None
        what = self._due.pop() if self._due else self.dice.choice(TROUBLES)
        self.seen[what] += 1
        return what

    def between_pages(self, channel: int, page: int) -> None:
        """Someone edits, deletes and writes, anywhere: also the last message, which then stays the last."""
        if channel != self.channel.id or self._over:
            return
        if self._hold_at and page >= self._hold_at:
            self.reached.set()
            self._released.wait(SECONDS)
        if page % 3:
            return
        ids = ids_of(self.world, self.channel)
        edited, deleted = self.dice.sample(ids, 2)
        self.world.edit(self.channel, edited, Running()(), f"edited before page {page}")
        self.world.delete(self.channel, deleted)
        self.touched |= {edited, deleted}
        if page % 9 == 0:
            self.world.delete(self.channel, ids[-1])
            self.touched.add(ids[-1])

    def calm(self) -> None:
        self.rate, self._over = 0.0, True
        self._due.clear()


def storm_over(world: World, channel: Channel, seed: int) -> tuple[Storm, Switches]:
    storm = Storm(channel, world, seed, rate=0.08 if FULL else 0.25)
    switches = Switches(bucket_limit=60, trouble=storm.trouble, trouble_seconds=0.05, between_pages=storm.between_pages)
    return storm, switches


def kill(process: subprocess.Popen[bytes]) -> bool:
    """Without a word; False if it had ended by itself."""
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True
