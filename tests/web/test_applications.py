"""The pages of channels, archives, robots and the sealed history: what they show, and every action on them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from custody.border.sandbox.output import Recorder
from custody.channels import jobs as work
from custody.channels.crawl.coverage import Coverage, Gap
from custody.channels.integrity import expected as held
from custody.channels.pages import coverage_bar
from custody.channels.pages.coverage_bar import ranges
from custody.kernel.history.head import Head
from custody.kernel.history.ledger import last_block
from custody.kernel.history.sealer import Sealer
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter, Job, NewJob
from custody.kernel.stores.rows import Tx
from custody.robots.ready import fixity
from custody.web.queries import job_files
from web.house import BEGAN, CHANNEL, EMPTY_CHANNEL, LOG, House, open_house, write_book

HTML = {"Accept": "text/html"}
NO_GIT = pytest.mark.skipif(not shutil.which("git"), reason="git is missing: apt-get install git")


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A filled house whose tests change different things in it."""
    with open_house(tmp_path_factory.mktemp("changing")) as made:
        yield made


def text(house: House, address: str, who: str = "admin") -> str:
    answer = house.client(who).get(address, headers=HTML)
    assert answer.status_code == 200, answer.text[:300]
    return answer.text


def send(house: House, address: str, who: str = "operator", **fields: str) -> object:
    client: TestClient = house.client(who)
    token = house.site.form_token(house.site.tokens.caller(house.token(who)))
    return client.post(address, data={"form_token": token, **fields})


def status(house: House, address: str, **fields: str) -> int:
    return int(send(house, address, **fields).status_code)  # type: ignore[attr-defined]


def jobs(house: House, kind: str) -> list[Job]:
    return list(house.archive.store.queue.every(Filter(kind=kind)))


# Coverage

A, B, C, D = (BEGAN + (n << 32) for n in (1, 40, 60, 100))


@pytest.mark.parametrize(
    ("known", "first", "expected"),
    [
        (Coverage(), None, []),
        (Coverage(D), A, [(True, A, D)]),
        (Coverage(D, (Gap(B, C),)), A, [(True, A, B), (False, B, C), (True, C, D)]),
        (Coverage(D, (Gap(0, C),)), C, [(False, CHANNEL, C), (True, C, D)]),
        (Coverage(D, (Gap(B, C), Gap(C, D))), A, [(True, A, B), (False, B, C), (False, C, D)]),
        (Coverage(D), None, [(True, D, D)]),
    ],
)
def test_a_channels_bar_has_every_gap_and_nothing_else(
    known: Coverage, first: int | None, expected: list[tuple[bool, int, int]]
) -> None:
    found = ranges(known, CHANNEL, first)
    assert [(each.kept, each.low, each.high) for each in found] == expected
    assert all(each.width >= coverage_bar.LEAST for each in found)
    if found:
        assert found[0].start == 0
        assert abs(found[-1].start + found[-1].width - 100) < 0.1


def test_a_channel_shows_what_is_kept_what_is_missing_and_why(changing: House) -> None:
    page = text(changing, f"/channels/{CHANNEL}")
    assert "with 1 known gap" in page
    assert "1 range is known to be missing" in page
    assert "Fetch this range" in page
    assert "To be looked at again" in page
    assert "no worker for it has been seen" in page, "why the review waits"
    lost = text(changing, f"/channels/{EMPTY_CHANNEL}")
    assert "cannot be read any more: no rights" in lost
    assert "Fetch this range" not in text(changing, f"/channels/{CHANNEL}", "reader")
    assert "Its threads" in page
    assert "a quiet corner" in page


