"""How a channel stands, in a word and a sentence, and the code that a run ends with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import Office, office
from custody.channels.condition import states
from custody.channels.condition.standing import ending, standing_of
from custody.channels.condition.states import HOUR, MINUTE, Facts, state_of, trouble
from custody.channels.crawl.coverage import Coverage, Gap
from custody.channels.crawl.kept import Kept
from custody.channels.jobs import item_id, sync_job, watch
from custody.demo.standins.discord_guild import Channel, World
from custody.demo.standins.discord_traffic import Reply, Switches

WHOLE: dict[str, Any] = {"round": {"ended": "2026-01-01T00:00:00+00:00"}}
QUICK = Switches(bucket_limit=10_000, global_limit=100_000)


def word(**facts: Any) -> str:
    detail = WHOLE | facts.pop("detail", {})
    return state_of(Facts(detail, facts.pop("coverage", Coverage(5)), 0, **facts)).word


def troubled(what: str) -> dict[str, Any]:
    return {
        "trouble": {
            "what": what,
            "said": "no",
            "since": states.trust.stamp(-2 * HOUR),
            "tries": 1,
            "next": states.trust.stamp(9),
        }
    }


STATES: dict[str, dict[str, Any]] = {
    "token": {"detail": troubled("token") | {"brake": 3}},
    "no-intent": {"no_intent": True, "detail": {"brake": 3}},
    "brake": {"detail": {"brake": 3}, "damaged": 1},
    "damaged": {"damaged": 1, "failed": [4]},
    "not-added": {"detail": troubled("gone") | {"mirrored": "asked"}, "failed": [4]},
    "failing": {"failed": [4], "coverage": Coverage(5, (Gap(1, 3),))},
    "hidden": {"detail": troubled("hidden"), "coverage": Coverage(5, (Gap(1, 3),))},
    "unreadable": {"detail": troubled("unreadable"), "owed": 1},
    "gone": {"detail": troubled("gone"), "owed": 1},
    "gaps": {"coverage": Coverage(5, (Gap(1, 3),)), "owed": 1},
    "owed": {"owed": 1, "wanted": 2},
    "files": {"wanted": 2, "busy": True},
    "behind": {"busy": True},
    "unlisted": {"detail": {"threads_tied": "2026-03-01T00:00:00+00:00"}},
    "whole": {},
}


@pytest.mark.parametrize("expected", STATES)
def test_the_worst_is_said_first(expected: str) -> None:
    assert list(STATES) == list(states.WORST_FIRST)
    assert word(**STATES[expected]) == expected


def test_only_what_is_whole_is_kept_up_to_date() -> None:
    for expected, facts in STATES.items():
        given = dict(facts)
        told = state_of(Facts(WHOLE | given.pop("detail", {}), given.pop("coverage", Coverage(5)), 0, **given))
        assert ("kept up to date" in told.sentence) is (expected == "whole")


def test_trouble_is_tried_again_later_and_later_and_three_times_is_failing() -> None:
    known, pauses, now = dict[str, Any](), list[int](), 0
    for _ in range(7):
        known = trouble(known, "failing", "down", now)
        pauses.append(states.trust.moment(known["next"]) - now)
    assert pauses == [MINUTE, 2 * MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 6 * HOUR, 6 * HOUR]
    assert word(detail={"trouble": trouble({}, "failing", "down", 0)}) == "behind", "once is no alarm"
    assert word(detail={"trouble": known}) == "failing"
    assert trouble(known, "hidden", "no", 5)["tries"] == 1, "another trouble begins anew"


# --- From outside ---


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=3)
    world.add(0, "reading-room", 250)
    with office(tmp_path, world, replace(QUICK)) as here:
        yield here


def channel_of(here: Office) -> Channel:
    return next(iter(here.world.channels.values()))


def test_a_refused_token_is_told_and_a_new_one_goes_on_by_itself(here: Office) -> None:
    channel = channel_of(here)
    here.run("channel", "add", str(channel.id))
    here.standin.switches.between_pages = lambda _, page: setattr(here.standin.switches, "token", "another")
    said = here.run("channel", "run", "--until-idle", code=1)
    assert "the bot's token is refused since" in said
    assert "1 of 1 channels need somebody to look" in said
    assert "the bot's token is refused" in here.run("channel", "why", str(channel.id)).splitlines()[0]
    assert "up to date" not in here.run("channel", "why", str(channel.id))
    asked = len(here.standin.asked)
    here.run("channel", "run", "--until-idle", code=1)
    assert len(here.standin.asked) - asked <= 2, "nobody insists"
    here.standin.switches.between_pages = None
    (here.folder / "discord.token").write_text("another")
    assert "everything is up to date" in here.run("channel", "run", "--until-idle")
    assert here.same(channel)


def test_a_channel_that_is_taken_away_is_an_error_once_and_named_after_that(here: Office) -> None:
    channel = channel_of(here)
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    channel.unreadable = True
    assert "we may not read it" in here.run("channel", "run", "--until-idle", code=1)
    said = here.run("channel", "run", "--until-idle")
    assert "we may not read it" in said
    assert "everything else is up to date" in said


def test_a_channel_without_history_is_an_error_until_it_is_set_aside(here: Office) -> None:
    channel = channel_of(here)
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    channel.no_history = True
    here.run("channel", "sync", str(channel.id))
    assert "it shows no messages at all" in here.run("channel", "run", "--until-idle", code=1)
    here.run("channel", "run", "--until-idle", code=1)
    here.run("channel", "set-aside", str(channel.id), "--why", "we know")
    here.run("channel", "run", "--until-idle")
    here.run("channel", "set-aside", str(channel.id), "--why", "again", "--back")
    here.run("channel", "run", "--until-idle", code=1)


def test_a_service_that_answers_nonsense_makes_a_run_end_and_come_again(here: Office) -> None:
    channel = channel_of(here)
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    here.standin.switches.odd = lambda path, query, reply: (
        Reply(400, {"message": "Invalid Form Body", "code": 50035}) if path.endswith("/messages") else reply
    )
    here.world.post(channel)
    said = here.run("channel", "run", "--until-idle", code=75)
    assert "stopped; the next run goes on" in said
    assert "tried again at" in here.run("channel", "why", str(channel.id)).splitlines()[0]
    here.standin.switches.odd = None
    here.run("channel", "sync", str(channel.id))
    assert "everything is up to date" in here.run("channel", "run", "--until-idle")


def test_a_last_message_that_nobody_shows_is_no_news_for_ever(memory_folder: Path) -> None:
    with opened(memory_folder, count=120) as desk:
        desk.mirror_all()
        (last,) = desk.standin.world.post(desk.channel)
        desk.standin.world.delete(desk.channel, last)
        assert watch(desk.mirror) == 1
        desk.run()
        assert watch(desk.mirror) == 0, "the channel still names it"
        desk.standin.world.post(desk.channel)
        assert watch(desk.mirror) == 1


# --- Deletions, with an operator ---


@pytest.fixture
def purged(memory_folder: Path) -> Iterator[Desk]:
    """300 messages, of which 150 were deleted there, and the strictest policy."""
    with opened(memory_folder, count=300) as desk:
        desk.mirror = replace(desk.mirror, deleted="tombstone", look_back=4)
        desk.mirror_all()
        for one in desk.theirs()[100:250]:
            desk.standin.world.delete(desk.channel, one)
        again(desk, 6)
        yield desk


def again(desk: Desk, times: int) -> None:
    for _ in range(times):
        desk.clock.ahead += 1_200
        desk.store.queue.submit_one(sync_job(desk.channel.id))
        desk.run()


def test_many_at_once_are_held_back_until_an_operator_says_so(purged: Desk) -> None:
    from custody.channels.messages import deletions

    kept = Kept(purged.mirror, purged.channel.id)
    assert (len(purged.ids()), len(purged.gone())) == (300, 150)
    item = purged.store.records.item(item_id(purged.channel.id))
    assert standing_of(purged.store, purged.mirror.blobs, item).state.word == "brake"
    assert purged.events().count("brake") == 1
    late = purged.theirs()[-1]
    purged.standin.world.delete(purged.channel, late)
    upto = purged.store.now()
    deletions.say(
        purged.mirror,
        purged.channel.id,
        upto=upto,
        why="a purge",
        who="me",
        word="believed",
        count=len(deletions.believed(kept, upto)),
    )
    again(purged, 3)
    assert len(purged.ids()) == 300 - 150 - 1, "and what was deleted since, being few, needed no word"
    item = purged.store.records.item(item_id(purged.channel.id))
    assert standing_of(purged.store, purged.mirror.blobs, item).state.word == "whole"


def test_what_is_disbelieved_is_kept_for_ever(purged: Desk) -> None:
    from custody.channels.messages import deletions

    deletions.say(
        purged.mirror, purged.channel.id, upto=purged.store.now(), why="a raid", who="me", word="disbelieved", count=150
    )
    again(purged, 3)
    assert (len(purged.ids()), len(purged.gone())) == (300, 150)
    item = purged.store.records.item(item_id(purged.channel.id))
    assert standing_of(purged.store, purged.mirror.blobs, item).state.word == "whole"


def test_days_of_grace_are_waited_for_and_a_sight_ends_them(memory_folder: Path) -> None:
    with opened(memory_folder, count=120) as desk:
        desk.mirror = replace(desk.mirror, policies={str(desk.standin.world.guild): "honour after 3 days"})
        desk.mirror_all()
        one, other = desk.theirs()[-5], desk.theirs()[-9]
        desk.standin.world.delete(desk.channel, one)
        desk.standin.world.delete(desk.channel, other)
        again(desk, 2)
        assert set(desk.gone()) == {one, other}
        desk.channel.deleted.discard(other)  # it was there all the time
        again(desk, 1)
        assert (desk.gone(), len(desk.ids())) == ([one], 120)
        desk.clock.ahead += 3 * 86_400
        assert watch(desk.mirror) == 1, "its time has come"
        desk.run()
        assert (desk.gone(), len(desk.ids())) == ([], 119)
        found = desk.mirror.table(desk.channel.id).search(one)
        assert found is not None
        assert found.deleted_at
        assert "erased" in desk.events()


def test_an_ending_names_jobs_that_failed_before_there_was_a_channel() -> None:
    assert ending((), {}, finished=True).code == 0
    assert ending((), {}, finished=False).code == 75
