"""The table of messages: search, ranges, versions, deletions, repair, and what each costs the store."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from channels.conftest import UNHURRIED, Clock
from channels.faults import Crash, Faulty
from channels.memory import Memory
from channels.orders import ORDERS, message, message_id, pages
from custody.channels import snowflake
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs, Facts, NoBlob, Properties
from custody.channels.table import Settings, Table
from custody.channels.table.node import Lines, listed, route
from custody.errors import Unavailable, Unsafe

SMALL = Settings(capacity=4, fanout=4)
CHANNEL = 7


def contents(table: Table) -> list[str]:
    return [found.message["content"] for found in table.between()]


class Counting:
    """A store that counts its calls, and the blocks and bytes that were staged."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.blobs, name)

        def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name == "stage":
                blocks = list(args[1])
                self.calls["blocks staged"] += len(blocks)
                self.calls["bytes staged"] += sum(len(data) for _, data in blocks)
                args = (args[0], blocks, *args[2:])
            if name == "commit":
                self.calls["ids listed"] += len(args[1])
            return method(*args, **named)

        return call


# --- Finding again ---


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("capacity", [4, 16, 1000])
def test_every_message_is_found_by_search_and_by_range(memory_folder: Path, order: str, capacity: int) -> None:
    write_and_find(Files(memory_folder), order, capacity)


def test_every_message_is_found_on_every_store(blobs: Blobs) -> None:
    write_and_find(blobs, "watch cycles", 8)


def write_and_find(blobs: Blobs, order: str, capacity: int) -> None:
    number = 60
    table = Table(blobs, CHANNEL, Settings(capacity=capacity, fanout=4))
    for page in pages(order, number, 25, per_ms=3):
        table.upsert(page)
    again = Table(blobs, CHANNEL)
    assert [found.message for found in again.between()] == [message(n, 3) for n in range(number)]
    for n in range(number):
        found = again.search(message_id(n, 3))
        assert found is not None
        assert found.message == message(n, 3)
    for absent in (
        0,
        message_id(0) - 1,
        message_id(number // 3, 1) + 17,
        message_id(number),
        snowflake.HIGHEST,
    ):
        assert again.search(absent) is None
    assert again.check() == []


def test_an_index_of_three_levels_is_still_searched(clock: Clock) -> None:
    store = Memory(clock)
    table = Table(store, CHANNEL, SMALL)
    for page in pages("random", 300, 20):
        table.upsert(page)
    nodes = [blob.name for blob in store.list("ch/7/node/")]
    levels, name = 0, "ch/7/index.jsonl"
    while "/leaf/" not in name:
        levels += 1
        name = "ch/7/" + json.loads(store.read(name).data.splitlines()[-1])["blob"]
    assert levels >= 3
    assert len(nodes) > 16
    assert contents(Table(store, CHANNEL, SMALL)) == [f"message {n}" for n in range(300)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [("00", 0), ("04", 0), ("05", 1), ("06", 1), ("09", 2), ("99", 2)],
)
def test_an_id_belongs_to_the_largest_fence_at_or_below_it(key: str, expected: int) -> None:
    assert route(("00", "05", "09"), key) == expected


def test_a_channel_without_a_table_is_empty(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL)
    assert table.search(1) is None
    assert list(table.between()) == []
    assert (table.mark, table.delete([1]), table.check()) == ("", 0, [])


def test_a_thread_with_the_id_of_its_first_message_is_another_table(blobs: Blobs) -> None:
    parent, thread = Table(blobs, 1), Table(blobs, message_id(0))
    parent.upsert([message(0)])
    thread.upsert([message(1)])
    assert (contents(parent), contents(thread)) == (["message 0"], ["message 1"])


def test_messages_are_found_by_the_time_they_were_made(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL, SMALL)
    table.upsert([message(n, 3) for n in range(30)])
    since = snowflake.time_of(message_id(6, 3))
    hits = list(table.during(since, since + timedelta(milliseconds=2)))
    assert [found.message["content"] for found in hits] == [f"message {n}" for n in range(6, 12)]


@pytest.mark.parametrize("packing", [1, 5])
@pytest.mark.parametrize(("first", "end"), [(0, 30), (7, 8), (5, 5), (0, 1), (29, 99), (3, 27)])
def test_a_range_has_its_first_and_not_its_end(clock: Clock, packing: int, first: int, end: int) -> None:
    table = Table(Memory(clock), CHANNEL, Settings(capacity=4, fanout=4, packing=packing))
    table.upsert([message(n) for n in range(30)])
    found = [one.id for one in table.between(message_id(first), message_id(end))]
    assert found == [message_id(n) for n in range(first, min(end, 30))]


# --- As it was ---


def test_a_leaf_is_a_file_of_json_lines(files: Files) -> None:
    table = Table(files, CHANNEL)
    raw = {
        "type": 99,
        "content": "naïve\nline 日本",
        "new_field": {"deep": [1, 2.5, None]},
        "id": str(message_id(1)),
    }
    table.upsert([message(2), raw, message(0)])
    [leaf] = (files.root / "ch/7/leaf").glob("*.jsonl")
    lines = [json.loads(line) for line in leaf.read_text().splitlines()]
    assert lines == [message(0), raw, message(2)]


def test_the_index_is_a_file_of_json_lines_that_say_where_each_range_is(files: Files) -> None:
    table = Table(files, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(12)])
    entries = [json.loads(line) for line in files.read("ch/7/index.jsonl").data.splitlines()]
    assert [entry["fence"] for entry in entries] == [
        "00000000000000000000",
        snowflake.block_id(message_id(4)),
        snowflake.block_id(message_id(8)),
    ]
    for entry in entries:
        blocks = files.blocks("ch/7/" + entry["blob"]).ids
        assert len(blocks) == 4
        assert all(block[:20] >= entry["fence"] for block in blocks)


