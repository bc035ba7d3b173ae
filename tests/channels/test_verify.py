"""Verifying: whatever is done to an archive behind its back, or missing from it, is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.desk import Desk, ids_of, opened
from channels.office import QUICK, Office, add, office
from custody.channels.blobs.port import Facts
from custody.channels.integrity.verify import CODES, Verified, verify
from custody.channels.jobs import add_job
from custody.channels.table import Settings, Table
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply


@pytest.fixture
def desk(memory_folder: Path) -> Iterator[Desk]:
    with opened(memory_folder, count=400) as desk:
        desk.mirror_all()
        yield desk


def look(desk: Desk, live: bool = True, pages: int = 8) -> Verified:
    table = desk.mirror.table(desk.channel.id)
    return verify(desk.mirror.blobs, desk.channel.id, table, desk.mirror.discord if live else None, pages, seed=1)


def test_a_sound_archive_is_sound_and_was_compared(desk: Desk) -> None:
    found = look(desk)
    assert (found.sound, found.findings, found.messages) == (True, (), 400)
    assert found.files > 1
    assert found.sampled > 150


def spoil_a_message(desk: Desk) -> None:
    blobs = desk.mirror.blobs
    leaf = next(blob for blob in blobs.list(f"ch/{desk.channel.id}/leaf/"))
    ids = blobs.blocks(leaf.name).ids
    line = json.loads(blobs.read(leaf.name, 0, blobs.blocks(leaf.name).sizes[0]).data.splitlines()[0])
    blobs.stage(leaf.name, [(ids[0], json.dumps(line | {"content": "never said"}).encode() + b"\n")])
    blobs.commit(leaf.name, ids, leaf.facts)


def lose_a_leaf(desk: Desk) -> None:
    leaf = next(blob for blob in desk.mirror.blobs.list(f"ch/{desk.channel.id}/leaf/"))
    desk.mirror.blobs.delete(leaf.name)


def lose_a_message(desk: Desk) -> None:
    desk.mirror.table(desk.channel.id).delete([desk.theirs()[5]])


def claim_too_little(desk: Desk) -> None:
    mark = json.dumps({"upto": str(desk.theirs()[200]), "gaps": []}, separators=(",", ":"))
    Table(desk.mirror.blobs, desk.channel.id, Settings(capacity=16)).upsert([], mark)  # which joins no marks


def spoil_a_file(desk: Desk) -> None:
    blob = next(desk.mirror.blobs.list("media/"))
    ids = desk.mirror.blobs.blocks(blob.name).ids
    desk.mirror.blobs.stage(blob.name, [(ids[0], b"something else")])
    desk.mirror.blobs.commit(blob.name, ids, Facts())


def lose_a_file(desk: Desk) -> None:
    desk.mirror.blobs.delete(next(desk.mirror.blobs.list("media/")).name)


SPOILERS: list[tuple[Callable[[Desk], None], str]] = [
    (spoil_a_message, "block.damaged"),
    (lose_a_leaf, "child.missing"),
    (lose_a_message, "live.missing"),
    (claim_too_little, "coverage.beyond"),
    (spoil_a_file, "file.damaged"),
    (lose_a_file, "file.missing"),
]


@pytest.mark.parametrize(("spoil", "code"), SPOILERS, ids=[code for _, code in SPOILERS])
def test_what_was_done_behind_its_back_is_found(desk: Desk, spoil: Callable[[Desk], None], code: str) -> None:
    spoil(desk)
    found = look(desk, live=code.startswith("live"))
    assert not found.sound
    assert code in {finding.code for finding in found.findings}


def test_a_channel_that_moved_on_is_no_fault_of_the_archive(desk: Desk) -> None:
    world, first = desk.standin.world, desk.theirs()[:3]
    world.edit(desk.channel, first[0], datetime(2026, 5, 1, tzinfo=UTC), "other words")
    world.delete(desk.channel, first[1])
    world.post(desk.channel, 5)
    found = look(desk)
    assert found.sound
    assert {(one.code, one.where) for one in found.findings} == {
        ("live.edited", str(first[0])),
        ("live.deleted", str(first[1])),
    }


def test_a_gap_is_told_and_is_no_fault(memory_folder: Path) -> None:
    with opened(memory_folder / "other", count=400) as desk:
        desk.standin.switches.between_pages = lambda _, page: setattr(desk.channel, "unreadable", page >= 2)
        desk.store.queue.submit_one(add_job(desk.channel.id, newest_first=True))
        desk.run()
        desk.channel.unreadable, desk.standin.switches.between_pages = False, None
        found = look(desk)
        assert found.sound
        assert [one.code for one in found.findings] == ["gap"]


def test_every_code_has_a_sentence() -> None:
    assert {code for _, code in SPOILERS} - {"block.damaged", "child.missing"} <= set(CODES)


# --- What the live channel shows and the archive has not is owed, told and paid ---


def state(here: Office, channel: Channel) -> str:
    return str(json.loads(here.run("channel", "why", str(channel.id), "--json"))["state"])


def forget(here: Office, channel: Channel, ids: list[int]) -> None:
    """Messages in the middle of what was fetched are not there, and no gap says so."""
    assert here.table(channel.id).delete(ids) == len(ids)


def text(here: Office, channel: Channel, one: int) -> object:
    found = here.table(channel.id).search(one)
    return found.message["content"] if found and found.versions else None


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=41)
    world.add(0, "reading-room", 340)
    with office(tmp_path, world, QUICK, look_back=1, round_pages=0) as here:
        yield here


@pytest.mark.parametrize("mend", [False, True], ids=["by the next run", "at once"])
def test_what_verify_finds_lacking_is_owed_and_paid(here: Office, mend: bool) -> None:
    channel = add(here)
    number, ids = str(channel.id), ids_of(here.world, channel)
    forget(here, channel, ids[3:5])
    channel.edited[ids[6]] = {"content": "said otherwise, and without an edit"}
    here.world.edit(channel, ids[8], datetime(2026, 5, 1, tzinfo=UTC), "edited")
    here.table(channel.id).delete([ids[10]], "2026-06-01T00:00:00.000000+00:00")
    said = here.run("channel", "verify", number, *(["--mend"] if mend else []), code=0 if mend else 1)
    if not mend:
        assert f"WRONG  live.missing  {ids[3]}" in said
        assert "5 of them are owed" in said
        assert state(here, channel) == "owed"
        assert "owed" in here.run("channel", "list")
        assert f"owed: {ids[3]}" in here.run("channel", "gaps", number)
        assert "lacking here or otherwise here" in here.run("channel", "gaps", number)
        here.run("channel", "run", "--until-idle")
    assert [text(here, channel, one) is not None for one in ids[3:5]] == [True, True]
    assert text(here, channel, ids[6]) == "said otherwise, and without an edit"
    assert text(here, channel, ids[8]) == "edited"
    assert text(here, channel, ids[10]) is not None, "a direct look brings back what was erased"
    assert "nothing is wrong" in here.run("channel", "verify", number)
    assert state(here, channel) == "whole"


def test_a_page_that_leaves_it_out_again_pays_nothing_and_a_refusal_ends_it(here: Office) -> None:
    channel = add(here)
    number, ids = str(channel.id), ids_of(here.world, channel)
    forget(here, channel, ids[3:4])
    here.run("channel", "verify", number, code=1)
    out = {"": True}

    def without(path: str, _: dict[str, str], reply: Reply) -> Reply:
        if path.endswith("/messages"):
            return Reply(200, [one for one in reply.body if one["id"] != str(ids[3])])
        return Reply(500, "") if path.endswith(f"/messages/{ids[3]}") and out[""] else reply

    here.standin.switches.odd = without
    here.run("channel", "run", "--until-idle", "--max-minutes", "0.2", code=75)
    assert state(here, channel) in ("owed", "behind")
    assert f"owed: {ids[3]}" in here.run("channel", "gaps", number)
    out.clear()
    out[""] = False
    here.run("channel", "sync", number)
    here.run("channel", "run", "--until-idle")
    assert text(here, channel, ids[3]) is not None, "asked for by its number it is there"
    forget(here, channel, ids[3:4])
    here.standin.switches.odd = None
    here.run("channel", "verify", number, code=1)
    here.world.delete(channel, ids[3])
    here.run("channel", "sync", number)
    here.run("channel", "run", "--until-idle")
    assert state(here, channel) == "whole", "it is not there any more, which two answers say"
