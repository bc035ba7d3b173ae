"""Whatever goes wrong in a deposit, somebody can put it right: no state without a way out, nothing told too early,
nothing lost on the way. Each was found by reading and by hand."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from custody.demo.standins.web_server import Fault
from custody.errors import BadInput, Refused, StateConflict
from custody.ingest import kinds as serving
from custody.ingest import why
from custody.ingest.actions import ask_for_update
from custody.ingest.batch.batch import TRIES_BEFORE_FINAL
from custody.ingest.batch.cleanup import delete_batch
from custody.ingest.config import IngestConfig, open_world
from custody.ingest.states import BATCH_KIND, JOB_KIND
from custody.ingest.states import STEPS as JOB_STEPS
from custody.ingest.storage import nodes
from custody.ingest.storage.http_node import HttpNode, Window
from custody.ingest.storage.inventory import Inventory
from custody.ingest.zookeeper import tree
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.model.job import Job
from custody.kernel.model.suspicion import ALONE
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from ingest.bench import CONFIG, PROFILE, Archive, archive, opened, quick
from ingest.test_end_to_end import objects, tar_of


@pytest.fixture(params=["sqlite", "postgres"])
def sql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    with archive(tmp_path, request.getfixturevalue("postgres_url") if request.param == "postgres" else url) as made:
        yield made


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Archive]:
    """On one store: what it says does not depend on which."""
    with archive(tmp_path, f"sqlite:///{tmp_path / 'custody.db'}") as made:
        yield made


def again(home: Archive, config: IngestConfig = CONFIG) -> Archive:
    """After a restart: as the files say now."""
    return replace(home, world=quick(open_world(home.store, config, home.home)))


def only(home: Archive, *states: str) -> None:
    """A worker that serves nothing else, until it has nothing to do."""
    chosen = [kind for kind in serving.kinds(home.world, Backoff(first=0.01)) if kind.state in states]
    Worker(home.store, Serving(tuple(chosen)), Settings(threads=2)).run_until_quiet()


def a_file(home: Archive, name: str = "a.txt", data: bytes = b"a", **more: object) -> int:
    return home.submit(home.put(name, data), type="file", filename=name, **more)


def letter(home: Archive, number: int) -> EmailMessage:
    path = sorted((home.home / "outbox").glob("*.eml"))[number]
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def attached(message: EmailMessage, name: str) -> str:
    (part,) = [part for part in message.iter_attachments() if part.get_filename() == name]
    content = part.get_content()
    return content if isinstance(content, str) else bytes(content).decode()


def run_until(home: Archive, batch: int, state: str) -> None:
    """What could not be claimed a moment ago is looked at again after another."""
    end = time.monotonic() + 60
    while home.batch(batch).state != state and time.monotonic() < end:
        home.run()
    assert home.batch(batch).state == state


# -- reports --------------------------------------------------------------------------------------------


def with_one_failed(home: Archive) -> tuple[int, Job]:
    """A batch of three whose jobs have ended, one of them badly; nobody has reported yet."""
    home.server.misbehave("/o2/a.txt", "gone")
    batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 3)))
    only(home, *JOB_STEPS)
    assert home.batch(batch).state == "reporting"
    (failed,) = [job for job in home.jobs(batch) if job.state == "failed"]
    return batch, failed


def test_a_report_waits_for_a_job_that_was_resumed_before_it_was_made(home: Archive) -> None:
    batch, failed = with_one_failed(home)
    home.operator.resume(failed.id, "too soon")
    only(home, "reporting")
    assert home.batch(batch).state == "reporting", "an open job is neither deposited nor failed"
    assert home.mails() == []
    run_until(home, batch, "failed")
    assert home.report(batch)["counts"] == {"completed": 2, "failed": 1, "deleted": 0}
    assert len(home.mails()) == 1


def test_an_update_waits_for_a_job_that_was_resumed_after_it_was_asked_for(home: Archive) -> None:
    batch, failed = with_one_failed(home)
    home.run()
    ask_for_update(home.store, home.batch(batch), "ada")
    home.server.mend()
    home.operator.resume(failed.id, "mended")
    only(home, "update-reporting")
    assert home.batch(batch).state == "update-reporting"
    run_until(home, batch, "completed")
    assert home.report(batch)["counts"] == {"completed": 3, "failed": 0, "deleted": 0}
    told = csv.DictReader(io.StringIO(attached(letter(home, 1), "report.csv")))
    assert [row["job"] for row in told] == [str(failed.id)], "an update tells the difference, in its table too"


def test_a_report_that_could_not_be_made_is_asked_for_again(sql: Archive) -> None:
    broken = replace(sql, world=replace(sql.world, sender="nobody"))
    batch = a_file(broken)
    broken.run()
    assert (broken.batch(batch).state, broken.batch(batch).code) == ("failed", "mail.address")
    (reason,) = why.why(sql.store, sql.batch(batch))
    assert reason.clears.endswith(f"custody batch report {batch} --update")
    ask_for_update(sql.store, sql.batch(batch), "ada")
    sql.run()
    assert sql.batch(batch).state == "completed"
    assert "changes" not in sql.report(batch), "nothing was told before: it is the first report"
    assert len(sql.mails()) == 1


def test_a_letter_is_called_by_more_than_a_number_that_comes_again(one: Archive) -> None:
    """In a second installation, or after a backup was put back: mailboxes hide what has an id they know."""
    batch = one.batch(a_file(one))
    one.run()
    assert letter(one, 0)["Message-ID"] == f"<batch-{batch.id}-report-1-{batch.created}@localhost>"


def test_a_tree_that_was_begun_anew_has_the_old_numbers_and_its_letters_are_sent_all_the_same(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    first, second = (f"zookeeper://{zookeeper_hosts}{root}?with=sqlite:///{tmp_path}/custody.db" for root in ("", "/2"))
    with archive(tmp_path, first) as home:
        before = a_file(home)
        home.run()
        with opened(second) as store:
            anew = again(replace(home, store=store))
            assert a_file(anew, "b.txt", b"b") == before
            anew.run()
            assert anew.batch(before).state == "completed"
            assert len(home.mails()) == 2


def test_what_would_keep_every_report_from_being_written_is_refused_at_the_start(one: Archive) -> None:
    with pytest.raises(BadInput) as refused:
        again(one, IngestConfig(sender="The Archive <archive@example.org>"))
    assert (refused.value.where, refused.value.hint) == (
        "ingest.sender",
        "the address alone, such as archive@example.org",
    )
    profile = one.home / "profiles" / "papers.toml"
    many = ", ".join(f'"a{number}@example.org"' for number in range(51))
    profile.write_text(profile.read_text().replace('"depositor@example.org"', many))
    with pytest.raises(BadInput, match=r"notification\.addresses: 51 addresses, and 50 are allowed"):
        again(one)


def test_a_deleted_job_is_told_by_the_line_of_the_manifest_like_its_neighbours(home: Archive) -> None:
    batch, failed = with_one_failed(home)
    line = failed.payload["line"]
    assert line != failed.payload["row"]
    home.operator.delete(failed.id, "not wanted")
    home.run()
    (gone,) = [told for told in json.loads(json.dumps(home.report(batch)))["jobs"] if told["state"] == "deleted"]
    assert (gone["row"], gone["name"], gone["title"]) == (line, "o2.checkm", "Object 2")
    assert gone["reason"] == "deleted by an operator"


def test_a_single_object_that_was_deleted_is_row_1(sql: Archive) -> None:
    sql.server.misbehave("/a.txt", "gone")
    batch = a_file(sql)
    only(sql, *JOB_STEPS)
    sql.operator.delete(sql.jobs(batch)[0].id, "not wanted")
    sql.run()
    (gone,) = json.loads(json.dumps(sql.report(batch)))["jobs"]
    assert (gone["state"], gone["row"]) == ("deleted", 1)


# -- what was handed in ---------------------------------------------------------------------------------


def test_a_batch_manifest_that_is_not_what_the_depositor_says_fails_the_batch(home: Archive) -> None:
    url = home.batch_manifest("batch.checkm", objects(home, 2))
    right = sha256((home.server.root / "batch.checkm").read_bytes()).hexdigest()
    wrong = home.submit(url, digest_type="sha-256", digest_value="0" * 64)
    good = home.submit(url, digest_type="sha-256", digest_value=right)
    home.run()
    assert (home.batch(wrong).state, home.batch(wrong).code) == ("failed", "digest.mismatch")
    assert home.jobs(wrong) == []
    assert home.batch(good).state == "completed"


def test_a_server_that_is_away_for_minutes_does_not_fail_a_batch_for_good(one: Archive) -> None:
    kinds = {(kind.kind, kind.state): kind for kind in serving.kinds(one.world)}
    kind = kinds[BATCH_KIND, "pending"]
    assert sum(kind.backoff.seconds(attempt, 0.5) for attempt in range(1, kind.tries)) > 600
    url = one.batch_manifest("b.checkm", objects(one, 1))
    one.server.misbehave("/b.checkm", "busy", times=3 * (TRIES_BEFORE_FINAL - 4))  # three tries at each attempt
    batch = one.submit(url)
    one.run()
    assert [job.state for job in one.jobs(batch)] == ["completed"]


@pytest.mark.parametrize(("fault", "code"), [("gone", "http.404"), ("busy", "http.503")])
def test_an_objects_manifest_that_cannot_be_had_is_mended_and_resumed(home: Archive, fault: Fault, code: str) -> None:
    home.server.misbehave("/o2.checkm", fault)
    batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 3)))
    home.run()
    (failed,) = [job for job in home.jobs(batch) if job.state != "completed"]
    assert (failed.state, failed.code, failed.last_passed) == ("failed", code, "provisioning")
    home.server.mend()
    home.operator.resume(failed.id, "mended")
    home.run()
    assert {job.state for job in home.jobs(batch)} == {"completed"}


def test_a_collection_that_is_younger_than_the_worker_is_deposited_into(one: Archive) -> None:
    home = replace(one, world=open_world(one.store, CONFIG, one.home))
    (home.home / "profiles" / "plans.toml").write_text(PROFILE.format(port=home.server.port, more=""))
    batch = home.submit(home.put("a.txt", b"a"), "plans", type="file", filename="a.txt")
    home.run()
    assert home.batch(batch).state == "completed"
    (home.home / "secret.toml").write_text("")
    assert "../secret" not in home.world.profiles
    assert home.world.profiles.get("nowhere") is None


def test_a_record_of_the_depositors_that_is_no_text_fails_in_words(sql: Archive) -> None:
    batch = sql.submit(
        sql.put("box.tar.gz", tar_of({"a.txt": b"a", "mrt-erc.txt": b"erc:\nwhat: a\0b\n"})), filename="box.tar.gz"
    )
    sql.run()
    (job,) = sql.jobs(batch)
    assert (job.state, job.code) == ("failed", "text.encoding")
    assert "mrt-erc.txt: there is a NUL in it" in sql.store.queue.reason(job)


def test_further_dublin_core_reaches_the_object(home: Archive) -> None:
    batch = a_file(home, dc={"rights": "Public domain", "title": "Letters"})
    home.run()
    (job,) = home.jobs(batch)
    root = home.world.nodes["main"]
    told = root.file(job.facts["primary"], "system/mrt-dc.xml").read_text()  # type: ignore[attr-defined]
    assert "<dc:rights>Public domain</dc:rights>" in told
    assert told.count("<dc:title>Letters</dc:title>") == 1
    assert home.world.inventory.get(job.facts["primary"]).title == "Letters"
    with pytest.raises(BadInput, match="Dublin Core has no 'colour'"):
        a_file(home, dc={"colour": "red"})


def test_rows_of_a_request_keep_their_numbers_in_the_tree() -> None:
    told = {"profile": "papers", "payload": "staged:x", "inline": True, "dc": {"rights": "none"}}
    assert tree.read_submission(tree.write_submission(told, "bid-1")) == told


# -- whose an object is, where it is, and what it is called ------------------------------------------------


def test_an_object_stays_on_its_node_when_its_collection_gets_another(sql: Archive) -> None:
    a_file(sql, local_id="same")
    sql.run()
    profile = sql.home / "profiles" / "papers.toml"
    profile.write_text(profile.read_text() + '\n[storage]\nnode = "new"\n')
    nodes = {"main": Path("storage"), "new": Path("new-storage")}
    moved = again(sql, IngestConfig(threshold=0.0, nodes=nodes))
    batch = a_file(moved, data=b"second", local_id="same")
    fresh = a_file(moved, "b.txt", b"b")
    moved.run()
    (job,) = moved.jobs(batch)
    ark = job.facts["primary"]
    assert (job.state, job.facts["version"]) == ("completed", 2)
    assert [version.version for version in moved.world.inventory.versions(ark)] == [1, 2]
    assert moved.world.inventory.get(ark).node == "main"
    assert moved.world.inventory.get(moved.jobs(fresh)[0].facts["primary"]).node == "new"

    lost = again(sql, IngestConfig(threshold=0.0, nodes={"new": Path("new-storage")}))
    batch = a_file(lost, data=b"third", local_id="same")
    lost.run()
    assert lost.jobs(batch)[0].code == "storage.node"
    moved.operator.resume(lost.jobs(batch)[0].id)
    moved.run()
    assert moved.jobs(batch)[0].facts["version"] == 3


def test_a_local_id_leads_to_no_object_of_another_collection(sql: Archive) -> None:
    a_file(sql, local_id="same")
    sql.run()
    batch = sql.submit(sql.put("b.txt", b"b"), "maps", type="file", filename="b.txt", local_id="same")
    sql.run()
    (job,) = sql.jobs(batch)
    assert (job.state, job.code) == ("failed", "identifier.forbidden")
    assert sql.store.queue.reason(job).startswith("local id same names no object of this collection")
    assert sql.world.inventory.list()[0].ark not in sql.store.queue.reason(job)
    assert len(sql.world.inventory.versions(sql.world.inventory.list()[0].ark)) == 1


def test_a_name_that_was_minted_and_not_yet_reserved_does_not_block_a_job_for_ever(
    sql: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker died between the two, and another deposit of the same local id was quicker."""
    reserve = Inventory.reserve

    def die(self: Inventory, *given: object) -> None:
        monkeypatch.setattr(Inventory, "reserve", reserve)
        raise BadInput("killed here", code="killed")

    monkeypatch.setattr(Inventory, "reserve", die)
    first = a_file(sql, local_id="same")
    sql.run()
    (job,) = sql.jobs(first)
    assert (job.state, job.code) == ("failed", "killed")
    second = a_file(sql, "b.txt", b"b", local_id="same")
    sql.run()
    sql.operator.resume(job.id)
    sql.run()
    assert [sql.batch(batch).state for batch in (first, second)] == ["failed", "completed"]
    assert sql.jobs(first)[0].state == "completed"
    assert sql.jobs(first)[0].facts["primary"] == sql.jobs(second)[0].facts["primary"]


