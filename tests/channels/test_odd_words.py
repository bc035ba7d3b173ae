"""Names and words of others, whatever signs they hold: every command and every export writes them, none is stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from channels.office import PROGRAM, Office, office, own_sources
from custody.channels.plain_text import plainly
from custody.demo.standins.discord_guild import FORUM, World
from custody.demo.standins.discord_traffic import Reply, Switches

ODD = "half \ud800, zero \x00, bell \x07, \x1b[31mred, \u202eturned, \u2028broken, \x85, 🎉"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    """A channel in which everything that has a name has an odd one, down to the channel itself."""
    world = World(seed=3)
    channel = world.add(0, "general", 40)

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        body: Any = reply.body
        if path == f"/channels/{channel.id}":
            body = {**body, "name": ODD, "topic": ODD}
        if path.endswith("/messages") and isinstance(body, list):
            body = [{**one, **spoiled(one, here.standin.place)} for one in body]
        text = json.dumps(body).encode() if body is not reply.body else reply.body
        return Reply(reply.status, text, reply.headers)

    with office(tmp_path, world, Switches(bucket_limit=10_000, global_limit=100_000, odd=odd)) as here:
        here.run("channel", "add", str(channel.id))
        yield here


def spoiled(one: dict[str, Any], place: str) -> dict[str, Any]:
    number = str(int(one["id"]) + 9)
    links = [f"http://{place}/external/{ODD}.png", f"http://elsewhere.example/{ODD}", "http://[", "\ud800", ODD]
    return {
        "content": ODD,
        "author": {"id": "5", "username": ODD, "global_name": ODD, "avatar": ODD},
        "embeds": [{"title": ODD, "description": ODD, "image": {"url": link, "width": 1}} for link in links],
        "reactions": [{"emoji": {"name": ODD, "id": None}, "count": 2}],
        "attachments": [
            {"id": number, "filename": ODD, "size": 3, "url": links[int(one["id"]) % 5], "description": ODD}
        ],
        "poll": {"question": {"text": ODD}, "answers": [{"answer_id": 1, "poll_media": {"text": ODD}}]},
        "sticker_items": [{"id": "7", "name": ODD, "format_type": 1}],
        "mentions": [{"id": "6", "username": ODD}],
        "thread": {"id": ODD, "name": ODD},
        ODD: {ODD: [ODD]},
    }


def said(here: Office, *words: str) -> subprocess.CompletedProcess[bytes]:
    """As a program of its own, whose output is bytes of UTF-8 or of nothing but ASCII."""
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [*PROGRAM, *words], cwd=here.folder, env=own_sources() | {"PYTHONIOENCODING": encoding}, capture_output=True
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        for line in (done.stdout + done.stderr).decode(encoding).splitlines():
            assert plainly(line) == line, "nothing that types, turns or breaks a line"
    return done


def test_every_command_and_every_export_writes_whatever_names_and_words_hold(here: Office, tmp_path: Path) -> None:
    (channel,) = here.world.channels.values()
    number = str(channel.id)
    here.run("channel", "run", "--until-idle", code=1)  # some of its files are lost, and others where nobody asks
    assert len(list(here.table(channel.id).between())) == 40, "no word stops a message"
    message = str(next(here.table(channel.id).between()).id)
    for words in (
        ("list",),
        ("why", number),
        ("gaps", number),
        ("search", number, message),
        ("search", number, "--since", "2015-01-01"),
        ("verify", number, "--pages", "1"),
        ("fsck", number),
        ("tiers", "--preview"),
        ("run", "--until-idle"),
        ("export", number, "e.jsonl", "--jsonl"),
        ("export", number, "e.db", "--sqlite"),
        ("export", number, "e", "--html"),
    ):
        done = said(here, "channel", *words)
        assert done.returncode in (0, 1, 75), (words, done.stderr.decode())
    found = json.loads("\n".join(said(here, "channel", "search", number, message).stdout.decode().splitlines()))
    assert found["content"] == ODD, "what is escaped can be read back"
    lines = (tmp_path / "e.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["content"] for line in lines] == [ODD] * 40
    with apsw.Connection(str(tmp_path / "e.db")) as database:
        ((name, count),) = database.execute("select name, (select count(*) from message) from channel").fetchall()
    assert (name, count) == (plainly(ODD), 40), "with the channel's name"
    assert plainly(ODD).split(",")[0] in (tmp_path / "e" / "index.html").read_text("utf-8")
    said(here, "event", "list", "--json")
    said(here, "item", "show", f"channel/{number}")


def test_a_forums_export_says_where_its_posts_are(tmp_path: Path) -> None:
    world = World(seed=3)
    forum = world.add(FORUM, "questions", 40)
    world.add_thread(forum, 3, 4)
    with office(tmp_path, world, Switches(bucket_limit=10_000, global_limit=100_000)) as here:
        here.run("channel", "add", str(forum.id))
        here.run("channel", "run", "--until-idle")
        told = here.run("channel", "export", str(forum.id), str(tmp_path / "e.jsonl"), "--jsonl")
        assert "its 1 posts are channels of their own" in told
