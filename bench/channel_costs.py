"""What a message costs in a blob store: operations and bytes, next to other ways of keeping a channel.

    python -m bench.channel_costs [--messages N]

Counted, not timed, so a busy machine changes nothing. Every way is given the same channel in the same pages. An
operation is one request that a storage account would bill; bytes are the bodies sent, block lists as the XML they
travel in (45 bytes an id up, 72 down, measured). `found` is the share of messages that can be read again.

The design as written is simulated as literally as it can be read, with `<=` where it says `<`, which would lose
more. It is given small leaves: what it does does not depend on their size, and its cost grows with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Facts
from custody.channels.table import Settings, Table
from custody.channels.table.node import Message
from custody.demo.standins.discord_guild import TEXT, World

CHANNEL = 7
ID_UP, ID_DOWN = 45, 72
PAGE = 100

Raw = dict[str, Any]


@dataclass(slots=True)
class Bill:
    """What was asked of a store."""

    calls: Counter[str] = field(default_factory=Counter)
    up: int = 0
    down: int = 0

    def add(self, what: str, up: int = 0, down: int = 0, count: int = 1) -> None:
        self.calls[what] += count
        self.up, self.down = self.up + up, self.down + down


class Counted:
    """A blob store that writes the bill."""

    def __init__(self, blobs: Files, bill: Bill) -> None:
        self._blobs, self.bill = blobs, bill

    def stage(self, name: str, blocks: Iterable[tuple[str, bytes]], **more: Any) -> None:
        staged = list(blocks)
        self.bill.add("put block", up=sum(len(data) for _, data in staged), count=len(staged))
        self._blobs.stage(name, staged, **more)

    def commit(self, name: str, ids: Sequence[str], facts: Facts = Facts(), **more: Any) -> str:  # noqa: B008
        self.bill.add("put list", up=ID_UP * len(ids))
        return self._blobs.commit(name, ids, facts, **more)

    def read(self, *args: Any, **more: Any) -> Any:
        found = self._blobs.read(*args, **more)
        self.bill.add("get", down=len(found.data))
        return found

    def blocks(self, name: str) -> Any:
        found = self._blobs.blocks(name)
        self.bill.add("get list", down=ID_DOWN * len(found.ids))
        return found

    def __getattr__(self, name: str) -> Any:
        self.bill.add(name)
        return getattr(self._blobs, name)


# --- Ways to keep a channel: each answers the bill for writing, and the share that is found again ---


def ours(pages: list[list[Raw]], folder: Path, settings: Settings) -> tuple[Bill, float]:
    bill = Bill()
    table = Table(Counted(Files(folder), bill), CHANNEL, settings)
    for page in pages:
        table.upsert(page, f"up to {page[-1]['id']}")
    there = {one.id for one in Table(Files(folder), CHANNEL, settings).between()}
    every = [int(raw["id"]) for page in pages for raw in page]
    return bill, sum(one in there for one in every) / len(every)


def as_written(pages: list[list[Raw]], capacity: int) -> tuple[Bill, float]:
    seed = Written(capacity)
    for page in pages:
        for raw in reversed(page):  # each watch cycle goes from new to old
            one = int(raw["id"])
            if not seed.search(one):
                seed.upsert(one, len(Message.of(raw).line) + 1)
    bill = seed.bill
    written = Bill(Counter(bill.calls), bill.up, bill.down)
    every = [int(raw["id"]) for page in pages for raw in page]
    return written, sum(seed.search(one) for one in every) / len(every)


class Written:
    """The range query as it was first described: one root, leaves keyed by their lowest time, one commit a message."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.bill = capacity, Bill()
        self.keys: list[int] = []  # the root's block ids: milliseconds
        self.leaves: dict[int, list[int]] = {}

    def _list(self, ids: Sequence[int]) -> None:
        self.bill.add("get list", down=ID_DOWN * len(ids))

    def _leaf(self, one: int) -> int | None:
        self._list(self.keys)
        place = bisect_right(self.keys, one >> 22) - 1
        if not self.keys:
            return None
        self.bill.add("query", down=80)
        return self.keys[max(place, 0)]

    def search(self, one: int) -> bool:
        key = self._leaf(one)
        if key is None:
            return False
        self._list(self.leaves[key])
        return one in self.leaves[key]

    def upsert(self, one: int, size: int) -> None:
        self.bill.add("lease", count=2)  # of the root and of the leaf, and both are given back
        key = self._leaf(one)
        if key is None:
            key = one >> 22
            self.keys, self.leaves[key] = [key], []
        leaf = self.leaves[key]
        self._list(leaf)
        self.bill.add("put block", up=size)
        if len(leaf) < self.capacity:
            insort(leaf, one)
            self.bill.add("put list", up=ID_UP * len(leaf))
            self._rename(key, leaf[0] >> 22)
        else:
            self.bill.add("put blob")
            self.bill.add("put list", up=ID_UP)
            self.leaves.setdefault(one >> 22, []).append(one)
            if one >> 22 not in self.keys:
                insort(self.keys, one >> 22)
            self._index()
        self.bill.add("release", count=2)

    def _rename(self, key: int, new: int) -> None:
        """The index follows the lowest id of a leaf, after every message."""
        if new != key:
            self.keys.remove(key)
            insort(self.keys, new)
            self.leaves[new] = self.leaves.pop(key)
        self._index()

    def _index(self) -> None:
        self._list(self.keys)
        self.bill.add("put block", up=80)
        self.bill.add("put list", up=ID_UP * len(self.keys))


