"""What was found by using ingest as its people do: the command in a folder, the form, the profile in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from custody.demo.standins.ezid import EzidStandIn
from custody.errors import BadInput, StateConflict
from custody.formats.checkm.form import OBJECT
from custody.formats.checkm.reader import check
from custody.ingest.config import IngestConfig, open_world
from custody.ingest.states import BATCH, BATCH_KIND, JOB
from custody.ingest.submission.idempotency import request_of
from custody.ingest.submission.staging import name_in
from custody.ingest.submission.submission import Submission, batch_job
from custody.ingest.why import why
from custody.kernel.model.job import NewJob
from ingest.bench import PROFILE, Archive, archive, quick
from ingest.test_end_to_end import tar_of
from kernel.stores.acts import execute
from rig.commands import Run

EZID = """
[identifier]
minter = "ezid"
shoulder = "fk4"
target = "https://archive.example/{{ark}}"
ezid_url = "{url}"
ezid_user = "demo"
ezid_password_file = "ezid.password"
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Archive]:
    """On one store: none of this depends on which."""
    with archive(tmp_path, f"sqlite:///{tmp_path / 'custody.db'}") as made:
        yield made


# -- identifiers that EZID gives, as a profile asks for them ------------------------------------------


def with_ezid(home: Archive, url: str) -> Archive:
    text = PROFILE.format(port=home.server.port, more=EZID.format(url=url)).replace(
        '[identifier]\nshoulder = "fk4"\n', "", 1
    )
    (home.home / "profiles" / "papers.toml").write_text(text)
    return replace(home, world=quick(open_world(home.store, IngestConfig(threshold=0.0), home.home)))


def test_a_profile_gets_its_identifiers_from_ezid_which_is_told_what_they_stand_for(home: Archive) -> None:
    (home.home / "ezid.password").write_text("demo\n")
    with EzidStandIn() as ezid:
        ezid.lose_answers(1)
        asked = with_ezid(home, ezid.url)
        url = home.put("a.txt", b"a")
        batch = asked.submit(url, type="file", filename="a.txt", title="Letters", creator="Ada", date="1850")
        asked.run()
    (ark,) = ezid.records
    assert asked.jobs(batch)[0].facts["primary"] == ark
    record = ezid.records[ark]
    assert (record["erc.what"], record["erc.who"], record["erc.when"]) == ("Letters", "Ada", "1850")
    assert record["_target"] == f"https://archive.example/{ark}"


def test_a_secret_that_is_not_there_is_named_with_the_profile_that_wants_it(home: Archive) -> None:
    with pytest.raises(BadInput, match="cannot be read") as refused:
        with_ezid(home, "http://127.0.0.1:1")
    assert refused.value.where == "papers: identifier.ezid_password_file"


def test_a_number_that_comes_again_is_another_request_at_storage_and_at_the_minter(home: Archive) -> None:
    batch = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    home.run()
    job = home.jobs(batch)[0]
    assert request_of(job) == request_of(home.store.queue.get(job.id))
    assert request_of(job) != request_of(replace(job, created=job.created + 1))


def test_a_mail_server_that_asks_who_we_are_is_told_from_a_file(home: Archive) -> None:
    config = IngestConfig(smtp="127.0.0.1:1", smtp_user="custody", smtp_password_file="smtp.password")
    with pytest.raises(BadInput, match="cannot be read"):
        open_world(home.store, config, home.home)
    (home.home / "smtp.password").write_text("x\n")
    open_world(home.store, config, home.home)
    with pytest.raises(BadInput, match="is no mail server"):
        open_world(home.store, IngestConfig(smtp="mail:host"), home.home)


# -- what is refused when it is handed in, and not when it is too late ---------------------------------


@pytest.mark.parametrize(
    ("given", "code", "where"),
    [
        ({"notification": "a@b.example\nBcc: x@y.example"}, "mail.address", "notification"),
        ({"notification": "a@b.example, nobody"}, "mail.address", "notification"),
        ({"notification": ";".join(["a@b.example"] * 51)}, "mail.recipients", "notification"),
        ({"payload": "https://files.example/"}, "submission.filename", "payload"),
        ({"inline": True, "digest_type": "md5", "digest_value": "0" * 32}, "submission.digest", "digestValue"),
        ({"title": "Letters\0"}, "submission.text", "title"),
        ({"payload": "https://ada:secret@files.example/a"}, "url.credentials", "payload"),
        ({"payload": "https://files.example/?a=b", "type": "container"}, "submission.filename", "payload"),
    ],
)
def test_what_could_only_fail_later_is_refused_at_once(given: dict[str, object], code: str, where: str) -> None:
    with pytest.raises(BadInput) as refused:
        Submission(**{"profile": "papers", "payload": "https://files.example/a", **given}).checked()  # type: ignore[arg-type]
    assert (refused.value.code, refused.value.where) == (code, where)
    assert "secret" not in str(refused.value)