def test_every_version_of_an_edited_message_is_kept(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(10)])
    for text in ("second", "third", "third"):
        table.upsert([message(3) | {"content": text}])
    table.upsert([message(3)])  # an old version comes by once more
    found = table.search(message_id(3))
    assert found is not None
    assert [json.loads(line)["content"] for line in found.versions] == ["message 3", "second", "third"]
    assert found.message["content"] == "third"
    assert len(contents(table)) == 10


def test_what_counts_as_a_new_version_is_a_setting(clock: Clock) -> None:
    def edited(lines: Lines, line: bytes) -> Lines:
        known = [json.loads(one)["edited_timestamp"] for one in lines]
        return lines if json.loads(line)["edited_timestamp"] in known else (*lines, line)

    table = Table(Memory(clock), CHANNEL, Settings(merge=edited))
    table.upsert([message(0) | {"url": "?ex=1"}])
    table.upsert([message(0) | {"url": "?ex=2"}])
    table.upsert([message(0) | {"url": "?ex=3", "edited_timestamp": "2026"}])
    found = table.search(message_id(0))
    assert found is not None
    assert [json.loads(line)["url"] for line in found.versions] == ["?ex=1", "?ex=3"]


@pytest.mark.parametrize("packing", [1, 3])
def test_a_table_may_keep_one_line_of_each_joined_whatever_the_order(clock: Clock, packing: int) -> None:
    def highest(lines: Lines, line: bytes) -> Lines:
        return (max(lines[-1], line, key=lambda one: json.loads(one)["n"]),)

    blobs = Counting(Memory(clock))
    table = Table(blobs, CHANNEL, Settings(capacity=4, packing=packing, merge=highest))
    rows = [{"id": str(message_id(n)), "n": n} for n in range(20)]
    table.upsert(rows)
    table.upsert([row | {"n": 100} for row in rows[3:9]])
    blobs.calls.clear()
    table.upsert([row | {"n": 50} for row in rows[3:9]])  # a late writer changes nothing
    assert not blobs.calls["stage"] + blobs.calls["commit"]
    found = list(table.between())
    assert [one.message["n"] for one in found] == [100 if 3 <= n < 9 else n for n in range(20)]
    assert all(len(one.versions) == 1 for one in found)
    assert table.check() == []


