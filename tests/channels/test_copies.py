"""What a reply brings along of the message it replies to: it is not kept, and an erasure leaves it nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from custody.channels.crawl import trust
from custody.channels.crawl.kept import Live
from custody.channels.export import write_html, write_jsonl, write_sqlite
from custody.channels.jobs import sync_job
from custody.channels.messages import copies
from custody.channels.messages.reader import Reader

SECRET = "SECRETWORD about somebody"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path, count=60) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.mirror = replace(desk.mirror, deleted="tombstone")
        yield desk


def reply(desk: Desk, message: int, to: int, **more: Any) -> None:
    reference = {"message_id": str(to), "channel_id": str(desk.channel.id)}
    copy = {"id": str(to), "content": SECRET, "channel_id": str(desk.channel.id), "author": {"id": "1"}}
    desk.channel.edited[message] = {"type": 19, "message_reference": reference, "referenced_message": copy, **more}


def bytes_kept(tmp_path: Path) -> list[str]:
    """Files of the archive that have the words in them."""
    files = (path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    return [path.name for path in files if b"SECRETWORD" in path.read_bytes()]


def read_out(desk: Desk, folder: Path) -> str:
    """Everything that people are shown of it, as one text."""
    table = desk.mirror.table(desk.channel.id)
    reader = Reader(table, desk.mirror.seen(desk.channel.id))
    write_jsonl(reader.between(), folder / "a.jsonl")
    write_sqlite(reader.between(), folder / "c.db", desk.channel.id, "general")
    write_html(reader.between(), folder / "d", "general")
    files = [path for path in folder.rglob("*") if path.is_file() and "blobs" not in path.parts]
    said = "".join(path.read_bytes().decode("utf-8", "replace") for path in files)
    return said + "".join(json.dumps(one.message) for row in table.between() if (one := reader.search(row.id)))


def erase(desk: Desk, message: int) -> None:
    """Deleted there, and confirmed some time ago."""
    desk.standin.world.delete(desk.channel, message)
    before = desk.mirror.store.now() - 3 * trust.APART
    marks = [trust.written((at, trust.NO_SUCH, trust.NO_SUCH)) for at in (before, before + trust.APART)]
    desk.mirror.seen(desk.channel.id).upsert([{"id": str(message), "absent": marks}])
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    found = desk.mirror.table(desk.channel.id).search(message)
    assert found
    assert found.deleted_at


def test_a_reply_is_kept_without_a_copy_of_what_it_replies_to(desk: Desk, tmp_path: Path) -> None:
    there = desk.theirs()
    original, answer = there[-9], there[-5]
    reply(desk, answer, original)
    desk.mirror_all()
    assert not bytes_kept(tmp_path)
    found = desk.mirror.table(desk.channel.id).search(answer)
    assert found
    assert found.message["message_reference"]["message_id"] == str(original), "whom it answers is kept"
    raw = Live(desk.mirror, desk.channel.id).message(answer)[1]
    assert raw is not None
    assert "referenced_message" not in raw


def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As archives were written that kept everything as it came."""
    monkeypatch.setattr("custody.channels.crawl.kept.own", lambda raw: raw)


def test_a_copy_that_was_kept_before_is_not_shown_and_goes_with_the_message(desk: Desk, tmp_path: Path) -> None:
    there = desk.theirs()
    original, answer, edited, other = there[-9], there[-5], there[-4], there[-3]
    desk.standin.world.edit(desk.channel, original, desk.clock(), SECRET)
    with pytest.MonkeyPatch.context() as patch:
        as_before(patch)
        reply(desk, answer, original)
        reply(desk, edited, original)
        reply(desk, other, there[-20])
        desk.mirror_all()
        stamp = desk.clock().isoformat(timespec="microseconds")
        desk.channel.edited[edited] |= {"referenced_message": None, "content": "new", "edited_timestamp": stamp}
        desk.store.queue.submit_one(sync_job(desk.channel.id))
        desk.run()
    table = desk.mirror.table(desk.channel.id)
    assert len(bytes_kept(tmp_path)) == 1
    (tmp_path / "out").mkdir()
    assert "referenced_message" not in read_out(desk, tmp_path / "out")
    before = {row.id: len(row.versions) for row in table.between()}
    del desk.channel.edited[other]["referenced_message"]
    for one in (answer, edited):
        desk.channel.edited[one]["referenced_message"] = None
    erase(desk, original)
    left = [line for row in table.between() for line in row.versions if b"SECRETWORD" in line]
    assert [json.loads(line)["id"] for line in left] == [str(other)], "a copy of one that is still there may stay"
    assert {row.id: len(row.versions) for row in table.between()} == before | {original: 0}, "no version is lost"
    erase(desk, there[-20])
    assert not bytes_kept(tmp_path)
    assert not table.check()


def test_the_first_message_of_a_thread_has_a_copy_of_the_one_it_began_at(desk: Desk, tmp_path: Path) -> None:
    world, there = desk.standin.world, desk.theirs()
    thread = world.add_thread(desk.channel, 50, 4)
    assert thread.id == there[50]
    first = world.message_id(thread, 0)
    copy = {"id": str(thread.id), "content": SECRET, "channel_id": str(desk.channel.id)}
    thread.edited[first] = {"referenced_message": copy}
    with pytest.MonkeyPatch.context() as patch:
        as_before(patch)
        desk.mirror_all()
    assert bytes_kept(tmp_path)
    del thread.edited[first]
    erase(desk, thread.id)
    assert not bytes_kept(tmp_path)


@pytest.mark.parametrize(
    ("raw", "plain", "of"),
    [
        ({"id": "1", "content": "a"}, {"id": "1", "content": "a"}, []),
        ({"id": "1", "referenced_message": None}, {"id": "1"}, []),
        ({"id": "1", "referenced_message": {"id": "7"}}, {"id": "1"}, [7]),
        ({"id": "1", "referenced_message": "odd"}, {"id": "1"}, []),
        (
            {"id": "1", "resolved": {"users": {}, "messages": {"7": {"id": "7"}}}},
            {"id": "1", "resolved": {"users": {}}},
            [7],
        ),
        ({"id": "1", "resolved": [1]}, {"id": "1", "resolved": [1]}, []),
        ({"id": "1", "message_snapshots": [{"message": {"content": "x"}}]},) * 2 + ([],),
    ],
)
def test_only_copies_are_left_out(raw: Any, plain: Any, of: list[int]) -> None:
    line = json.dumps(raw).encode()
    assert copies.own(raw) == plain
    assert json.loads(copies.own_line(line)) == plain
    assert list(copies.copied(line)) == of
    assert (copies.own_line(line) == line) == (raw == plain)