def test_addresses_are_divided_by_commas_or_semicolons() -> None:
    Submission("papers", "https://files.example/a", notification="a@b.example; c@d.example,e@f.example").checked()
    Submission("papers", "https://files.example/", type="batch-manifest").checked()


def test_a_batch_of_another_service_with_a_wrong_address_reports_to_the_collection(home: Archive) -> None:
    facts = {"profile": "papers", "payload": home.put("a.txt", b"a"), "type": "file", "notification": "nobody"}
    batch = home.store.queue.submit_one(batch_job(facts, None)).id
    home.run()
    assert home.batch(batch).state == "completed"
    (letter,) = (home.home / "outbox").glob("*.eml")
    assert "To: depositor@example.org" in letter.read_text()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://files.example/a%20b.txt?signature=secret#top", "a b.txt"),
        ("https://files.example/box.zip", "box.zip"),
        ("https://files.example/", ""),
        ("staged:" + "0" * 64 + "/50%25?.txt", "50%25?.txt"),
    ],
)
def test_a_file_is_called_what_its_address_calls_it_without_the_key_to_it(url: str, name: str) -> None:
    assert name_in(url) == name


def test_a_deposit_of_one_object_is_confirmed_like_any_other(home: Archive) -> None:
    profile = home.home / "profiles" / "papers.toml"
    profile.write_text(profile.read_text().replace("[notification]", "[notification]\nconfirm = true"))
    asked = replace(home, world=quick(open_world(home.store, IngestConfig(threshold=0.0), home.home)))
    batch = asked.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    asked.run()
    assert f"batch-{batch}-queued@localhost.eml" in asked.letters()


# -- what is said, and what to do ---------------------------------------------------------------------


def test_whoever_resumes_what_cannot_be_resumed_is_told_what_to_do_instead() -> None:
    with pytest.raises(StateConflict) as refused:
        JOB.next("rejected", "resume")
    assert "a new submission is required" in refused.value.hint
    with pytest.raises(StateConflict) as refused:
        JOB.next("deleted", "resume")
    assert refused.value.hint == "a new submission is required: who deleted it is in its history"
    with pytest.raises(StateConflict) as refused:
        BATCH.next("failed", "resume")
    assert "batch report … --update" in refused.value.hint
    with pytest.raises(StateConflict) as refused:
        JOB.next("completed", "resume")
    assert refused.value.hint == "possible from completed: nothing"
    with pytest.raises(StateConflict) as refused:
        JOB.next("downloading", "cancel")
    assert refused.value.hint == "possible from downloading: nothing, until it has ended"
    with pytest.raises(StateConflict) as refused:
        JOB.next("pending", "cancel")
    assert refused.value.hint == "possible from pending: hold"


def test_a_failure_names_a_line_only_where_there_is_a_manifest_and_a_name_only_once(home: Archive) -> None:
    home.submit(f"{home.server.url}/nowhere.txt", type="file", filename="nowhere.txt")
    row = home.object_row("a.txt", b"a", url=f"{home.server.url}/gone.txt")
    home.submit(home.object_manifest("m.checkm", [row]), type="object-manifest", filename="m.checkm")
    home.run()
    mails = "".join(path.read_text() for path in (home.home / "outbox").glob("*.eml")).replace("=\n", "")
    assert "row 1: nowhere.txt could not be fetched" in mails
    assert re.search(r"row 1: m\.checkm: line [5-9]: a\.txt could not be fetched", mails)


def test_a_dry_run_lists_faults_in_the_order_of_the_text_and_knows_the_profile_of_an_empty_one(
    tmp_path: Path, custody: Run
) -> None:
    head = f"#%checkm_0.7\n#%profile | {OBJECT.url}\n"
    faulty = tmp_path / "faulty.checkm"
    faulty.write_text(f"{head}ftp://h.example/x | crc-32 | 12 | -5 | | ../x\n#%eof\n")
    with faulty.open("rb") as source:
        found = check(source, check_name=_refuse_dots)
    places = [(fault.line, fault.column) for fault in found.faults]
    assert places == sorted(places)
    assert len([place for place in places if place[0] == 3]) == 4
    empty = tmp_path / "empty.checkm"
    empty.write_text(f"{head}#%eof\n")
    told = custody("batch", "check", "empty.checkm")
    assert told.out.splitlines()[-1] == "empty.checkm has 1 fault: mrt-ingest-manifest, 0 rows can be read"
    assert told.code == 1


def _refuse_dots(name: str) -> None:
    if ".." in name:
        raise BadInput("no", code="name.unsafe")


