"""The short way of a notice: past the framework, never past the gate, and in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from custody.web.access.rate_limits import Rate
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.table import Archives
from custody.workflows.makers import COMMIT_KIND, commit_key
from web.house import House, open_house

SHORT = "application/json"
ORDINARY = "application/json; charset=utf-8"
NOTIFY = "/api/v1/archives/{}/notify"


@pytest.fixture
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """With one archive of one revision, of which nobody has told yet."""
    with open_house(tmp_path_factory.mktemp("plain"), filled=False, rate=Rate(0.001, 6)) as made:
        _archive(made, "book")
        yield made


def _archive(house: House, name: str) -> None:
    """A notice is a hint to look, so there is something to be seen."""
    home = house.archive.home
    chapter = home / "source" / "1.txt"
    chapter.parent.mkdir()
    chapter.write_text("It was a dark and stormy night.\n")
    kept = FolderArchive.make(home / name)
    Archives(house.archive.store).add(name, "folder", str(home / name), "ada")
    kept.keep(home / "source", "one", "ada")


def _told(answer: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    body = {name: value for name, value in answer.json().items() if name != "request"}
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    return answer.status_code, body, headers


def _ask(client: TestClient, kind: str, body: bytes, archive: str = "book", **headers: str) -> Any:
    return client.post(NOTIFY.format(archive), content=body, headers={"Content-Type": kind, **headers})


@pytest.mark.parametrize(
    ("who", "body", "archive", "headers", "status"),
    [
        ("hook", b'{"revision": 1}', "book", {}, 202),
        ("hook/book", b' {"revision":\n1 } ', "book", {}, 202),
        ("operator", b'{"revision": 1}', "b%6Fok", {}, 202),
        ("", b'{"revision": 1}', "book", {}, 401),
        ("", b'{"revision": 1}', "book", {"Authorization": "Bearer custody_nonsense"}, 401),
        ("reader", b'{"revision": 1}', "book", {}, 403),
        ("depositor", b'{"revision": 1}', "book", {}, 403),
        ("hook/maps", b'{"revision": 1}', "book", {}, 404),
        ("hook", b'{"revision": 1}', "nothing", {}, 404),
        ("hook", b'{"revision": 1}', "book", {"Origin": "http://elsewhere"}, 403),
        ("hook", b'{"revision": 1}', "book", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("hook", b'{"revision": 0}', "book", {}, 422),
        ("hook", b'{"revision": 9007199254740993}', "book", {}, 422),
        ("hook", b'{"revision": 01}', "book", {}, 400),
        ("hook", b'{"revision": 1, "revision": 2}', "book", {}, 400),
        ("hook", b'{"revision": 1, "more": 1}', "book", {}, 422),
        ("hook", b'{"revision": "x"}', "book", {}, 422),
        ("hook", b"nonsense", "book", {}, 400),
        ("hook", b"", "book", {}, 202),  # it asks to look
        ("hook", b'{"revision": 1}' + b" " * (1 << 20), "book", {}, 413),
    ],
)
def test_both_ways_answer_in_the_same_words(
    plain: House, who: str, body: bytes, archive: str, headers: dict[str, str], status: int
) -> None:
    short, ordinary = (_told(_ask(plain.client(who, **headers), kind, body, archive)) for kind in (SHORT, ORDINARY))
    if status == 202:  # the second has nothing left to do
        assert (short[1].pop("new"), ordinary[1].pop("new")) in ((1, 0), (2, 0))
    assert short == ordinary
    assert short[0] == status


@pytest.mark.proves("H13")
def test_who_comes_too_often_by_the_short_way_is_told_so(plain: House) -> None:
    client = plain.client("hook")
    answers = [_ask(client, SHORT, b'{"revision": 1}') for _ in range(8)]
    assert [answer.status_code for answer in answers] == [202] * 6 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 1
    assert _ask(client, ORDINARY, b'{"revision": 1}').status_code == 429, "one rate for both"


def test_a_plain_notice_needs_no_framework_and_an_odd_one_is_handed_on(plain: House) -> None:
    plain.app.router.routes.clear()
    client = plain.client("hook")
    assert _ask(client, SHORT, b'{"revision": 1}').json() == {"archive": "book", "new": 1}
    assert _ask(client, SHORT, b"{}").status_code == 404
    assert _ask(client, ORDINARY, b'{"revision": 1}').status_code == 404
    assert client.request("PUT", NOTIFY.format("book"), json={"revision": 1}).status_code == 404


def test_a_notice_by_the_short_way_is_in_its_callers_name(plain: House) -> None:
    assert _ask(plain.client("hook"), SHORT, b'{"revision": 1}').status_code == 202
    store = plain.archive.store
    job = store.queue.by_key(COMMIT_KIND, commit_key("book", 1))
    assert job is not None
    assert [event.agent for event in store.records.events(job.subject)] == [plain.agent("hook")]
