"""What is lacking, removed or wrong is said in so many words, and with a code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import QUICK, Office, add, office
from custody.channels import jobs
from custody.channels.discord.answers import fault
from custody.channels.files import fetch
from custody.channels.files.wanted import state_of
from custody.channels.integrity.verify import verify
from custody.channels.messages.last_seen import of as seen_of
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply


@pytest.fixture
def here(tmp_path: Path) -> Iterator[tuple[Office, Channel]]:
    world = World(seed=8)
    world.add(0, "one", 240)
    with office(tmp_path / "o", world, QUICK) as place:
        yield place, add(place)


@pytest.mark.parametrize("what", ["all", "one", "other bytes"])
def test_fsck_misses_files_that_are_gone(here: tuple[Office, Channel], what: str) -> None:
    place, channel = here
    media, number = place.folder / "channels" / "media" / str(channel.id), str(channel.id)
    assert "nothing is wrong" in place.run("channel", "fsck", number)
    if what == "all":
        shutil.rmtree(media)
    else:
        content = next(
            path for path in sorted(media.iterdir()) if "@" in path.name and path.name.split("@")[1].isdigit()
        )
        content.write_bytes(b"x" * content.stat().st_size)
    said = place.run("channel", "fsck", number, code=1)
    assert ("file.missing" if what == "all" else "file.damaged") in said
    assert "damaged" in place.run("channel", "why", number)
    place.run("channel", "fsck", number, "--repair", code=0)
    place.run("channel", "run", "--until-idle")
    assert place.run("channel", "fsck", number).endswith("nothing is wrong\n")
    assert "kept up to date" in place.run("channel", "why", number)


def test_the_daily_sweep_misses_files_without_reading_them(memory_folder: Path) -> None:
    with opened(memory_folder, count=240) as desk:
        desk.mirror_all()
        gone = next(iter(desk.mirror.blobs.list(f"media/{desk.channel.id}/")))
        jobs.sweep(desk.mirror)
        assert not desk.store.records.item(jobs.item_id(desk.channel.id)).detail.get("damage")
        desk.mirror.blobs.delete(gone.name)
        jobs.sweep(desk.mirror)
        assert desk.store.records.item(jobs.item_id(desk.channel.id)).detail["damage"]


def test_of_a_removed_channel_nothing_is_exported_or_searched(here: tuple[Office, Channel]) -> None:
    place, channel = here
    number, target = str(channel.id), place.folder / "x.jsonl"
    place.run("channel", "remove", number, "--why", "a test", "--yes")
    place.run("channel", "run", "--until-idle")
    for form in ("--jsonl", "--sqlite", "--html"):
        assert "removed" in place.run("channel", "export", number, str(target), form, code=3)
        assert not target.exists()
    assert "removed" in place.run("channel", "search", number, "--since", "2020-01-01", code=3)


def test_an_export_of_a_channel_with_a_gap_says_so(here: tuple[Office, Channel]) -> None:
    place, channel = here
    number = str(channel.id)
    place.world.post(channel, 5)
    place.standin.switches.odd = lambda path, query, reply: Reply(500, {}) if path.endswith("/messages") else reply
    for _ in range(20):  # a busy machine may not come to it within one
        place.run("channel", "sync", number)
        place.run("channel", "run", "--until-idle", "--max-minutes", "0.02", code=(0, 1, 75))
        told = place.run("channel", "export", number, str(place.folder / "x.jsonl"), "--jsonl", code=(0, 1, 75))
        if "500" in told:
            break
    said = place.run("channel", "export", number, str(place.folder / "x.jsonl"), "--jsonl", code=(1, 75))
    assert "not all of it" in said
    assert "500" in said
    assert "not all of it" in place.run("channel", "verify", number, "--pages", "0", code=(1, 75))
    place.standin.switches.odd = None
    place.run("channel", "sync", number)
    place.run("channel", "run", "--until-idle")
    place.run("channel", "export", number, str(place.folder / "x.jsonl"), "--jsonl")
    assert place.run("channel", "verify", number, "--pages", "0").endswith("nothing is wrong\n")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"id": "1", "na', "cut off"),
        (b"[1, 2", "cut off"),
        (b"<!doctype html><h1>hello</h1>", "a page of HTML"),
        (b"[" * 200_000, "nested too deeply"),
        (b"", "empty"),
        (b"\xff\xfe\x00", "no text"),
        (b"hello", "no JSON"),
        (b"null", "only null"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(data: bytes, said: str) -> None:
    assert said in fault(data)


def test_an_answer_that_is_none_is_told_by_what_it_is(memory_folder: Path) -> None:
    from custody.errors import Unavailable

    with opened(memory_folder, count=5) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.standin.switches.odd = lambda path, query, reply: Reply(200, "<!doctype html><h1>hi</h1>")
        with pytest.raises(Unavailable, match="a page of HTML"):
            desk.mirror.discord.channel(desk.channel.id)


def test_search_says_until_when_a_message_is_kept(tmp_path: Path) -> None:
    from custody.channels.messages.deletions import erased_from
    from custody.kernel.model.item import Item

    class Told:
        deleted, policies = "honour after 7 days", dict[str, str]()

    def item(**detail: Any) -> Item:
        with opened(tmp_path / str(len(detail)), count=3) as desk:
            desk.mirror_all()
            found = desk.store.records.item(jobs.item_id(desk.channel.id))
        return replace(found, detail={**found.detail, **detail})

    gone = "2026-06-01T00:00:00.000000+00:00"
    assert erased_from(Told(), item(), gone).startswith("2026-06-08T00:00")
    assert erased_from(Told(), item(deleted="tombstone"), gone).startswith("2026-06-01T00:10")
    assert erased_from(Told(), item(deleted="keep"), gone) == ""
    assert erased_from(Told(), item(disbelieved="2026-06-02T00:00:00+00:00"), gone) == ""


def test_the_command_says_it_as_well(here: tuple[Office, Channel]) -> None:
    place, channel = here
    one, early, late = (
        place.table(channel.id).between().__next__().id,
        "2026-06-01T00:00:00+00:00",
        "2026-06-01T00:20:00+00:00",
    )
    row = {"id": str(one), "absent": [[early, "page", "1f2e3d4c"], [late, "404", "404"]]}
    seen_of(place.blobs(), channel.id).upsert([row])
    words = ("channel", "search", str(channel.id), str(one))
    assert "; kept here\n" in place.run(*words)
    place.run("channel", "deleted", str(channel.id), "honour after 7 days", "--why", "a test")
    assert "kept here until 2026-06-08T00:20" in place.run(*words)


# --- A file that was described wrongly ---


def wrongly(desk: Desk, wrong: dict[str, bool]) -> None:
    """Every attachment is said to be one byte longer than it is."""

    def odd(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if not wrong["now"] or "/messages" not in path:
            return reply
        body = reply.body if isinstance(reply.body, list) else [reply.body]
        for raw in body:
            for one in raw.get("attachments") or ():
                one["size"] += 1
        return reply

    desk.standin.switches.odd = odd


@pytest.mark.parametrize("by", ["the next try", "a page"])
def test_a_size_that_is_corrected_there_is_corrected_here(memory_folder: Path, by: str) -> None:
    with opened(memory_folder, count=100) as desk:
        wrong = {"now": True}
        wrongly(desk, wrong)
        desk.mirror_all()
        rows = [row.message for row in desk.mirror.files(desk.channel.id).between()]
        assert rows
        assert {state_of(row) for row in rows} == {"wanted"}
        found = verify(desk.mirror.blobs, desk.channel.id, desk.mirror.table(desk.channel.id))
        assert (found.sound, found.never_had >= len(rows)) == (True, True)
        wrong["now"] = False
        if by == "a page":
            desk.store.queue.submit_one(jobs.sync_job(desk.channel.id))
            desk.run()
        else:
            desk.clock.ahead += 86_400
            while not fetch.batch(desk.mirror, desk.channel.id)[0]:
                pass
        rows = [row.message for row in desk.mirror.files(desk.channel.id).between()]
        assert {state_of(row) for row in rows} == {"kept"}
        assert verify(desk.mirror.blobs, desk.channel.id, desk.mirror.table(desk.channel.id)).never_had == 0
