"""The network for tasks: asked for by a definition, granted by an operator; else the task waits and says for what."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from custody.border.egress.allowance import check_grant, command, lacking, read_named, read_place, waits_for
from custody.border.sandbox.spec import Engine
from custody.cli.doctor.report import examine
from custody.errors import BadInput, Refused
from custody.workflows.commands.archive import app
from custody.workflows.definition import definition
from custody.workflows.tasks import network
from rig import elsewhere
from workflows.desk import Desk, until

ASKED = "custody archive grant proj network"
CONNECT = """
    exec 3<>/dev/tcp/127.0.0.1/3128
    printf 'CONNECT {place} HTTP/1.1\\r\\n\\r\\n' >&3
    read -r said <&3; echo "$said"
"""


@pytest.fixture(autouse=True)
def servers_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is a desk, whose sandboxes begin early."""
    monkeypatch.setattr(*elsewhere.PATCH)


def workflow(asks: str, script: str = "echo there") -> dict[str, Any]:
    return {"_workflows/a.yaml": f"- name: fetch\n  network: {asks}\n  shell: bash\n  script: |\n    {script}\n"}


def told(desk: Desk, revision: int) -> str:
    return str([reason.text for reason in desk.store.queue.why(desk.task(revision, "fetch").id)])


def custody(desk: Desk, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--store", desk.store.url])
    return done.output + str(done.exception or "")


def grant(desk: Desk, value: str) -> None:
    desk.store.grants.grant("archive/proj", "network", value, "ada", "a test")


@contextmanager
def server() -> Iterator[tuple[str, list[socket.socket]]]:
    """Takes connections and keeps them."""
    found: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            while True:
                try:
                    found.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"{elsewhere.HOST}:{listener.getsockname()[1]}", found
        listener.shutdown(socket.SHUT_RDWR)
    for wire in found:
        wire.close()


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ("true", "HOST"),
        ("[data.example.org]", "data.example.org:443"),
        ("http://data.example.org", "http://data.example.org:80"),
    ],
)
def test_a_task_waits_for_a_grant_and_says_which(one_desk: Desk, asks: str, words: str) -> None:
    revision = one_desk.commit(workflow(asks))
    one_desk.notify(revision)
    one_desk.run()
    assert one_desk.task(revision, "fetch").ended is None
    assert f"{ASKED} {words} --why" in told(one_desk, revision)
    assert f"{ASKED} {words}" in custody(one_desk, "list", "--json")
    assert "some of its tasks wait: it asks for" in custody(one_desk, "plan", "proj")
    (planned,) = [event for event in one_desk.store.records.events(f"item/proj@{revision}") if event.type == "planned"]
    assert f"{ASKED} {words}" in planned.detail["network"]
    findings = [finding for finding in examine(one_desk.store.url, None) if " waits: " in finding.what]
    assert [(finding.grade, finding.what[:13], finding.do) for finding in findings] == [
        ("warning", "archive proj ", f"{ASKED} {words} --why …")
    ]


def test_an_archive_that_was_planned_before_this_was_looked_for_is_told_of_too(
    one_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "FACT", "nothing was kept of it then")
    revision = one_desk.commit(workflow("true"))
    one_desk.notify(revision)
    one_desk.run()
    monkeypatch.undo()
    assert network.FACT not in one_desk.task(revision, "COMMIT").facts
    assert [kept.name for kept, _ in network.waiting(one_desk.store)] == ["proj"]


def test_a_task_goes_where_it_asks_and_is_granted_and_nowhere_else(one_desk: Desk) -> None:
    with server() as (place, taken):
        other = f"{elsewhere.HOST}:{int(place.rpartition(':')[2]) + 1}"
        script = (
            CONNECT.format(place=place) + CONNECT.format(place=other) + CONNECT.format(place="data.example.org:443")
        )
        grant(one_desk, place)
        grant(one_desk, other)
        revision = one_desk.commit(workflow(f'["{place}"]', script))
        one_desk.notify(revision)
        one_desk.run()
        assert one_desk.states("fetch", revision) == ["done"]
        log = one_desk.log(revision, "fetch")
        assert [line.split(" ")[1] for line in log.splitlines() if line.startswith("HTTP")] == ["200", "403", "403"]
        assert f"custody: network: {other} is not asked for" in log
        assert f"{ASKED} data.example.org:443" in log
        assert len(taken) == 1


