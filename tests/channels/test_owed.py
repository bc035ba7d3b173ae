"""What was fetched and is not whole is owed: it is told with its reason and its next try, fetched again, and paid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import Office, add, reading_room
from custody.channels.condition.standing import ending, standing_of
from custody.channels.condition.states import Facts, state_of
from custody.channels.context import item_id
from custody.channels.crawl.coverage import Coverage
from custody.channels.debts.debts import DAMAGED, UNREADABLE, Debt, Debts
from custody.channels.debts.payment import AGAIN, note
from custody.channels.jobs import sync_job, watch
from custody.demo.standins.discord_traffic import Reply


def owed(desk: Desk) -> tuple[Debt, ...]:
    return Debts.read(desk.mirror.seen(desk.channel.id).mark).open()


def state(desk: Desk) -> str:
    item = desk.store.records.item(item_id(desk.channel.id))
    return standing_of(desk.store, desk.mirror.blobs, item).state.word


def sync(desk: Desk) -> None:
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()


def spoil(folder: Path, number: int = 0) -> None:
    """One letter of a message's text becomes another, on the disk."""
    path = sorted((folder / "ch").rglob("leaf/*@*.jsonl"))[0]
    data, at = path.read_bytes(), -1
    for _ in range(number + 1):
        at = data.index(b'"content":"', at + 1)
    at += 11
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_what_could_not_be_read_is_owed_and_paid_when_it_can(tmp_path: Path) -> None:
    with opened(tmp_path, 150) as desk:
        desk.mirror_all()

        veiled = str(desk.theirs()[-30])

        def odd(path: str, query: dict[str, str], reply: Reply) -> Reply | None:
            shown: Any = reply.body
            return (
                Reply(200, [None if one["id"] == veiled else one for one in shown])
                if path.endswith("/messages")
                else reply
            )

        desk.standin.switches.odd = odd
        sync(desk)
        assert {debt.why for debt in owed(desk)} == {UNREADABLE}
        assert state(desk) == "owed"
        desk.standin.switches.odd = None
        assert watch(desk.mirror) == 0, "not at once"
        desk.clock.ahead += AGAIN.total_seconds() + 1
        assert watch(desk.mirror) == 1
        desk.run()
        assert owed(desk) == ()
        assert state(desk) == "whole"


def test_what_is_damaged_is_mended_by_whatever_shows_it(tmp_path: Path) -> None:
    with opened(tmp_path, 150) as desk:
        desk.mirror_all()
        before = [one.versions for one in desk.mirror.table(desk.channel.id).between()]
        spoil(tmp_path / "blobs")
        wrong = [one.id for one in desk.mirror.table(desk.channel.id).between() if one.damaged]
        assert len(wrong) == 1
        note(desk.mirror.seen(desk.channel.id), wrong, desk.mirror.stamp())
        assert state(desk) == "damaged"
        sync(desk)
        assert [one.versions for one in desk.mirror.table(desk.channel.id).between()] == before
        assert (owed(desk), state(desk)) == ((), "whole")
        assert "mended" in desk.events()


def test_what_is_damaged_here_and_gone_there_stays_owed_and_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    with opened(tmp_path, 450) as desk:
        desk.mirror_all()
        spoil(tmp_path / "blobs", 2)
        spoil(tmp_path / "blobs", 5)
        lost, mendable = (one.id for one in desk.mirror.table(desk.channel.id).between() if one.damaged)
        desk.standin.world.delete(desk.channel, lost)
        note(desk.mirror.seen(desk.channel.id), [lost, mendable], desk.mirror.stamp())
        sync(desk)
        assert [(debt.low, debt.why) for debt in owed(desk)] == [(lost, DAMAGED)]
        assert [one.id for one in desk.mirror.table(desk.channel.id).between() if one.damaged] == [lost]
        assert state(desk) == "damaged"


# --- Files ---


def test_files_that_are_wanted_for_a_day_are_told_and_lost_ones_stop_no_run() -> None:
    covered, round_ = Coverage(7, ()), {"round": {"ended": "x"}}
    detail = {**round_, "files_since": "2026-01-01", "files_due": "2026-01-03"}
    wanted = state_of(Facts(detail, covered, 0, wanted=2, lost=1))
    assert (wanted.word, wanted.waits) == ("files", True)
    assert "tried again at 2026-01-03" in wanted.sentence
    lost = state_of(Facts(round_, covered, 0, lost=1))
    assert (lost.word, lost.waits) == ("files", False)
    assert "custody channel verify" in lost.sentence
    assert ending([], {}, True).code == 0


def test_a_file_that_cannot_be_had_for_a_day_is_told_in_the_first_line(tmp_path: Path) -> None:
    with opened(tmp_path, 230) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.standin.switches.file_trouble = lambda path: 502
        desk.mirror_all()
        assert state(desk) == "files", "what is lacking is told at once"
        desk.clock.ahead += 86_400 * 1.5
        watch(desk.mirror)
        desk.run()
        assert state(desk) == "files"
        desk.standin.switches.file_trouble = None
        desk.clock.ahead += 86_400 * 8
        watch(desk.mirror)
        desk.run()
        assert state(desk) == "whole"


# --- As commands ---


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    with reading_room(tmp_path / "office") as here:
        yield here


def test_damage_that_an_export_meets_is_owed_told_and_paid(here: Office, tmp_path: Path) -> None:
    channel = add(here)
    number = str(channel.id)
    assert json.loads(here.run("channel", "gaps", number, "--json"))["debts"] == []
    spoil(here.folder / "channels")
    for form, target in (("--jsonl", "a.jsonl"), ("--sqlite", "a.db"), ("--html", "site")):
        here.run("channel", "export", number, str(tmp_path / target), form, code=1)
    (debt,) = json.loads(here.run("channel", "gaps", number, "--json"))["debts"]
    assert (debt["why"], debt["low"]) == ("damaged", debt["high"])
    assert "tried again with the next sync" in here.run("channel", "gaps", number)
    assert "1 part of it is damaged here" in here.run("channel", "why", number).splitlines()[0]
    assert json.loads(here.run("channel", "why", number, "--json"))["state"] == "damaged"
    here.run("channel", "verify", number, "--mend")
    assert json.loads(here.run("channel", "gaps", number, "--json"))["debts"] == []
    assert "kept up to date" in here.run("channel", "why", number)
    spoil(here.folder / "channels")
    here.run("channel", "verify", number, "--pages", "0", code=1)
    here.run("channel", "sync", number)
    assert "everything is up to date" in here.run("channel", "run", "--until-idle"), "a sync has mended it"
