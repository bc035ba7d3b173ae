"""What the dashboard's page of robots, and the doctor, say about items that wait for a person."""

from __future__ import annotations

from starlette.testclient import TestClient

from custody.cli.doctor.report import examine
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import Item, NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from custody.robots import Report, robot
from custody.robots.items.actions import stop
from custody.robots.items.late_events import keep_orphan
from custody.robots.runner import subscribe
from custody.web.app import Options, build_app
from custody.web.sections import all_sections
from robots.lines import run


@robot(name="judge", version="1", event="Judged", when={"past": {"Received"}, "absent": {"Judged"}}, within=1e-6)
def judge(item: Item, report: Report) -> None:
    report.add("R1", f"{item.id} is torn")


def troubled(store: Store) -> None:
    """One item that failed, one that was stopped and is late therefore, and an event that came too late."""
    subscribe(store, [judge])
    store.records.put([NewItem("bad"), NewItem("held")], [NewEvent("bad", "Received")])
    run(store, judge)
    stop(store, "held", "ada", "a lawyer called")
    store.records.append(NewEvent("held", "Received"))
    job = store.queue.get(store.queue.submit_one(NewJob("parcel")).id)
    keep_orphan(
        store, NewEvent("bad", "Judged", "success", "judge 1", teller="robot/judge"), job, "claimed by someone else"
    )


def test_the_page_shows_causes_and_what_waits_for_a_person(file_store: Store) -> None:
    troubled(file_store)
    app = build_app(file_store, Options(b"a secret of thirty-two bytes, no less", sections=all_sections()))
    secret = Tokens(file_store).create("reader", ["reader"], ["*"])[1]
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
    client.headers["Authorization"] = f"Bearer {secret}"
    page = client.get("/robots", headers={"Accept": "text/html"}).text
    told = client.get("/robots.json").json()
    for words in ("ITEM is torn", "a lawyer called", "Judged is overdue", "Judged came too late", "claimed by someone"):
        assert words in page
    assert [cause["code"] for cause in told["causes"]] == ["R1"]
    assert [each["item"] for each in told["late"]] == ["held"]
    assert told["stopped"] == [["held", "a lawyer called (ada)"]]


def test_the_doctor_names_what_the_line_waits_for_a_person_with(file_store: Store) -> None:
    troubled(file_store)
    said = [finding.what for finding in examine(file_store.url, None)]
    assert "Judged of held is overdue: it is stopped" in said
    assert "held is off the line: a lawyer called (ada)" in said
    assert "1 events came too late and were kept aside" in said
