"""A bot that may not see content: noticed, told, and made good once it may. From outside, over HTTP."""

from __future__ import annotations

from pathlib import Path

from channels.desk import Desk, opened
from custody.channels import jobs
from custody.channels.condition.standing import standing_of
from custody.channels.debts.debts import Debts
from custody.channels.jobs import item_id


def state(desk: Desk) -> str:
    item = desk.store.records.item(item_id(desk.channel.id))
    return standing_of(desk.store, desk.mirror.blobs, item).state.word


def contents(desk: Desk) -> list[str]:
    return [found.message["content"] for found in desk.mirror.table(desk.channel.id).between()]


def test_what_was_fetched_without_the_intent_is_owed_and_fetched_when_it_is_granted(tmp_path: Path) -> None:
    with opened(tmp_path, 450) as desk:
        desk.standin.switches.message_content = False
        desk.mirror_all()
        assert desk.ids() == desk.theirs()
        assert set(contents(desk)) == {""}
        assert state(desk) == "no-intent"
        assert Debts.read(desk.mirror.seen(desk.channel.id).mark).open()
        desk.standin.switches.message_content = True
        desk.clock.ahead += 3601
        jobs.watch(desk.mirror)
        desk.run()
        world = desk.standin.world
        there = [raw["content"] for n in range(desk.channel.count) if (raw := world.message(desk.channel, n))]
        assert contents(desk) == there
        assert state(desk) != "no-intent"
        assert not Debts.read(desk.mirror.seen(desk.channel.id).mark).open()


def test_a_veil_overwrites_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, 150) as desk:
        desk.mirror_all()
        before = contents(desk)
        desk.standin.switches.message_content = False
        desk.clock.ahead += 3601
        desk.store.queue.submit_one(jobs.sync_job(desk.channel.id))
        desk.run()
        assert contents(desk) == before
