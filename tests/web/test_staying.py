"""What lasts is asked again who it is: a revoked, narrowed or ended token's stream and upload end within seconds."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable

import pytest

from custody.kernel.access.granting import Granting
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.web import live_updates
from custody.web.access import gate
from custody.web.server import Server
from kernel.stores.acts import execute
from web.house import House

PATIENCE = 60.0
"""Longer than a busy machine takes, and shorter than for ever."""
ENDINGS: dict[str, Callable[[House, int], object]] = {
    "revoked": lambda house, token: Tokens(house.archive.store).revoke(token, "bo"),
    "narrowed": lambda house, token: Tokens(house.archive.store).narrow(token, Granting(["reader"], ["maps"]), "bo"),
    "ended": lambda house, token: house.archive.store.db.write(
        lambda tx: execute(tx, f"update token set expires = 1 where id = {token}")
    ),
}


def token_of(house: House, who: str) -> int:
    house.token(who)
    return Tokens(house.archive.store).list()[-1].id


@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.parametrize("way", ["token", "session"])
def test_an_open_stream_ends_with_what_it_was_opened_with(own: House, how: str, way: str) -> None:
    server = Server(own.app).start()
    token = token_of(own, "operator")
    headers = {"Authorization": f"Bearer {own.token('operator')}"}
    path = "/api/v1/stream"
    if way == "session":
        session = Tokens(own.archive.store).open_session(own.token("operator"))
        headers, path = {"Cookie": f"custody_session={session}"}, "/stream"
    stays = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    stays.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {own.token('reader')}"})
    other = stays.getresponse()
    reader = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    reader.request("GET", path, headers=headers)
    answer = reader.getresponse()
    assert b"retry" in answer.readline()
    ENDINGS[how](own, token)
    began = time.monotonic()
    said = answer.read()  # until it ends
    assert b"event: bye" in said
    assert time.monotonic() - began < PATIENCE
    assert own.site.changes.listeners == 1, "the other one goes on"
    own.archive.store.queue.submit_one(NewJob("parcel"))
    while not other.readline().startswith(b"data: "):
        pass
    server.stop()
    reader.close()
    stays.close()


def test_the_look_at_who_listens_is_one_for_all(own: House, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    tokens = own.site.changes._tokens
    callers = tokens.callers

    def counting(numbers: list[int]) -> object:
        asked.append(numbers)
        return callers(numbers)

    monkeypatch.setattr(tokens, "callers", counting)
    monkeypatch.setattr(live_updates, "TRUST_SECONDS", 0.2)
    server = Server(own.app).start()
    readers = []
    for _ in range(5):
        reader = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        reader.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {own.token('reader')}"})
        assert reader.getresponse().readline()
        readers.append(reader)
    until = time.monotonic() + PATIENCE
    while not asked or len(asked) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert {len(each) for each in asked} == {1}, "five streams of one token are one question"
    server.stop()
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("how", ENDINGS)
def test_an_upload_under_way_ends_and_makes_nothing(own: House, how: str) -> None:
    server = Server(own.app).start()
    token = token_of(own, "operator")
    sender = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    sender.putrequest("POST", "/api/v1/batches/upload")
    sender.putheader("Authorization", f"Bearer {own.token('operator')}")
    sender.putheader("Content-Type", "multipart/form-data; boundary=x")
    sender.putheader("Content-Length", "100000")
    sender.endheaders()
    sender.send(b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"a" * 1000)
    ENDINGS[how](own, token)
    answer = sender.getresponse()  # without the rest
    assert answer.status in (401, 403), "403: narrowed before the gate had looked"
    assert own.archive.store.queue.list() == []
    server.stop()
    sender.close()


def test_an_upload_that_was_whole_before_anybody_looked_makes_nothing_either(
    own: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "TRUST_SECONDS", 3600.0)
    token = token_of(own, "operator")
    stay = gate.must_stay

    def just_revoked(request: object) -> None:
        Tokens(own.archive.store).revoke(token, "bo")
        stay(request)  # type: ignore[arg-type]

    monkeypatch.setattr(gate, "must_stay", just_revoked)
    sent = own.client("operator").post(
        "/api/v1/batches/upload", data={"profile": "papers"}, files={"file": ("a.txt", b"a")}
    )
    assert sent.status_code == 401
    assert own.archive.store.queue.list() == []


def test_a_list_that_is_being_read_ends_with_the_right_to_read_it(own: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "TRUST_SECONDS", 0.0)
    own.archive.store.queue.submit([NewJob("parcel") for _ in range(3)])
    token = token_of(own, "reader")
    session = Tokens(own.archive.store).open_session(own.token("reader"))
    client = own.client()
    client.cookies.set("custody_session", str(session))
    assert len(client.get("/jobs.csv").text.splitlines()) == 4
    monkeypatch.setattr(gate, "find_caller", _revoking(own, token, gate.find_caller))
    assert len(client.get("/jobs.csv").text.splitlines()) < 4


def _revoking(house: House, token: int, find: Callable[..., object]) -> Callable[..., object]:
    """The first time somebody is looked for they are let in, and revoked right after."""

    def looked(*given: object) -> object:
        found = find(*given)
        Tokens(house.archive.store).revoke(token, "bo")
        return found

    return looked


def test_files_of_an_item_that_a_job_names_are_shown_to_those_who_see_the_item(house: House) -> None:
    """A job of one's own may name anything among its facts."""
    store = house.archive.store
    deposit = next(job for job in house.archive.jobs(house.papers) if job.ended == "passed")
    ark = deposit.facts["primary"]
    job = store.queue.submit_one(NewJob("parcel", collection="maps", facts={"primary": ark})).id
    assert stored(house, "reader", job), "the item has files, for those who see it"
    assert stored(house, "reader/maps", job) == []


