"""Callbacks on the wire: every try carries the same id, one that is taken is the last, and a failure can be mended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from custody.ingest.actions import ask_for_update
from custody.ingest.batch.webhook import verify
from custody.ingest.condition import why
from ingest.bench import Archive, archive
from ingest.test_ways_out import a_file, again, run_until
from ingest.test_why import run as run_patiently

SECRET = "whsec_" + "QUJD" * 8


@dataclass
class Receiver:
    """A depositor's program: answers as told, and then with 200."""

    answers: list[int] = field(default_factory=list)
    calls: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = made.answers.pop(0) if made.answers else 200
            made.calls.append((code, dict(self.headers), body))
            self.send_response(code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    made.port = server.server_address[1]
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path, receiver: Receiver) -> Iterator[Archive]:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    with archive(tmp_path, request.getfixturevalue("postgres_url") if request.param == "postgres" else url) as made:
        profile = made.home / "profiles" / "papers.toml"
        hook = f'\n[callback]\nurl = "http://127.0.0.1:{receiver.port}/hook"\nsecret_file = "hook.secret"\n'
        text = profile.read_text().replace(
            f"ports = [{made.server.port}]", f"ports = [{made.server.port}, {receiver.port}]"
        )
        profile.write_text(text + hook)
        (made.home / "hook.secret").write_text(f"{SECRET}\n")
        yield again(made)


def test_a_receiver_that_stumbles_is_asked_again_until_it_has_taken_the_call(home: Archive, receiver: Receiver) -> None:
    receiver.answers = [500, 503, 500]
    batch = a_file(home)
    home.run()
    assert home.batch(batch).state == "completed"
    assert [code for code, _, _ in receiver.calls] == [500, 503, 500, 200]
    assert len({fields["webhook-id"] for _, fields, _ in receiver.calls}) == 1
    _, fields, body = receiver.calls[-1]
    verify(fields, body, [SECRET], now=int(fields["webhook-timestamp"]))
    home.run()
    assert len(receiver.calls) == 4, "what was taken is not sent again"


def test_while_it_is_put_off_why_says_what_the_receiver_said(home: Archive, receiver: Receiver) -> None:
    receiver.answers = [500]
    batch = a_file(home)
    run_patiently(home)
    (reason,) = why.why(home.store, home.jobs(batch)[0])
    assert reason.code == "due"
    assert "try 1 failed, http.500: it is deposited, but its callback was not taken: " in reason.text


def test_a_call_that_is_refused_fails_the_job_and_not_the_object(home: Archive, receiver: Receiver) -> None:
    receiver.answers = [400]
    batch = a_file(home)
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code, job.last_passed) == ("failed", "http.400", "recording")
    assert home.store.queue.reason(job).startswith("it is deposited, but its callback was not taken: ")
    assert home.world.inventory.find(job.facts["primary"])
    home.operator.resume(job.id, "the receiver was mended")
    home.run()
    ask_for_update(home.store, home.batch(batch), "ada")
    run_until(home, batch, "completed")
    assert [code for code, _, _ in receiver.calls] == [400, 200]
    assert len(home.world.inventory.versions(job.facts["primary"])) == 1