def test_a_withdrawn_grant_cuts_a_running_task(one_desk: Desk) -> None:
    with server() as (place, taken):
        grant(one_desk, place)
        revision = one_desk.commit(workflow("true", CONNECT.format(place=place) + "\n    cat <&3; echo cut\n"))
        one_desk.notify(revision)
        with one_desk.working():
            until(lambda: taken)
            one_desk.store.grants.withdraw("archive/proj", "network", place, "bo", "it leaked")
            until(lambda: one_desk.task(revision, "fetch").ended)
        assert one_desk.log(revision, "fetch").endswith("cut\n")


def test_a_grant_alone_opens_no_inner_network(one_desk: Desk) -> None:
    with server() as (place, taken):
        place = place.replace(elsewhere.HOST, "inside.example.org")
        grant(one_desk, place)
        revision = one_desk.commit(workflow("true", CONNECT.format(place=place)))
        one_desk.notify(revision)
        one_desk.run()
        assert "leads to a place that is not public" in one_desk.log(revision, "fetch")
        assert taken == []


def test_an_engine_that_cannot_hold_a_container_is_refused_in_words(one_desk: Desk) -> None:
    one_desk.shop = replace(one_desk.shop, engine=Engine("docker"), images=("*",))
    grant(one_desk, "data.example.org:443")
    revision = one_desk.commit({"_workflows/a.yaml": "- name: fetch\n  image: x\n  network: true\n  command: y\n"})
    one_desk.notify(revision)
    one_desk.run()
    job = one_desk.task(revision, "fetch")
    assert (job.state, job.code) == ("failed", "task.network-image")


def test_a_grant_ends_with_the_archive(one_desk: Desk) -> None:
    custody(one_desk, "grant", "proj", "network", "*.example.org", "--why", "all of it")
    assert one_desk.store.grants.of("archive/proj", "network") == ["*.example.org:443"]
    custody(one_desk, "remove", "proj", "--why", "over")
    assert one_desk.store.grants.of("archive/proj", "network") == []


PLACES = {
    "data.example.org": "data.example.org:443",
    "DATA.example.org:8443": "data.example.org:8443",
    "*": "*:443",
    "http://data.example.org": "http://data.example.org:80",
    "*.example.org": "*.example.org:443",
    "*:22": "*:22",
    "10.1.2.3": "10.1.2.3:443",
    "[fd00::1]:443": "[fd00::1]:443",
    "http://*.example.org:8080": "http://*.example.org:8080",
}
NO_PLACES = [
    "",
    "localhost",
    "*.org",
    "**.example.org",
    "a.*.example.org",
    "*example.org",
    "data.example.org:",
    "https://a.b",
    "data.example.org:0",
    "data.example.org:99999",
    "data.example.org/x",
    "a b.c",
    "ada@data.example.org",
    "2130706433",
    "0177.0.0.1",
    "*.10.0.0.1",
    "data.example.org.",
    "-x.example.org",
    "fd00::1",
    "http://",
    "http://a.b/c",
    "a..b",
]


@pytest.mark.parametrize("text", PLACES)
def test_a_place_has_one_reading(text: str) -> None:
    assert str(read_place(text)) == PLACES[text]
    assert str(read_place(PLACES[text])) == PLACES[text]


@pytest.mark.parametrize("text", NO_PLACES)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_place(text)