def test_whoever_takes_over_from_a_worker_that_was_killed_while_naming_does_not_wait_for_it(sql: Archive) -> None:
    batch = a_file(sql, local_id="same")
    only(sql, "pending")
    (job,) = sql.jobs(batch)
    assert sql.store.leases.inherit("localid/ark:/99999/owner/same", job.subject, 600), "it held this, and is gone"
    sql.run()
    assert sql.jobs(batch)[0].state == "completed"
    assert "waited" not in [event.type for event in sql.store.records.events(job.subject)]
    assert sql.store.leases.list() == []


def test_the_inventory_is_asked_nothing_about_an_object_that_is_new_and_has_no_local_id(
    one: Archive,
) -> None:
    """Each question is a round trip, for every object of a large batch."""
    asked: list[str] = []
    db = one.store.db

    def counted(how: str) -> Callable[[Callable[[Tx], object]], object]:
        return lambda work: asked.append(how) or getattr(db, how)(work)  # type: ignore[func-returns-value]

    noting = SimpleNamespace(read=counted("read"), write=counted("write"))
    inventory = Inventory(cast(Store, SimpleNamespace(db=noting)))
    batch = a_file(one)
    replace(one, world=replace(one.world, inventory=inventory)).run()
    assert one.batch(batch).state == "completed"
    assert asked == ["write"], "its record"