def test_messages_are_read_from_a_day_on_with_edits_and_deletions(changing: House) -> None:
    page = text(changing, f"/channels/{CHANNEL}/messages")
    assert "&lt;script&gt;alert(2)" in page
    assert "deleted, noticed 2026-01-01" in page
    client = changing.client("reader")
    first = client.get(f"/channels/{CHANNEL}/messages.json").json()
    assert len(first["messages"]) == 50
    following = client.get(f"/channels/{CHANNEL}/messages.json", params={"after": first["next"]}).json()
    ids = [row["id"] for row in (*first["messages"], *following["messages"])]
    assert ids == sorted(set(ids))
    assert client.get(f"/channels/{CHANNEL}/messages.json", params={"day": "2080-01-01"}).json()["messages"] == []
    assert client.get(f"/channels/{CHANNEL}/messages.json", params={"day": "soon"}).status_code == 400
    one = text(changing, f"/channels/{CHANNEL}/messages/{BEGAN + (5 << 32)}")
    assert "corrected" in one
    assert "An earlier version" in one
    for wrong, expected in (("abc", 400), ("9" * 30, 400), (str(BEGAN + 7), 404)):
        assert client.get(f"/channels/{CHANNEL}/messages/{wrong}").status_code == expected
    assert client.get("/channels/424242").status_code == 404


def test_pages_of_a_damaged_channel_say_so(tmp_path: Path) -> None:
    with open_house(tmp_path) as own:
        readers = own.site.options.readers
        assert readers is not None
        blobs = readers(CHANNEL).table._tree.blobs
        leaves = [blob.name for blob in blobs.list(f"ch/{CHANNEL}/leaf/")]
        blobs.delete(leaves[-1])  # and with it the mark
        assert "damaged" in text(own, "/channels")
        assert f"custody channel verify {CHANNEL} --mend" in text(own, f"/channels/{CHANNEL}")
        assert "damaged here" in text(own, f"/channels/{CHANNEL}/messages")
        assert own.archive.store.records.item(work.item_id(CHANNEL)).detail["damage"]["said"]


def test_pages_of_a_channel_that_is_gone_from_the_disk_say_so(tmp_path: Path) -> None:
    with open_house(tmp_path) as own:
        readers = own.site.options.readers
        assert readers is not None
        blobs, store = readers(CHANNEL).table._tree.blobs, own.archive.store
        held.note(store, blobs, CHANNEL)
        for blob in list(blobs.list(f"ch/{CHANNEL}/")):
            blobs.delete(blob.name)
        assert "damaged" in text(own, "/channels")
        assert "nothing of it is there" in text(own, f"/channels/{CHANNEL}")
        assert store.records.item(work.item_id(CHANNEL)).detail["damage"]["said"]


def test_messages_are_shown_as_last_seen_and_what_is_gone_there_is_marked_or_by_its_policy_hidden(
    changing: House,
) -> None:
    readers = changing.site.options.readers
    assert readers is not None
    gone, liked = (BEGAN + (number << 32) for number in (10, 11))
    marks = [[f"2026-03-01T{hour}:00:00.000000+00:00", kind, kind] for hour, kind in ((10, "page"), (11, "404"))]
    thumb = {
        "reactions": [{"emoji": {"name": "👍"}, "count": 42}],
        "was": {"embeds": {"seen": "", "value": [{"url": "x"}]}},
    }
    readers(CHANNEL).overlay.upsert(
        [{"id": str(gone), "absent": marks}, {"id": str(liked), "seen": "2026-03-01T12:00:00+00:00", **thumb}]
    )
    page = text(changing, f"/channels/{CHANNEL}/messages")
    assert "deleted there, noticed 2026-03-01T11:00; kept here" in page
    assert "message 10" in page
    assert "👍 42" in page
    assert "No longer shown" in text(changing, f"/channels/{CHANNEL}/messages/{liked}")
    assert "It was deleted there" in text(changing, f"/channels/{CHANNEL}/messages/{gone}")
    item = NewItem(work.item_id(CHANNEL), detail={"deleted": "honour after 30 days"}, changed=False)
    changing.archive.store.records.put([item])
    for address in (f"/channels/{CHANNEL}/messages", f"/channels/{CHANNEL}/messages/{gone}"):
        for ending in ("", ".json"):
            page = changing.client("reader").get(address + ending).text
            assert "message 10" not in page
            assert "2026-03-01T11:00" in page