WRONG = {
    "https://a.example.org": "only http:// is said",
    "a.example.org,b.example.org": "one host at a time",
    "a.example.org:65536": "a number from 1 to 65535",
    "a.example.org:": "a number from 1 to 65535",
    "a.example.org:022": "a number from 1 to 65535",
    "a.example.org.": "without the dot",
    "a.example.org/x": "no path",
    "b\u00fccher.example.org": "xn-- form",
    "ada@a.example.org": "no user",
    "": "it is empty",
    "fd00::1": "name a host",
    "a.*.example.org": "first label",
    "-x.example.org": "cannot be read",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_place_is_said(text: str) -> None:
    with pytest.raises(BadInput, match=WRONG[text]):
        read_place(text)


COVERED = [
    ("data.example.org", "data.example.org", True),
    ("*.example.org", "data.example.org", True),
    ("*", "a.b", True),
    ("*.example.org", "a.data.example.org", False),
    ("*.example.org", "example.org", False),
    ("*", "a.b:80", False),
    ("data.example.org", "http://data.example.org:443", False),
    ("*.example.org", "*.example.org", True),
    ("*.example.org", "*", False),
    ("*.example.org", "*.a.example.org", False),
    ("data.example.org", "*.example.org", False),
    ("*.example.org", "evilexample.org", False),
    ("http://a.b", "a.b:80", False),
]


@pytest.mark.parametrize(("granted", "asked", "holds"), COVERED)
def test_what_a_grant_covers(granted: str, asked: str, holds: bool) -> None:
    assert (lacking([asked], [granted]) == []) is holds


def test_the_rules_of_the_configuration_are_read_and_checked(tmp_path: Path) -> None:
    from custody.config import read

    file = tmp_path / "custody.toml"
    file.write_text('[network]\ninner = ["10.1.0.0/16"]\nconnections = 4\n')
    assert [str(each) for each in read(file).network.networks()] == ["10.1.0.0/16"]
    wrong_ones = ['inner = ["10.1.0.1/16"]', "connections = 0", "connections = 201", 'connections = "x"', "iner = []"]
    for wrong in (*wrong_ones, 'inner = "10.1.0.0/16"', "inner = [5]", "inner = 5", "inner = true"):
        file.write_text(f"[network]\n{wrong}\n")
        with pytest.raises(BadInput):
            read(file)


INNERS = {
    "0.0.0.0/0": False,
    "::/0": False,
    "127.0.0.0/8": False,
    "127.0.0.1/32": False,
    "0.0.0.0/32": False,
    "::1/128": False,
    "169.254.0.0/16": False,
    "169.254.169.254/32": False,
    "168.63.129.16/32": False,
    "fe80::/64": False,
    "fd00:ec2::254/128": False,
    "64:ff9b::/96": False,
    "::ffff:10.0.0.0/104": False,
    "0.0.0.0/1": False,
    "10.0.0.0/8": True,
    "192.168.1.7/32": True,
    "fd00::/8": True,
    "100.64.0.0/10": True,
}


@pytest.mark.parametrize("network", INNERS)
def test_what_is_never_opened_cannot_be_configured(network: str, tmp_path: Path) -> None:
    from custody.config import read

    file = tmp_path / "custody.toml"
    file.write_text(f'[network]\ninner = ["{network}"]\n')
    if INNERS[network]:
        assert [str(each) for each in read(file).network.networks()] == [network]
        return
    with pytest.raises(BadInput, match="never opened"):
        read(file)


def test_inner_networks_are_a_list_and_that_is_said(tmp_path: Path) -> None:
    from custody.config import read

    file = tmp_path / "custody.toml"
    for wrong in ('"10.1.0.0/16"', "[5]", "[true]"):
        file.write_text(f"[network]\ninner = {wrong}\n")
        with pytest.raises(BadInput, match=r"network\.inner must be a list"):
            read(file)


@pytest.mark.parametrize("text", ["93.184.216.34", "127.0.0.1:8080", "[::1]", "http://10.1.2.3", "a.localhost"])
def test_a_grant_and_a_definition_name_hosts_not_addresses(text: str, one_desk: Desk) -> None:
    for read in (check_grant, read_named):
        with pytest.raises(Refused) as refused:
            read(text)
        assert refused.value.code == "network.address"
    assert custody_code(one_desk, "grant", "proj", "network", text, "--why", "x")
    assert one_desk.store.grants.of("archive/proj", "network") == []
    faults = definition.read({name: body.encode() for name, body in workflow(f'["{text}"]').items()}).faults
    assert "in place of a host's name" in str(faults) or "the machine itself" in str(faults)


def custody_code(desk: Desk, *words: str) -> int:
    return CliRunner().invoke(app, [*words, "--store", desk.store.url]).exit_code


def test_an_address_that_was_granted_before_can_be_withdrawn(one_desk: Desk) -> None:
    grant(one_desk, "10.1.2.3:443")
    assert custody_code(one_desk, "withdraw", "proj", "network", "10.1.2.3", "--why", "x") == 0
    assert one_desk.store.grants.of("archive/proj", "network") == []


@pytest.mark.parametrize(
    "words",
    [
        ("nobody", "network", "data.example.org"),
        ("proj", "network", "data.example.org:8443"),
        ("proj", "network", "dat.example.org"),
        ("proj", "netwrok", "data.example.org"),
        ("proj", "secret", "key"),
    ],
)
def test_withdrawing_what_is_not_there_fails(words: tuple[str, ...], one_desk: Desk) -> None:
    grant(one_desk, "data.example.org:443")
    assert custody_code(one_desk, "withdraw", *words, "--why", "x")
    assert one_desk.store.grants.of("archive/proj", "network") == ["data.example.org:443"]


@pytest.mark.parametrize(
    ("what", "taken", "left", "told"),
    [
        ("network", "data.example.org:22", "*.example.org:22", True),
        ("network", "data.example.org:22", "*:22", True),
        ("network", "*.example.org:22", "data.example.org:22", True),
        ("network", "data.example.org:22", "data.example.org:443", False),
        ("secret", "key@trunk", "key", True),
        ("secret", "key@trunk", "key@t*", True),
        ("secret", "key@trunk", "key@other", False),
    ],
)
def test_withdrawing_says_what_still_keeps_it_open(
    one_desk: Desk, what: str, taken: str, left: str, told: bool
) -> None:
    for value in (taken, left):
        one_desk.store.grants.grant("archive/proj", what, value, "ada", "a test")
    said = custody(one_desk, "withdraw", "proj", what, taken, "--why", "x")
    assert (f"still open by another grant: {left}" in said) is told, said
    said = custody(one_desk, "withdraw", "proj", what, taken, "--why", "x")
    assert (f"which it has by {left}" in said) is told, said


@pytest.mark.parametrize(
    "asked", ["*", "http://*:8080", "*.example.org", "data.example.org:8443", "http://data.example.org"]
)
def test_the_words_that_are_named_for_a_grant_work_as_they_are(one_desk: Desk, asked: str) -> None:
    import shlex

    told = waits_for([str(read_place(asked))], [], "archive/proj")
    named = told.partition("`")[2].rstrip("`")
    assert named == command("archive/proj", str(read_place(asked)))
    first, second, *words = shlex.split(named)
    assert (first, second) == ("custody", "archive")
    assert "*" not in named.replace(shlex.quote(str(read_place(asked))), "")
    assert custody_code(one_desk, *words) == 0
    assert waits_for([asked], one_desk.store.grants.of("archive/proj", "network"), "archive/proj") == ""


def test_every_unfinished_revision_is_asked_for_what_it_waits_for(one_desk: Desk) -> None:
    """The newest definition may ask for nothing, and tasks of an earlier one still wait."""
    first = one_desk.commit(workflow("[one.example.org, 'two.example.org:8443']"))
    one_desk.notify(first)
    one_desk.run()
    second = one_desk.commit({"_workflows/a.yaml": "- {name: other, script: 'true'}\n"})
    one_desk.notify(second)
    one_desk.run()
    assert one_desk.task(first, "fetch").ended is None
    commands = [f"{ASKED} {host} --why" for host in ("one.example.org:443", "two.example.org:8443")]
    (amiss,) = (text for _, text in network.waiting(one_desk.store))
    listed = custody(one_desk, "list", "--json")
    doctor = str([finding.do for finding in examine(one_desk.store.url, None)])
    for command_ in commands:
        assert command_ in amiss
        assert command_ in listed
        assert command_ in doctor
    grant(one_desk, "one.example.org")
    (amiss,) = (text for _, text in network.waiting(one_desk.store))
    assert (commands[0] in amiss, commands[1] in amiss) == (False, True)
    grant(one_desk, "two.example.org:8443")
    assert list(network.waiting(one_desk.store)) == []


def test_why_says_that_it_waits_for_a_grant_and_not_for_the_clock(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit(workflow("[data.example.org]")))
    one_desk.run()
    (reason,) = one_desk.store.queue.why(one_desk.task(1, "fetch").id)
    assert reason.clears == f"an operator grants it: `{ASKED} data.example.org:443 --why …`"
    assert "until: an operator grants it" in custody(one_desk, "why", "proj", "1", "fetch")
    assert "before its time" not in reason.text