def test_what_is_wrong_with_a_job_that_is_estimated_fails_it_where_it_can_be_resumed_or_deleted(one: Archive) -> None:
    """Estimating never fails: an error that does not pass would be tried there for ever."""
    url = one.world.staging.put([b"handed in"], "a.txt").url
    batch = one.submit(url, type="file", filename="a.txt")
    only(one, "pending")
    staged = one.world.staging.path(url)
    staged.rename(staged.with_suffix(".away"))
    one.run()
    (job,) = one.jobs(batch)
    assert (job.state, job.code) == ("failed", "staged.gone")
    staged.with_suffix(".away").rename(staged)
    one.operator.resume(job.id, "put back")
    one.run()
    assert one.jobs(batch)[0].state == "completed"


def test_what_is_deposited_is_not_reported_as_deleted(sql: Archive) -> None:
    batch = a_file(sql)
    sql.run()
    (job,) = sql.jobs(batch)
    with pytest.raises(StateConflict, match="batch delete"):
        sql.operator.delete(job.id, "not wanted")
    assert sql.jobs(batch)[0].state == "completed"
    assert delete_batch(sql.store, sql.batch(batch), "lee", "old", sql.world) == 1


def test_a_job_whose_size_kills_those_who_look_for_it_goes_on_without_one(sql: Archive) -> None:
    """Estimating never fails, so it could not be put aside: it would kill one worker after the other."""
    batch = a_file(sql)
    only(sql, "pending")
    (job,) = sql.jobs(batch)
    for _ in range(2):
        (claim,) = sql.store.queue.claim_jobs([job.id], "doomed", 0) or sql.store.queue.claim_expired(
            ["ingest/job|estimating|"], "doomed", 0
        )
        sql.store.queue.suspect([claim], ALONE)
    asked = sql.server.requests.total()
    only(sql, "estimating")
    (job,) = sql.jobs(batch)
    assert (job.state, job.facts["space_needed"], sql.server.requests.total()) == ("provisioning", None, asked)
    said = list(sql.store.records.events(job.subject))[-1].detail
    assert said["unknown"] == "workers died of looking at it"
    sql.run()
    assert sql.jobs(batch)[0].state == "completed"


