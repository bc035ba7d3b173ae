"""Each server starts, answers, survives a crash with its data, and is gone afterwards."""

from __future__ import annotations

import os
import smtplib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from rig.mail import Mailbox
from rig.need import need
from rig.program import (
    LOOPBACK,
    CannotStart,
    Program,
    answers,
    family,
    free_port,
    is_running,
    left_over,
    room,
)
from rig.proxy import Proxy
from rig.svn import Repository, Subversion
from rig.zookeeper import ZooKeeper


@pytest.fixture
def own_zookeeper() -> Iterator[ZooKeeper]:
    need("zookeeper")
    server = ZooKeeper()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_svn() -> Iterator[Subversion]:
    need("subversion")
    server = Subversion()
    server.start()
    yield server
    server.remove()


@contextmanager
def session(hosts: str, seconds: float = 10) -> Iterator[KazooClient]:
    client = KazooClient(hosts, timeout=seconds)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_zookeeper_keeps_what_it_acknowledged_through_a_crash(own_zookeeper: ZooKeeper) -> None:
    with session(own_zookeeper.address) as client:
        client.create("/kept", b"yes")
    first, port = own_zookeeper.program.pid, own_zookeeper.port

    own_zookeeper.stop("kill")
    assert not is_running(first)
    own_zookeeper.start()

    assert own_zookeeper.port == port
    with session(own_zookeeper.address) as client:
        assert client.get("/kept")[0] == b"yes"


def test_zookeeper_ends_a_session_that_falls_silent(zookeeper: ZooKeeper) -> None:
    root = zookeeper.fresh_root()
    gone = threading.Event()
    with Proxy(zookeeper.port) as proxy, session(root) as watcher:
        slow_line = root.replace(f":{zookeeper.port}/", f":{proxy.port}/")
        with session(slow_line, seconds=3) as sleeper:
            sleeper.create("/here", ephemeral=True)
            watcher.exists("/here", watch=lambda _: gone.set())
            proxy.freeze()
            assert gone.wait(60)
            proxy.resume()


def test_each_test_has_a_zookeeper_tree_of_its_own(zookeeper: ZooKeeper) -> None:
    with session(zookeeper.fresh_root()) as one, session(zookeeper.fresh_root()) as other:
        one.create("/mine")
        assert other.exists("/mine") is None


def test_zookeeper_answers_four_letter_words(zookeeper: ZooKeeper) -> None:
    assert zookeeper.word("ruok") == "imok"
    assert "zk_version" in zookeeper.word("mntr")


def test_a_commit_over_the_socket_makes_a_revision(repository: Repository) -> None:
    assert repository.commit("first", {"a/b.txt": "one", "c.txt": "two"}) == 1
    assert repository.commit("second", {"a/b.txt": "three"}) == 2
    assert repository.look("youngest").strip() == "2"
    assert repository.look("cat", "a/b.txt") == "three"
    assert repository.svn("cat", f"{repository.url}/a/b.txt@1") == "one"


def test_a_commit_runs_the_hook(repository: Repository, tmp_path: Path) -> None:
    told = tmp_path / "told"
    repository.hook("post-commit", f'#!/bin/sh\necho "$2" >> {told}\n')
    repository.commit("first", {"a.txt": "one"})
    assert told.read_text() == "1\n"


def test_who_does_not_know_the_password_may_not_read(repository: Repository) -> None:
    stranger = Repository(repository.path, repository.url, "guess")
    with pytest.raises(RuntimeError, match="E170001"):
        stranger.svn("ls", repository.url)


def test_svnserve_comes_back_on_its_port_after_a_crash(own_svn: Subversion) -> None:
    repository = own_svn.fresh_repository()
    repository.commit("first", {"a.txt": "one"})
    first = own_svn.program.pid

    own_svn.stop("kill")
    assert not is_running(first)
    with pytest.raises(OSError):
        answers(own_svn.port)
    own_svn.start()

    assert repository.commit("second", {"a.txt": "two"}) == 2


