"""The commands of a channel, as a user gives them in a folder of their own."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import apsw
import pytest

from channels.desk import ids_of
from channels.office import QUICK, Office, add, office, reading_room
from custody.channels.blobs.local import Files
from custody.channels.condition.states import PAUSES
from custody.demo.standins.discord_guild import World
from custody.demo.standins.discord_traffic import Reply, Switches


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    with reading_room(tmp_path) as here:
        yield here


def test_what_is_not_mirrored_is_said_before_anything_is_asked(here: Office) -> None:
    assert "no channels yet" in here.run("channel", "list")
    for words in (
        ["sync", "7"],
        ["review", "7", "8"],
        ["remove", "7", "--yes", "--why", "x"],
        ["why", "7"],
        ["gaps", "7"],
        ["fsck", "7"],
        ["fsck", "7", "--repair"],
        ["verify", "7"],
        ["verify", "7", "--mend"],
        ["tiers", "7"],
        ["search", "7", "8"],
        ["search", "7", "--since", "2016-01-01"],
        ["export", "7", str(here.folder / "f"), "--jsonl"],
        ["export", "7", str(here.folder / "f"), "--html"],
        ["deleted", "7", "keep", "--why", "x"],
        ["believe", "7", "--why", "x"],
        ["disbelieve", "7", "--why", "x"],
        ["set-aside", "7", "--why", "x"],
        ["accept-loss", "7", "--why", "x"],
    ):
        said = here.run("channel", *words, code=2)
        assert "channel 7 is not mirrored here" in said
        assert "custody channel list" in said
    assert not (here.folder / "f").exists()
    assert "is not a channel's number" in here.run("channel", "add", "general", code=2)
    assert "is not a message's number" in here.run("channel", "review", "7", "hello", code=2)
    add(here)
    channel = str(next(iter(here.world.channels)))
    assert "is not a message's number" in here.run("channel", "search", channel, "hello", code=2)
    assert "is not a channel's number" in here.run("channel", "fsck", "general", code=2)


def test_a_command_leaves_the_environment_as_it_was(here: Office) -> None:
    before = dict(os.environ)
    assert "CUSTODY_STORE" not in before
    here.run("channel", "list")
    assert dict(os.environ) == before, "whoever calls it as a function may call again, elsewhere"


def test_a_channel_that_is_not_shown_when_it_is_added_is_told_until_it_is_added_or_forgotten(here: Office) -> None:
    channel = next(iter(here.world.channels.values()))
    number, asked = str(channel.id), list[str]()

    def once(path: str, _: dict[str, str], reply: Reply) -> Reply:
        asked.append(path)
        first = path == f"/channels/{number}" and asked.count(path) == 1
        return Reply(404, {"message": "Unknown Channel", "code": 10003}) if first else reply

    here.standin.switches.odd = once
    here.run("channel", "add", number)
    here.run("channel", "add", "77")
    for _ in range(2):
        said = here.run("channel", "run", "--until-idle", code=1)
        assert "77 (77): it could not be added (/channels/77: Unknown Channel); tried again at" in said
        assert f"{number} ({number}): it could not be added" in said
        assert "2 of 2 channels need somebody to look" in said
    assert "it could not be added" in here.run("channel", "why", number).splitlines()[0]
    assert "not-added" in here.run("channel", "list")
    here.run("channel", "add", number)  # the operator knows better: it is tried at once
    here.run("channel", "remove", "77", "--yes", "--why", "a slip")
    assert "everything is up to date" in here.run("channel", "run", "--until-idle")
    assert here.same(channel)
    assert "removed" in here.run("channel", "why", "77").splitlines()[0]


def test_a_run_without_end_outlives_a_service_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custody.channels.discord.client.TRIES", 1)
    monkeypatch.setattr("custody.channels.commands.run.PAUSE_SECONDS", 0.01)
    monkeypatch.setitem(PAUSES, "failing", (1_000,))  # type: ignore[arg-type]
    world, asked, from_now_on = World(seed=42), list[int](), threading.Event()
    channel = world.add(0, "reading-room", 240)

    def down(call: int) -> int | None:
        asked.append(call)
        return 503 if from_now_on.is_set() and len(asked) <= 4 else None

    with office(tmp_path, world, Switches(bucket_limit=10_000, trouble=down)) as here:
        here.run("channel", "add", str(channel.id))
        here.run("channel", "run", "--until-idle")
        world.post(channel, 3)
        asked.clear()
        from_now_on.set()

        def interrupt() -> None:
            here.until_same(channel)
            os.kill(os.getpid(), signal.SIGINT)

        ending = threading.Thread(target=interrupt)
        ending.start()
        said = here.run("channel", "run")
        ending.join()
        assert said.count("Discord says 503") == 1, "it is said once: four answers are one trouble, until it is over"
        assert len(asked) > 4


def test_a_channel_from_its_first_page_to_its_last(here: Office) -> None:
    channel = next(iter(here.world.channels.values()))
    number = str(channel.id)
    assert "job 1" in here.run("channel", "add", number, "--newest-first")
    assert "asked for before" in here.run("channel", "add", number, "--newest-first")
    assert "asked for" in here.run("channel", "why", number)
    assert "everything is up to date" in here.run("channel", "run", "--until-idle", "--max-minutes", "1")
    assert here.same(channel)
    assert f"{number}  reading-room  -      yes" in here.run("channel", "list")
    assert "kept up to date" in here.run("channel", "why", number)
    (told,) = json.loads(here.run("channel", "list", "--json"))
    assert (told["title"], told["mirrored"], told["gaps"]) == ("reading-room", "yes", 0)


def test_gaps_are_shown_while_there_are_any(here: Office) -> None:
    channel = next(iter(here.world.channels.values()))
    here.standin.switches = Switches(between_pages=lambda _, page: setattr(channel, "unreadable", page >= 2))
    add(here, "--newest-first", code=1)
    number = str(channel.id)
    said = here.run("channel", "gaps", number)
    assert said.splitlines()[0].split() == ["after", "from", "before", "to"]
    assert str(ids_of(here.world, channel)[41]) in said
    assert "we may not read it since" in here.run("channel", "why", number).splitlines()[0]
    channel.unreadable, here.standin.switches = False, QUICK
    here.run("channel", "sync", number)
    here.run("channel", "run", "--until-idle")
    assert "nothing is missing" in here.run("channel", "gaps", number)


def test_verify_says_what_is_wrong_and_records_it(here: Office) -> None:
    channel = add(here)
    number = str(channel.id)
    assert "nothing is wrong" in here.run("channel", "verify", number)
    here.table(channel.id).delete([ids_of(here.world, channel)[0]])
    said = here.run("channel", "verify", number, code=1)
    assert f"WRONG  live.missing  {ids_of(here.world, channel)[0]}" in said
    found = json.loads(here.run("channel", "verify", number, "--pages", "0", "--json", code=75))
    assert (found["sound"], found["compared"]) == (True, 0), "from our own blobs alone nobody can tell"
    assert (
        here.run("item", "show", f"channel/{number}", "--store", f"sqlite:///{here.folder / 'custody.db'}").count(
            "verified"
        )
        >= 1
    )


def test_what_a_crash_left_behind_is_no_fault_and_is_cleared_away_once_it_is_old(here: Office) -> None:
    channel = add(here)
    number, blobs = str(channel.id), Files(here.folder / "channels", lambda: datetime(2020, 1, 1, tzinfo=UTC))
    old, fresh = f"ch/{number}/leaf/old.jsonl", f"ch/{number}/leaf/fresh.jsonl"
    blobs.commit(old, [])
    Files(here.folder / "channels").commit(fresh, [])  # may be a writer's that is at work just now
    said = here.run("channel", "fsck", number)
    assert "nothing is wrong" in said
    assert (f"note  orphan  {old}" in said, f"note  orphan  {fresh}" in said) == (True, True)
    said = here.run("channel", "fsck", number, "--repair")
    assert "1 blobs that nothing named were deleted" in said
    assert (old in said, f"note  orphan  {fresh}" in said) == (False, True)


def test_damage_is_told_as_wrong_and_what_the_channel_shows_is_fetched_again_by_the_next_run(here: Office) -> None:
    channel = add(here)
    number, blobs = str(channel.id), here.blobs()
    first, *_ = [blob.name for blob in blobs.list(f"ch/{number}/leaf/")]
    blobs.delete(first)
    said = here.run("channel", "fsck", number, code=1)
    assert f"WRONG  child.missing  {first}" in said
    assert "--repair" in said
    assert "may be lost" in here.run("channel", "run", "--until-idle", code=1), "nobody knows what else was in it"
    assert here.same(channel)
    here.run("channel", "accept-loss", number, "--why", "it was an old disk")
    here.run("channel", "run", "--until-idle")
    here.run("channel", "fsck", number)


def test_messages_are_found_by_number_and_by_time(here: Office) -> None:
    channel = add(here)
    number, ids = str(channel.id), ids_of(here.world, channel)
    here.world.edit(channel, ids[5], datetime(2026, 5, 1, tzinfo=UTC), "in other words")
    here.run("channel", "review", number, str(ids[5]))
    here.run("channel", "run", "--until-idle")
    said = here.run("channel", "search", number, str(ids[5]))
    assert said.count('"id": "') >= 2, "both versions"
    assert "in other words" in said
    raw = here.world.message(channel, 3)
    assert raw is not None
    second = raw["timestamp"][:19]
    lines = here.run("channel", "search", number, "--since", second).splitlines()
    assert json.loads(lines[0])["id"] == str(ids[3])
    assert len(lines) == 237
    assert "is not kept" in here.run("channel", "search", number, "5", code=2)
    assert "say which message" in here.run("channel", "search", number, code=2)


def test_exports_have_every_message_and_pages_have_the_files(here: Office) -> None:
    here.world.seed = 47
    channel = next(iter(here.world.channels.values()))
    channel.count = 600
    add(here)
    number, folder = str(channel.id), here.folder
    here.run("channel", "export", number, str(folder / "all.jsonl"), "--jsonl")
    assert len((folder / "all.jsonl").read_text().splitlines()) == 600
    here.run("channel", "export", number, str(folder / "all.db"), "--sqlite")
    db = apsw.Connection(str(folder / "all.db"))
    assert list(db.execute("select count(*) from message")) == [(600,)]
    db.close()
    here.run("channel", "export", number, str(folder / "pages"), "--html")
    files = sorted((folder / "pages" / "files").iterdir())
    assert files
    pages = "".join(page.read_text() for page in (folder / "pages").glob("page-*.html"))
    assert all(f"files/{file.name}" in pages for file in files)
    assert "say which form" in here.run("channel", "export", number, str(folder / "x"), code=2)


def test_tiers_are_previewed_with_the_prices_of_the_configuration(here: Office) -> None:
    channel = add(here)
    with (here.folder / "custody.toml").open("a") as config:
        config.write("[channels.prices.Cool]\nmonth = 0.5\n")
    said = here.run("channel", "tiers", str(channel.id), "--preview")
    assert "would move" in said
    (told,) = json.loads(here.run("channel", "tiers", "--preview", "--json"))
    assert told["preview"]["moves"] == 0
    with (here.folder / "custody.toml").open("a") as config:
        config.write("[channels.prices.Tepid]\nmonth = 0.5\n")
    assert "cannot read the prices of 'Tepid'" in here.run("channel", "tiers", "--preview", code=2)


def test_without_a_token_or_a_connection_the_error_says_which_file_is_missing(here: Office) -> None:
    (here.folder / "discord.token").unlink()
    assert "discord.token: there is no bot's token" in here.run("channel", "run", "--until-idle", code=2)
    with (here.folder / "custody.toml").open("a") as config:
        config.write('container = "channels"\n')
    assert "azure.connection: there is no connection string" in here.run("channel", "list", code=2)


def test_channels_that_the_configuration_no_longer_wants_are_removed_only_if_it_says_so(here: Office) -> None:
    channel = add(here)
    with (here.folder / "custody.toml").open("a") as config:
        config.write(f'remove = ["{channel.id}"]\n')
    here.run("channel", "run", "--until-idle")
    assert "removed" in here.run("channel", "list")
    assert list(here.table(channel.id).between()) == []
    assert "everything is up to date" in here.run("channel", "run", "--until-idle")


def test_a_coordinator_that_nobody_knows_is_said_and_another_one_is_not_started_by_mistake(tmp_path: Path) -> None:
    with office(tmp_path, World(seed=1), queues="carrier pigeons") as here:
        assert "channels.queues: queues is 'carrier pigeons'" in here.run("channel", "list", code=2)
    with office(tmp_path, World(seed=1), queues="temporal") as here:
        assert "custody channel temporal" in here.run("channel", "run", "--until-idle", code=2)


def test_every_form_of_export_has_the_earlier_versions_of_an_edited_message(here: Office) -> None:
    channel = add(here)
    number, folder, one = str(channel.id), here.folder, ids_of(here.world, channel)[-3]
    first = json.loads(here.run("channel", "search", number, str(one)))["content"]
    here.world.edit(channel, one, datetime(2026, 3, 1, tzinfo=UTC), "said otherwise")
    here.run("channel", "sync", number)
    here.run("channel", "run", "--until-idle")
    here.run("channel", "export", number, str(folder / "all.jsonl"), "--jsonl")
    [line] = [raw for raw in map(json.loads, (folder / "all.jsonl").open()) if raw["id"] == str(one)]
    assert (line["content"], [raw["content"] for raw in line["custody"]["versions"]]) == ("said otherwise", [first])
    here.run("channel", "export", number, str(folder / "all.db"), "--sqlite")
    db = apsw.Connection(str(folder / "all.db"))
    kept = [json.loads(raw)["content"] for (raw,) in db.execute("select raw from version where message = ?", (one,))]
    db.close()
    assert kept == [first, "said otherwise"]
    here.run("channel", "export", number, str(folder / "pages"), "--html")
    pages = "".join(page.read_text() for page in (folder / "pages").glob("page-*.html"))
    assert "said otherwise" in pages
    assert escape(first) in pages


def test_an_export_says_how_many_messages_are_damaged_and_ends_with_an_error(here: Office, tmp_path: Path) -> None:
    channel = add(here)
    path = next(path for path in (here.folder / "channels" / "ch").rglob("leaf/*@*.jsonl"))
    data = path.read_bytes()
    at = data.index(b'"content":"') + 11
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    said = here.run("channel", "export", str(channel.id), str(tmp_path / "out.jsonl"), "--jsonl", code=1)
    assert "1 of them are damaged" in said
    assert (tmp_path / "out.jsonl").read_text().count('"damaged": true') == 1
    here.run("channel", "verify", str(channel.id), "--pages", "0", code=1)
    here.run("channel", "verify", str(channel.id), "--mend")
    here.run("channel", "export", str(channel.id), str(tmp_path / "out.jsonl"), "--jsonl")
