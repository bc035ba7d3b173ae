"""A depositor follows a batch by the link in the mail: signed, for one batch, for some time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from custody.errors import BadInput, NotFound, Refused
from custody.ingest.batch.links import DAY, Links, read_links, read_secret
from custody.ingest.opening import opened
from custody.web.app import Options, build_app
from ingest.bench import Archive, custody

WEB = "https://archive.example/custody"
LINKS = Links(b"s" * 32, WEB, days=30)


def told(home: Archive, batch: int) -> str:
    (mail,) = home.mails()
    message = message_from_bytes((home.home / "outbox" / mail).read_bytes(), policy=policy.default)
    body = message.get_body(("plain",))  # type: ignore[attr-defined]
    return str(body.get_content())


def test_the_link_in_the_mail_opens_the_depositors_page_without_login(home: Archive) -> None:
    home.world = replace(home.world, links=replace(home.world.links, web=WEB))
    batch = home.submit(home.put("letter.txt", b"Dear sister"), type="file", filename="letter.txt")
    home.run()
    line = next(line for line in told(home, batch).splitlines() if line.startswith("This batch on the web: "))
    link = line.removeprefix("This batch on the web: ")
    assert link.startswith(f"{WEB}/deposit/{batch}/")
    assert home.report(batch)["link"] == link
    app = build_app(home.store, Options(home.world.links.secret, opened={"ingest": opened(home.world)}))
    page = TestClient(app).get(urlsplit(link).path.removeprefix("/custody"), headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "letter.txt" in page.text


def test_a_link_holds_for_its_days_and_then_says_that_it_has_ended(home: Archive) -> None:
    batch = home.batch(home.submit(home.put("a.txt", b"a"), type="file"))
    first = LINKS.path(batch, batch.created)
    given = first.rsplit("/", 1)[-1]
    assert LINKS.path(batch, batch.created + DAY // 2) == first, "asked for twice on a day, it is the same"
    assert LINKS.path(batch, batch.created + 50 * DAY) != first, "a later mail has a later link"
    LINKS.check(batch, given, batch.created + 30 * DAY)
    with pytest.raises(Refused, match="has ended") as refused:
        LINKS.check(batch, given, batch.created + 31 * DAY)
    assert refused.value.code == "link.expired"


FORGERIES: tuple[Callable[[str], str], ...] = (
    lambda given: "ffffffff" + given[8:],  # a later end
    lambda given: given[:-1] + ("0" if given[-1] != "0" else "1"),
    lambda given: given + "0",
    lambda given: given.upper(),
    lambda given: "-" + given,
    lambda given: given.split("-")[1],
    lambda given: "",
    lambda given: "é",
)


def test_a_changed_link_is_none(home: Archive) -> None:
    batch = home.batch(home.submit(home.put("a.txt", b"a"), type="file"))
    given = LINKS.path(batch, batch.created).rsplit("/", 1)[-1]
    LINKS.check(batch, given, batch.created)
    for forged in FORGERIES:
        with pytest.raises(NotFound):
            LINKS.check(batch, forged(given), batch.created)
    with pytest.raises(NotFound):
        LINKS.check(replace(batch, created=batch.created + 1), given, batch.created)


def test_processes_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    path, found = tmp_path / "custody.secret", set[bytes]()
    threads = [threading.Thread(target=lambda: found.add(read_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["custody.secret"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("web", ["archive.example", "ftp://archive.example", "https://", "https://a.example/?x=1"])
def test_an_address_that_no_mail_could_use_is_refused_at_the_start(tmp_path: Path, web: str) -> None:
    with pytest.raises(BadInput, match="not the address of a website"):
        read_links(tmp_path / "secret", web)


def test_an_operator_makes_a_link_on_the_command_line(tmp_path: Path) -> None:
    custody(tmp_path, "init")
    (tmp_path / "letter.txt").write_text("Dear sister")
    assert custody(tmp_path, "batch", "submit", "letter.txt", "--profile", "example").returncode == 0
    made = custody(tmp_path, "batch", "link", "1")
    assert made.stdout.startswith("http://127.0.0.1:7337/deposit/1/")
    longer = json.loads(custody(tmp_path, "batch", "link", "1", "--days", "400", "--json").stdout)
    assert longer["link"] != made.stdout.strip()
    assert custody(tmp_path, "batch", "link", "7").returncode != 0