def letter() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", "Größe"
    message.set_content("All was kept.")
    return message


def test_a_letter_that_was_sent_is_in_the_mailbox(smtp: Mailbox) -> None:
    with smtplib.SMTP(LOOPBACK, smtp.port) as client:
        client.send_message(letter())
    (kept,) = smtp.letters
    assert (kept.sender, kept.recipients) == ("a@example.org", ("b@example.org",))
    assert kept.message["Subject"] == "Größe"
    assert kept.message.get_content().strip() == "All was kept."


def test_a_mailbox_refuses_when_told_to(smtp: Mailbox) -> None:
    smtp.refusal = "451 try again later"
    with smtplib.SMTP(LOOPBACK, smtp.port) as client, pytest.raises(smtplib.SMTPDataError, match="451"):
        client.send_message(letter())
    assert smtp.letters == []


@pytest.fixture
def little_site() -> Iterator[str]:
    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>Kept</title><button onclick=\"this.textContent='Pressed'\">Press</button>")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Site)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_a_page_is_shown_and_pressed_in_a_real_browser(page: Any, little_site: str) -> None:
    page.goto(little_site)
    assert page.title() == "Kept"
    page.get_by_role("button").click()
    assert page.get_by_role("button").text_content() == "Pressed"


def test_the_browser_reaches_nothing_but_loopback(page: Any) -> None:
    with pytest.raises(Exception, match="ERR_PROXY_CONNECTION_FAILED"):
        page.goto("http://example.org/")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Program]:
    """A process with a child, which heeds no polite request."""
    program = Program("sleeper", tmp_path / "log")
    script = "trap '' TERM; sleep 300 & echo ready; while :; do sleep 300; done"

    def ready() -> None:
        assert "ready" in program.log.read_text()

    program.run(["/bin/sh", "-c", script], ready)
    yield program
    program.end()


def test_a_process_that_will_not_go_is_killed_with_its_children(sleeper: Program) -> None:
    pids = family(sleeper.pid)
    assert len(pids) >= 2
    sleeper.end(seconds=0.1)
    assert not any(map(is_running, pids))


def test_a_server_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    program = Program("broken", tmp_path / "log")
    with pytest.raises(CannotStart, match="no such luck"):
        program.run(["/bin/sh", "-c", "echo no such luck; exit 3"], lambda: answers(free_port()))
    assert not program.running


def test_a_server_that_stays_silent_is_given_up_and_killed(tmp_path: Path) -> None:
    program = Program("mute", tmp_path / "log")
    seen: list[int] = []

    def never() -> None:
        seen.append(program.pid)
        raise ConnectionRefusedError

    with pytest.raises(CannotStart, match="silent after"):
        program.run(["/bin/sleep", "300"], never, seconds=0.2)
    assert not is_running(seen[0])


KILLED_RUN = """
import sys, threading
from rig.{module} import {server}
server = {server}()
thread = threading.Thread(target=server.start)
thread.start(); thread.join()
print(server.program.pid, server.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.kills
@pytest.mark.parametrize(
    ("service", "module", "server"),
    [
        ("postgresql", "postgres", "Postgres"),
        ("zookeeper", "zookeeper", "ZooKeeper"),
        ("subversion", "svn", "Subversion"),
    ],
)
def test_a_server_ends_with_the_test_run_that_is_killed(service: str, module: str, server: str) -> None:
    """Here it was started by a thread that has ended since: that alone must not end it."""
    need(service)
    words = [sys.executable, "-c", KILLED_RUN.format(module=module, server=server)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        time.sleep(0.05)
        assert is_running(int(pid))
        pids = family(int(pid))
        run.kill()
    wait_until(lambda: not any(map(is_running, pids)))

    # What a killed run leaves on disk, the next one sweeps away.
    assert Path(folder) in left_over()
    room("broom").rmdir()
    assert not Path(folder).exists()


def wait_until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)