@pytest.mark.parametrize(
    ("step", "folder"), [("processing", "producer"), ("storing", "system"), ("recording", "system")]
)
def test_files_that_are_no_longer_there_are_missed_and_nothing_is_stored_without_them(
    one: Archive, step: str, folder: str
) -> None:
    batch = a_file(one)
    only(one, *JOB_STEPS[: JOB_STEPS.index(step)])
    (job,) = one.jobs(batch)
    assert job.state == step
    kept = one.world.disk.folder(job) / folder
    kept.rename(kept.with_name("away"))
    one.run()
    (job,) = one.jobs(batch)
    assert (job.state, job.code) == ("failed", "files.gone")
    kept.with_name("away").rename(kept)
    one.operator.resume(job.id, "put back")
    one.run()
    assert one.jobs(batch)[0].state == "completed"


def test_who_holds_what_is_being_worked_on_is_told_what_can_be_done_and_nothing_else(one: Archive) -> None:
    batch = a_file(one)
    assert one.store.queue.claim_jobs([batch], "w1", 60)
    with pytest.raises(Refused, match="being worked on by w1") as refused:
        one.operator.hold(batch, "look first")
    assert refused.value.hint == "wait until it has ended", "a deposit cannot be cancelled"


def test_whatever_failed_is_among_the_failures(home: Archive) -> None:
    """Also what cannot be resumed: somebody has to see it, and `job failures` is where they look."""
    bad = home.world.staging.put([b"x"], "a.txt").url
    home.submit(bad, type="file", filename="a.txt", digest_type="md5", digest_value="0" * 32)
    home.submit(home.batch_manifest("b.checkm", []), type="batch-manifest")
    home.submit(f"{home.server.url}/gone.txt", type="file", filename="gone.txt")
    home.run()
    assert {(group.kind, group.state, group.code, group.count) for group in home.store.queue.failures()} == {
        (JOB_KIND, "rejected", "digest.mismatch", 1),
        (JOB_KIND, "failed", "http.404", 1),
        (BATCH_KIND, "failed", "manifest.faulty", 1),
        (BATCH_KIND, "failed", "batch.incomplete", 2),
    }


