"""The bot's token: rotated in the middle of a run and between runs, lacking, spoilt, or another bot's. Nothing is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from channels.desk import ids_of
from channels.office import QUICK, Office, add, office
from custody.channels.debts import unseen_content
from custody.channels.discord.answers import Answer
from custody.channels.discord.bot_token import read
from custody.channels.discord.client import BadToken, Discord
from custody.channels.kinds import open_mirror
from custody.config import read as config_of
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply
from custody.errors import BadInput
from custody.kernel.stores import open_store

WRAPPED = {
    "a newline": b"fresh\n",
    "a line end of Windows": b"fresh\r\n",
    "a byte order mark": b"\xef\xbb\xbffresh\n",
    "UTF-16": "fresh\r\n".encode("utf-16"),
    "blanks": b"  fresh \n\n",
}
SPOILT = {
    "empty": b"",
    "a newline alone": b"\n",
    "a mark alone": b"\xef\xbb\xbf",
    "two lines": b"fresh\nother\n",
    "two words": b"Bot fresh",
    "no text": b"\xff\xfe\xff",
    "a control character": b"fr\x00esh",
    "letters of others": "fresh\u200b".encode(),
    "without end": b"x" * 100_000,
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=41)
    world.add(0, "reading-room", 240)
    with office(tmp_path, world, replace(QUICK)) as here:  # what is switched here is nobody else's
        yield here


def write(here: Office, data: bytes) -> None:
    (here.folder / "discord.token").write_bytes(data)


def state(here: Office, channel: Channel) -> str:
    return str(json.loads(here.run("channel", "why", str(channel.id), "--json"))["state"])


def kept(here: Office, channel: Channel) -> list[int]:
    return [one.id for one in here.table(channel.id).between() if one.versions]


@pytest.mark.parametrize("how", WRAPPED)
def test_a_token_is_read_however_an_editor_has_wrapped_it(here: Office, how: str) -> None:
    here.standin.switches.token = "fresh"
    write(here, WRAPPED[how])
    channel = add(here)
    assert kept(here, channel) == ids_of(here.world, channel)


@pytest.mark.parametrize("how", SPOILT)
def test_a_token_that_is_none_is_told_and_the_next_run_takes_the_right_one(here: Office, how: str) -> None:
    channel = add(here)
    here.world.post(channel, 5)
    here.standin.switches.token = "fresh"
    write(here, SPOILT[how])
    asked = len(here.standin.asked)
    said = here.run("channel", "run", "--until-idle", code=1)
    assert "the file of the bot's token" in said
    assert len(here.standin.asked) == asked, "nobody is asked with what is no token"
    assert state(here, channel) == "token"
    write(here, b"fresh\n")
    here.run("channel", "run", "--until-idle")
    assert (kept(here, channel), state(here, channel)) == (ids_of(here.world, channel), "whole")


def test_without_its_file_a_run_says_so_and_changes_nothing(here: Office) -> None:
    channel = add(here)
    before = kept(here, channel)
    (here.folder / "discord.token").unlink()
    assert "there is no bot's token" in here.run("channel", "run", "--until-idle", code=2)
    assert (kept(here, channel), state(here, channel)) == (before, "whole")


def test_a_token_that_was_revoked_between_two_runs_waits_for_the_new_one(here: Office) -> None:
    channel = add(here)
    here.world.post(channel, 5)
    here.standin.switches.token = "fresh"
    for _ in range(2):
        said = here.run("channel", "run", "--until-idle", code=1)
        assert "the bot's token is refused" in said
    write(here, b"fresh\n")
    here.run("channel", "run", "--until-idle")
    assert (kept(here, channel), state(here, channel)) == (ids_of(here.world, channel), "whole")


def test_after_a_refusal_a_file_that_was_emptied_is_what_is_told(here: Office) -> None:
    channel = add(here)
    here.standin.switches.token = "fresh"
    here.run("channel", "run", "--until-idle", code=1)
    first = here.run("channel", "why", str(channel.id))
    assert "is empty" not in first
    for data, said in ((b"", "the file of the bot's token is empty"), (b"one two", "more than one word")):
        write(here, data)
        assert said in here.run("channel", "run", "--until-idle", code=1)
        assert said in here.run("channel", "why", str(channel.id))
    write(here, b"fresh\n")
    here.run("channel", "run", "--until-idle")
    assert state(here, channel) == "whole"


@pytest.mark.parametrize("late", [False, True], ids=["the file first", "the file later"])
def test_a_token_that_is_rotated_in_the_middle_of_a_run(here: Office, late: bool) -> None:
    channel = next(iter(here.world.channels.values()))

    def rotate(_: int, page: int) -> None:
        if page == 2:
            here.standin.switches.token = "fresh"
            if not late:
                write(here, b"\xef\xbb\xbffresh\n")

    here.standin.switches.between_pages = rotate
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle", code=1 if late else 0)
    if late:
        assert state(here, channel) == "token"
        assert 0 < len(kept(here, channel)) < 240, "what was fetched is kept"
        write(here, b"fresh")
        here.run("channel", "run", "--until-idle")
    assert (kept(here, channel), state(here, channel)) == (ids_of(here.world, channel), "whole")
    refused = sum(status == 401 for _, status in here.standin.asked)
    assert refused <= 3, "refusals are counted against our whole address"


def test_a_file_that_vanishes_while_it_is_replaced_stops_nobody(here: Office) -> None:
    channel = next(iter(here.world.channels.values()))
    here.standin.switches.between_pages = lambda _, page: (
        (here.folder / "discord.token").unlink(missing_ok=True) if page == 2 else None
    )
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    assert kept(here, channel) == ids_of(here.world, channel)


def test_another_bots_token_sets_aside_and_the_right_one_is_tried_at_once(here: Office) -> None:
    channel = add(here)
    here.world.post(channel, 5)
    write(here, b"other\n")
    here.standin.switches.token, channel.unreadable = "other", True
    assert "we may not read it" in here.run("channel", "run", "--until-idle", code=1)
    assert "we may not read it" in here.run("channel", "run", "--until-idle", code=0), "told, and no error any more"
    assert len(kept(here, channel)) == 240
    asked = len(here.standin.asked)
    here.run("channel", "run", "--until-idle")
    assert not [path for path, _ in here.standin.asked[asked:] if "/messages" in path], "it has its pause"
    write(here, b"token\n")
    here.standin.switches.token, channel.unreadable = "token", False
    here.run("channel", "run", "--until-idle")
    assert (kept(here, channel), state(here, channel)) == (ids_of(here.world, channel), "whole")


def test_a_late_refusal_of_the_old_token_does_not_stop_the_new_one(here: Office) -> None:
    """Two ask side by side; the one that is slow was still asked with the old token."""
    (channel,) = here.world.channels.values()
    went, may_end, slow = threading.Event(), threading.Event(), ["the first"]

    class Slow(Discord):
        def _send(self, path: str, query: dict[str, str], token: str) -> Answer:
            mine = slow.pop() if slow else ""
            answer = super()._send(path, query, token)
            if mine:
                went.set()
                assert may_end.wait(10)
            return answer

    discord = Slow("token", api=here.standin.api, fresh_token=lambda: "fresh")
    here.standin.switches.token = "fresh"
    told: list[object] = []
    other = threading.Thread(target=lambda: told.append(discord.channel(channel.id)["name"]))
    other.start()
    assert went.wait(10)
    assert discord.channel(channel.id)["name"] == "reading-room", "the new token was taken"
    may_end.set()
    other.join()
    assert (told, discord.dead, discord.token) == (["reading-room"], False, "fresh")


def test_a_token_that_is_refused_is_not_sent_again_and_says_why_there_is_no_other(tmp_path: Path, here: Office) -> None:
    here.standin.switches.token = "fresh"
    file = tmp_path / "spoilt"
    file.write_bytes(b"one\ntwo\n")
    discord = Discord("token", api=here.standin.api, fresh_token=lambda: read(file))
    for _ in range(3):
        with pytest.raises(BadToken):
            discord.channel(next(iter(here.world.channels)))
    assert sum(status == 401 for _, status in here.standin.asked) == 1
    with pytest.raises(BadToken, match="more than one word"):
        discord.channel(next(iter(here.world.channels)))


def test_another_bot_may_lack_the_intent_that_the_last_one_had(here: Office) -> None:
    channel = add(here)
    found = config_of(here.folder / "custody.toml")
    with open_store(found.store) as store:
        mirror = open_mirror(store, found.channels, found.home)
        assert mirror is not None
        assert unseen_content.sees_content(mirror)
        here.standin.switches.token, here.standin.switches.message_content = "other", False
        write(here, b"other")
        assert mirror.discord.channel(channel.id)
        assert not unseen_content.sees_content(mirror), "what one was told is not believed of the other"


def test_a_folder_in_its_place_and_a_file_that_may_not_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "none")


def test_refusals_of_a_few_answers_alone_end_in_token_and_lose_nothing(here: Office) -> None:
    channel = add(here)
    here.world.post(channel, 5)
    here.standin.switches.odd = lambda path, _, reply: (
        Reply(401, {"message": "401: Unauthorized", "code": 0}) if path.endswith("/messages") else reply
    )
    here.run("channel", "run", "--until-idle", code=1)
    assert (state(here, channel), len(kept(here, channel))) == ("token", 240)
    here.standin.switches.odd = None
    here.run("channel", "run", "--until-idle")
    assert (state(here, channel), len(kept(here, channel))) == ("whole", 245)