def test_what_came_without_its_content_is_kept_only_where_there_is_nothing(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL)
    table.upsert([message(0)])
    veils = [message(n) | {"content": ""} for n in (0, 1)]
    table.upsert(veils, veiled={message_id(0), message_id(1)})
    assert contents(table) == ["message 0", ""]


# --- Deleting ---


@pytest.mark.parametrize("packing", [1, 3])
def test_a_deleted_message_is_gone_with_all_its_versions(blobs: Blobs, packing: int) -> None:
    table = Table(blobs, CHANNEL, Settings(capacity=4, fanout=4, packing=packing))
    table.upsert([message(n) for n in range(20)])
    table.upsert([message(5) | {"content": "edited"}])
    victims = [message_id(n) for n in (0, 5, 6, 7, 8, 19)]
    assert table.delete([*victims, message_id(50)]) == 6
    assert table.delete(victims) == 0
    assert [table.search(one) for one in victims] == [None] * 6
    assert contents(table) == [f"message {n}" for n in range(20) if message_id(n) not in victims]
    table.upsert([message(5)])
    assert table.search(message_id(5)) is not None
    assert table.check() == []


@pytest.mark.parametrize("packing", [1, 3])
def test_a_tombstone_keeps_the_date_and_nothing_else(blobs: Blobs, packing: int) -> None:
    table = Table(blobs, CHANNEL, Settings(capacity=4, fanout=4, packing=packing))
    table.upsert([message(n) for n in range(10)])
    assert table.delete([message_id(4), message_id(50)], deleted_at="2026-03-01") == 1
    assert table.delete([message_id(4)], deleted_at="2026-03-02") == 0
    found = table.search(message_id(4))
    assert found is not None
    assert (found.deleted_at, found.versions) == ("2026-03-01", ())
    assert table.search(message_id(50)) is None
    assert sum(bool(one.deleted_at) for one in table.between()) == 1
    table.upsert([message(4)])
    found = table.search(message_id(4))
    assert found is not None
    assert (found.deleted_at, found.message) == ("", message(4))


def test_a_leaf_that_is_emptied_keeps_its_place(clock: Clock) -> None:
    table = Table(Memory(clock), CHANNEL, SMALL)
    table.upsert([message(n) for n in range(12)])
    table.delete([message_id(n) for n in range(12)])
    assert contents(table) == []
    table.upsert([message(n) for n in range(12)])
    assert len(contents(table)) == 12
    assert table.check() == []


def test_a_channel_is_removed_piece_by_piece_from_our_own_side(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(40)])
    Table(blobs, 77, SMALL).upsert([message(1)])
    turns = 0
    while table.remove_some(most=3):
        turns += 1
        assert list(Table(blobs, CHANNEL, SMALL).between()) == []
    assert turns >= 3
    assert list(blobs.list("ch/7/")) == []
    assert contents(Table(blobs, 77)) == ["message 1"]


# --- The mark ---


def test_the_mark_comes_with_the_page(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL, SMALL)
    for turn, page in enumerate(pages("oldest first", 30, 5)):
        table.upsert(page, f"after {turn}")
        assert Table(blobs, CHANNEL, SMALL).mark == table.mark == f"after {turn}"
    table.upsert([message(2) | {"content": "edited"}])
    table.delete([message_id(29)])
    assert Table(blobs, CHANNEL, SMALL).mark == "after 5"
    table.upsert([], "only a mark")
    table.upsert([message(1) | {"content": "older"}], "and with an older page")
    assert Table(blobs, CHANNEL, SMALL).mark == "and with an older page"


@pytest.mark.parametrize("order", ORDERS)
def test_the_mark_survives_splits(clock: Clock, order: str) -> None:
    table = Table(Memory(clock), CHANNEL, SMALL)
    for turn, page in enumerate(pages(order, 60, 5)):
        table.upsert(page, f"page {turn}")
        assert table.mark == f"page {turn}"
    table.upsert([message(n) for n in range(60, 70)])
    assert table.mark == "page 11"