# -- what a profile says ----------------------------------------------------------------------------------


def test_what_a_profile_says_about_its_objects_is_written_down_with_them(one: Archive) -> None:
    profile = one.home / "profiles" / "papers.toml"
    more = 'object_type = "MRT-curatorial"\nobject_role = "MRT-metadata"\naggregate = "MRT-none"\n'
    profile.write_text(more + profile.read_text())
    home = again(one)
    batch = a_file(home)
    home.run()
    root = home.world.nodes["main"]
    model = root.file(home.jobs(batch)[0].facts["primary"], "system/mrt-mom.txt").read_text()  # type: ignore[attr-defined]
    assert "role:\tMRT-metadata\naggregate:\tMRT-none\n" in model


def test_where_batches_are_kept_for_good_the_rest_is_cleaned_up_all_the_same(home: Archive) -> None:
    batch = a_file(home)
    failed = home.submit(f"{home.server.url}/ghome.txt", type="file", filename="ghome.txt")
    home.run()
    (job,) = home.jobs(failed)
    assert [number for number, _ in home.world.disk.folders()] == [job.id]
    home.operator.delete(job.id, "not wanted")
    for chore in serving.chores(replace(home.world, keep_days=0)):
        chore.do()
    assert list(home.world.disk.root.iterdir()) == [], "not even its batch's"
    assert home.batch(batch).state == "completed", "0 is never"