def test_an_operator_is_told_which_causes_can_be_mended_and_that_a_slip_of_the_pen_holds_nothing(
    tmp_path: Path, custody: Run
) -> None:
    assert custody("init").code == 0
    (tmp_path / "broken.checkm").write_text("no manifest\n")
    submit = ["batch", "submit", "--profile", "example"]
    assert custody(*submit, "broken.checkm", "--type", "object-manifest").code == 0
    assert custody(*submit, "https://127.0.0.1/x.pdf").code == 0
    assert "http:// or https:// URL" in custody(*submit, "file:///etc/passwd").err
    assert custody("worker", "run", "--until-idle").code == 0
    rejected, failed = (custody("batch", "show", number).out for number in ("1", "2"))
    assert "rejected is for good" in rejected
    assert "resume" not in rejected
    assert "custody job resume --cause url.forbidden_address" in failed
    assert "127.0.0.1: not a public address" in failed
    assert "there is no batch 9" in custody("batch", "show", "9").err
    gone = custody("batch", "delete", "9", "--why", "twice")
    assert (gone.code, gone.out) == (0, "batch 9 is not there: nothing to do\n")

    slip = custody("hold", "set", "collection", "exmaple", "--why", "x")
    assert "profiles: example): is the name right?" in slip.err
    assert not custody("hold", "set", "collection", "example", "--why", "x").err
    assert "nodes: main): is the name right?" in custody("hold", "set", "node", "mian", "--why", "x").err
    assert custody("hold", "set", "batch", "99", "--why", "x").code == 2


def test_the_whole_queue_and_a_single_job_are_held_and_let_go(tmp_path: Path, custody: Run) -> None:
    assert custody("init").code == 0
    (tmp_path / "a.txt").write_text("a")
    assert custody("hold", "set", "queue", "ingest", "--why", "new disks").code == 0
    assert custody("batch", "submit", "a.txt", "--profile", "example").code == 0
    assert custody("worker", "run", "--until-idle").code == 0
    told = custody("batch", "why", "1").out
    assert "paused by ada: new disks" in told
    assert "custody hold lift kind ingest/batch" in told
    assert custody("hold", "lift", "queue", "ingest").out == "queue ingest is no longer held\n"
    assert custody("hold", "list").out == "nothing is held\n"
    assert "there is no queue 'robots'" in custody("hold", "set", "queue", "robots", "--why", "x").err

    assert custody("job", "submit", "parcel").code == 0
    assert custody("hold", "set", "job", "2", "--why", "wait").out == "job 2 is held\n"
    assert "it is held by ada: wait" in custody("job", "why", "2").out
    assert custody("hold", "lift", "job", "2").code == 0
    assert "it is held" not in custody("job", "why", "2").out


def test_a_version_made_by_an_update_has_all_its_files_in_the_inventory(home: Archive) -> None:
    given = {"filename": "box.tar.gz", "local_id": "box"}
    home.submit(home.put("1.tar.gz", tar_of({"a.txt": b"a", "b.txt": b"b"})), **given)
    home.run()
    changes = tar_of({"c.txt": b"c", "mrt-delete.txt": b"a.txt\n"})
    batch = home.submit(home.put("2.tar.gz", changes), update=True, **given)
    home.run()
    home.submit(home.put("3.tar.gz", tar_of({"d.txt": b"d"})), update=True, **given)
    home.run()
    ark = home.jobs(batch)[0].facts["primary"]

    def names(version: int) -> set[str]:
        files = [file.name for file in home.world.inventory.files(ark, version)]
        return {name.removeprefix("producer/") for name in files if name.startswith("producer/")}

    assert names(1) == {"a.txt", "b.txt"}
    assert names(2) == {"b.txt", "c.txt", "mrt-delete.txt"}
    assert names(3) == {"b.txt", "c.txt", "d.txt", "mrt-delete.txt"}
    root = home.world.nodes["main"]
    for file in home.world.inventory.files(ark, 3):
        assert sha256(root.file(ark, file.name).read_bytes()).hexdigest() == file.sha256  # type: ignore[attr-defined]


# -- a folder is one object ---------------------------------------------------------------------------


