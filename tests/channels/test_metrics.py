"""Numbers about channels, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from channels.desk import opened
from custody.channels.condition.metrics import kept_for_a_while, numbers
from custody.channels.condition.states import WORST_FIRST
from custody.channels.jobs import add_job, watch
from custody.channels.opening import told
from custody.demo.standins.discord_traffic import Reply
from custody.errors import Unavailable
from custody.kernel.model.machine import PLAIN
from custody.opening import Gauge, Opened
from custody.web.metrics import Telling
from custody.web.queries.overview import Glance


def test_channels_are_counted_by_state_with_the_longest_unseen_and_the_files_that_are_lacking(
    memory_folder: Path,
) -> None:
    with opened(memory_folder, count=60) as desk:
        desk.mirror.discord.sleep = lambda _: None
        desk.standin.switches.file_trouble = lambda _: 500
        desk.store.queue.submit_one(add_job(77))
        desk.mirror_all()
        other = desk.standin.world.add(0, "other", 0)
        desk.store.queue.submit_one(add_job(other.id))
        desk.run()
        desk.clock.ahead += 50
        found = numbers(desk.store, desk.mirror.blobs)
        assert list(found.states) == list(WORST_FIRST), "those that are none are told as well"
        assert {word: count for word, count in found.states.items() if count} == {
            "not-added": 1,
            "files": 1,
            "whole": 1,
        }
        assert found.alarming == {("77", "not-added"): 1}
        assert found.files["wanted"] > 0
        assert 50 <= found.unseen < 3_600
        telling = Telling()
        glance = Glance(desk.store, PLAIN, [])
        assert b"custody_channel" not in telling.text(glance), "where none are mirrored"
        telling.applications = [Opened(gauges=lambda: told(numbers(desk.store, desk.mirror.blobs)))]
        text = telling.text(glance).decode()
        for line in (
            'custody_channels{state="whole"} 1.0',
            'custody_channels{state="token"} 0.0',
            'custody_channel_alarming{channel="77",state="not-added"} 1.0',
            'custody_channel_files{state="lost"} 0.0',
            "custody_channel_unseen_seconds ",
        ):
            assert line in text
        desk.standin.switches.odd = lambda path, _, reply: Reply(500, "") if path == f"/channels/{other.id}" else reply
        watch(desk.mirror)
        assert 'custody_channels{state="behind"} 1.0' in telling.text(glance).decode()

        def unreachable() -> Iterator[Gauge]:
            raise Unavailable("no blobs")

        telling.applications = [Opened(gauges=unreachable), *telling.applications]
        assert b"custody_jobs" in telling.text(glance), "nothing else is kept from being told"


def test_what_is_read_from_blobs_is_read_once_a_minute() -> None:
    made = list[int]()

    def make() -> int:
        made.append(1)
        return len(made)

    look, anew = kept_for_a_while(make), kept_for_a_while(make, 0)  # type: ignore[arg-type]
    assert [look(), look(), anew(), anew()] == [1, 1, 2, 3]
