"""Objects that are stored by a service over HTTP: the bytes arrive, nothing is stored twice, and while it is away
jobs wait."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from custody.demo.standins.storage_node import StorageStandIn
from custody.demo.standins.web_server import FileServer
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from custody.ingest.config import IngestConfig
from custody.ingest.profile import parse_profile
from custody.ingest.storage import nodes
from custody.ingest.storage.http_node import DOWN, HttpNode, Window
from custody.ingest.storage.nodes import look_after, open_nodes
from custody.ingest.storage.ocfl.change import Change, Given
from ingest.bench import Archive, archive, custody
from ingest.test_end_to_end import ocfl_is_valid, tar_of

SERVICE = '\n[storage]\nnode = "far"\nservice = "{url}"\ntoken_file = "token"\n'


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageStandIn]:
    with StorageStandIn(tmp_path / "far", token="sesame") as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path, storage: StorageStandIn) -> Iterator[Archive]:
    """An archive whose objects are stored by a service that looks into its working folder."""
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    window = FileServer(tmp_path / "work").start()
    (tmp_path / "token").write_text("sesame\n")
    config = IngestConfig(threshold=0.0, files=window.url)
    try:
        with archive(tmp_path, url, SERVICE.format(url=storage.url), config) as made:
            made.world = replace(made.world, nodes={**made.world.nodes, "far": node_of(made, storage)})
            yield made
    finally:
        window.stop()


def node_of(home: Archive, storage: StorageStandIn, **more: object) -> HttpNode:
    window = Window(home.world.disk.root, home.world.files)
    return HttpNode(storage.url, "far", window, token="sesame", pause=0.01, **more)  # type: ignore[arg-type]


def test_a_deposit_is_stored_by_the_service_and_every_digest_is_that_of_the_bytes(
    home: Archive, storage: StorageStandIn
) -> None:
    first = home.submit(
        home.put("box.tar.gz", tar_of({"a.txt": b"a", "b.txt": b"b"})), filename="box.tar.gz", local_id="box"
    )
    home.run()
    more = tar_of({"c.txt": b"c", "mrt-delete.txt": b"producer/a.txt\n"})
    second = home.submit(home.put("more.tar.gz", more), filename="more.tar.gz", local_id="box", update=True)
    home.run()
    assert [home.batch(batch).state for batch in (first, second)] == ["completed"] * 2
    (job,) = home.jobs(second)
    ark = job.facts["primary"]
    assert (job.facts["version"], home.store.records.item(ark).place, job.lane) == (2, "", "papers")
    for file in home.world.inventory.files(ark, 2):
        assert hashlib.sha256(storage.root.file(ark, file.name).read_bytes()).hexdigest() == file.sha256
    held = node_of(home, storage).manifest(ark)
    assert held.version == 2
    assert {name for name in held.files if name.startswith("producer/")} == {
        "producer/b.txt",
        "producer/c.txt",
        "producer/mrt-delete.txt",
    }
    assert ocfl_is_valid(storage.root.path)
    assert not list(home.world.disk.folders())


def test_a_lost_answer_makes_no_second_version(home: Archive, storage: StorageStandIn) -> None:
    storage.lose_answers(2)
    batch = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.facts["version"]) == ("completed", 1)
    assert len([each for each in storage.requests if each.startswith("POST")]) == 3


def test_a_new_object_is_never_a_next_version_of_what_the_service_holds(home: Archive, storage: StorageStandIn) -> None:
    theirs = "ark:/12345/theirs"
    home.put("old.txt", b"old")
    given = Given(home.home / "depositor" / "old.txt", {"sha256": hashlib.sha256(b"old").hexdigest()})
    storage.root.store(theirs, Change({"producer/old.txt": given}, "elsewhere-1", datetime(2020, 1, 1, tzinfo=UTC)))
    batch = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt", primary_id=theirs)
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("failed", "object.exists")
    assert len(storage.root.inventory(theirs).versions) == 1
    assert not [each for each in storage.requests if each.startswith("POST")], "it was not even asked"


def test_while_the_service_is_away_jobs_wait_and_say_so_and_use_up_no_tries(
    home: Archive, storage: StorageStandIn
) -> None:
    storage.down = True
    batches = [home.submit(home.put(f"{n}.txt", b"%d" % n), type="file", filename=f"{n}.txt") for n in range(3)]
    home.run()
    jobs = [job for batch in batches for job in home.jobs(batch)]
    assert {(job.state, job.attempts) for job in jobs} == {("storing", 0)}
    (hold,) = home.store.queue.holds()
    assert (hold.scope, hold.name, hold.who) == ("lane", "node/far", nodes.OURS)
    (reason,) = home.store.queue.why(jobs[0].id)
    assert "node/far is paused by custody itself: storage node far does not answer: HTTP 503" in reason.text
    asked = len(storage.requests)
    home.run()
    assert len(storage.requests) == asked, "nobody asks on behalf of a job while its lane is paused"
    assert look_after(home.store, home.world.nodes) == 0, "it is still away"
    storage.down = False
    assert look_after(home.store, home.world.nodes) == 1
    home.run()
    assert {home.batch(batch).state for batch in batches} == {"completed"}


def test_a_pause_that_a_person_made_is_theirs_to_lift(home: Archive, storage: StorageStandIn) -> None:
    home.store.queue.hold("lane", nodes.lane_of("far"), "lee", "new disks")
    batch = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    home.run()
    (job,) = home.jobs(batch)
    assert job.state == "storing"
    assert look_after(home.store, home.world.nodes) == 0
    home.store.queue.lift("lane", nodes.lane_of("far"), "lee")
    home.run()
    assert home.batch(batch).state == "completed"


def test_bytes_that_change_on_their_way_fail_the_job_and_resuming_stores_them(
    home: Archive, storage: StorageStandIn
) -> None:
    storage.corrupt.add("producer/a.txt")
    batch = home.submit(home.put("a.txt", b"abc"), type="file", filename="a.txt")
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("failed", "digest.mismatch")
    with pytest.raises(NotFound):
        storage.root.inventory(job.facts["primary"])
    storage.corrupt.clear()
    home.operator.resume(job.id, "the line was mended")
    home.run()
    assert home.jobs(batch)[0].state == "completed"


def test_the_service_verifies_and_forgets_an_object(home: Archive, storage: StorageStandIn) -> None:
    batch = home.submit(home.put("a.txt", b"abc"), type="file", filename="a.txt")
    home.run()
    ark = home.jobs(batch)[0].facts["primary"]
    node = node_of(home, storage)
    assert node.fixity(ark) == []
    storage.root.file(ark, "producer/a.txt").write_bytes(b"abd")
    assert any("a.txt" in each for each in node.fixity(ark))
    assert node.delete(ark)
    assert not node.delete(ark)
    with pytest.raises(NotFound):
        node.manifest(ark)


@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        ((503, {}), Unavailable, DOWN),
        ((429, {}), Unavailable, DOWN),
        (None, Unavailable, DOWN),
        ((401, {"code": "storage.unauthorized", "message": "who?"}), Refused, "storage.unauthorized"),
        ((409, {"code": "object.busy", "message": "wait"}), Refused, "object.busy"),
        ((418, {}), Refused, "storage.refused"),
        ((302, {}), Refused, "storage.refused"),
        ((404, {"code": "object.unknown"}), NotFound, "object.unknown"),
        ((200, {"files": {}}), Unavailable, "storage.answer"),
        ((200, {"version": "2", "files": {}}), Unavailable, "storage.answer"),
        ((200, {"version": True, "files": {}}), Unavailable, "storage.answer"),
        ((200, {"version": 0, "files": {}}), Unavailable, "storage.answer"),
        ((200, {"version": 1}), Unavailable, "storage.answer"),
    ],
)
def test_every_answer_becomes_one_kind_of_error(
    tmp_path: Path, storage: StorageStandIn, reply: object, kind: type[CustodyError], code: str
) -> None:
    storage.answer = lambda *_: reply  # type: ignore[method-assign, assignment, return-value]
    node = HttpNode(storage.url, "far", Window(tmp_path, ""), pause=0.001, tries=2)
    with pytest.raises(kind) as told:
        node.manifest("ark:/99999/x")
    assert told.value.code == code


def test_nobody_there_is_down_too_and_an_endless_answer_ends(tmp_path: Path, storage: StorageStandIn) -> None:
    gone = HttpNode("http://127.0.0.1:1", "far", Window(tmp_path, ""), pause=0.001, tries=2)
    with pytest.raises(Unavailable, match="storage node far does not answer: ConnectError"):
        gone.check()
    storage.answer = _sleepy(storage.answer)  # type: ignore[method-assign]
    slow = HttpNode(storage.url, "far", Window(tmp_path, ""), pause=0.001, tries=1, timeout=0.05)
    with pytest.raises(Unavailable, match=r"(Read|Connect)Timeout"):
        slow.check()


def _sleepy(answer: Callable[..., object]) -> Callable[..., object]:
    import time

    def later(*arguments: object) -> object:
        time.sleep(0.3)
        return answer(*arguments)

    return later


@pytest.mark.parametrize(
    ("texts", "files", "words"),
    [
        ({"a": '[storage]\nnode = "main"\nservice = "http://127.0.0.1:9"'}, "http://here", "is two things"),
        (
            {
                "a": '[storage]\nnode = "far"\nservice = "http://127.0.0.1:9"',
                "b": '[storage]\nnode = "far"\nservice = "http://127.0.0.1:8"',
            },
            "http://here",
            "is two things",
        ),
        ({"a": '[storage]\nnode = "far"\nservice = "http://127.0.0.1:9"'}, "", "nobody has said how"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    tmp_path: Path, texts: dict[str, str], files: str, words: str
) -> None:
    profiles = {name: parse_profile(text, name) for name, text in texts.items()}
    with pytest.raises(BadInput, match=words):
        open_nodes({"main": Path("storage")}, profiles, tmp_path, Window(tmp_path / "work", files))


def test_an_operator_pauses_a_node_and_the_doctor_asks_the_service(tmp_path: Path, storage: StorageStandIn) -> None:
    custody(tmp_path, "init")
    (tmp_path / "token").write_text("sesame\n")
    settings = (tmp_path / "custody.toml").read_text()
    (tmp_path / "custody.toml").write_text(settings.replace('work = "work"', 'work = "work"\nfiles = "http://here/"'))
    profile = tmp_path / "profiles" / "example.toml"
    profile.write_text(profile.read_text().replace('[storage]\nnode = "main"', SERVICE.format(url=storage.url).strip()))
    assert "node far is held" in custody(tmp_path, "hold", "set", "node", "far", "--why", "new disks").stdout
    assert "node/far" in custody(tmp_path, "hold", "list").stdout
    (tmp_path / "letter.txt").write_text("Dear sister")
    custody(tmp_path, "batch", "submit", "letter.txt", "--profile", "example")
    custody(tmp_path, "worker", "run", "--until-idle", "--no-log")
    assert "lane node/far is paused by ada: new disks" in custody(tmp_path, "job", "why", "2").stdout
    assert "node far is no longer held" in custody(tmp_path, "hold", "lift", "node", "far").stdout
    told = custody(tmp_path, "doctor").stdout
    assert f"storage node far: {storage.url} is well" in told
    assert "storage node main: nothing was left unfinished" in told
    storage.down = True
    assert "storage node far does not answer: HTTP 503" in custody(tmp_path, "doctor").stdout