def test_every_action_on_a_channel_asks_for_a_job_once(changing: House) -> None:
    here, store = f"/channels/{CHANNEL}", changing.archive.store
    assert status(changing, f"{here}/sync") == 303
    assert status(changing, f"{here}/sync") == 303
    assert len([job for job in jobs(changing, work.SYNC) if job.lane == str(CHANNEL)]) == 1
    wanted = str(BEGAN + (9 << 32))
    assert status(changing, f"{here}/review", message=wanted) == 303
    assert wanted in [job.payload["message"] for job in jobs(changing, work.REVIEW)]
    assert status(changing, f"{here}/review", message="x") == 400
    assert status(changing, f"{here}/remove", sure="no") == 400
    assert jobs(changing, work.REMOVE) == []
    assert status(changing, f"{here}/remove", sure=str(CHANNEL)) == 400, "not without a reason"
    assert status(changing, f"{here}/remove", sure=str(CHANNEL), why="they asked us to") == 303
    [removal] = jobs(changing, work.REMOVE)
    assert "along" not in removal.facts, "the page has shown no thread"
    assert status(changing, f"{here}/hold") == 400
    assert status(changing, f"{here}/hold", why="they are moving") == 303
    assert "they are moving" in text(changing, here)
    assert status(changing, f"{here}/lift") == 303
    assert [hold for hold in store.queue.holds() if hold.scope == "lane"] == []
    assert status(changing, f"{here}/explode") == 400
    assert status(changing, "/channels", channel="777") == 303
    assert "to be added" in text(changing, "/channels")
    assert status(changing, "/channels", channel="a channel") == 400


def test_without_a_configuration_of_channels_the_pages_say_so(changing: House, tmp_path: Path) -> None:
    with open_house(tmp_path, filled=False, readers=None) as bare:
        bare.archive.store.queue.submit_one(work.add_job(5))
        assert "cannot be seen from this process" in text(bare, "/channels")
        answer = bare.client("admin").get("/channels/5/messages")
        assert (answer.status_code, answer.json()["code"]) == (503, "channels.missing")


# Archives


@NO_GIT
def test_an_archive_shows_every_revision_and_every_task(changing: House) -> None:
    page = text(changing, "/archives/book")
    assert "Chapter 1 &lt;em&gt;" in page
    for task in ("COMMIT", "index", "build"):
        assert f'<th scope="row">{task}</th>' in page
    data = changing.client("reader").get("/archives/book.json").json()
    assert {(job["task"], job["position"]) for job in data["jobs"]} == {
        (task, revision) for task in ("COMMIT", "index", "build") for revision in (1, 2)
    }
    assert changing.client("reader").get("/archives/nothing").status_code == 404


@NO_GIT
def test_an_archive_shows_what_waits_for_what_as_a_picture_and_in_words(changing: House) -> None:
    page = text(changing, "/archives/book")
    drawn = page[page.index('<svg xmlns="http://www.w3.org/2000/svg" class="picture"') :]
    drawn = drawn[: drawn.index("</svg>") + 6]
    picture = ET.fromstring(drawn)
    assert [picture[0].tag.rpartition("}")[2], picture[1].tag.rpartition("}")[2]] == ["title", "desc"]
    assert picture[0].text == "Revisions 1 to 2"
    assert "a box for each of 6 tasks" in str(picture[1].text)
    assert "<style" not in drawn, "the page allows no style but its own sheet"
    assert "style=" not in drawn
    boxes = {title.text for title in picture.iterfind("{*}g/{*}title")}
    assert {str(box).partition(": ")[0] for box in boxes} == {
        f"rev-{revision}:{task}" for task in ("COMMIT", "index", "build") for revision in (1, 2)
    }
    arrows = {title.text for title in picture.iterfind("{*}path/{*}title")}
    assert "rev-1:COMMIT comes before rev-2:COMMIT" in arrows
    assert "rev-1:COMMIT &lt;-- rev-2:COMMIT" in " ".join(page.split()), "the same in words"


