"""How fast a channel is written to and searched in.

    python -m bench.channels [--quick] [--messages N] [--folder DIR] [--connection STRING]

Messages come from the stand-in's generator, made before the clock starts. The peer of an append is the least
that a disk must do for the same bytes: a synced write for the content and one for its list. 20,000 messages
a second are 0.3 of that peer on an idle machine; the ratio is what is judged, as a busy machine slows both.
What a message costs in operations and bytes is counted by `channel_costs`.
The same pages go through the bare SDK and through us in turns, to an Azurite of our own or to a given account.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench.channel_costs import costs
from bench.server import azurite
from custody.channels.blobs.local import Files
from custody.channels.table import Settings, Table
from custody.channels.table.node import Message
from custody.demo.standins.discord_guild import TEXT, World

CHANNEL = 7
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument(
        "--connection", default="", help="of an Azure storage account; without it an Azurite is started"
    )
    asked = parser.parse_args()
    number = asked.messages or (100_000 if asked.quick else 1_000_000)
    pages = list(make_pages(min(number, 20_000)))
    good = [appends(asked.folder, pages, packing) for packing in (1, 100)]
    good.append(searches(asked.folder, number))
    good.append(costs(5_000 if asked.quick else 20_000))
    with nullcontext(asked.connection) if asked.connection else azurite_address() as connection:
        good.append(on_azure(connection, pages[:30]))
    return 0 if all(good) else 1


@contextmanager
def azurite_address() -> Iterator[str]:
    with azurite() as server:
        yield server.connection_string


def make_pages(number: int, size: int = 100) -> Iterator[list[dict[str, Any]]]:
    world = World()
    channel = world.add(TEXT, "bench", number)
    for start in range(0, number, size):
        yield [raw for n in range(start, start + size) if (raw := world.message(channel, n))]


# --- Appending ---


def appends(folder: Path | None, pages: list[list[dict[str, Any]]], packing: int) -> bool:
    ours, floor = [], []
    for _ in range(ROUNDS):
        with scratch(folder) as place:
            table = Table(Files(place), CHANNEL, Settings(packing=packing))
            ours.append(rate(pages, table.upsert))
        with scratch(folder) as place:
            floor.append(rate(pages, bare_appends(place)))
    return result(f"append.files.packing-{packing}", statistics.median(ours), statistics.median(floor), 0.3)


def bare_appends(place: Path) -> Callable[[list[dict[str, Any]]], None]:
    content = os.open(place / "content", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    listing = os.open(place / "list", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(page: list[dict[str, Any]]) -> None:
        messages = [Message.of(raw) for raw in page]
        os.write(content, b"".join(message.line + b"\n" for message in messages))
        os.fdatasync(content)
        os.write(listing, "\n".join(message.key for message in messages).encode())
        os.fdatasync(listing)

    return write


def rate(pages: list[list[dict[str, Any]]], write: Callable[[list[dict[str, Any]]], object]) -> float:
    began = time.perf_counter()
    for page in pages:
        write(page)
    return sum(map(len, pages)) / (time.perf_counter() - began)


# --- Searching ---


def searches(folder: Path | None, number: int) -> bool:
    world = World()
    channel = world.add(TEXT, "bench", number)
    wanted = [world.message_id(channel, n) for n in range(0, number, max(1, number // 20_000))]
    random.Random(1).shuffle(wanted)
    with scratch(folder) as place:
        writer, began = Table(Files(place), CHANNEL), time.perf_counter()
        for page in make_pages(number):
            writer.upsert(page)
        print(f"  {number:,} messages made and written in {time.perf_counter() - began:.0f} s")
        table = Table(Files(place), CHANNEL)
        cold = [timed(table, one) for one in wanted[:200]]
        print(f"  cold search p50 {statistics.median(cold) * 1000:.2f} ms, worst {max(cold) * 1000:.2f} ms")
        for one in wanted:
            table.search(one)
        warm = sorted(timed(table, one) for one in wanted)
    p50, p99 = warm[len(warm) // 2] * 1000, warm[len(warm) * 99 // 100] * 1000
    print(f"  warm search p50 {p50:.3f} ms, p99 {p99:.3f} ms over {len(warm)} searches")
    return result(f"search.files.{number}.p99-ms", p99, p50, 5, at_most=True)


def timed(table: Table, one: int) -> float:
    began = time.perf_counter()
    found = table.search(one)
    took = time.perf_counter() - began
    assert found is not None
    return took


# --- Azure ---


def on_azure(connection: str, pages: list[list[dict[str, Any]]]) -> bool:
    from custody.channels.blobs.azure import Azure

    ours, bare = [], []
    for turn in range(ROUNDS):
        blobs = Azure.connect(connection, f"bench{os.getpid()}x{turn}")
        table = Table(blobs, CHANNEL)
        table.upsert(pages[0])
        ours.append(rate(pages[1:], table.upsert))
        bare.append(rate(pages[1:], bare_sdk(blobs)))
        blobs._container.delete_container()
        blobs.close()
    return result("append.azure", statistics.median(ours), statistics.median(bare), 0.8)


def bare_sdk(blobs: Any) -> Callable[[list[dict[str, Any]]], None]:
    """The same calls without us: a hundred blocks side by side, and one list."""
    client, ids, pool = blobs._container.get_blob_client("bare"), list[str](), ThreadPoolExecutor(8)

    def write(page: list[dict[str, Any]]) -> None:
        messages = [Message.of(raw) for raw in page]
        blocks = [(f"{message.key}-00000000", message.line + b"\n") for message in messages]
        list(pool.map(lambda block: client.stage_block(block[0], block[1], length=len(block[1])), blocks))
        ids.extend(one for one, _ in blocks)
        if len(ids) > 1000:
            del ids[:900]
        client.commit_block_list(ids)

    return write


# --- Saying so ---


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=folder))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def result(name: str, ours: float, peer: float, target: float, at_most: bool = False) -> bool:
    """A rate is judged by its ratio to the peer, a time by itself."""
    ratio = ours / peer
    good = ours <= target if at_most else ratio >= target
    figures = f"ours={ours:.4g} peer={peer:.4g} ratio={ratio:.2f} target={target:g}"
    print(f"RESULT name={name} {figures} {'ok' if good else 'short'}")
    return good


if __name__ == "__main__":
    sys.exit(main())