def test_deleting_a_batch_leaves_a_job_that_was_resumed_and_is_being_worked_on_its_files(sql: Archive) -> None:
    sql.server.misbehave("/a.txt", "gone")
    batch = a_file(sql)
    sql.run()
    (job,) = sql.jobs(batch)
    sql.operator.resume(job.id, "mended")
    (claim,) = sql.store.queue.claim_jobs([job.id], "w1", 60)
    with pytest.raises(Refused, match="being worked on"):
        delete_batch(sql.store, sql.batch(batch), "ada", "not wanted", sql.world)
    assert sql.world.disk.folder(job).is_dir()
    sql.store.queue.release([claim])
    assert delete_batch(sql.store, sql.batch(batch), "ada", "not wanted", sql.world) == 1
    assert list(sql.world.disk.folders()) == []


def test_only_what_custody_paused_by_itself_is_lifted_by_itself(one: Archive) -> None:
    class Well(HttpNode):
        def check(self) -> None:
            """It answers."""

    node = {"far": Well("http://127.0.0.1:1", "far", Window(one.home, "http://127.0.0.1:1"))}
    one.store.queue.hold("lane", "node/far", "custody", "new disks, says the user that the service runs as")
    assert nodes.look_after(one.store, node) == 0
    one.store.queue.lift("lane", "node/far", "custody")
    one.store.queue.hold("lane", "node/far", nodes.OURS, "it did not answer")
    assert nodes.look_after(one.store, node) == 1


def test_an_update_of_a_batch_without_jobs_is_still_refused(one: Archive) -> None:
    batch = one.submit(one.put("b.checkm", b"no manifest\n"), type="batch-manifest")
    one.run()
    with pytest.raises(Refused, match="before it had jobs"):
        ask_for_update(one.store, one.batch(batch), "ada")


def test_a_token_for_a_storage_service_that_is_not_there_is_named_with_the_profile_that_wants_it(one: Archive) -> None:
    profile = one.home / "profiles" / "papers.toml"
    storage = '[storage]\nnode = "far"\nservice = "http://127.0.0.1:1"\ntoken_file = "far.token"\n'
    profile.write_text(profile.read_text() + f"\n{storage}")
    with pytest.raises(BadInput, match="cannot be read") as refused:
        again(one, IngestConfig(files="http://127.0.0.1:1"))
    assert refused.value.where == "papers: storage.token_file"


@pytest.mark.parametrize("url", ["https://127.0.0.1/hook", "http://hooks.example/hook", "http://127.0.0.1:1/hook"])
def test_a_callback_that_could_never_be_sent_is_told_at_the_start(one: Archive, url: str) -> None:
    profile = one.home / "profiles" / "papers.toml"
    profile.write_text(profile.read_text() + f'\n[callback]\nurl = "{url}"\nsecret_file = "hook.secret"\n')
    (one.home / "hook.secret").write_text("whsec_" + "A" * 32)
    with pytest.raises(BadInput) as refused:
        again(one)
    assert refused.value.where == "papers: callback.url"
    assert "[fetch]" in refused.value.hint
