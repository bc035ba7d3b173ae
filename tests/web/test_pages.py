"""Pages: each as HTML, JSON and CSV; nothing a depositor wrote is obeyed; forms do what they say."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from starlette.testclient import TestClient

from custody.ingest.batch.links import read_secret
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Filter
from custody.kernel.stores import open_store
from custody.web.pages import overview
from custody.web.queries.overview import Glance
from web.house import BEGAN, CHANNEL, EMPTY_CHANNEL, TABLES, TITLES, House

HTML = {"Accept": "text/html"}


def addresses(house: House) -> dict[str, tuple[str, bool]]:
    """Every page by a name, and whether it is a list."""
    job = house.papers + 3
    item = next(job for job in house.archive.jobs(house.papers) if job.ended == "passed").facts["primary"]
    return {
        "overview": ("/", False),
        "batches": ("/batches", True),
        "batch": (f"/batches/{house.papers}", False),
        "held batch": (f"/batches/{house.maps}", False),
        "jobs": ("/jobs", True),
        "job": (f"/jobs/{job}", False),
        "failed jobs": ("/jobs?ended=failed", True),
        "failures": ("/failures", True),
        "items": ("/items", True),
        "item": (f"/items/{item}", False),
        "holds": ("/holds", True),
        "workers": ("/workers", True),
        "schedules": ("/schedules", True),
        "schedule": ("/schedules/nightly", False),
        "events": ("/events", True),
        "search": ("/search?q=loc1", True),
        "bulks": ("/bulk", True),
        "new batch": ("/batches/new", False),
        "new bulk": ("/bulk/new?ended=failed&action=resume", False),
        "help": ("/help", False),
        "deposit": (house.depositors_page(), True),
        "archives": ("/archives", True),
        "archive": ("/archives/book", False),
        "robots": ("/robots", True),
        "robot": (f"/robots/formats?item={item}", False),
        "channels": ("/channels", True),
        "channel": (f"/channels/{CHANNEL}", False),
        "lost channel": (f"/channels/{EMPTY_CHANNEL}", False),
        "messages": (f"/channels/{CHANNEL}/messages", True),
        "sealed": ("/history", True),
        "message": (f"/channels/{CHANNEL}/messages/{BEGAN + (5 << 32)}", False),
        "block": ("/history/blocks/1", False),
        "proof": (f"/history/proof?subject=job/{house.papers}&seq=1", False),
        "log": (f"/jobs/{house.task}/log", False),
        "files": (f"/jobs/{house.task}/files", False),
        "job events": (f"/jobs/{job}/events", False),
        "raw": (f"/jobs/{job}/raw", False),
        "revision": ("/items/book@1", False),
    }


NAMES = [
    "overview",
    "batches",
    "batch",
    "held batch",
    "jobs",
    "job",
    "failed jobs",
    "failures",
    "items",
    "item",
    "holds",
    "workers",
    "schedules",
    "schedule",
    "events",
    "search",
    "bulks",
    "new batch",
    "new bulk",
    "help",
    "deposit",
    "archives",
    "archive",
    "robots",
    "robot",
    "channels",
    "channel",
    "lost channel",
    "messages",
    "message",
    "sealed",
    "block",
    "proof",
    "log",
    "files",
    "job events",
    "raw",
    "revision",
]


def suffixed(address: str, suffix: str) -> str:
    path, mark, query = address.partition("?")
    return f"{'/index' if path == '/' else path}.{suffix}{mark}{query}"


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_there_for_people_and_for_programs(house: House, name: str) -> None:
    address, is_list = addresses(house)[name]
    client = house.client("admin")
    page = client.get(address, headers=HTML)
    assert page.status_code == 200, page.text[:500]
    assert page.text.count("<h1") == 1
    assert re.search(r"<title>[^<]+ · Custody</title>", page.text)
    assert isinstance(client.get(suffixed(address, "json")).json(), dict)
    as_csv = client.get(suffixed(address, "csv"))
    if is_list:
        rows = list(csv.reader(io.StringIO(as_csv.text)))
        assert len({len(row) for row in rows}) == 1
        assert suffixed(address, "csv").partition("?")[0] in page.text
    else:
        assert as_csv.status_code in (400, 404, 405) or name in ("item", "revision")


@pytest.mark.parametrize("name", NAMES)
def test_no_page_has_a_script_or_a_style_of_its_own_or_asks_elsewhere(house: House, name: str) -> None:
    page = house.client("admin").get(addresses(house)[name][0], headers=HTML)
    assert not re.search(r"<script(?![^>]*src=)", page.text)
    assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:", page.text)
    assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', page.text)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"


def test_what_a_depositor_wrote_is_shown_and_not_obeyed(house: House) -> None:
    client = house.client("admin")
    for address in (f"/batches/{house.papers}", "/jobs", house.depositors_page()):
        page = client.get(address, headers=HTML).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
    rows = csv.DictReader(io.StringIO(client.get(f"/jobs.csv?parent={house.papers}").text))
    assert f"'{TITLES[2]}" in [row["name"] for row in rows]


def test_a_batch_page_names_the_depositors_rows_and_what_they_were_told(house: House) -> None:
    page = house.client("reader").get(f"/batches/{house.papers}", headers=HTML).text
    assert "3 of 5 done, 2 failed" in page
    assert "1 × http.404" in page
    assert "1 × digest.mismatch" in page
    assert "FAIL: batch" in page
    assert "What you can do" not in page, "a reader sees no actions"
    data = house.client("reader").get(f"/batches/{house.papers}.json").json()
    lines = {job["payload"]["row"]: job["payload"]["line"] for job in data["jobs"]}
    assert {cause["rows"][0][0] for cause in data["causes"]} == {lines[2], lines[4]}


def test_a_job_page_says_why_and_offers_only_what_is_possible(house: House) -> None:
    failed = next(job for job in house.archive.jobs(house.papers) if job.ended == "failed")
    page = house.client("operator").get(f"/jobs/{failed.id}", headers=HTML).text
    assert 'data-act="resume"' in page
    assert 'data-act="release"' not in page
    assert f"custody job resume {failed.id}" in page
    assert "It has ended: failed" in page


def test_history_that_went_back_needs_somebody_for_a_week() -> None:
    with open_store("sqlite://:memory:") as store:
        assert Glance(store, TABLES, ()).went_back() == []
        store.records.note("store", "went-back", "engine", missing=3, subjects=["job/7"], timeline=2, before=1)
        (event,) = Glance(store, TABLES, ()).went_back()
    need = overview._went_back(event)
    assert (need.look, need.title) == ("failed", "History went back")
    assert "3 acknowledged moves" in need.text


# Forms


def form(client: TestClient, house: House, who: str) -> dict[str, str]:
    caller = house.site.tokens.caller(house.token(who))
    return {"form_token": house.site.form_token(caller)}


def test_forms_move_jobs_and_say_so_on_the_next_page_once(own: House) -> None:
    from custody.kernel.model.job import NewJob

    job = own.archive.store.queue.submit_one(NewJob("parcel", {"title": "Teapot"})).id
    client = own.client("operator")
    base = form(client, own, "operator")
    moved = client.post(f"/jobs/{job}/hold", data=base | {"why": "it leaks"})
    assert (moved.status_code, moved.headers["location"]) == (303, f"/jobs/{job}")
    assert f"Job {job} is held." in client.get(f"/jobs/{job}", headers=HTML).text
    assert f"Job {job} is held." not in client.get(f"/jobs/{job}", headers=HTML).text
    assert "it leaks" in client.get(f"/jobs/{job}", headers=HTML).text
    refused = client.post(f"/jobs/{job}/resume", data=base, headers=HTML)
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text
    assert client.post(f"/jobs/{job}/delete", data=base | {"why": "gone"}).headers["location"] == "/jobs"
    gone = client.get(f"/jobs/{job}", headers=HTML)
    assert gone.status_code == 200
    assert "Its history stays" in gone.text


def test_something_is_handed_in_by_form_and_a_mistake_keeps_what_was_filled_in(own: House) -> None:
    client = own.client("depositor/papers")
    base = form(client, own, "depositor/papers") | {"profile": "papers", "title": "A letter"}
    wrong = client.post("/batches/new", data=base | {"payload": "ftp://x"}, headers=HTML)
    assert wrong.status_code == 400
    assert 'value="A letter"' in wrong.text
    right = client.post("/batches/new", data=base, files={"file": ("a.txt", b"Dear sister")})
    assert right.status_code == 303
    own.work()
    page = client.get(right.headers["location"], headers=HTML).text
    assert "1 of 1 done" in page


def test_holds_schedules_leases_and_batches_are_moved_by_forms(own: House) -> None:
    client, store = own.client("admin"), own.archive.store
    base = form(client, own, "admin")
    assert client.post("/holds", data=base | {"scope": "lane", "name": "a", "why": "x"}).status_code == 303
    assert store.queue.holds()[0].name == "a"
    assert client.post("/holds/lift", data=base | {"scope": "lane", "name": "a"}).status_code == 303
    assert store.queue.holds() == []
    from custody.kernel.model.schedule import Schedule

    store.schedules.put(Schedule("n", "every 5m", "parcel"), system("ada"))
    client.post("/schedules/pause", data=base | {"name": "n", "paused": "yes"})
    assert store.schedules.get("n").paused
    store.leases.claim("minter", "x", 600)
    client.post("/leases/break", data=base | {"name": "minter", "why": "it hangs"})
    assert store.leases.list() == []
    batch = own.archive.submit(own.archive.put("a.txt", b"a"), type="file")
    client.post(f"/batches/{batch}/hold", data=base | {"why": "wait"})
    own.work()
    assert store.queue.holds()[0].scope == "batch"
    assert client.post(f"/batches/{batch}/delete", data=base).status_code == 400
    client.post(f"/batches/{batch}/lift", data=base)
    held = own.archive.jobs(batch)[0].id
    assert store.queue.get(held).state == "held"
    made = client.post(
        "/bulk/new", data=base | {"parent": str(batch), "state": "held", "action": "release", "count": "1"}
    )
    assert made.status_code == 303
    own.work()
    assert "1 done" in client.get(made.headers["location"], headers=HTML).text
    assert client.post(f"/batches/{batch}/delete", data=base | {"why": "tidy"}).headers["location"] == "/batches"
    assert client.get(f"/batches/{batch}", headers=HTML).status_code == 404


# The depositor's page


def test_a_signed_link_shows_one_batch_and_nothing_else(house: House) -> None:
    anyone = house.client()
    page = anyone.get(house.depositors_page(), headers=HTML)
    assert page.status_code == 200
    assert "could not be deposited" in page.text
    assert "Hold" not in page.text
    assert "/jobs/" not in page.text
    good = house.depositors_page().rsplit("/", 1)[-1]
    for wrong in (
        f"/deposit/{house.maps}/{good}",
        f"/deposit/{house.papers}/{'0' * 40}",
        f"/deposit/{house.papers}/{good[:-1]}",
        f"/deposit/{house.papers}/f{good}",
        f"/deposit/{house.papers + 3}/{good}",
        f"/deposit/424242/{good}",
        f"/deposit/{house.papers}/é",
    ):
        assert anyone.get(wrong, headers=HTML).status_code == 404


def test_the_secret_is_made_once_and_for_its_owner_only(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "secret"
    made = read_secret(path)
    assert read_secret(path) == made
    assert len(made) >= 32
    assert path.stat().st_mode & 0o777 == 0o600


# Files


def test_vendored_files_are_what_their_list_says() -> None:
    folder = resources.files("custody.web") / "static"
    listed = json.loads((folder / "vendored.json").read_text())
    assert {entry["file"] for entry in listed} == {"htmx.min.js"}
    for entry in listed:
        assert hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert "Zero-Clause BSD" in (folder / "htmx.LICENSE").read_text()


def test_static_files_may_be_kept_and_nothing_else_can_be_had_there(house: House) -> None:
    page = house.client("admin").get("/jobs", headers=HTML).text
    sheet = re.search(r'href="(/static/[^"]+\.css)"', page)
    assert sheet
    answer = house.client().get(sheet[1])
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    folder = sheet[1].rpartition("/")[0]
    for wrong in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/nothing"):
        assert house.client().get(folder + wrong).status_code == 404


def test_the_overview_says_what_became_of_things_since_yesterday(house: House, own: House) -> None:
    page = house.client("reader", Accept="text/html").get("/").text
    assert "Since yesterday" in page
    objects = house.client("reader").get("/index.json").json()["since yesterday"]
    by_kind = {each["kind"]: (each["passed"], each["failed"]) for each in objects}
    jobs = house.archive.store.queue.every(Filter(kind="ingest/job"))
    ends = [job.ended for job in jobs]
    assert by_kind["ingest/job"] == (ends.count("passed"), ends.count("failed"))
    assert ends.count("failed") == 2
    assert "Nothing has ended." in own.client("reader", Accept="text/html").get("/").text


class Tables(HTMLParser):
    """Every cell of every table that is no grid: what it calls itself, and what its column is called."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.cells: list[tuple[str | None, str]] = []
        self.place, self.in_head, self.in_grid = 0, False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self.columns, self.in_grid = [], given.get("class") == "grid"
        elif tag == "thead":
            self.in_head = True
        elif tag == "tr":
            self.place = 0
        elif tag in ("td", "th") and self.in_head:
            self.columns.append("")
        elif tag in ("td", "th"):
            if tag == "td" and "colspan" not in given and not self.in_grid:
                self.cells.append((given.get("data-label"), self.columns[self.place]))
            self.place += 1

    def handle_endtag(self, tag: str) -> None:
        self.in_head = self.in_head and tag != "thead"

    def handle_data(self, data: str) -> None:
        if self.in_head and self.columns:
            self.columns[-1] += data.strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_knows_its_columns_name_for_screens_too_narrow_for_columns(house: House, name: str) -> None:
    tables = Tables()
    tables.feed(house.client("admin").get(addresses(house)[name][0], headers=HTML).text)
    assert [cell for cell in tables.cells if cell[0] != cell[1]] == []
