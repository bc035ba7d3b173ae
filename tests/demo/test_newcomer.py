"""A newcomer's walk, from an empty folder: a deposit that fails and is mended, an archive, a robot, a channel, pages."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from custody.demo.standins.discord import Standin
from custody.demo.standins.discord_guild import World
from custody.demo.standins.web_server import FileServer
from custody.formats.checkm.form import OBJECT, Row
from custody.formats.checkm.writer import write
from web.house import write_book
from web.test_serve import SOURCE, address_in, get, program

FETCH = """
[fetch]
schemes = ["http"]
ports = [{port}]
hosts = ["127.0.0.1"]
networks = ["127.0.0.0/8"]
"""
ROBOT = """\
from custody.robots import Item, Report, Trigger, robot


@robot(name="title-checker", version="1.0", event="title checked",
       when=Trigger(types={"object"}, past={"ingested"}, absent={"title checked"}))
def check(item: Item, report: Report) -> None:
    if not item.detail.get("title"):
        report.add("no-title", "the object has no title")
"""


SHELL = """\
import json, os, sys
from custody.cli import all_nouns, app_of, main
import custody.cli.composition
for noun in all_nouns():
    app_of(noun)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        main(json.loads(line))
    print(f"{END} {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)
"""
END = "-- ended with"


class Shell:
    """Commands in one folder, each in a process of its own, without loading the program anew for each."""

    def __init__(self, here: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "CUSTODY_WHO": "ada"}
        env.pop("CUSTODY_STORE", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHELL.replace("{END}", END)],
            cwd=here,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def __call__(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        told = ""
        for line in self._process.stdout:
            if line.startswith(END):
                assert line.split()[-1] == "0", f"{words}: {told}"
                return told
            told += line
        raise AssertionError(told)

    def work(self) -> None:
        self("worker", "run", "--until-idle", "--no-log")


@pytest.mark.skipif(not shutil.which("git"), reason="git is missing: apt-get install git")
def test_a_newcomers_walk(tmp_path: Path) -> None:
    here = tmp_path / "archive"
    here.mkdir()
    with _files(tmp_path / "depositor") as server, _chat() as chat, Shell(here) as custody:
        custody("init")
        _settle_in(here, server.port, chat)
        deposit_fails(custody, tmp_path / "depositor", server)
        custody("job", "resume", "--cause", "http.404")
        write_book(here, 1)
        custody("archive", "add", "book", "book.git")
        custody("archive", "notify", "book", "1")
        channel = next(iter(chat.world.channels))
        custody("channel", "add", str(channel))
        custody.work()
        assert "completed" in custody("batch", "show", "1")
        grid = custody("archive", "graph", "book")
        assert "COMMIT" in grid
        assert "index" in grid
        assert "nothing is missing" in custody("channel", "gaps", str(channel))
        (here / "title_checker.py").write_text(ROBOT)
        assert "1 went well" in custody("robot", "run", "title_checker.py", "--once")
        assert "title checked" in custody("robot", "matrix")
        with program(here, "serve", "--demo", "--no-workers", "--port", "0") as process:
            url = address_in(process, r"dashboard\s+(http://\S+)/")
            seen = {
                "/batches": "Field notes",
                "/archives/book": ">index<",
                "/robots": "title-checker",
                f"/channels/{channel}": "without a gap",
                f"/channels/{channel}/messages": "message",
                "/history": "Nothing has been sealed yet",
            }
            for path, text in seen.items():
                status, page = get(url, path, Accept="text/html")
                assert status == 200
                assert text in page, path
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@contextmanager
def _files(root: Path) -> Iterator[FileServer]:
    server = FileServer(root).start()
    yield server
    server.stop()


def _chat() -> Standin:
    world = World(seed=3)
    world.add(0, "harbour-talk", 150)
    return Standin(world, lambda: datetime(2026, 6, 1, tzinfo=UTC))


def _settle_in(here: Path, port: int, chat: Standin) -> None:
    """What one edits by hand: where payloads may come from, and the bot's token."""
    profile = here / "profiles" / "example.toml"
    profile.write_text(profile.read_text().partition("[fetch]")[0] + FETCH.format(port=port))
    (here / "discord.token").write_text("token")
    settings = here / "custody.toml"
    settings.write_text(f'{settings.read_text()}\n[channels]\napi = "{chat.api}"\n')


def deposit_fails(custody: Shell, depositor: Path, server: FileServer) -> None:
    """The manifest names a file that is not there yet; when the newcomer has asked why, it is."""
    data = b"Monday: rain."
    row = Row(1, f"{server.url}/notes.txt", "notes.txt", "sha256", hashlib.sha256(data).hexdigest(), len(data))
    depositor.mkdir(exist_ok=True)
    (depositor / "notes.checkm").write_text("".join(write(OBJECT, [row])))
    argv = ("batch", "submit", f"{server.url}/notes.checkm", "--profile", "example", "--title", "Field notes")
    assert "batch 1\n" in custody(*argv, "--type", "object-manifest")
    custody.work()
    assert "http.404" in custody("batch", "show", "1")
    assert "http.404" in custody("job", "failures")
    (depositor / "notes.txt").write_bytes(data)
