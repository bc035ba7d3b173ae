"""The network for robots: asked for by a label, granted by an operator; else the robot waits and says for what."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.border.egress.allowance import Rules
from custody.cli import runtime
from custody.errors import BadInput
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store, open_store
from custody.robots.commands.robot import app
from custody.robots.programs.label import read_label
from custody.robots.programs.sandboxed import Yard
from custody.robots.runner import kinds, subscribe
from custody.robots.sweep import sweep
from rig import elsewhere
from rig.need import need
from robots.test_confined import CONNECT, label

ASKED = "custody robot grant pages network"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    need("bubblewrap")
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{home / 'custody.db'}") as opened:
        opened.records.put([NewItem("map-1", frozenset({"object"}), "atlas", "f1")], agent="ada")
        yield opened


def work(store: Store, path: Path, home: Path) -> None:
    robot = read_label(path)
    subscribe(store, [robot])
    sweep(store, robot)
    with closing(Yard(home / "yard", network=Rules())) as yard:
        Worker(store, Serving(tuple(kinds(store, [robot], yard=yard))), Settings(1, 6.0)).run_until_quiet()


def custody(home: Path, *words: str) -> str:
    return CliRunner().invoke(app, [*words, "--store", f"sqlite:///{home / 'custody.db'}"]).output


def told(store: Store) -> list[str]:
    job = store.queue.by_key("robot/pages", "map-1")
    assert job is not None
    return [reason.text for reason in store.queue.why(job.id)]


def test_a_robot_waits_until_what_it_asks_for_is_granted_and_says_so(home: Path, store: Store) -> None:
    work(store, label(home, "echo there", sandbox='network = ["data.example.org"]'), home)
    assert f"{ASKED} data.example.org:443" in str(told(store))
    assert store.records.latest("map-1").get("pages counted") is None
    assert f"{ASKED} data.example.org:443" in custody(home, "why", "pages", "map-1")
    (row,) = json.loads(custody(home, "list", "--json"))
    assert f"{ASKED} data.example.org:443" in row["amiss"]
    said = custody(home, "grant", "pages", "network", "data.example.org", "--why", "the catalogue")
    assert said == f"pages has network data.example.org:443, granted by {runtime.me()} (the catalogue)\n"
    assert json.loads(custody(home, "list", "--json"))[0]["amiss"] == ""
    assert "the catalogue" in custody(home, "grants", "pages")
    said = custody(home, "withdraw", "pages", "network", "data.example.org:443", "--why", "no more")
    assert said == "pages no longer has network data.example.org:443 (no more)\n"
    assert custody(home, "grants", "pages") == f"nothing is granted to pages: {ASKED} HOST --why …\n"


def test_a_robot_with_a_grant_goes_there_and_nowhere_else(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*elsewhere.PATCH)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"{elsewhere.HOST}:{server.getsockname()[1]}"
        store.grants.grant("robot/pages", "network", place, "ada", "a test")
        script = f"perl -e '{CONNECT}' {place}; perl -e '{CONNECT}' data.example.org:443"
        work(store, label(home, script, sandbox="network = true"), home)
    (event,) = [event for event in store.records.events("item/map-1") if event.type == "pages counted"]
    said = event.detail["output"].splitlines()
    assert said == ["HTTP/1.1 200 Connection established", "HTTP/1.1 403 Forbidden"]


def test_what_was_granted_to_an_archive_of_the_same_name_is_not_the_robots(home: Path, store: Store) -> None:
    store.grants.grant("archive/pages", "network", "data.example.org:443", "ada", "another one")
    work(store, label(home, "echo there", sandbox="network = true"), home)
    assert f"{ASKED} HOST" in str(told(store))


@pytest.mark.parametrize("value", ["*", "http://*", "*:8443"])
def test_everything_is_granted_only_if_that_is_said(home: Path, store: Store, value: str) -> None:
    refused = CliRunner().invoke(
        app, ["grant", "pages", "network", value, "--why", "x", "--store", f"sqlite:///{home / 'custody.db'}"]
    )
    assert refused.exit_code
    assert "--anything" in str(refused.exception) + refused.output + getattr(refused.exception, "hint", "")
    assert store.grants.of("robot/pages", "network") == []
    custody(home, "grant", "pages", "network", value, "--why", "x", "--anything")
    assert len(store.grants.of("robot/pages", "network")) == 1


@pytest.mark.parametrize("place", ["93.184.216.34", "127.0.0.1:80", "[::1]", "http://10.1.2.3"])
def test_a_label_names_hosts_not_addresses(home: Path, place: str) -> None:
    with pytest.raises(BadInput, match="in place of a host's name"):
        read_label(label(home, "echo there", sandbox=f'network = ["{place}"]'))


def test_withdrawing_from_a_robot_what_it_does_not_have_fails(home: Path, store: Store) -> None:
    url = f"sqlite:///{home / 'custody.db'}"
    words = ["withdraw", "pages", "network", "data.example.org", "--why", "x", "--store", url]
    assert CliRunner().invoke(app, words).exit_code
    store.grants.grant("robot/pages", "network", "data.example.org:443", "ada", "a test")
    assert CliRunner().invoke(app, words).exit_code == 0