def test_every_file_of_a_folder_is_stored_and_a_bag_in_it_is_checked(tmp_path: Path, custody: Run) -> None:
    assert custody("init").code == 0
    bag = tmp_path / "box"
    (bag / "data").mkdir(parents=True)
    (bag / "data" / "one.txt").write_text("one")
    (bag / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    (bag / "manifest-sha256.txt").write_text(f"{sha256(b'one').hexdigest()}  data/one.txt\n")
    assert custody("batch", "submit", "box", "--profile", "example").out == "batch 1\n"
    assert custody("worker", "run", "--until-idle").code == 0
    stored = {path.name: path.read_bytes() for path in (tmp_path / "storage").rglob("*") if path.is_file()}
    assert stored["one.txt"] == b"one"
    assert {"bagit.txt", "manifest-sha256.txt"} <= stored.keys()

    (bag / "data" / "one.txt").write_text("two")
    assert custody("batch", "submit", "box", "--profile", "example").code == 0
    assert custody("worker", "run", "--until-idle").code == 0
    assert "bag" in custody("job", "failures").out


def test_a_folder_with_nothing_or_with_a_link_in_it_is_refused(tmp_path: Path, custody: Run) -> None:
    assert custody("init").code == 0
    (tmp_path / "box" / "empty").mkdir(parents=True)
    assert "there are no files in box" in custody("batch", "submit", "box", "--profile", "example").err
    (tmp_path / "box" / "link").symlink_to("/etc/passwd")
    assert "is neither a file nor a folder" in custody("batch", "submit", "box", "--profile", "example").err
    assert custody("batch", "list").out == "no batches match\n"


# -- with ZooKeeper as the queue ----------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, zookeeper_hosts: str, custody: Run) -> Path:
    """A folder whose configuration names a tree, with a deposit in it that nobody has looked at."""
    assert custody("init").code == 0
    config = tmp_path / "custody.toml"
    store = f"zookeeper://{zookeeper_hosts}?with=sqlite:///{tmp_path}/beside.db"
    config.write_text(config.read_text().replace("sqlite:///custody.db", store))
    (tmp_path / "a.txt").write_text("a")
    assert custody("batch", "submit", "a.txt", "--profile", "example").out == "batch bid0000000000\n"
    return tmp_path


def test_a_doctor_looks_at_the_tree_that_the_configuration_names_and_at_the_database_beside_it(
    tree: Path, zookeeper_hosts: str, custody: Run
) -> None:
    told = custody("doctor")
    assert "the tree has no orphans" in told.out
    assert "journal_mode is wal" in told.out
    assert told.code == 0
    elsewhere = custody("doctor", "--zookeeper", f"zookeeper://{zookeeper_hosts}/elsewhere")
    assert "is the root of the tree right?" in elsewhere.out


def test_jobs_of_a_held_batch_are_let_go_with_it_and_letters_call_it_by_its_name(tree: Path, custody: Run) -> None:
    assert custody("hold", "set", "batch", "bid0000000000", "--why", "look first").code == 0
    assert custody("worker", "run", "--until-idle").code == 0
    assert "batch bid0000000000 is held by ada: look first" in custody("batch", "why", "bid0000000000").out
    refused = custody("batch", "release", "bid0000000000")
    assert (refused.code, "0 jobs released" in refused.out) == (1, True)
    lifted = custody("hold", "lift", "batch", "bid0000000000")
    assert "its held jobs: custody batch release bid0000000000" in lifted.out
    assert custody("batch", "release", "bid0000000000").out == "batch bid0000000000: 1 job released\n"
    assert custody("worker", "run", "--until-idle").code == 0
    (letter,) = (tree / "outbox").glob("*.eml")
    assert "Subject: OK: batch bid0000000000 of example" in letter.read_text()


@pytest.mark.parametrize("given", [{}, {"payload": ""}])
def test_a_batch_without_payload_that_is_there_all_the_same_fails_with_a_letter(
    home: Archive, given: dict[str, str]
) -> None:
    """Made by another version, or by another service: nobody refused it when it was made."""
    job = NewJob(
        BATCH_KIND,
        {"profile": "papers", "type": "file", **given},
        machine=BATCH,
        collection="papers",
        lane="papers",
        open=1,
        when_empty="reporting",
    )
    made = home.store.queue.submit_one(job)
    home.run()
    batch = home.batch(made.id)
    assert (batch.state, batch.code) == ("failed", "submission.payload")
    assert "names no payload" in home.store.queue.reason(batch)
    (reason,) = why(home.store, batch)
    assert "names no payload" in reason.text
    assert home.letters() == [f"batch-{made.id}-refused@localhost.eml"]


def test_an_object_that_ingest_cannot_have_made_ends_its_batch_with_a_report(home: Archive) -> None:
    """It waits for nobody: its batch tells the depositor, and an operator can resume it."""
    batch = home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt")
    home.worker(threads=1).run_until_idle(most=1)
    (job,) = home.jobs(batch)
    home.store.db.write(lambda tx: execute(tx, f"update job set payload = '{{\"odd\": 1}}' where id = {job.id}"))
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("failed", "job.forged")
    assert home.batch(batch).state == "failed"
    assert any("report" in letter for letter in home.letters())
    (reason,) = why(home.store, job)
    assert "which nobody asked for" in reason.text
    assert "custody job resume" in reason.clears


def test_a_batch_that_names_no_payload_is_refused_where_it_is_made() -> None:
    with pytest.raises(BadInput, match="has no payload") as refused:
        batch_job({"profile": "papers", "type": "file"}, None)
    assert refused.value.code == "job.shape"