@NO_GIT
def test_more_tasks_than_anyone_could_see_are_not_drawn(changing: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custody.workflows.pages.archives.MOST_DRAWN", 5)
    page = text(changing, "/archives/book")
    assert 'class="picture"' not in page
    assert "custody archive graph book" in page


@NO_GIT
def test_an_archive_is_asked_held_and_released_by_forms(changing: House) -> None:
    here, store = "/archives/book", changing.archive.store
    write_book(changing.archive.home, 3)
    assert status(changing, f"{here}/ask") == 303
    assert "not planned yet" in text(changing, here)
    assert status(changing, f"{here}/hold") == 400
    assert status(changing, f"{here}/hold", why="the printer burns") == 303
    changing.work()
    assert "not planned yet" in text(changing, here), "nothing is planned while it is held"
    assert "the printer burns" in text(changing, here)
    assert status(changing, f"{here}/lift") == 303
    changing.work()
    assert "not planned yet" not in text(changing, here)
    assert status(changing, f"{here}/explode") == 400
    assert store.queue.holds()[0].name == "maps", "other holds are left alone"


@NO_GIT
@pytest.mark.parametrize("to", ["²", "x", "9" * 30, "-1"])
def test_a_page_of_revisions_that_is_none_is_the_newest(changing: House, to: str) -> None:
    assert "build" in text(changing, f"/archives/book?to={to}")


@NO_GIT
def test_an_archive_is_held_in_all_its_lanes_and_released_in_all(changing: House) -> None:
    here, store = "/archives/book", changing.archive.store
    store.queue.submit_one(NewJob("workflow/task", {}, lane="book/slow", collection="book"))
    before = {hold.name for hold in store.queue.holds()}
    assert status(changing, f"{here}/hold", why="the printer burns") == 303
    assert {hold.name for hold in store.queue.holds()} - before == {"book", "book/slow"}
    assert status(changing, f"{here}/lift") == 303
    assert {hold.name for hold in store.queue.holds()} == before


# A job's parts


@NO_GIT
def test_a_log_is_paged_searched_and_stripped_of_what_terminals_obey(changing: House) -> None:
    here = f"/jobs/{changing.task}/log"
    page = text(changing, here)
    assert "1 201 lines." in page
    assert "line 500 of the log" in page
    assert "line 501 of the log" not in page
    assert "line 501 of the log" in text(changing, f"{here}?from=501")
    found = text(changing, f"{here}?find=LINE+77")
    assert "11 lines of 1 201" in found
    last = text(changing, f"{here}?from=1201")
    assert "red &lt;b&gt;end&lt;/b&gt;" in last
    assert "\x1b" not in last
    whole = changing.client("reader").get(f"{here}/1")
    assert whole.text == LOG
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert changing.client("reader").get(f"{here}/9").status_code == 404
    assert "keeps no log" in text(changing, f"/jobs/{changing.papers}/log")


def test_what_a_task_prints_is_seen_while_it_runs(own: House) -> None:
    payload = {"archive": "a", "revision": 1, "run": "commit", "task": "t"}
    number = own.archive.store.queue.submit_one(NewJob("workflow/task", payload, lane="a")).id
    assert "No attempt has printed" in text(own, f"/jobs/{number}/log")
    [claim] = own.archive.store.queue.claim(["workflow/task|queued||a"], "me", 600)
    folder = own.shop.sandboxes.root / f"task-{number}-{claim.job.attempts}"
    folder.mkdir(parents=True)
    recorder = Recorder(folder, 1 << 20)
    recorder.add("out", b"half way\n", 0.1)
    page = text(own, f"/jobs/{number}/log")
    assert "half way" in page
    assert "It is still running" in page
    recorder.add("out", b"nearly there\n", 0.2)
    assert "nearly there" in text(own, f"/jobs/{number}/log")
    recorder.close()


@NO_GIT
def test_files_that_a_task_left_can_be_had_and_nothing_beside_them(changing: House) -> None:
    client = changing.client("reader")
    assert "index.txt" in text(changing, f"/jobs/{changing.task}/files")
    got = client.get(f"/jobs/{changing.task}/file/index.txt")
    assert got.text == "3 chapters\n"
    assert got.headers["content-disposition"].startswith("attachment")
    folder = changing.shop.folder(changing.archive.store.queue.get(changing.task))
    (folder / "outputs" / "link").symlink_to("/etc/passwd")
    for wrong in ("../attempt-1.log", "..%2fattempt-1.log", "%2e%2e/attempt-1.log", "link", "/etc/passwd", "nothing"):
        assert client.get(f"/jobs/{changing.task}/file/{wrong}").status_code in (404, 405), wrong
    (folder / "outputs" / "link").unlink()
    done = next(job for job in changing.archive.jobs(changing.papers) if job.ended == "passed")
    assert "a.txt" in text(changing, f"/jobs/{done.id}/files")


def test_lines_are_counted_in_all_of_a_log_not_only_on_its_page() -> None:
    data = b"x\n" * 2000
    page = job_files.lines(data, 1, "X")
    assert (len(page.rows), page.total, page.matched, page.more) == (500, 2000, 2000, 501)
    assert job_files.lines(b"", 1, "") == job_files.Lines([], 0, 0, 1, None)
    assert job_files.lines(b"\xff\xfe\x00 broken", 1, "").rows[0][1].endswith("broken")


# Robots


def test_a_robot_says_why_it_does_not_take_an_item(changing: House) -> None:
    item = next(job for job in changing.archive.jobs(changing.papers) if job.ended == "passed").facts["primary"]
    page = text(changing, f"/robots/fixity?item={item}")
    assert f"{item} is not ready" in page
    assert "fixity checked is older than the last change: no" in page
    assert "there is no item nothing" in text(changing, "/robots/fixity?item=nothing")
    assert changing.client("reader").get("/robots/nobody").status_code == 404
    rows = changing.client("reader").get("/robots.csv?type=object").text.splitlines()
    assert rows[0] == "item,ingested,fixity checked,formats identified"
    assert f"{item},success,success,success" in rows


def test_a_robot_sleeps_and_wakes_by_forms(changing: House) -> None:
    assert status(changing, "/robots/fixity/hold") == 400
    assert status(changing, "/robots/fixity/hold", why="the tape robot is serviced") == 303
    page = text(changing, "/robots/fixity")
    assert "asleep" in page
    assert "the tape robot is serviced" in page
    assert status(changing, "/robots/fixity/lift") == 303
    assert "asleep" not in text(changing, "/robots/fixity")
    assert status(changing, "/robots/fixity/explode") == 400
    assert status(changing, "/robots/nobody/hold", why="x") == 404


# The sealed history


def test_verification_runs_as_a_job_and_its_result_is_shown(own: House) -> None:
    for number in range(3):
        own.archive.store.queue.submit_one(NewJob("parcel", {"n": number}))
        own.seal()
    assert "It vouches for everything up to block 3" in text(own, "/history")
    assert "has not been verified" in text(own, "/history")
    assert status(own, "/history/verify") == 303
    assert status(own, "/history/verify") == 409, "one at a time"
    own.work()
    page = text(own, "/history")
    assert "The history is sound: " in page
    assert " in 3 blocks" in page
    assert own.client("reader").get("/history.json").json()["verifications"][0]["facts"]["sound"] is True

    def tamper(tx: Tx) -> None:
        tx.run("erase_body", subject="job/2", seq=1)

    own.archive.store.db.write(tamper)
    assert status(own, "/history/verify") == 303
    own.work()
    page = text(own, "/history")
    assert "1 fault" in page
    assert "job/2#1" in page


def test_without_a_public_key_verification_says_what_is_missing(tmp_path: Path) -> None:
    with open_house(tmp_path, filled=False, keeping=Sealer()) as bare:
        assert "No public key is configured" in text(bare, "/history")
        assert status(bare, "/history/verify") == 303
        bare.work()
        assert "verify.keys" in text(bare, "/history")


def test_a_witness_that_knows_more_or_something_else_is_shown_as_trouble(own: House) -> None:
    own.archive.store.queue.submit_one(NewJob("parcel"))
    own.seal()
    keeping = own.site.options.keeping
    signer, known = keeping.signer, last_block(own.archive.store.ledger)
    assert signer is not None
    assert known is not None
    for blocks, tree, told in ((9, bytes(32), "which is not here"), (1, bytes(32), "another block 1")):
        head = Head(known.origin, blocks, tree, known.algorithm, 1, known.at)
        signed = replace(head, signatures=((known.origin, signer.sign(head.text)),))
        keeping.witnesses[0].write_text(f"\n{signed}")
        assert told in text(own, "/history")
    keeping.witnesses[0].write_text("no head at all")
    assert "no head that a known key signed" in text(own, "/history")


def test_the_proof_of_an_event_is_one_that_others_can_check(own: House, tmp_path: Path) -> None:
    own.archive.store.queue.submit_one(NewJob("parcel"))
    client = own.client("reader")
    asked = {"subject": "job/1", "seq": "1"}
    assert client.get("/history/proof.json", params=asked).json() == {"sealed": False}
    assert "not sealed yet" in text(own, "/history/proof?subject=job/1&seq=1")
    own.seal()
    proof = client.get("/history/proof.json", params=asked).json()
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    verifier = resources.files("custody.kernel.history.exchange") / "standalone_verifier.py"
    public = str(own.site.options.keeping.keys[0])
    done = subprocess.run(
        [sys.executable, str(verifier), str(tmp_path / "proof.json"), "--key", public],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for wrong, expected in (({}, 400), ({"subject": "job/1", "seq": "7"}, 404), ({"subject": "x", "seq": "a"}, 400)):
        assert client.get("/history/proof.json", params=wrong).status_code == expected
    assert client.get("/history/blocks/9").status_code == 404


# An item's whole history


def test_an_items_page_has_its_jobs_events_too_but_only_what_the_caller_may_see(changing: House) -> None:
    job = next(job for job in changing.archive.jobs(changing.papers) if job.ended == "passed")
    item = job.facts["primary"]
    data = changing.client("reader").get(f"/items/{item}.json").json()
    assert f"job/{job.id}" in [chapter["subject"] for chapter in data["chapters"]]
    page = text(changing, f"/items/{item}")
    assert page.rindex(">ingested ") < page.rindex(">fixity checked ")
    assert "In the inventory" in page
    assert 'href="/history/proof?' in page
    assert 'href="/history/proof?' not in text(changing, f"/items/{item}", "reader/papers")
    revision = changing.client("reader").get("/items/book@1.json").json()
    assert revision["chapters"][0]["subject"] == "item/book@1"
    assert fixity.event in page


def test_the_page_removes_with_a_channel_the_threads_that_it_has_shown(tmp_path: Path) -> None:
    with open_house(tmp_path) as changing:
        here, store = f"/channels/{CHANNEL}", changing.archive.store
        under = {"mirrored": "yes", "parent": str(CHANNEL), "kind_sure": ["list", "channel"]}
        found = NewEvent(work.item_id(701), "added", detail={"thread": True})
        store.records.put([NewItem(work.item_id(701), frozenset({"channel"}), detail=under)], [found])
        store.records.put([NewItem(work.item_id(702), frozenset({"channel"}), detail={**under, "by_number": True})])
        page = text(changing, here)
        assert "Deleted with it: 701." in page
        assert "702" in page.partition("Kept: ")[2].partition(".")[0].split(", ")
        assert status(changing, f"{here}/remove", sure=str(CHANNEL), why="they asked us to", along="701") == 303
        assert [job.facts.get("along") for job in jobs(changing, work.REMOVE)] == [["701"]]