# --- What it costs ---


def test_a_warm_search_is_one_ranged_read_and_a_miss_is_one_look(clock: Clock) -> None:
    counting = Counting(Memory(clock))
    table = Table(counting, CHANNEL, Settings(capacity=50))  # type: ignore[arg-type]
    table.upsert([message(2 * n) for n in range(500)])
    reader = Table(counting, CHANNEL, Settings(capacity=50))  # type: ignore[arg-type]
    list(reader.between())
    counting.calls.clear()
    for n in range(0, 500, 7):
        assert reader.search(message_id(2 * n)) is not None
    assert counting.calls == {"read": 72}
    counting.calls.clear()
    for n in range(0, 500, 7):
        assert reader.search(message_id(2 * n + 1)) is None
    assert counting.calls == {"head": 72}


def test_a_crawl_forward_costs_one_block_a_message_and_one_commit_a_page(clock: Clock) -> None:
    counting = Counting(Memory(clock))
    table = Table(counting, CHANNEL)  # type: ignore[arg-type]
    number, size = 20_000, 0
    for turn, page in enumerate(pages("oldest first", number, 100)):
        table.upsert(page, str(turn))
        size += sum(len(json.dumps(raw)) for raw in page)
    assert counting.calls["blocks staged"] <= 1.1 * number
    assert counting.calls["commit"] <= 0.02 * number
    assert counting.calls["read"] + counting.calls["head"] + counting.calls["blocks"] <= 0.01 * number


def test_packing_makes_one_block_of_a_page(clock: Clock) -> None:
    counting = Counting(Memory(clock))
    table = Table(counting, CHANNEL, Settings(packing=100))  # type: ignore[arg-type]
    for page in pages("oldest first", 3000, 100):
        table.upsert(page)
    assert counting.calls["blocks staged"] <= 35
    assert len(contents(table)) == 3000
    assert table.check() == []


def test_writing_a_page_again_writes_nothing(clock: Clock) -> None:
    counting = Counting(Memory(clock))
    table = Table(counting, CHANNEL, SMALL)  # type: ignore[arg-type]
    table.upsert([message(n) for n in range(20)], "x")
    counting.calls.clear()
    Table(counting, CHANNEL, SMALL).upsert([message(n) for n in range(20)], "x")  # type: ignore[arg-type]
    assert counting.calls["commit"] == counting.calls["stage"] == 0


def test_bytes_written_are_less_than_three_times_the_messages(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    from custody.channels.blobs import durable

    written = 0
    real = durable.os.pwrite

    def count(handle: int, data: bytes, offset: int) -> int:
        nonlocal written
        written += len(data)
        return real(handle, data, offset)

    monkeypatch.setattr(durable.os, "pwrite", count)
    table = Table(files, CHANNEL)
    size = 0
    for page in pages("oldest first", 3000, 100):
        page = [raw | {"content": "x" * 400} for raw in page]
        table.upsert(page)
        size += sum(len(json.dumps(raw, separators=(",", ":"))) + 1 for raw in page)
    assert written < 3 * size


@pytest.mark.parametrize("bad", [{"capacity": 1}, {"capacity": 50_001}, {"fanout": 50_001}, {"packing": 0}])
def test_a_setting_that_no_store_could_hold_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(Unsafe):
        Settings(**bad)  # type: ignore[arg-type]


def test_a_page_larger_than_a_leaf_and_its_index_is_spread(clock: Clock) -> None:
    store = Memory(clock)
    table = Table(store, CHANNEL, Settings(capacity=2, fanout=2))
    table.upsert([message(n) for n in range(100)])
    assert len(contents(table)) == 100
    assert max(len(store.blocks(blob.name).ids) for blob in store.list("ch/7/")) <= 2


def test_capacity_and_packing_may_be_changed_later(clock: Clock) -> None:
    store = Memory(clock)
    batches = pages("random", 200, 20)
    changes = [
        Settings(capacity=8, fanout=4),
        Settings(capacity=4, fanout=3, packing=5),
        Settings(capacity=6, packing=2),
    ]
    for turn, page in enumerate(batches):
        Table(store, CHANNEL, changes[turn % 3]).upsert(page)
    for table in (Table(store, CHANNEL, one) for one in changes):
        assert contents(table) == [f"message {n}" for n in range(200)]
        assert table.check() == []


# --- Tiers and tags ---


def leaves(blobs: Blobs) -> list[Properties]:
    return list(blobs.list("ch/7/leaf/"))


def test_an_edit_leaves_a_cooled_leaf_where_it_is(blobs: Blobs) -> None:
    table = Table(blobs, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(12)])
    old = leaves(blobs)[0]
    blobs.set_tier(old.name, "Cool")
    table.upsert([message(1) | {"content": "edited"}])
    found = blobs.head(old.name)
    assert found is not None
    assert (found.facts.tier, found.etag == old.etag) == ("Cool", False)
    assert found.facts.tags == {"kind": "leaf", "parent": "index.jsonl"}


