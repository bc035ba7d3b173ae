"""Exports: everything that was archived comes out again, whatever it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from channels.conftest import Clock
from channels.memory import Memory
from channels.orders import message, message_id
from custody.channels.export import write_html, write_jsonl, write_sqlite
from custody.channels.messages.reader import plainly
from custody.channels.table import Settings, Table
from custody.demo.standins.discord_guild import TEXT, World
from custody.errors import Refused

if TYPE_CHECKING:
    from playwright.sync_api import Page

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }} {% raw %}",
    "line\nbreak\u2028and more\u2029",
    "\"quotes\" & 'apostrophes' \\ back",
    "日本語 🎉 \x00 \ud800",
]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def table(clock: Clock, world: World) -> Table:
    """Messages of the stand-in, then nasty ones, one edited, one deleted, one of another shape."""
    channel = world.add(TEXT, "general", 300)
    table = Table(Memory(clock), channel.id, Settings(capacity=50))
    table.upsert([raw for n in range(300) if (raw := world.message(channel, n))])
    table.upsert([message(n + 1_000_000) | {"content": text} for n, text in enumerate(NASTY)])
    table.upsert([message(2_000_000), message(2_000_001)])
    table.upsert([message(2_000_000) | {"content": "second thoughts", "edited_timestamp": "2026-03-01"}])
    table.delete([message_id(2_000_001)], deleted_at="2026-03-02")
    odd = {
        "author": "nobody",
        "attachments": [1, {"id": "x"}],
        "type": "?",
        "message_reference": [],
        "content": 7,
    }
    table.upsert([message(3_000_000) | odd])
    return table


def test_json_lines_are_the_messages_as_they_came(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert write_jsonl(plainly(table.between()), path) == 308
    read = [json.loads(line) for line in path.read_bytes().splitlines()]
    earlier = {raw["id"]: raw.pop("custody")["versions"] for raw in read if "custody" in raw}
    assert read == [found.message for found in table.between() if found.versions]
    assert [raw["content"] for raw in read if "1000000" in raw["id"] or raw["content"] in NASTY] == NASTY
    edited = [found for found in table.between() if len(found.versions) > 1]
    assert edited
    assert earlier == {str(one.id): [json.loads(line) for line in one.versions[:-1]] for one in edited}


def test_json_lines_can_be_archived_again(table: Table, tmp_path: Path, clock: Clock) -> None:
    write_jsonl(plainly(table.between()), tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    again = Table(Memory(clock), int(lines[0]["channel_id"]))
    for raw in lines:
        again.upsert([*raw.pop("custody", {}).get("versions", ()), raw])
    assert [one.versions for one in again.between()] == [one.versions for one in table.between() if one.versions]


@pytest.fixture
def database(table: Table, tmp_path: Path) -> apsw.Connection:
    path = tmp_path / "out.sqlite"
    assert write_sqlite(plainly(table.between()), path, 7, "general") == 309
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def rows(database: apsw.Connection, question: str, *values: Any) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in database.execute(question, values)]


def test_sqlite_has_every_message_and_every_version(database: apsw.Connection, table: Table) -> None:
    raw = rows(database, "select raw from message where raw is not null order by id")
    assert [json.loads(one) for one in raw] == [found.message for found in table.between() if found.versions]
    assert rows(database, "select number from version where message = ?", message_id(2_000_000)) == [1, 2]
    assert rows(database, "select deleted_at from message where id = ?", message_id(2_000_001)) == ["2026-03-02"]
    assert rows(database, "pragma integrity_check") == ["ok"]
    assert rows(database, "select name from channel where id = 7") == ["general"]
    assert rows(database, "select count(*) from attachment") == [
        sum(
            len(found.message["attachments"])
            for found in table.between()
            if found.versions and "embeds" in found.message
        )
        + 1
    ]


def test_sqlite_finds_words(database: apsw.Connection, table: Table) -> None:
    expected = [
        found.id for found in table.between() if found.versions and "carbon" in str(found.message["content"]).split()
    ]
    assert expected
    question = "select message.id from text join message on message.id = text.rowid where text match ? order by 1"
    assert rows(database, question, "carbon") == expected
    assert rows(database, question, "日本語") == [message_id(1_000_005)]
    assert rows(database, question, "thoughts") == [message_id(2_000_000)]


class Reader(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("class") == "text"
        if self.inside:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


@pytest.fixture
def folder(table: Table, tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    assert write_html(plainly(table.between()), folder, "general <7>", per_page=100) == 309
    return folder


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text("utf-8"))
    return reader


def test_pages_show_every_message_and_nothing_of_it_becomes_markup(folder: Path, table: Table) -> None:
    pages = [read(path) for path in sorted(folder.glob("page-*.html"))]
    assert len(pages) == 4
    texts = [text for page in pages for text in page.texts]
    for found in table.between():
        content = found.message["content"] if found.versions else ""
        if isinstance(content, str) and content:
            assert content.encode("utf-8", "replace").decode() in texts
    tags = {tag for page in pages for tag, _ in page.tags}
    assert tags.isdisjoint({"script", "img"})
    anchors = [about.get("id") for page in pages for tag, about in page.tags if tag == "article"]
    assert anchors == [f"m{found.id}" for found in table.between()]


def test_pages_need_nothing_from_elsewhere(folder: Path) -> None:
    for path in folder.iterdir():
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", path.read_text("utf-8")), path
    for path in folder.glob("*.html"):
        for _, about in read(path).tags:
            for name in ("href", "src"):
                target = (about.get(name) or "").partition("#")[0]
                assert not target or (folder / target).exists()


def test_the_search_lists_have_every_word(folder: Path, table: Table) -> None:
    found = []
    for path in sorted(folder.glob("words-*.js")):
        text = path.read_text("utf-8")
        assert "<" not in text
        assert "\u2028" not in text
        found += json.loads(text[text.index(",") + 1 : text.rindex(")")])
    contents = [one.message["content"] for one in table.between() if one.versions]
    expected = [text.encode("utf-8", "replace").decode() for text in contents if isinstance(text, str) and text]
    assert [row[3] for row in found] == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_search_script_is_a_script(folder: Path) -> None:
    for path in (*folder.glob("words-*.js"), folder / "search.js"):
        assert subprocess.run(["node", "--check", str(path)], capture_output=True).returncode == 0, path


def test_a_browser_searches_the_pages_from_a_disk(folder: Path, page: Page) -> None:
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((folder / "index.html").as_uri())
    page.fill("#words", "THOUGHTS second")
    page.wait_for_selector("#hits li")
    page.click("#hits li a")
    assert page.url.endswith(f"page-00004.html#m{message_id(2_000_000)}")
    assert page.locator("article:target .text").first.inner_text() == "second thoughts"
    page.goto((folder / "index.html").as_uri() + f"#m={message_id(1_000_000)}")
    page.wait_for_selector("article:target")
    assert page.locator("article:target .text").inner_text() == NASTY[0]
    assert trouble == []


def test_attachments_link_to_where_they_are_kept(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write_html(plainly(table.between()), folder, "x", media=lambda attachment: f"media/{attachment['id']}")
    text = "".join(path.read_text("utf-8") for path in folder.glob("page-*.html"))
    assert 'href="media/' in text
    assert ".bin</a>" in text


def test_an_export_replaces_an_export_and_nothing_else(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write_html(plainly(table.between()), folder, "x", per_page=50)
    write_html([], folder, "x")
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "search.js", "style.css"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(Refused):
        write_html([], tmp_path / "mine", "x")
    assert (tmp_path / "mine" / "letter.txt").exists()


def test_an_export_that_is_cut_short_leaves_the_last_one(table: Table, tmp_path: Path) -> None:
    def cut_short():  # type: ignore[no-untyped-def]
        yield next(plainly(table.between()))
        raise OSError("the disk is full")

    for write, name in (
        (write_jsonl, "a.jsonl"),
        (lambda found, path: write_sqlite(found, path, 7, "x"), "a.db"),
    ):
        path = tmp_path / name
        path.write_bytes(b"the last one")
        with pytest.raises(OSError, match="full"):
            write(cut_short(), path)
        assert path.read_bytes() == b"the last one"
