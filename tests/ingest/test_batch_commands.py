"""Commands about deposits, as somebody at a terminal gives them: what they count, where they send one, how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.demo.standins.web_server import FileServer
from custody.formats.checkm.form import BATCH_OF_FILES, Row
from custody.formats.checkm.writer import write
from ingest.bench import PROFILE, archive, custody
from ingest.test_callbacks import SECRET, Receiver, receiver
from ingest.test_mixed_fleet import peers, plant_job, tree_url

__all__ = ["receiver"]
WORK = ("worker", "run", "--until-idle", "--no-log")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    made = FileServer(tmp_path / "depositor").start()
    home = tmp_path / "home"
    home.mkdir()
    made.root.mkdir(exist_ok=True)
    custody(home, "init")
    (home / "profiles" / "papers.toml").write_text(PROFILE.format(port=made.port, more=""))
    yield made
    made.stop()


def manifest(home: Path, server: FileServer, *names: str) -> str:
    rows = [Row(line, f"{server.url}/{name}", name) for line, name in enumerate(names, start=1)]
    (home / "batch.checkm").write_text("".join(write(BATCH_OF_FILES, rows)))
    return "batch.checkm"


def test_what_can_be_resumed_by_a_cause_is_and_the_rest_is_no_failure_of_that(
    server: FileServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    custody(home, "batch", "submit", manifest(home, server, "a.txt", "b.txt"), "--profile", "papers")
    gone = f"{server.url}/gone.checkm"
    custody(home, "batch", "submit", gone, "--profile", "papers", "--type", "batch-manifest")
    assert custody(home, *WORK).returncode == 0
    listed = {line.split()[0]: line.split() for line in custody(home, "batch", "list").stdout.splitlines()[1:]}
    assert listed["1"][:5] == ["1", "failed", "papers", "2", "-"]
    assert listed["2"][:5] == ["2", "failed", "papers", "-", "-"], "it has no jobs, so none is open"
    told = json.loads(custody(home, "batch", "list", "--json").stdout)
    assert [(each["id"], each["jobs"], each["open"]) for each in told] == [(1, 2, 0), (2, 0, 0)]
    assert "batch 2" in custody(home, "job", "failures").stdout

    for name in ("a.txt", "b.txt"):
        (server.root / name).write_text(name)
    done = custody(home, "job", "resume", "--cause", "http.404", "--why", "they are there now")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 jobs resumed\n1 with the same cause cannot be resumed, such as batch 2:" in done.stdout
    assert "`custody job why 2` says what helps" in done.stdout
    open_now = custody(home, "batch", "list").stdout.splitlines()[1].split()
    assert open_now[:5] == ["1", "failed", "papers", "2", "2"]
    assert custody(home, *WORK).returncode == 0
    assert {line.split()[1] for line in custody(home, "batch", "show", "1").stdout.splitlines()[-1:]} == {"completed"}
    again = custody(home, "job", "resume", "--cause", "http.404")
    assert (again.returncode, "0 jobs resumed" in again.stdout) == (1, True), "nothing that was asked for was done"


def test_a_number_that_is_no_batch_says_what_it_is_and_what_to_type(server: FileServer, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (server.root / "a.txt").write_text("a")
    custody(home, "batch", "submit", manifest(home, server, "a.txt"), "--profile", "papers")
    custody(home, "job", "submit", "parcel")
    custody(home, *WORK)
    jobs = json.loads(custody(home, "job", "list", "--json").stdout)
    numbers = {job["kind"]: job["id"] for job in jobs}
    deposit, parcel = numbers["ingest/job"], numbers["parcel"]
    for verb in ("show", "why", "link", "report"):
        said = custody(home, "batch", verb, str(deposit))
        assert said.returncode == 2
        assert f"{deposit} is a job of batch 1, not a batch" in said.stderr
        assert f"`custody job show {deposit}` shows it; `custody batch show 1`, its batch" in said.stderr
    other = custody(home, "batch", "show", str(parcel)).stderr
    assert f"{parcel} is a job (parcel), not a batch" in other
    assert f"`custody job show {parcel}` shows it; `custody batch list`, the batches" in other


def test_jobs_that_another_service_made_are_counted(zookeeper_hosts: str, tmp_path: Path) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home, peers(zookeeper_hosts) as peer:
        plant_job(peer)
        (tmp_path / "custody.toml").write_text(f'store = "{url}"\n')
        line = custody(home.home, "batch", "list").stdout.splitlines()[1].split()
        assert line[:5] == ["bid0000000000", "processing", "papers", "1", "1"]


def test_a_worker_that_ends_says_what_still_waits(server: FileServer, receiver: Receiver, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (server.root / "a.txt").write_text("a")
    call = f'[callback]\nurl = "http://127.0.0.1:{receiver.port}/hook"\nsecret_file = "hook.secret"\n'
    ports = f"{server.port}, {receiver.port}"
    (home / "profiles" / "papers.toml").write_text(PROFILE.format(port=ports, more=call))
    (home / "hook.secret").write_text(f"{SECRET}\n")
    (home / "hook.secret").chmod(0o600)
    receiver.answers = [500] * 100
    custody(home, "batch", "submit", manifest(home, server, "a.txt"), "--profile", "papers")
    custody(home, "hold", "set", "collection", "example", "--why", "moving house")
    (home / "b.txt").write_text("b")
    custody(home, "batch", "submit", "b.txt", "--profile", "example")
    done = custody(home, *WORK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "waits: 1 job of ingest/job, such as 3: " in done.stdout
    assert "waits: 1 job of ingest/batch, such as 2: " in done.stdout
    assert "moving house" in done.stdout
    told = json.loads(custody(home, *WORK, "--json").stdout)
    assert (told["ended"], told["more"]) == ("idle", 0)
    waiting = {each["kind"]: each for each in told["waiting"]}
    assert {kind: (each["count"], each["reason"]["code"]) for kind, each in waiting.items()} == {
        "ingest/job": (1, "due"),
        "ingest/batch": (1, "held"),
    }
    assert waiting["ingest/job"]["next"] > 0
    assert waiting["ingest/batch"]["next"] is None
    endless = custody(home, "worker", "run", "--json")
    assert (endless.returncode, "worker.json" in endless.stdout + endless.stderr) == (2, True)


def test_a_worker_that_has_done_everything_has_nothing_to_say(server: FileServer, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (server.root / "a.txt").write_text("a")
    custody(home, "batch", "submit", manifest(home, server, "a.txt"), "--profile", "papers")
    done = custody(home, *WORK)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told = json.loads(custody(home, *WORK, "--json").stdout)
    assert told == {"ended": "idle", "settled": 0, "waiting": [], "more": 0}
