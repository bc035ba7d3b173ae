"""What people are shown of a channel: as last seen, with what is gone there marked or, by a policy, not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from channels.conftest import Clock
from channels.memory import Memory
from channels.office import Office, add, reading_room
from channels.orders import message, message_id
from channels.test_damage import spoiled
from custody.channels.config import ChannelConfig
from custody.channels.context import item_id
from custody.channels.export import write_html, write_jsonl, write_sqlite
from custody.channels.kinds import table_settings
from custody.channels.messages import last_seen
from custody.channels.messages.deletions import hidden_since
from custody.channels.messages.reader import Leaving, Reader, Shown, reader_of
from custody.channels.table import Table
from custody.config import read
from custody.kernel.model.item import Item

CHANNEL = 7
EARLY, LATE = "2026-03-01T10:00:00.000000+00:00", "2026-03-01T11:00:00.000000+00:00"
GONE = {"absent": [[EARLY, "page", "1f2e3d4c"], [LATE, "404", "404"]], "gone": {"since": LATE, "how": "page+404"}}
LIKED = {
    "reactions": [{"emoji": {"id": None, "name": "👍"}, "count": 42}],
    "embeds": [{"title": "a <b>preview</b>"}],
    "pinned": True,
    "poll": {
        "question": {"text": "tea?"},
        "answers": [{"answer_id": 1, "poll_media": {"text": "yes"}}],
        "results": {"answer_counts": [{"id": 1, "count": 3}]},
    },
    "thread": {"id": "77", "name": "about it"},
}


@pytest.fixture
def tables(clock: Clock) -> Reader:
    """Ten messages: the third was liked, the fifth is gone there, the seventh was erased, the ninth is damaged."""
    blobs = Memory(clock)
    reader = reader_of(blobs, CHANNEL, table_settings(4))
    reader.table.upsert([message(n) for n in range(10)])
    reader.overlay.upsert([{"id": str(message_id(3)), "seen": EARLY, **LIKED}])
    reader.overlay.upsert([{"id": str(message_id(5)), **GONE}])
    reader.table.delete([message_id(7)], deleted_at="2026-03-02")
    spoiled(blobs, 9)
    return reader


def by_number(found: Iterator[Shown]) -> dict[int, Shown]:
    numbers = {message_id(n): n for n in range(10)}
    return {numbers[one.id]: one for one in found}


def test_a_message_is_shown_as_it_was_last_seen_and_what_is_gone_there_is_marked(tables: Reader) -> None:
    found = by_number(tables.between())
    assert len(found) == 10
    assert {name: found[3].message[name] for name in LIKED} == LIKED
    assert found[3].newest == message(3)
    assert (found[5].gone, found[5].message) == (LATE, message(5))
    assert found[9].damaged
    assert {n for n, one in found.items() if one.gone} == {5}
    assert [tables.search(message_id(n)) for n in range(10)] == [found[n] for n in range(10)]
    assert tables.search(1) is None


def test_json_lines_have_what_was_last_seen_and_nothing_else_is_touched(tables: Reader, tmp_path: Path) -> None:
    write_jsonl(tables.between(), tmp_path / "a.jsonl")
    found = [json.loads(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines()]
    assert found[3] == message(3) | LIKED | {"custody": {"seen": EARLY}}
    assert found[5] == message(5) | {"custody": {"deleted_there": LATE}}
    assert found[8] == {"id": str(message_id(9)), "damaged": True}
    assert [found[n] for n in (0, 1, 2, 4, 6)] == [message(n) for n in (0, 1, 2, 4, 6)]


def test_sqlite_has_what_was_last_seen_what_is_gone_and_what_is_damaged(tables: Reader, tmp_path: Path) -> None:
    assert write_sqlite(tables.between(), tmp_path / "a.db", CHANNEL, "general") == 10
    database = apsw.Connection(str(tmp_path / "a.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert list(database.execute("select message, emoji, count from reaction")) == [(message_id(3), "👍", 42)]
    assert list(database.execute("select id, gone_at from message where gone_at is not null")) == [
        (message_id(5), LATE)
    ]
    assert list(database.execute("select id from message where damaged")) == [(message_id(9),)]
    assert list(database.execute("select id, seen_at from message where pinned")) == [(message_id(3), EARLY)]
    (raw,) = database.execute("select raw from message where id = ?", (message_id(3),)).fetchall()[0]
    assert json.loads(raw) == message(3) | LIKED
    (kept,) = database.execute("select raw from version where message = ?", (message_id(3),)).fetchall()[0]
    assert json.loads(kept) == message(3)


def test_pages_show_what_was_last_seen_what_is_gone_and_what_is_damaged(tables: Reader, tmp_path: Path) -> None:
    assert write_html(tables.between(), tmp_path / "site", "general") == 10
    text = (tmp_path / "site" / "page-00001.html").read_text("utf-8")
    for words in ("👍 42", "a &lt;b&gt;preview&lt;/b&gt;", "pinned", "tea?", "yes: 3", "Thread: about it"):
        assert words in text
    assert text.count("Deleted there, noticed 2026-03-01T11:00:00") == 1
    assert text.count("Damaged here") == 1


def test_what_was_deleted_there_can_be_left_out(tables: Reader) -> None:
    leaving = Leaving(without_deleted=True)
    assert sorted(by_number(leaving.through(tables.between()))) == [0, 1, 2, 3, 4, 6, 8, 9]
    assert leaving.out == {message_id(5)}
    assert leaving.damaged == [message_id(9)]


@pytest.mark.parametrize(
    ("policy", "disbelieved", "shown"),
    [
        ("keep", "", True),
        ("honour after 30 days", "", False),
        ("tombstone", "", False),
        ("honour after 30 days", LATE, True),  # an operator's word: it is kept
        ("honour after 30 days", EARLY, False),
    ],
)
def test_what_a_policy_will_erase_is_not_shown_from_the_moment_on_that_it_is_gone(
    tables: Reader, policy: str, disbelieved: str, shown: bool
) -> None:
    told = {"deleted": policy, "disbelieved": disbelieved}
    item = Item(item_id(CHANNEL), frozenset({"channel"}), seq=1, changed=0, detail=told)
    after = hidden_since(ChannelConfig(), item)
    reader = tables if after is None else Reader(tables.table, tables.overlay, after)
    one = reader.search(message_id(5))
    assert one is not None
    assert (bool(one.versions), one.hidden) == (shown, not shown)
    assert one.deleted_at == ("" if shown else LATE)
    leaving = Leaving()
    assert len(list(leaving.through(reader.between()))) == 10
    assert leaving.out == (set() if shown else {message_id(5)})


# --- As commands ---


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    with reading_room(tmp_path / "office") as here:
        yield here


def overlay(here: Office, channel: int) -> Table:
    return last_seen.of(here.blobs(), channel, read(here.folder / "custody.toml").channels.capacity)


def test_commands_show_what_was_last_seen_and_hide_with_its_files_what_is_to_be_erased(
    here: Office, tmp_path: Path
) -> None:
    channel = add(here)
    number, site = str(channel.id), tmp_path / "site"
    named = [one for one in here.table(channel.id).between() if one.message.get("attachments")]
    gone, liked = named[0], next(one for one in here.table(channel.id).between() if one.id != named[0].id)
    overlay(here, channel.id).upsert([{"id": str(gone.id), **GONE}, {"id": str(liked.id), "seen": EARLY, **LIKED}])
    said = here.run("channel", "search", number, str(gone.id))
    assert "deleted there, noticed at 2026-03-01T11:00" in said
    assert "as it was last seen" in here.run("channel", "search", number, str(liked.id))
    assert '"deleted_there"' in here.run("channel", "search", number, "--since", "2015-01-01")
    here.run("channel", "export", number, str(site), "--html")
    files = len(list(site.glob("files/*")))
    assert "1 that were deleted there are kept and not in it" in here.run(
        "channel", "export", number, str(site), "--html", "--without-deleted"
    )
    assert len(list(site.glob("files/*"))) < files, "its files are left out with it"
    here.run("channel", "deleted", number, "honour after 30 days", "--why", "the law")
    assert "1 that were deleted there" in here.run("channel", "export", number, str(tmp_path / "a.jsonl"), "--jsonl")
    assert len((tmp_path / "a.jsonl").read_bytes().splitlines()) == 239
    here.run("channel", "export", number, str(tmp_path / "a.jsonl"), "--jsonl", "--with-hidden")
    assert len((tmp_path / "a.jsonl").read_bytes().splitlines()) == 240
    here.run("channel", "export", number, str(tmp_path / "a"), "--jsonl", "--with-hidden", "--without-deleted", code=2)
