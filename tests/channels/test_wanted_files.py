"""Files that messages name: wanted when they are named, kept or lost by a job of their own. From outside, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.desk import Desk, opened
from channels.office import Office, office
from custody.channels import jobs
from custody.channels.condition.standing import all_standing, ending, standing_of, told_before
from custody.channels.discord import attachments, media
from custody.channels.discord.client import Discord
from custody.channels.files import fetch
from custody.channels.files.fetch import PAUSES
from custody.channels.files.links import Finder
from custody.channels.files.wanted import Wanted, joined, latest, state_of
from custody.channels.jobs import item_id, review_job, sync_job
from custody.demo.standins.discord_guild import World
from custody.demo.standins.discord_traffic import Reply


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path, 250) as desk:
        yield desk


def rows(desk: Desk) -> dict[int, dict[str, Any]]:
    return {row.id: row.message for row in desk.mirror.files(desk.channel.id).between()}


def assets(desk: Desk) -> dict[str, dict[str, Any]]:
    return {row.message["link"]: row.message for row in desk.mirror.assets(desk.channel.id).between()}


def later(desk: Desk, **parts: float) -> None:
    """Time passes, and the watch looks around."""
    desk.clock.ahead += timedelta(**parts).total_seconds()
    jobs.watch(desk.mirror)
    desk.run()


def asked_for(desk: Desk, text: str) -> int:
    return sum(text in path for path, _ in desk.standin.asked)


@pytest.mark.parametrize("answer", [403, 404, 410, 451, 500, 503, "http://127.0.0.1:9/elsewhere", "short"])
def test_a_file_that_cannot_be_had_never_stops_its_message(desk: Desk, answer: int | str) -> None:
    desk.standin.switches.file_trouble = lambda path: answer
    desk.mirror_all()
    assert desk.ids() == desk.theirs()
    found = rows(desk)
    assert found
    gone_for_good = answer in (451, "http://127.0.0.1:9/elsewhere")
    assert {row["state"] for row in found.values()} == {"lost" if gone_for_good else "wanted"}
    assert all(row["why"] for row in found.values())
    assert all("127.0.0.1:9" not in path for path, _ in desk.standin.asked)
    desk.standin.switches.file_trouble = None
    if not gone_for_good:
        later(desk, hours=1, minutes=1)
        assert {row["state"] for row in rows(desk).values()} == {"kept"}
        assert all(desk.mirror.blobs.read(name) for name, *_ in kept(desk).values())


def kept(desk: Desk) -> dict[int, tuple[str, str]]:
    return attachments.where_kept(desk.mirror.blobs, desk.channel.id)


def test_a_file_that_is_refused_twice_an_hour_apart_is_lost_and_wanted_again_when_seen_again(desk: Desk) -> None:
    one = desk.theirs()[-5]
    desk.channel.edited[one] = {"attachments": [attachment(desk, one)]}
    desk.standin.switches.file_trouble = lambda path: 404 if str(one + 4096) in path else None
    desk.mirror_all()
    assert rows(desk)[one + 4096]["state"] == "wanted"
    asked = asked_for(desk, f"/messages/{one}")
    assert asked == 1  # for a fresh link
    later(desk, minutes=30)
    assert asked_for(desk, f"/messages/{one}") == asked
    later(desk, minutes=31)
    assert rows(desk)[one + 4096]["state"] == "lost"
    assert "files lost" in desk.events()
    desk.standin.switches.file_trouble = None
    desk.clock.ahead += 86_400
    desk.store.queue.submit_one(sync_job(desk.channel.id))  # it looks back, and sees the message again
    desk.run()
    assert rows(desk)[one + 4096]["state"] == "kept"


def test_a_file_that_stays_lost_is_told_once_and_counted_truly(desk: Desk) -> None:
    """Every night its message is seen again and it is asked for; that it is still lost is no news."""
    one, two = desk.theirs()[-5], desk.theirs()[-6]
    for message in (one, two):
        desk.channel.edited[message] = {"attachments": [attachment(desk, message)]}
    desk.standin.switches.file_trouble = lambda path: (
        404 if str(one + 4096) in path or str(two + 4096) in path else None
    )
    desk.mirror_all()
    later(desk, hours=1, minutes=1)
    assert (files_lost(desk), desk.events().count("files lost")) == (2, 1)
    for _ in range(3):
        before = told_before(desk.store, desk.mirror.blobs)
        asked = asked_for(desk, f"/{one + 4096}/")
        night(desk)
        assert asked_for(desk, f"/{one + 4096}/") > asked, "it was asked for again"
        assert rows(desk)[one + 4096]["state"] == "lost"
        assert (files_lost(desk), desk.events().count("files lost")) == (2, 1)
        stand = all_standing(desk.store, desk.mirror.blobs)
        assert ending(stand, before, finished=True).code == 0, "an earlier run has told it"
    desk.standin.switches.file_trouble = lambda path: 404 if str(one + 4096) in path else None
    night(desk)
    assert files_lost(desk) == 1
    desk.standin.switches.file_trouble = None
    night(desk)
    assert files_lost(desk) == 0
    assert {row["state"] for row in rows(desk).values()} == {"kept"}
    assert not any("lost_since" in row for row in rows(desk).values()), "lost anew, it would be news"


def night(desk: Desk) -> None:
    desk.clock.ahead += 86_400
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()


def files_lost(desk: Desk) -> int:
    return int(desk.store.records.item(item_id(desk.channel.id)).detail.get("files_lost") or 0)


def attachment(desk: Desk, message: int, **more: Any) -> dict[str, Any]:
    about = {"id": str(message + 4096), "filename": "a.bin", "size": 300, "channel": desk.channel.id}
    return about | more


def test_an_expired_link_is_not_tried_but_fetched_anew(desk: Desk) -> None:
    desk.standin.switches.link_seconds = 1
    desk.standin.switches.file_trouble = lambda path: 500
    desk.mirror_all()
    refused = asked_for(desk, "/attachments/")
    desk.standin.switches.link_seconds, desk.standin.switches.file_trouble = 1000, None
    later(desk, minutes=2)
    assert {row["state"] for row in rows(desk).values()} == {"kept"}
    assert asked_for(desk, "/attachments/") == refused + len(rows(desk))  # no expired link was shown again


def test_a_server_that_stumbles_is_asked_more_and_more_rarely_and_never_given_up(desk: Desk) -> None:
    desk.standin.switches.file_trouble = lambda path: 502
    desk.mirror_all()
    count = len(rows(desk))
    for number, pause in enumerate(PAUSES, 2):
        before = asked_for(desk, "/attachments/")
        later(desk, seconds=pause.total_seconds() - 30)
        assert asked_for(desk, "/attachments/") == before
        later(desk, seconds=31)
        assert asked_for(desk, "/attachments/") == before + count
        assert {row["tries"] for row in rows(desk).values()} == {number}


def test_a_file_larger_than_allowed_is_lost_with_the_reason(tmp_path: Path) -> None:
    with opened(tmp_path, 100) as desk:
        one = desk.theirs()[3]
        size = desk.mirror.largest_file + 1
        desk.channel.edited[one] = {"attachments": [attachment(desk, one, size=size)]}
        desk.mirror_all()
        assert (rows(desk)[one + 4096]["state"], len(desk.ids())) == ("lost", 100)
        assert not any(size == blob.size for blob in desk.mirror.blobs.list("media/"))


def test_what_a_message_shows_besides_attachments_is_kept_as_well(desk: Desk) -> None:
    one, place = desk.theirs()[7], f"http://{desk.standin.place}"
    desk.channel.edited[one] = {
        "content": "look <:blob:77> and <a:dance:78>",
        "author": {"id": "5", "username": "ann", "avatar": "abc"},
        "message_snapshots": [
            {
                "message": {
                    "content": "x",
                    "attachments": [
                        {
                            "id": "4321",
                            "filename": "forwarded.bin",
                            "url": f"{place}/external/forwarded.bin?ex=ffffffff",
                        }
                    ],
                }
            }
        ],
        "embeds": [
            {
                "image": {"url": "https://a.stranger.example/p.png", "proxy_url": f"{place}/external/p.png"},
                "footer": {"text": "t", "proxy_icon_url": f"{place}/external/icon.png"},
            }
        ],
        "components": [{"type": 12, "items": [{"media": {"url": f"{place}/external/g.png", "width": 3}}]}],
        "sticker_items": [{"id": "9", "name": "s", "format_type": 3}],
        "reactions": [{"emoji": {"id": "79", "name": "r"}, "count": 1}],
    }
    desk.mirror_all()
    assert rows(desk)[4321]["state"] == "kept"
    wanted = {
        "external/p.png",
        "external/icon.png",
        "external/g.png",
        "stickers/9.json",
        "emojis/77.png",
        "emojis/78.gif",
        "emojis/79.png",
        "avatars/5/abc.png",
    }
    found = assets(desk)
    assert {link.removeprefix(f"{place}/") for link in found} == wanted
    for link, row in found.items():
        assert row["state"] == "kept"
        blob = media.name_of(str(desk.channel.id), row["digest"])
        assert desk.mirror.blobs.read(blob).data == f"picture {link.removeprefix(place)}".encode()
    before = len(desk.standin.asked)
    desk.store.queue.submit_one(review_job(desk.channel.id, one))
    desk.run()
    assert not [path for path, _ in desk.standin.asked[before:] if not path.startswith("/api")]


def test_whatever_a_message_says_its_links_can_be_looked_for() -> None:
    finder = Finder(frozenset({"cdn"}), "https://cdn")
    odd: list[Any] = [None, 1, "x", [], {}, [None, 3, "y", {"url": 5}], {"url": "https://cdn/%zz", "width": 1}]
    names = (
        "attachments",
        "embeds",
        "components",
        "sticker_items",
        "message_snapshots",
        "reactions",
        "author",
        "mentions",
    )
    for name in (*names, "content"):
        for value in odd:
            assert all(link.url.startswith("https://cdn/") for link in finder.of({"id": "1", name: value}))
    for place in ("http://169.254.169.254/latest", "http://[", "https://cdn:99/x", "https://cdn@evil/", "\ud800", "x:"):
        (link,) = finder.of({"id": "1", "attachments": [{"id": "2", "url": place}]})
        assert not finder.may_ask(link), "it is named, and nobody asks there"
        assert link.key == 2
        (picture,) = finder.of({"id": "1", "embeds": [{"image": {"url": place, "width": 1}}]})
        assert picture.key


def test_a_file_at_another_place_has_a_row_is_told_and_is_fetched_once_that_place_is_allowed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = desk.theirs()[-3]
    elsewhere = "files.example:81"
    named = {"id": "4321", "filename": "x.txt", "size": 3, "url": f"http://{elsewhere}/x.txt"}
    desk.standin.switches.odd = lambda path, _, reply: (
        Reply(200, [raw | ({"attachments": [named]} if raw["id"] == str(one) else {}) for raw in reply.body])
        if path.endswith("/messages")
        else reply
    )
    before = len(desk.standin.asked)
    desk.mirror_all()
    row = rows(desk)[4321]
    assert (row["state"], elsewhere in row["why"], "media_hosts" in row["why"]) == ("refused", True, True)
    assert not [path for path, _ in desk.standin.asked[before:] if "x.txt" in path]
    item = desk.store.records.item(item_id(desk.channel.id))
    state = standing_of(desk.store, desk.mirror.blobs, item).state
    assert (state.word, state.waits) == ("files", False)
    assert elsewhere in state.sentence
    assert "files refused" in desk.events()
    told = ending([standing_of(desk.store, desk.mirror.blobs, item)], {}, finished=True)
    assert told.code == 1, "an error for the run that found it"
    known = {item.id: state.known_as}
    assert ending([standing_of(desk.store, desk.mirror.blobs, item)], known, finished=True).code == 0
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert desk.events().count("files refused") == 1, "it is told once"
    desk.mirror.discord.media_hosts |= {elsewhere}
    monkeypatch.setattr(Discord, "attachment", lambda _, url: iter([b"abc"]))
    desk.store.queue.submit_one(sync_job(desk.channel.id))
    desk.run()
    assert rows(desk)[4321]["state"] == "kept"


def test_a_killed_worker_goes_on_with_the_files_that_are_left(desk: Desk) -> None:
    desk.standin.switches.file_trouble = lambda path: 500
    desk.mirror_all()
    desk.standin.switches.file_trouble = None
    table = desk.mirror.files(desk.channel.id)
    assert Wanted.read(table.mark).low == min(rows(desk))
    desk.clock.ahead += 61
    done, told = fetch.batch(desk.mirror, desk.channel.id)
    assert done
    assert told.detail["kept"] == len(rows(desk))
    assert Wanted.read(table.mark).low is None  # nobody need look through all rows again


def test_the_mark_of_what_is_wanted_is_raised_only_if_nobody_wanted_more_meanwhile() -> None:
    mark = joined("", '{"want": 30}')
    read = Wanted.read(mark)
    more = joined(mark, '{"want": 40}')
    assert Wanted.read(more) == Wanted(30, read.turn + 1)
    assert joined(more, Wanted(None, read.turn).written()) == more  # the job had not seen the second
    assert Wanted.read(joined(more, Wanted(40, read.turn + 1).written())).low == 40


def test_rows_of_earlier_archives_are_understood_and_what_is_kept_stays_kept() -> None:
    assert state_of({"id": "1", "digest": "ab"}) == "kept"
    assert state_of({"id": "1", "lost": "404"}) == "lost"
    kept, wanted = b'{"id":"1","digest":"ab"}', b'{"id":"1","state":"wanted","at":"2026"}'
    assert latest((kept,), wanted) == (kept,) == latest((wanted,), kept)
    lost = b'{"id":"1","state":"lost","at":"2027"}'
    assert latest((wanted,), lost) == (lost,) == latest((lost,), wanted)


def test_an_erased_message_takes_what_it_showed_with_it(desk: Desk) -> None:
    one, place = desk.theirs()[7], f"http://{desk.standin.place}"
    desk.channel.edited[one] = {
        "attachments": [attachment(desk, one)],
        "embeds": [{"image": {"proxy_url": f"{place}/external/p.png"}}],
    }
    desk.mirror_all()
    found = desk.mirror.table(desk.channel.id).search(one)
    assert found
    names = {name for key, (name, *_) in kept(desk).items() if key == one + 4096}
    attachments.drop(desk.mirror.blobs, desk.channel.id, [found])
    assert one + 4096 not in rows(desk)
    assert not assets(desk)
    assert not names & {blob.name for blob in desk.mirror.blobs.list("media/")}


# --- Exports ---


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Office]:
    world = World(seed=4)
    world.add(0, "general", 40)
    with office(tmp_path / "office", world) as here:
        yield here


def test_a_long_name_does_not_keep_a_channel_from_being_exported(here: Office, tmp_path: Path) -> None:
    (channel,) = here.world.channels.values()
    one = here.world.message_id(channel, 3)
    name = "ü" * 280 + "/../x.tar.gz"
    here.world.channels[channel.id].edited[one] = {
        "attachments": [{"id": str(one + 4096), "filename": "long", "size": 5, "channel": channel.id}]
    }
    here.run("channel", "add", str(channel.id))
    here.run("channel", "run", "--until-idle")
    files = attachments.files_of(blobs := here.blobs(), channel.id)
    row = files.search(one + 4096)
    assert row
    assert row.message["state"] == "kept", row.message
    files.delete([row.id])
    files.upsert([row.message | {"name": name}])
    here.run("channel", "export", str(channel.id), str(tmp_path / "pages"), "--html")
    names = [path.name for path in (tmp_path / "pages" / "files").iterdir()]
    assert any(found.startswith(str(one + 4096)) and found.endswith(".gz") for found in names)
    assert all(len(found) < 110 for found in names)
    (path,) = [path for path in (tmp_path / "pages" / "files").iterdir() if path.name.startswith(str(one + 4096))]
    kept_there = attachments.where_kept(blobs, channel.id)[one + 4096][0]
    assert path.read_bytes() == blobs.read(kept_there).data


@pytest.mark.parametrize(("drops", "kept"), [(1, True), (2, False)])
def test_a_connection_that_breaks_before_anything_came_is_tried_once_more(
    memory_folder: Path, drops: int, kept: bool
) -> None:
    with opened(memory_folder / "dropped", count=230) as desk:
        left: dict[str, int] = {}

        def drop(path: str) -> str | None:
            left[path] = left.get(path, drops) - 1
            return "drop" if left[path] >= 0 else None

        desk.standin.switches.file_trouble = drop
        desk.mirror_all()
        states = {state_of(row.message) for row in desk.mirror.files(desk.channel.id).between()}
        assert states == {"kept" if kept else "wanted"}