def test_indexes_and_the_last_leaf_stay_hot(clock: Clock) -> None:
    store = Memory(clock)
    table = Table(store, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(40)])
    hot = [blob.name for blob in store.list("ch/7/") if table.must_stay_hot(blob.name)]
    names = [blob.name for blob in store.list("ch/7/")]
    assert [name for name in hot if "/leaf/" in name] == [max(name for name in names if "/leaf/" in name)]
    assert [name for name in names if "/leaf/" not in name] == [name for name in hot if "/leaf/" not in name]


# --- Sweeping and mending ---


def test_the_sweep_removes_orphans_that_are_old_and_nothing_else(clock: Clock) -> None:
    store = Memory(clock)
    table = Table(store, CHANNEL, SMALL)
    for page in pages("random", 40, 10):
        for at in range(3, 30, 4):
            faulty = Faulty(store, at, "crash-before", {"commit"})
            try:
                Table(faulty, CHANNEL, SMALL).upsert(page)  # type: ignore[arg-type]
            except Crash:
                pass
        table.upsert(page)
    orphans = {finding.where for finding in table.check() if finding.code == "orphan"}
    assert len(orphans) > 3
    assert table.sweep(clock.now - timedelta(hours=1)) == []
    clock.advance(hours=2)
    assert set(table.sweep(clock.now - timedelta(hours=1))) == orphans
    assert table.check() == []
    assert len(contents(Table(store, CHANNEL))) == 40


def test_the_sweep_leaves_a_table_alone_whose_index_is_lost(clock: Clock) -> None:
    store = Memory(clock)
    table = Table(store, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(40)])
    store.delete("ch/7/index.jsonl")
    clock.advance(days=1)
    assert Table(store, CHANNEL, SMALL).sweep(clock.now) == []
    assert len(leaves(store)) == 10


def planted(clock: Clock, number: int = 60) -> tuple[Memory, Table]:
    store = Memory(clock)
    table = Table(store, CHANNEL, SMALL)
    table.upsert([message(n) for n in range(number)], "mark")
    return store, table


def rewrite(store: Memory, name: str, lines: list[bytes], kind: str = "x") -> None:
    ids = [f"{n:029d}" for n in range(len(lines))]
    store.stage(name, list(zip(ids, lines, strict=True)))
    store.commit(name, ids, Facts({"kind": kind}))


def lose_root(store: Memory) -> None:
    store.delete("ch/7/index.jsonl")


def spoil_root(store: Memory) -> None:
    rewrite(store, "ch/7/index.jsonl", [b"not an index\n"])


def lose_node(store: Memory) -> None:
    store.delete([blob.name for blob in store.list("ch/7/node/")][1])


def spoil_node(store: Memory) -> None:
    rewrite(store, next(store.list("ch/7/node/")).name, [b"{}\n"])


