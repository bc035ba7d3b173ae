"""What an operator says about what is gone there, as commands: a policy, a belief, a disbelief, and the codes of runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.desk import ids_of
from channels.office import QUICK, Office, add, office
from channels.test_reader import GONE, overlay
from custody.channels.context import noted
from custody.channels.crawl import trust
from custody.config import read
from custody.demo.standins.discord_guild import Channel, World
from custody.errors import Unavailable
from custody.kernel.stores import open_store


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=41)
    world.add(0, "reading-room", 240)
    with office(tmp_path, world, QUICK) as here:
        yield here


def purge(here: Office, channel: Channel, ids: Sequence[int]) -> None:
    """Deleted there; and looked for twice some time ago, which a test cannot wait for."""
    for one in ids:
        here.world.delete(channel, one)
    overlay(here, channel.id).upsert([{"id": str(one), **GONE} for one in ids])


def kept(here: Office, channel: Channel) -> int:
    return sum(bool(one.versions) for one in here.table(channel.id).between())


def run(here: Office, channel: Channel, code: int) -> str:
    here.run("channel", "sync", str(channel.id))
    return here.run("channel", "run", "--until-idle", code=code)


def test_a_purge_waits_for_a_word_and_goes_with_it(here: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = add(here)
    number = str(channel.id)
    purge(here, channel, ids_of(here.world, channel)[20:170])
    assert "up to date" in run(here, channel, code=0)
    assert kept(here, channel) == 240, "kept, unless somebody says otherwise"
    assert "deleted is 'shred'" in here.run("channel", "deleted", number, "shred", "--why", "x", code=2)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    said = run(here, channel, code=1)
    assert "150 messages are gone there, too many to erase without a word of yours" in said
    assert "custody channel believe" in here.run("channel", "why", number).splitlines()[0]
    assert json.loads(here.run("channel", "why", number, "--json"))["state"] == "brake"
    assert kept(here, channel) == 240
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    here.run("channel", "believe", number, "--why", "they cleaned up", code=1)
    run(here, channel, code=1)
    assert "150 messages" in here.run("channel", "believe", number, "--why", "they cleaned up", "--yes")
    for _ in range(3):
        here.run("channel", "sync", number)
        here.run("channel", "run", "--until-idle")
    assert kept(here, channel) == 90
    assert "kept up to date" in here.run("channel", "why", number)


def test_what_is_disbelieved_stays_and_is_shown(here: Office, tmp_path: Path) -> None:
    channel = add(here)
    number = str(channel.id)
    purge(here, channel, ids_of(here.world, channel)[20:170])
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    run(here, channel, code=1)
    assert "150 messages" in here.run("channel", "disbelieve", number, "--why", "a raid", "--yes")
    assert "up to date" in run(here, channel, code=0)
    assert kept(here, channel) == 240
    here.run("channel", "export", number, str(tmp_path / "a.jsonl"), "--jsonl")
    assert (tmp_path / "a.jsonl").read_bytes().count(b'"deleted_there"') == 150


def test_where_nothing_is_left_to_ask_only_a_word_erases(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    for one in ids_of(here.world, channel):
        here.world.delete(channel, one)
    assert "it shows no messages at all" in run(here, channel, code=1)
    assert kept(here, channel) == 240
    assert "0 messages" in here.run("channel", "believe", number, "--why", "closed", "--yes")
    run(here, channel, code=1)
    assert kept(here, channel) == 240
    assert "240 messages" in here.run("channel", "believe", number, "--unseen", "--why", "closed", "--yes")
    for _ in range(3):
        run(here, channel, code=1)
    assert kept(here, channel) == 0
    here.run("channel", "set-aside", number, "--why", "it is empty")
    run(here, channel, code=0)


def test_a_run_that_meets_a_service_out_of_order_says_come_again(here: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object, **__: object) -> None:
        raise Unavailable("Discord says 503")

    monkeypatch.setattr("custody.channels.coordinators.ephemeral.ask_for", down)
    said = here.run("channel", "run", "--until-idle", code=75)
    assert "Discord says 503" in said
    assert "the next run goes on" in said


# --- Texts that stay empty ---


def empty(here: Office, channel: Channel, ids: Sequence[int]) -> None:
    """There, and without an edit."""
    for one in ids:
        channel.edited[one] = {"content": "", "embeds": [], "attachments": []}


def state(here: Office, channel: Channel) -> str:
    return str(json.loads(here.run("channel", "why", str(channel.id), "--json"))["state"])


def texts(here: Office, channel: Channel, ids: Sequence[int]) -> list[str]:
    found = {one.id: one.message["content"] for one in here.table(channel.id).between()}
    return [found[one] for one in ids]


def test_a_text_that_stays_empty_is_owed_until_an_operator_says_that_it_is(
    here: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = add(here)
    number, ids = str(channel.id), ids_of(here.world, channel)[-30:-24]
    before = texts(here, channel, ids)
    empty(here, channel, ids[:4])
    assert "custody channel believe --blank" in run(here, channel, code=1)
    assert state(here, channel) == "no-intent"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "4 messages are shown without the text" in here.run(
        "channel", "believe", number, "--blank", "--why", "a purge", code=1
    )
    run(here, channel, code=1)
    assert "4 messages" in here.run("channel", "believe", number, "--blank", "--why", "a purge of texts", "--yes")
    for _ in range(2):
        assert "up to date" in run(here, channel, code=0)
    assert (state(here, channel), texts(here, channel, ids)) == ("whole", before), "what is kept stays"
    with open_store(read(here.folder / "custody.toml").store) as store:
        said = [one for one in store.records.events(f"item/channel/{number}") if one.type == "blank believed"]
    assert [(one.detail["messages"], one.detail["why"]) for one in said] == [(4, "a purge of texts")]
    assert said[0].agent
    empty(here, channel, ids[4:])
    assert "without the text" in run(here, channel, code=1), "the word was about those that were shown so then"
    assert "2 messages" in here.run("channel", "believe", number, "--blank", "--why", "more", "--yes")
    assert "up to date" in run(here, channel, code=0)
    assert "6 messages" in here.run("channel", "disbelieve", number, "--blank", "--why", "a mistake", "--yes")
    run(here, channel, code=1)
    assert state(here, channel) == "no-intent"
    for one in ids:
        del channel.edited[one]
    assert "up to date" in run(here, channel, code=0)
    assert "0 messages" in here.run("channel", "believe", number, "--blank", "--why", "none is left", "--yes")


def test_a_word_about_an_empty_text_holds_for_the_version_it_was_said_of(here: Office) -> None:
    channel = add(here)
    number, one = str(channel.id), ids_of(here.world, channel)[-10]
    empty(here, channel, [one])
    run(here, channel, code=1)
    here.run("channel", "believe", number, "--blank", "--why", "emptied", "--yes")
    here.world.edit(channel, one, datetime(2026, 5, 1, tzinfo=UTC), "words again")
    run(here, channel, code=0)
    assert texts(here, channel, [one]) == ["words again"]
    channel.edited[one] |= {"content": ""}
    run(here, channel, code=1)
    assert state(here, channel) == "no-intent", "those words were never spoken for"


def test_a_word_about_empty_texts_is_about_what_is_shown_now(here: Office) -> None:
    channel = add(here)
    words = ("channel", "believe", str(channel.id), "--blank", "--why", "x", "--unseen")
    assert "it is about what is shown now" in here.run(*words, code=2)


# --- Words are about what is confirmed when they are said ---


def test_a_word_about_the_future_is_refused_and_lifts_no_brake(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    for word in ("believe", "disbelieve"):
        said = here.run("channel", word, number, "--up-to", "2099-01-01", "--why", "x", "--yes", code=2)
        assert "has not come yet" in said
    assert "0 messages" in here.run("channel", "believe", number, "--why", "nothing is gone", "--yes")
    with open_store(read(here.folder / "custody.toml").store) as store:
        assert "believed" not in store.records.item(f"channel/{number}").detail, "nothing was said of nothing"
    purge(here, channel, ids_of(here.world, channel)[20:80])
    assert "60 messages are gone there, too many to erase" in run(here, channel, code=1)
    assert kept(here, channel) == 240


def test_a_word_about_the_future_that_was_taken_before_permits_nothing(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    with open_store(read(here.folder / "custody.toml").store) as store:
        store.records.put((noted(channel.id, believed="2099-01-01T00:00:00.000000+00:00"),), (), "test")
    purge(here, channel, ids_of(here.world, channel)[20:80])
    assert "60 messages are gone there, too many to erase" in run(here, channel, code=1)
    assert kept(here, channel) == 240


def test_after_a_disbelief_later_deletions_are_honoured_by_themselves(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    purge(here, channel, ids_of(here.world, channel)[20:80])
    run(here, channel, code=1)
    assert "60 messages" in here.run("channel", "disbelieve", number, "--why", "a raid", "--yes")
    run(here, channel, code=0)
    one = ids_of(here.world, channel)[-4]
    here.world.delete(channel, one)
    with open_store(read(here.folder / "custody.toml").store) as store:
        now = store.now()
        since = trust.moment(str(store.records.item(f"channel/{number}").detail["disbelieved"])) + 1
        # confirmed after the word; that it is due is what a test cannot wait for
        marks = [trust.written((at, trust.NO_SUCH, trust.NO_SUCH)) for at in (since - trust.APART, since)]
        overlay(here, channel.id).upsert([{"id": str(one), "absent": marks}])
        assert since <= now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("custody.channels.messages.deletions._due_at", lambda policy, since, believed: since)
        for _ in range(2):
            run(here, channel, code=0)
    assert kept(here, channel) == 239, "the one, and none of the sixty"


def test_that_all_is_gone_is_not_taken_of_a_channel_that_shows_its_messages(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    here.run("channel", "deleted", number, "tombstone", "--why", "the law says so")
    said = here.run("channel", "believe", number, "--unseen", "--why", "x", "--yes", code=3)
    assert "shows messages" in said
    run(here, channel, code=0)
    assert kept(here, channel) == 240


@pytest.mark.parametrize("why", ["", "  ", "\t"])
def test_a_reason_that_says_nothing_is_refused(here: Office, why: str) -> None:
    channel = add(here)
    for words in (("deleted", "tombstone"), ("believe",), ("disbelieve",), ("set-aside",), ("remove",)):
        verb, *more = words
        said = here.run("channel", verb, str(channel.id), *more, "--why", why, code=2)
        assert "why" in said, words


def test_a_policy_of_no_days_is_not_taken_for_another(here: Office) -> None:
    channel = add(here)
    said = here.run("channel", "deleted", str(channel.id), "honour after 0 days", "--why", "x", code=2)
    assert "tombstone" in said
