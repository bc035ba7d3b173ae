"""What a channel shows without anybody editing: reactions, previews, pins, results, threads. From outside, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from channels.desk import Desk, opened
from custody.channels.jobs import review_job, sync_job
from custody.channels.messages import last_seen

LATER: dict[str, Any] = {
    "reactions": [{"emoji": {"id": None, "name": "👍"}, "count": 42}],
    "embeds": [{"title": "a preview", "url": "https://example.org/"}],
    "pinned": True,
    "thread": {"id": "77", "name": "about it"},
    "poll": {"question": {"text": "?"}, "results": {"is_finalized": True, "answer_counts": [{"id": 1, "count": 3}]}},
    "flags": 32,
}


def as_seen(desk: Desk, message: int) -> dict[str, Any]:
    found = next(last_seen.zipped(desk.mirror.table(desk.channel.id), desk.mirror.seen(desk.channel.id), message))
    assert found[0].id == message
    assert len(found[0].versions) == 1
    return last_seen.on_top(found[0].message, found[1])


def changed(desk: Desk, message: int, **more: Any) -> None:
    poll = {"poll": {"question": {"text": "?"}}}
    desk.channel.edited[message] = {**poll, **more}


def test_what_changes_without_an_edit_is_kept_as_the_next_sync_sees_it(tmp_path: Path) -> None:
    with opened(tmp_path, 150) as desk:
        one = desk.theirs()[-30]
        changed(desk, one)
        desk.mirror_all()
        changed(desk, one, **LATER)
        desk.store.queue.submit_one(sync_job(desk.channel.id))
        desk.run()
        assert {name: as_seen(desk, one)[name] for name in LATER} == LATER
        rows = list(desk.mirror.seen(desk.channel.id).between())
        assert [row.id for row in rows] == [one]
        blobs = [(blob.name, blob.etag) for blob in desk.mirror.blobs.list("")]
        desk.store.queue.submit_one(sync_job(desk.channel.id))
        desk.run()
        assert [
            (blob.name, blob.etag) for blob in desk.mirror.blobs.list("")
        ] == blobs  # nothing changed: nothing written


def test_what_changes_without_an_edit_is_kept_when_somebody_asks_for_a_review(tmp_path: Path) -> None:
    with opened(tmp_path, 450) as desk:
        one = desk.theirs()[5]  # no sync looks back so far
        changed(desk, one)
        desk.mirror_all()
        changed(desk, one, **LATER)
        desk.store.queue.submit_one(review_job(desk.channel.id, one))
        desk.run()
        assert {name: as_seen(desk, one)[name] for name in LATER} == LATER


def test_a_preview_that_is_taken_away_stays_under_what_was(tmp_path: Path) -> None:
    with opened(tmp_path, 50) as desk:
        one = desk.theirs()[5]
        desk.mirror_all()
        for embeds in ([{"title": "a preview"}], []):
            desk.channel.edited[one] = {"embeds": embeds}
            desk.store.queue.submit_one(review_job(desk.channel.id, one))
            desk.run()
        row = desk.mirror.seen(desk.channel.id).search(one)
        assert row
        assert row.message["was"]["embeds"]["value"] == [{"title": "a preview"}]
        assert as_seen(desk, one)["embeds"] == []


def test_removing_a_channel_removes_what_was_seen_of_it(tmp_path: Path) -> None:
    from custody.channels.jobs import remove_job

    with opened(tmp_path, 50) as desk:
        desk.mirror_all()
        desk.channel.edited[desk.theirs()[5]] = {"pinned": True}
        desk.store.queue.submit_one(sync_job(desk.channel.id))
        desk.run()
        assert any(desk.mirror.blobs.list("seen/"))
        desk.store.queue.submit_one(remove_job(desk.channel.id, "asked"))
        desk.run()
        assert not any(desk.mirror.blobs.list("seen/"))
