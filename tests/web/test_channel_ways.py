"""What is asked about a channel on a page goes the way the configuration says, or is not offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.channels.config import ChannelConfig
from custody.channels.context import Request
from custody.channels.requests import Asking, asking_of
from custody.kernel.model.authority.acting import Acting, system
from custody.kernel.model.job import Filter
from web.house import CHANNEL, House, open_house
from web.test_applications import send, text


@pytest.mark.parametrize("action", ["sync", "review", "remove"])
def test_a_button_makes_no_job_where_nobody_would_do_it(tmp_path: Path, action: str) -> None:
    asked: list[tuple[Request, str]] = []

    def ask(request: Request, who: Acting) -> str:
        asked.append((request, who))
        return "a letter was sent"

    with open_house(tmp_path, asking=Asking(ask, holds=False)) as house:
        before = jobs(house)
        forms = {"sync": {}, "review": {"message": "77"}, "remove": {"sure": str(CHANNEL), "why": "they asked us to"}}
        form: dict[str, str] = forms[action]
        answer = send(house, f"/channels/{CHANNEL}/{action}", **form)
        assert answer.status_code == 303  # type: ignore[attr-defined]
        assert jobs(house) == before
        ((request, who),) = asked
        assert (request.what, request.channel, who.agent) == (action, CHANNEL, house.agent("operator"))
        assert request.message == (77 if action == "review" else 0)


def jobs(house: House) -> list[int]:
    return [job.id for job in house.archive.store.queue.every(Filter(kind="channel/*"))]


def test_a_hold_is_not_offered_where_nobody_looks_at_holds(tmp_path: Path) -> None:
    with open_house(tmp_path, asking=Asking(lambda request, who: "", holds=False)) as house:
        page = text(house, f"/channels/{CHANNEL}")
        assert f"/channels/{CHANNEL}/remove" in page
        assert f"/channels/{CHANNEL}/hold" not in page
        answer = send(house, f"/channels/{CHANNEL}/hold", why="they are moving")
        assert answer.status_code == 503  # type: ignore[attr-defined]
        assert "lane" not in {hold.scope for hold in house.archive.store.queue.holds()}


def test_the_way_is_the_configurations(tmp_path: Path) -> None:
    with open_house(tmp_path, filled=False) as house:
        store = house.archive.store
        (tmp_path / "azure.connection").write_text("nothing that answers")
        ways = {one: asking_of(store, ChannelConfig(queues=one), tmp_path) for one in ("store", "azure", "temporal")}
        assert {one: way.holds for one, way in ways.items()} == {"store": True, "azure": False, "temporal": False}
        assert "job" in ways["store"].ask(Request("add", 5), system("me"))
        assert len(jobs(house)) == 1