def stored(house: House, who: str, job: int) -> list[object]:
    client = house.client(Accept="application/json")
    client.cookies.set("custody_session", str(Tokens(house.archive.store).open_session(house.token(who))))
    found: list[object] = client.get(f"/jobs/{job}/files.json").json()["stored"]
    return found


def test_an_imported_event_wakes_nobody_as_the_system_does(own: House) -> None:
    store = own.archive.store
    store.records.put([NewItem("x")], [NewEvent("x", "imported changed", "success", "imported: system")])
    assert [event.type for event in store.records.events("item/x")] == ["changed", "imported changed"]


LARGE = 48 << 20


def _large(house: House, what: str) -> str:
    """The address of something large: a file that a task left, what it printed."""
    folder = house.shop.folder(house.archive.store.queue.get(house.task))
    (folder / "outputs" / "large.bin").write_bytes(b"x" * LARGE)
    (folder / "attempt-2.log").write_bytes(b"y" * LARGE)
    return {
        "file": f"/jobs/{house.task}/file/large.bin",
        "log": f"/jobs/{house.task}/log/2",
    }[what]


@pytest.mark.parametrize(
    ("what", "how", "reads"),
    [
        ("file", "revoked", "slowly"),
        ("file", "ended", "not at all"),
        ("log", "narrowed", "slowly"),
        ("log", "revoked", "not at all"),
    ],
)
def test_a_download_under_way_ends_with_the_right_to_it(
    house: House, what: str, how: str, reads: str, request: pytest.FixtureRequest
) -> None:
    tokens = Tokens(house.archive.store)
    token, secret = tokens.create(f"r-{what}-{how}-{reads.replace(' ', '-')}", ["reader"], ["*"])
    stays = tokens.create(f"s-{what}-{how}-{reads.replace(' ', '-')}", ["reader"], ["*"])[1]
    server = Server(house.app).start()
    request.addfinalizer(server.stop)
    address = _large(house, what)
    connections = [_small_window(server.port) for _ in range(2)]
    answers = []
    for connection, one in zip(connections, (secret, stays), strict=True):
        connection.request("GET", address, headers={"Cookie": f"custody_session={tokens.open_session(one)}"})
        answer = connection.getresponse()
        assert answer.status == 200
        answers.append(answer)
    ENDINGS[how](house, token.id)
    came, until = 0, time.monotonic() + gate.TRUST_SECONDS * 2 + 1
    while time.monotonic() < until:
        if reads == "slowly":
            try:
                came += len(answers[0].read(128 << 10))
            except http.client.IncompleteRead:
                break
        time.sleep(0.05)
    assert came + _rest(answers[0]) < LARGE // 2
    assert _rest(answers[1]) == LARGE, "the other one has all of it"
    for connection in connections:
        connection.close()


def _small_window(port: int) -> http.client.HTTPConnection:
    """A reader who has little room: what he does not take waits at the server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    connection.sock.settimeout(PATIENCE)
    connection.sock.connect(("127.0.0.1", port))
    return connection


def _rest(answer: http.client.HTTPResponse) -> int:
    count = 0
    try:
        while part := answer.read(1 << 20):
            count += len(part)
    except (http.client.IncompleteRead, ConnectionError) as cut:
        count += len(cut.partial) if isinstance(cut, http.client.IncompleteRead) else 0
    return count
