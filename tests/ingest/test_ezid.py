"""The promises of the EZID client, against the local EZID."""

from __future__ import annotations

import httpx2
import pytest

from custody.demo.standins.ezid import EzidStandIn
from custody.errors import BadInput, Refused, Unavailable
from custody.formats.noid import has_check_digit
from custody.ingest.description.metadata import Description
from custody.ingest.identifiers.ezid import MARK, Ezid, candidate

SHOULDER = "ark:/99999/fk4"


@pytest.fixture
def server():
    with EzidStandIn() as standin:
        yield standin


@pytest.fixture
def waits():
    return []


@pytest.fixture
def ezid(server, waits):
    with Ezid(server.url, "demo", "demo", SHOULDER, sleep=waits.append) as client:
        yield client


def test_an_identifier_is_created_with_its_citation_and_target(server, ezid):
    about = Description(creator="Proust, Marcel", title="100% time\nlost", date="1922")
    minted = ezid.mint("job-1", about, target="https://archive.example/{ark}")
    record = server.records[minted]
    assert minted.startswith(SHOULDER)
    assert has_check_digit(minted)
    assert (record["erc.who"], record["erc.what"]) == ("Proust, Marcel", "100% time\nlost")
    assert record["_target"] == f"https://archive.example/{minted}"
    assert "job-1" not in record[MARK]  # the record is public


def test_a_request_gets_the_same_identifier_however_often_it_asks(server, ezid):
    assert len({ezid.mint("job-1") for _ in range(3)}) == 1
    assert ezid.mint("job-2") != ezid.mint("job-1")
    assert len(server.records) == 2


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_lost_answers_never_mint_twice(server, ezid, lost):
    server.lose_answers(lost)
    minted = ezid.mint("job-1")
    assert list(server.records) == [minted]


def test_a_crash_after_a_lost_answer_never_mints_twice(server, ezid):
    server.lose_answers(99)
    with pytest.raises(Unavailable):
        ezid.mint("job-1")
    server.lose_answers(0)
    with Ezid(server.url, "demo", "demo", SHOULDER) as another_process:
        minted = another_process.mint("job-1")
    assert list(server.records) == [minted]


@pytest.mark.parametrize("codes", [(503,), (500, 502), (429, 503, 504)])
def test_passing_trouble_is_waited_out(server, ezid, waits, codes):
    server.fail_with(*codes)
    ezid.mint("job-1")
    assert waits == [0.5, 1.0, 2.0][: len(codes)]


def test_lasting_trouble_is_told_after_a_few_tries(server, ezid):
    server.fail_with(*[503] * 9)
    with pytest.raises(Unavailable) as told:
        ezid.mint("job-1")
    assert told.value.code == "ezid.unavailable"
    assert len(server.requests) == 4
    assert server.records == {}


def test_a_server_that_is_not_there_is_unavailable(waits):
    with EzidStandIn() as gone:
        url = gone.url
    with Ezid(url, "demo", "demo", SHOULDER, sleep=waits.append) as client, pytest.raises(Unavailable):
        client.mint("job-1")


def test_a_name_that_somebody_else_has_is_left_to_them(server, ezid):
    theirs = candidate(SHOULDER, "job-1", 0)
    server.records[theirs] = {"_owner": "ann", "_status": "public"}
    minted = ezid.mint("job-1")
    assert minted == candidate(SHOULDER, "job-1", 1) != theirs
    assert server.records[theirs] == {"_owner": "ann", "_status": "public"}
    assert ezid.mint("job-1") == minted


def test_when_all_names_are_taken_it_says_so(server, ezid):
    for attempt in range(8):
        server.records[candidate(SHOULDER, "job-1", attempt)] = {}
    with pytest.raises(Refused) as refused:
        ezid.mint("job-1")
    assert refused.value.code == "ezid.taken"


def test_chosen_names_can_never_be_those_that_ezid_mints():
    lengths = {len(candidate(SHOULDER, f"job-{n}", 0)) - len(SHOULDER) for n in range(50)}
    assert lengths == {12}
    assert 12 % 3 != 1  # EZID's template eedk grows by three


def test_wrong_credentials_are_refused_at_once(server, waits):
    with Ezid(server.url, "demo", "wrong", SHOULDER, sleep=waits.append) as client:
        with pytest.raises(Refused) as refused:
            client.mint("job-1")
    assert (refused.value.code, waits) == ("ezid.unauthorized", [])


def test_a_foreign_shoulder_is_refused_at_once(server, waits):
    with Ezid(server.url, "demo", "demo", "ark:/12345/x1", sleep=waits.append) as client:
        with pytest.raises(Refused) as refused:
            client.mint("job-1")
    assert (refused.value.code, waits) == ("ezid.forbidden", [])


def test_an_identifier_is_read_and_updated(server, ezid):
    minted = ezid.mint("job-1")
    ezid.update(minted, Description(title="New: title"), target="https://archive.example/x")
    record = ezid.read(minted)
    assert (record["erc.what"], record["_target"]) == ("New: title", "https://archive.example/x")
    assert ezid.read(f"{SHOULDER}none") is None
    with pytest.raises(BadInput):
        ezid.update(f"{SHOULDER}none", Description())


# -- the stand-in itself: what the documentation of EZID promises ------------------------------------


def ask(server, method, path, body="", auth=("demo", "demo")):
    answer = httpx2.request(method, server.url + path, content=body.encode(), auth=auth, trust_env=False)
    return answer.status_code, answer.text.splitlines()[0]


def test_the_stand_in_speaks_the_documented_api(server):
    assert ask(server, "GET", "/status", auth=None) == (200, "success: EZID is up")
    code, line = ask(server, "POST", f"/shoulder/{SHOULDER}", "_target: http://x/")
    minted = line.removeprefix("success: ")
    assert code == 201
    assert has_check_digit(minted)
    assert ask(server, "PUT", f"/id/{minted}")[0] == 400
    assert ask(server, "PUT", f"/id/{minted}?update_if_exists=yes", "a: b")[0] == 200
    assert ask(server, "POST", f"/id/{minted}", "a:")[0] == 200
    assert "a" not in server.records[minted]
    assert ask(server, "DELETE", f"/id/{minted}")[0] == 400
    assert ask(server, "PUT", f"/id/{SHOULDER}r", "_status: reserved") == (201, f"success: {SHOULDER}r")
    assert ask(server, "DELETE", f"/id/{SHOULDER}r") == (200, f"success: {SHOULDER}r")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "/shoulder/ark:/12345/x", "", 400),
        ("PUT", f"/id/{SHOULDER}a", "_created: 1", 400),
        ("PUT", f"/id/{SHOULDER}a", "no colon", 400),
        ("PUT", f"/id/{SHOULDER}a", "a: %zz", 400),
        ("PUT", f"/id/{SHOULDER}a", "a: 1\na: 2", 400),
        ("PUT", "/id/ark:/12345/x", "", 403),
        ("GET", f"/id/{SHOULDER}none", "", 400),
        ("POST", "/login", "", 405),
    ],
)
def test_the_stand_in_refuses_what_ezid_refuses(server, method, path, body, code):
    assert ask(server, method, path, body)[0] == code
    assert server.records == {}