def one_blob_each(pages: list[list[Raw]]) -> tuple[Bill, float]:
    bill = Bill()
    for page in pages:
        for raw in page:
            bill.add("put blob", up=len(Message.of(raw).line) + 1)
    return bill, 1.0


def append_blob(pages: list[list[Raw]]) -> tuple[Bill, float]:
    """Cheapest of all, and nothing in it can be edited, deleted, found by its number or moved to another tier."""
    bill = Bill()
    for page in pages:
        bill.add("append", up=sum(len(Message.of(raw).line) + 1 for raw in page))
    return bill, 1.0


def sqlite_file(pages: list[list[Raw]], folder: Path, pages_per_run: int = 50) -> tuple[Bill, float]:
    """One file, put back whole after each run of so many pages."""
    bill, path = Bill(), folder / "channel.db"
    db = apsw.Connection(str(path))
    db.execute("create table message (id integer primary key, line blob)")
    for number, page in enumerate(pages):
        with db:
            db.executemany("insert into message values (?, ?)", [(int(r["id"]), Message.of(r).line) for r in page])
        if (number + 1) % pages_per_run == 0 or number + 1 == len(pages):
            bill.add("put blob", up=path.stat().st_size)
    db.close()
    return bill, 1.0


# --- Saying so ---


def make_pages(number: int) -> Iterator[list[Raw]]:
    world = World()
    channel = world.add(TEXT, "bench", number)
    for start in range(0, number, PAGE):
        yield [raw for n in range(start, start + PAGE) if (raw := world.message(channel, n))]


def costs(number: int) -> bool:
    pages = list(make_pages(number))
    size = sum(len(Message.of(raw).line) + 1 for page in pages for raw in page) / number
    small = pages[: max(3, len(pages) // 10)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows: dict[str, tuple[Bill, float, int]] = {
            "ours": (*ours(pages, place / "one", Settings()), number),
            "ours, a page a block": (*ours(pages, place / "packed", Settings(packing=PAGE)), number),
            "as first written": (*as_written(small, 50), sum(map(len, small))),
            "one blob each": (*one_blob_each(pages), number),
            "append blob": (*append_blob(pages), number),
            "SQLite file": (*sqlite_file(pages, place), number),
        }
        searched = searches(place / "one", pages)
    print(f"  {number:,} messages of {size:.0f} bytes; for each of them:")
    print(f"  {'':22}{'put block':>10}{'put list':>10}{'all calls':>10}{'bytes up':>10}{'found':>8}")
    for name, (bill, found, count) in rows.items():
        calls = bill.calls
        figures = f"{calls['put block'] / count:10.3f}{calls['put list'] / count:10.3f}{calls.total() / count:10.3f}"
        print(f"  {name:22}{figures}{bill.up / count:10.0f}{found:8.0%}")
    mine, written = rows["ours"][0], rows["as first written"]
    seed = written[0].calls.total() / written[2]
    good = [
        result("cost.put-block", mine.calls["put block"] / number, written[0].calls["put block"] / written[2], 1.1),
        result("cost.commits", mine.calls["put list"] / number, written[0].calls["put list"] / written[2], 0.02),
        result("cost.calls", mine.calls.total() / number, seed, 1.2),
        result("cost.bytes-per-byte", mine.up / number / size, written[0].up / written[2] / size, 3.0),
        result("cost.warm-search-calls", searched, 4.0, 1.0),
    ]
    return all(good)


def searches(folder: Path, pages: list[list[Raw]]) -> float:
    """Reads for a search once the lists are known."""
    bill = Bill()
    table = Table(Counted(Files(folder), bill), CHANNEL)
    wanted = [int(raw["id"]) for page in pages for raw in page[::50]]
    for one in wanted:
        table.search(one)
    bill.calls.clear()
    for one in wanted:
        table.search(one)
    return bill.calls.total() / len(wanted)


def result(name: str, ours: float, peer: float, target: float) -> bool:
    good = ours <= target
    print(
        f"RESULT name={name} ours={ours:.4g} peer={peer:.4g} ratio={ours / peer:.2f} target={target:g} "
        f"{'ok' if good else 'short'}"
    )
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    sys.exit(0 if costs(parser.parse_args().messages) else 1)
