"""Runs that come and go, as on a machine that somebody lends for an hour: GitHub Actions, a nightly job.

Messages are in the blob store anyway, with marks that say how far each channel has come. What else must outlive a
run, items, jobs and history, is one SQLite file per shard, kept in the blob store as well. A run takes the lease of
that blob, fetches it, works, and puts it back every few minutes; another run of the same shard is refused. A run
that is killed leaves the file as it was last put back: what it did since is in the blobs, and found there again.
Shards share nothing, so each has its share of what may be asked per second.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from custody.channels import jobs as work
from custody.channels import places
from custody.channels.blobs.port import Blobs, Changed, Facts, Leased
from custody.channels.config import ChannelConfig
from custody.channels.context import Context, Request, checked
from custody.channels.crawl import look_around
from custody.channels.discord.shared_rate_limit import PER_SECOND
from custody.channels.kinds import kinds
from custody.channels.removal import orders, removal
from custody.errors import BadInput, CustodyError, LeaseLost, Refused, Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.listeners import NOTHING, Listener
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter, Job
from custody.kernel.stores import Store

MOST_SHARDS = 20  # as many jobs as run side by side on a free account
LEASE_SECONDS = 60
RENEW_SECONDS = 15.0
SLICE_SECONDS = 300.0  # after which the state is put back
BLOCK = 4 * 2**20
POLL_SECONDS = 0.05
PATIENCE = 30 * 1_000_000  # microseconds that a run waits for a job; what waits longer is the next run's


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of the channels. A thread is where its channel is."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0)
        if not 1 <= shard.number <= shard.of <= MOST_SHARDS:
            raise BadInput(
                f"cannot read {text!r}", code="shard", where="--shard", hint=f"1/4 … 4/4, at most {MOST_SHARDS}"
            )
        return shard

    def has(self, channel: int) -> bool:
        return zlib.crc32(str(channel).encode()) % self.of == self.number - 1

    @property
    def blob(self) -> str:
        return f"state/shard-{self.number:02d}-of-{self.of:02d}.db"

    @property
    def per_second(self) -> float:
        return PER_SECOND / self.of

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


# --- The state between runs ---


class State:
    """A shard's SQLite file while this run has it."""

    def __init__(self, blobs: Blobs, shard: Shard, file: Path) -> None:
        self.file, self.lost = file, threading.Event()
        self._blobs, self._shard, self._name = blobs, shard, shard.blob
        self._over = threading.Event()
        self._lease = self._taken()
        content = blobs.read(self._name)
        self._etag = content.etag
        if content.data:
            file.write_bytes(content.data)
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _taken(self) -> str:
        with suppress(Changed, Leased):  # it is there already
            self._blobs.commit(self._name, [], Facts({"kind": "state"}), if_absent=True)
        try:
            return self._blobs.acquire(self._name, LEASE_SECONDS)
        except Leased as held:
            raise Refused(
                f"another run is at work on shard {self._shard}",
                code="run.busy",
                where=self._name,
                hint="let it end; the lease of a run that was killed ends after a minute",
            ) from held

    def _keep(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            try:
                self._blobs.renew(self._name, self._lease)
            except Unavailable:
                continue  # the lease lasts longer than one unanswered question
            except CustodyError:
                self.lost.set()
                return

    def put_back(self) -> None:
        """What the file holds now is what the next run finds. The store must be closed."""
        if self.lost.is_set():
            raise LeaseLost("another run has taken over the state", code="run.lost", where=self._name)
        data = self.file.read_bytes()
        blocks = [data[start : start + BLOCK] for start in range(0, len(data), BLOCK)]
        named = [(f"{number:06d}-{sha256(block).hexdigest()[:16]}", block) for number, block in enumerate(blocks)]
        self._blobs.stage(self._name, named, lease=self._lease)
        ids = [one for one, _ in named]
        facts = Facts({"kind": "state"})
        self._etag = self._blobs.commit(self._name, ids, facts, if_match=self._etag, lease=self._lease)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        with suppress(CustodyError):  # then it ends by itself
            self._blobs.release(self._name, self._lease)


@contextmanager
def state_of(blobs: Blobs, shard: Shard, file: Path) -> Iterator[State]:
    state = State(blobs, shard, file)
    try:
        yield state
    finally:
        state.close()


# --- Working ---


def run_shard(
    state: State, deadline: float, opened: Callable[[], Store], work_on: Callable[[Store, float], bool]
) -> bool:
    """Work in slices, and put the state back after each, until there is nothing left, only long waits, or no time."""
    while not state.lost.is_set():
        end = min(deadline, time.monotonic() + SLICE_SECONDS)
        with opened() as store:
            finished = work_on(store, end)
        state.put_back()
        if finished or time.monotonic() < end or time.monotonic() >= deadline:
            return finished
    raise LeaseLost("another run has taken over the state", code="run.lost", where=state.file.name)


class Stop:
    """A signal's wish that work should end soon."""

    def __init__(self) -> None:
        self.asked = False
        self.workers: list[Worker] = []

    def __call__(self, *_: object) -> None:
        self.asked = True
        for worker in self.workers[-1:]:
            worker.stop()

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond being told. (A signal does not end a sleep, and must not touch a lock.)"""
        end = time.monotonic() + seconds
        while not self.asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(POLL_SECONDS, left))


def run_until_idle(
    mirror: Context,
    deadline: float,
    settings: Settings | None = None,
    tell: Listener = NOTHING,
    stop: Stop | None = None,
) -> bool:
    """All that is asked for, short pauses included; False when the time was over first, or only long waits are left."""
    serving = Serving(tuple(kinds(mirror)))
    stopped = stop or Stop()
    while time.monotonic() < deadline and not stopped.asked:
        worker = Worker(mirror.store, serving, settings, tell)
        stopped.workers.append(worker)
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), worker.stop)
        timer.start()
        try:
            worker.run_until_quiet()
        finally:
            timer.cancel()
        left = _left(mirror.store)
        if not left:
            return True
        if all(job.due is not None and job.due - mirror.store.now() > PATIENCE for job in left):
            return False
        time.sleep(POLL_SECONDS)
    return False


def _left(store: Store) -> list[Job]:
    """Jobs of ours that are still to be done, now or later. Those that failed are told, not waited for."""
    return [job for job in store.queue.every(Filter(kind="channel/*")) if job.kind in KINDS and job.ended is None]


KINDS = frozenset({work.ADD, work.SYNC, work.REVIEW, work.FILES, work.REMOVE})


def requests(mirror: Context, config: ChannelConfig, shard: Shard | None = None, anew: bool = False) -> list[Request]:
    """What the configuration wants mirrored or removed, and where something is new."""
    listed = [*_wanted(mirror, config.mirror, shard or Shard()), *_unwanted(mirror, config.remove)]
    return listed + look_around.around(mirror, anew)


def ask_for(mirror: Context, config: ChannelConfig, shard: Shard | None = None, anew: bool = False) -> int:
    """The same, as jobs of the engine; answers how many."""
    work.believe_no_clock(mirror)
    jobs = [work.job_of(request) for request in requests(mirror, config, shard, anew)]
    if jobs:
        mirror.store.queue.submit(jobs, system("run"))
    return len(jobs)


def _wanted(mirror: Context, listed: Sequence[str], shard: Shard) -> Iterator[Request]:
    for channel in map(checked, map(str, listed)):
        item = mirror.item(channel) if shard.has(channel) else None
        found = item is not None and item.detail.get("mirrored") == "yes" and not item.detail.get(places.BY_NUMBER)
        if shard.has(channel) and (item is None or found):  # one that was only found is wanted by its number now
            yield Request("add", channel)


def _unwanted(mirror: Context, listed: Sequence[str]) -> Iterator[Request]:
    for channel in map(checked, map(str, listed)):
        item = mirror.item(channel)
        if item is not None and item.detail.get("mirrored") != "removed":
            along = removal.goes_along(mirror.store, channel).along
            request = Request("remove", channel, why="the configuration says so", along=along)
            yield orders.ordered(mirror.store, request, "run")