def shuffle_root(store: Memory) -> None:
    lines = store.read("ch/7/index.jsonl").data.splitlines(keepends=True)
    rewrite(store, "ch/7/index.jsonl", lines[::-1], "index")  # as of a version that knew no sum of it


def put_astray(store: Memory) -> None:
    """Messages in a leaf that is not theirs, as an overtaken writer without seals would have put them."""
    name = leaves(store)[2].name
    strays = Memory(store.clock)
    Table(strays, CHANNEL).upsert([message(n) for n in (1, 70)])
    other = leaves(strays)[0].name
    found, data = strays.blocks(other), strays.read(other).data
    store.stage(name, [(found.ids[0], data[: found.sizes[0]]), (found.ids[1], data[found.sizes[0] :])])
    ids = (*store.blocks(name).ids, *found.ids)
    store.commit(name, ids, Facts({"kind": "leaf", "turn": "99", "blocks": listed(ids)}))


def seal(store: Memory) -> None:
    name = leaves(store)[3].name
    ids = store.blocks(name).ids
    store.commit(name, ids, Facts({"kind": "leaf", "moved": "1", "turn": "99", "blocks": listed(ids)}))


DAMAGES = {
    "the index is lost": (lose_root, "index.missing"),
    "the index cannot be read": (spoil_root, "index.missing"),
    "an inner index is lost": (lose_node, "child.missing"),
    "an inner index cannot be read": (spoil_node, "child.missing"),
    "fences are out of order": (shuffle_root, "index.order"),
    "messages are astray": (put_astray, "leaf.outside"),
    "a split was not finished": (seal, "split.unfinished"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_found_and_mended_without_losing_a_message(what: str, clock: Clock) -> None:
    store, _ = planted(clock)
    harm, code = DAMAGES[what]
    harm(store)
    table = Table(store, CHANNEL, SMALL)
    assert code in {finding.code for finding in table.check()}
    left = table.repair()
    assert {finding.code for finding in left} <= {"orphan"}
    assert {f"message {n}" for n in range(60)} <= set(contents(Table(store, CHANNEL, SMALL)))
    assert table.repair() == left
    clock.advance(days=1)
    table.sweep(clock.now)
    assert table.check() == []


def test_a_lost_leaf_is_reported_and_the_rest_works_again(clock: Clock) -> None:
    store, _ = planted(clock)
    lost = leaves(store)[0].name
    store.delete(lost)
    table = Table(store, CHANNEL, SMALL)
    with pytest.raises(Unavailable) as caught:
        table.search(message_id(0))
    assert (caught.value.code, caught.value.where) == ("table.damaged", lost)
    assert {finding.code for finding in table.check()} == {"child.missing"}
    assert table.repair() == []
    assert contents(table) == [f"message {n}" for n in range(4, 60)]
    table.upsert([message(n) for n in range(4)])
    assert len(contents(table)) == 60


def test_a_block_whose_bytes_have_changed_is_reported(clock: Clock) -> None:
    store, table = planted(clock, 10)
    leaf = leaves(store)[1].name
    store.stage(leaf, [(store.blocks(leaf).ids[2], b'{"id":"%d","content":"forged"}\n' % message_id(6))])
    store.commit(leaf, store.blocks(leaf).ids, leaves(store)[1].facts)
    [finding] = table.check()
    assert (finding.code, finding.where, finding.detail[:20]) == (
        "block.damaged",
        leaf,
        snowflake.block_id(message_id(6)),
    )


# --- Anything, in any order ---


class Anything(RuleBasedStateMachine):
    """Two writers and a reader that keep their memories, against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Memory(Clock())
        options = Settings(capacity=3, fanout=3, packing=2)
        self.tables = [Table(self.store, CHANNEL, SMALL), Table(self.store, CHANNEL, options)]
        self.reader = Table(self.store, CHANNEL)
        self.model: dict[int, list[str]] = {}

    numbers = st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True)

    @rule(who=st.integers(0, 1), numbers=numbers, text=st.sampled_from("abc"))
    def write(self, who: int, numbers: list[int], text: str) -> None:
        self.tables[who].upsert([message(n, 4) | {"content": text} for n in numbers], text)
        for n in numbers:
            versions = self.model.setdefault(message_id(n, 4), [])
            if text not in versions:
                versions.append(text)

    @rule(who=st.integers(0, 1), numbers=numbers)
    def delete(self, who: int, numbers: list[int]) -> None:
        victims = [message_id(n, 4) for n in numbers]
        there = [one for one in victims if self.model.pop(one, None)]
        assert self.tables[who].delete(victims) == len(there)

    @rule(
        at=st.integers(0, 12),
        how=st.sampled_from(["crash-before", "crash-after", "lost-answer"]),
        numbers=numbers,
    )
    def crash(self, at: int, how: str, numbers: list[int]) -> None:
        fresh = [n for n in numbers if message_id(n, 4) not in self.model]
        page = [message(n, 4) | {"content": "a"} for n in fresh]
        faulty = Faulty(self.store, at, how, {"stage", "commit", "delete"})
        try:
            Table(faulty, CHANNEL, SMALL).upsert(page)  # type: ignore[arg-type]
        except Crash:
            self.tables[0].upsert(page)
        for n in fresh:
            self.model[message_id(n, 4)] = ["a"]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def search(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.model)))
        found = self.reader.search(one)
        assert found is not None
        assert [json.loads(line)["content"] for line in found.versions] == self.model[one]

    @rule()
    def sweep(self) -> None:
        self.tables[0].sweep(self.store.clock() + timedelta(days=1))

    @invariant()
    def all_are_there_once(self) -> None:
        found = {one.id: [json.loads(line)["content"] for line in one.versions] for one in self.reader.between()}
        assert list(found) == sorted(self.model)
        assert found == self.model
        assert {finding.code for finding in self.reader.check()} <= {"orphan", "split.unfinished"}


TestAnything = Anything.TestCase
TestAnything.settings = settings(UNHURRIED, max_examples=60, stateful_step_count=20)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=40, unique=True), st.sampled_from([2, 3, 5]))
@settings(UNHURRIED, max_examples=80)
def test_ids_of_any_size_in_any_order_are_found(ids: list[int], capacity: int) -> None:
    table = Table(Memory(Clock()), CHANNEL, Settings(capacity=capacity, fanout=3))
    for start in range(0, len(ids), 4):
        table.upsert([{"id": str(one), "n": one} for one in ids[start : start + 4]])
    assert [found.id for found in table.between()] == sorted(ids)
    for one in ids:
        found = table.search(one)
        assert found is not None
        assert found.message["n"] == one


def test_a_writer_with_an_old_memory_writes_what_was_deleted_since(clock: Clock) -> None:
    store, table = planted(clock)
    Table(store, CHANNEL, SMALL).delete([message_id(n) for n in (1, 59)])
    table.upsert([message(1)])
    table.upsert([message(59)])
    assert len(contents(Table(store, CHANNEL, SMALL))) == 60


def test_a_reader_with_an_old_memory_sees_what_was_written_since(clock: Clock) -> None:
    store, table = planted(clock, 3)
    reader = Table(store, CHANNEL, SMALL)
    assert list(reader.between(message_id(10), message_id(20))) == []
    table.upsert([message(12)])
    assert [one.id for one in reader.between(message_id(10), message_id(20))] == [message_id(12)]
    table.upsert([message(n) for n in range(13, 30)])
    assert len(list(reader.between(message_id(10), message_id(20)))) == 8
    assert reader.search(message_id(29)) is not None


def test_a_reader_with_an_old_memory_notices_a_removed_table(clock: Clock) -> None:
    store, table = planted(clock)
    reader = Table(store, CHANNEL, SMALL)
    list(reader.between())
    while table.remove_some():
        pass
    assert reader.search(message_id(1)) is None
    with pytest.raises(NoBlob):
        store.head("ch/7/index.jsonl")
