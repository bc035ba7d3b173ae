"""The command line as people and programs use it: words, exit codes, and what bad input is answered with."""

from __future__ import annotations

import errno
import io
import json
import os
import pwd
import re
import runpy
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from custody.cli import MODULES, NOUNS, available
from custody.kernel.model.job import NewJob
from custody.kernel.model.machine import WORK
from custody.kernel.stores import open_store
from rig.commands import Run


def test_help_names_every_noun_that_is_there(custody: Run) -> None:
    said = custody("--help")
    assert said.code == 0
    assert all(f"  {noun}" in said.out for noun in available())
    assert list(available()) == list(NOUNS) == list(MODULES)


def test_an_unknown_noun_is_named_and_the_known_ones_are_listed(custody: Run) -> None:
    said = custody("jobb")
    assert said.code == 2
    assert "'jobb': did you mean `custody job`?" in said.err
    assert "job " in said.err


@pytest.mark.parametrize("noun", available())
def test_every_noun_has_help(custody: Run, noun: str) -> None:
    assert custody(noun, "--help").code == 0


def test_a_job_from_submit_to_its_history(custody: Run) -> None:
    assert custody("job", "submit", "greet", '{"name": "Ada"}', "--key", "g1").out == "job 1\n"
    assert "submitted before" in custody("job", "submit", "greet", '{"name": "Ada"}', "--key", "g1").out
    assert "no worker for it has been seen" in custody("job", "why", "1").out
    ran = custody(
        "worker", "run", "--exec", "greet=sh -c 'cat >/dev/null; echo {\\\"said\\\": 1}'", "--until-idle", "--no-log"
    )
    assert ran.code == 0, ran.err
    shown = custody("job", "show", "1", "--json").json()
    assert shown["job"]["facts"] == {"said": 1}  # type: ignore[index]
    assert [event["type"] for event in shown["events"]] == ["submitted", "passed"]  # type: ignore[index]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("job submit greet {bad", 2, "not JSON"),
        ("job submit greet [1]", 2, "a JSON object is needed"),
        ("job submit greet @nowhere.json", 2, "cannot read nowhere.json"),
        ("job submit greet --priority 100", 2, "outside 0 to 99"),
        ("job submit greet --delay -1", 2, "less than nothing"),
        ("job submit greet --needs 99", 2, "no job 99"),
        ("job submit a|b", 2, "must not contain"),
        ("job show 99", 2, "no job 99"),
        ("job why 99", 2, "no job 99"),
        ("job cancel 99 --why x", 2, "no job 99"),
        ("job show 99999999999999999999999999", 2, "no job 9999"),
        ("job show twelve", 2, "no number of a job"),
        ("job list --limit -1", 2, "Invalid value"),
        ("job list --limit 0", 2, "Invalid value"),
        ("job list --after 99999999999999999999999999", 2, "cannot be kept"),
        ("job submit greet --needs 99999999999999999999999999", 2, "cannot be kept"),
        ("job prioritise 1 100", 2, "Invalid value"),
        ("job list --kind \udcff", 2, "cannot be kept"),
        ("job submit \udcff", 2, "cannot be stored"),
        ("batch list --limit 0", 2, "Invalid value"),
        ("item list --limit -1", 2, "Invalid value"),
        ("event list --limit -1", 2, "Invalid value"),
        ("schedule set n 'every 99999999999d' greet", 2, "too rarely"),
        ("schedule set n 'every 1h' 'a|b'", 2, "must not contain"),
        ("history erase job/twelve 1 --why x", 2, "no event number 1"),
        ("history seal --key nothing --every -1", 2, "Invalid value"),
        ("worker run --until-idle --threads 0", 2, "too little or too much"),
        ("worker run --until-idle --lease 0", 2, "too little or too much"),
        ("worker run --until-idle --poll nan", 2, "too little or too much"),
        ("init --profile a/b", 2, "cannot be the name of a collection"),
        ("init --profile ''", 2, "cannot be the name of a collection"),
        ("job resume", 2, "say which jobs"),
        ("job list --store mysql://x", 2, "what kind of store"),
        ("job list --store sqlite:////nowhere/at/all/x.db", 2, "cannot open"),
        ("item show nothing", 2, "no item nothing"),
        ("schedule set n every-day greet", 2, "as a schedule"),
        ("schedule set n '* * * * *' greet --zone Mars/Base", 2, "no time zone"),
        ("schedule slots n", 2, "no schedule n"),
        ("batch submit x.pdf --profile p", 2, "no custody.toml"),
        ("batch check nothing.checkm", 2, "no file nothing.checkm"),
        ("worker run --kind nothing --until-idle", 2, "nothing serves nothing"),
        ("worker run --load nothing.py", 2, "no file nothing.py"),
        ("worker run --exec nothing", 2, "cannot read 'nothing'"),
        ("history verify", 2, "a public key is needed"),
        ("history seal --key nothing", 2, "no signing key"),
        ("history prove job/1 1", 2, "no event"),
        ("archive why nothing 1", 2, "there is no archive nothing"),
        ("archive add p ./nowhere", 2, ""),
    ],
)
def test_bad_input_is_answered_with_what_is_wrong_and_nothing_is_written(
    custody: Run, command: str, code: int, words: str
) -> None:
    import shlex

    custody("store", "info")
    said = custody(*shlex.split(command))
    assert said.code == code, said
    assert words in said.err, said
    assert "Traceback" not in said.err
    assert "no jobs match" in custody("job", "list").out
    assert not Path("custody.toml").exists()


def test_an_error_for_a_program_is_json(custody: Run) -> None:
    said = custody("job", "show", "99", "--json")
    assert said.json()["error"]["code"] == "job.unknown"  # type: ignore[index]


def test_a_refusal_has_its_own_exit_code_and_says_what_is_possible(custody: Run) -> None:
    custody("job", "submit", "greet")
    said = custody("job", "resume", "1")
    assert said.code == 3
    assert "cannot resume" in said.err
    assert "possible from queued: hold, cancel\n" in said.err, "what people may do, not what workers do"


def test_holds_name_who_and_why(custody: Run) -> None:
    custody("hold", "set", "collection", "maps", "--why", "moving house")
    assert "already" in custody("hold", "set", "collection", "maps", "--why", "again").out
    (hold,) = custody("hold", "list", "--json").json()  # type: ignore[misc]
    assert (hold["who"], hold["why"]) == ("ada", "moving house")
    assert "no longer held" in custody("hold", "lift", "collection", "maps").out
    assert "nothing to do" in custody("hold", "lift", "collection", "maps").out


def test_a_user_without_a_name_is_called_by_his_number(custody: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under some number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "CUSTODY_WHO"):
        monkeypatch.delenv(name, raising=False)

    def nobody(uid: int) -> Any:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert custody("hold", "set", "collection", "maps", "--why", "moving house").code == 0
    (hold,) = custody("hold", "list", "--json").json()  # type: ignore[misc]
    assert hold["who"] == f"uid-{os.getuid()}"


def test_the_first_minute(custody: Run) -> None:
    assert custody("init").code == 0
    assert custody("init").code == 3, "what is there is left as it is"
    Path("letter.txt").write_text("Dear sister")
    assert custody("batch", "submit", "letter.txt", "--profile", "example", "--title", "A letter").out == "batch 1\n"
    assert custody("worker", "run", "--until-idle", "--no-log").code == 0
    shown = custody("batch", "show", "1")
    assert "completed" in shown.out
    (item,) = custody("item", "list", "--json").json()  # type: ignore[misc]
    assert item["detail"]["title"] == "A letter"
    assert "ingested" in custody("item", "show", item["id"]).out
    assert json.loads(custody("batch", "report", "1").out)["ok"] is True
    assert custody("doctor").code == 0
    assert "<premis" in custody("history", "premis", item["id"]).out


def test_an_unknown_profile_or_key_in_the_configuration_is_named(custody: Run) -> None:
    custody("init")
    Path("a.txt").write_text("a")
    said = custody("batch", "submit", "a.txt", "--profile", "nobody")
    assert (said.code, "known: example" in said.err) == (2, True)
    Path("custody.toml").write_text("[ingest]\nplaec = 'x'\n")
    said = custody("batch", "list")
    assert said.code == 2
    assert "ingest.plaec" in said.err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("roots = 3", "storage.roots must be a table of paths"),
        ("roots = {a = 3}", "storage.roots must be a table"),
        ('across = "a"', "storage.across must be a list of texts"),
        ('across = ["a"]', "there is no root 'a'"),
        ('roots = {"a:b" = "x"}', "neither ':' nor '/'"),
        ('roots = {main = "x"}', "a storage node of ingest has"),
        ('root = {a = "x"}', "unknown key storage.root"),
    ],
)
def test_a_mistake_in_the_storage_roots_is_named(custody: Run, lines: str, words: str) -> None:
    Path("custody.toml").write_text(f"[storage]\n{lines}\n")
    said = custody("item", "add", "x", "--folder", ".")
    assert said.code == 2
    assert words in said.err


def test_every_command_takes_every_equal_spelling_of_an_items_name(custody: Run) -> None:
    form, spelled = "ark:/12345/ab1cd", "ARK:12345/ab1-cd/"
    assert custody("item", "add", "ark:/12345/a-b1cd", "ark:12345/ab1cd").out == "1 told\n"
    assert custody("item", "add", spelled, "--type", "book").code == 0
    (item,) = custody("item", "list", "--json").json()  # type: ignore[misc]
    assert (item["id"], item["types"]) == (form, ["book"])
    assert custody("event", "add", spelled, "weighed", "--why", "it was").code == 0
    assert "weighed" in custody("item", "show", spelled).out
    assert "weighed" in custody("event", "list", f"item/{spelled}").out
    assert form in custody("history", "premis", spelled).out
    for command in (["stop", spelled], ["prioritise", spelled, "7"], ["undo", spelled]):
        said = custody("robot", *command, "--why", "it was")
        assert (said.code, form in said.out) == (0, True), said.err
    premis = custody("history", "premis", form).out.replace(form, spelled)
    Path("theirs.xml").write_text(premis)
    assert custody("history", "import-premis", "theirs.xml").code == 0
    assert len(custody("item", "list", "--json").json()) == 1
    assert custody("history", "erase", f"item/{spelled}", "3", "--why", "it was").code == 0
    assert custody("event", "list", f"item/{form}", "--json").json()[2]["detail"] == {}  # type: ignore[index]


def test_checking_a_manifest_lists_every_fault(custody: Run) -> None:
    Path("m.checkm").write_text(
        "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n"
        "#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName\n"
        "ftp://x/a | md5 | 00 | | | a\nhttps://example.org/b | sha-256 | zz | -1 | | ../b\n#%eof\n"
    )
    said = custody("batch", "check", "m.checkm")
    assert said.code == 1
    assert len([line for line in said.out.splitlines() if line.startswith("line ")]) >= 4


@pytest.mark.proves("H11")
def test_a_restored_backup_verifies_and_an_older_one_is_called_a_step_back(custody: Run, tmp_path: Path) -> None:
    public = custody("history", "key", "signer.key").out.strip()
    sealing = ("history", "seal", "--key", "signer.key", "--witness", "heads", "--store")
    checking = ("history", "verify", "--public", public, "--witness", "heads", "--store")
    for copy in ("early.db", "late.db"):
        assert custody("job", "submit", "parcel", "--store", "sqlite:///custody.db").code == 0
        assert custody(*sealing, "sqlite:///custody.db").code == 0
        with closing(apsw.Connection("custody.db")) as live:
            live.execute("vacuum into ?", (copy,))
    (tmp_path / "custody.db").unlink()

    restored = custody(*checking, "sqlite:///late.db")
    assert (restored.code, "sound" in restored.out) == (0, True)
    older = custody(*checking, "sqlite:///early.db")
    assert older.code == 1
    assert "a witness saw block 2; this history ends at block 1" in older.out
    sealed = custody(*sealing, "sqlite:///early.db")
    assert sealed.code != 0, "an older store is not sealed on: there would be two histories"
    assert "witness" in sealed.err


@pytest.mark.proves("H12")
@pytest.mark.parametrize("file", ["build", "run", "dev", "azure"])
def test_what_is_installed_is_pinned_and_hashed_and_names_no_host(file: str) -> None:
    text = (Path(__file__).parents[2] / "requirements" / f"{file}.txt").read_text()
    wanted = re.split(r"\n(?=[A-Za-z0-9])", text)
    pins = [each for each in wanted if not each.startswith("#")]
    assert len(pins) > 3
    for pin in pins:
        assert re.match(r"[\w.\[\],-]+==[\w.]+", pin), pin.splitlines()[0]
        assert "--hash=sha256:" in pin, pin.splitlines()[0]
    assert "://" not in text


@pytest.mark.proves("H12")
def test_the_list_of_parts_is_that_of_the_lock_file() -> None:
    top = Path(__file__).parents[2]
    made: dict[str, Any] = runpy.run_path(str(top / "docs" / "make_sbom.py"))
    lock = (top / "requirements" / "run.txt").read_text()
    assert (top / "requirements" / "sbom.json").read_text() == made["bill"](lock), "python docs/make_sbom.py"
    parts = list(made["components"](lock))
    assert len(parts) == len(re.findall(r"^[A-Za-z0-9].*==", lock, re.MULTILINE))
    assert all(part["hashes"] for part in parts)


def family(folder: Path) -> tuple[int, int]:
    """An open batch and a held job of it."""
    with open_store(f"sqlite:///{folder / 'custody.db'}") as store:
        batch = store.queue.submit_one(NewJob("parcel/all", open=1)).id
        child = store.queue.submit_one(NewJob("parcel", machine=WORK, state="held", parent=batch)).id
    return batch, child


def test_deleting_a_job_of_an_open_batch_asks_first(
    custody: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, child = family(tmp_path)
    words = ("job", "delete", str(child), "--why", "a duplicate")
    said = custody(*words)
    assert said.code == 3
    assert f"batch {batch} is still open" in said.err
    assert "--yes" in said.err
    monkeypatch.setattr("sys.stdin", Keyboard("n\n"))
    assert custody(*words).code == 3
    assert custody("job", "show", str(child)).code == 0, "it is still there"
    monkeypatch.setattr("sys.stdin", Keyboard("y\n"))
    assert "is deleted" in custody(*words).out
    assert "nothing to do" in custody(*words).out


def test_a_program_says_that_it_means_it(custody: Run, tmp_path: Path) -> None:
    _, child = family(tmp_path)
    assert "is deleted" in custody("job", "delete", str(child), "--why", "a duplicate", "--yes").out


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("demo", "--folder", "file"), "choose another"),
        (("init", "file"), "a file where a folder is needed"),
        (("history", "key", "nowhere/key"), "is the name right?"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_file_that_is_in_the_way_is_named(custody: Run, tmp_path: Path, words: tuple[str, ...], hint: str) -> None:
    (tmp_path / "file").write_text("in the way")
    said = custody(*words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert hint in said.err


def test_a_full_disk_is_said_in_words(custody: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    said = custody("init")
    assert said.code == 2
    assert "no space left on device" in said.err
    assert "make room" in said.err


def test_a_log_that_nobody_reads_keeps_nobody_from_working(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    with open_store(url) as store:
        jobs = [store.queue.submit_one(NewJob("parcel")).id for _ in range(5)]
    ear, mouth = os.pipe()
    os.close(ear)  # as after `custody worker run | head -1`
    words = [sys.executable, "-m", "custody", "worker", "run", "--exec", "parcel=true", "--until-idle", "--store", url]
    ended = subprocess.run(words, stderr=mouth, timeout=120, check=False)
    os.close(mouth)
    assert ended.returncode == 0
    with open_store(url) as store:
        assert {store.queue.get(job).state for job in jobs} == {"done"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("archive", "add", "book", "nowhere.git"), "there is no repository nowhere.git"),
        (("archive", "add", "book", "file:///nowhere/book"), "svnadmin create /nowhere/book"),
        (("archive", "why", "book", "1", "build"), "there is no archive book"),
        (("serve", "--port", "99999"), "65535"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_slip_is_answered_in_words(custody: Run, words: tuple[str, ...], said: str) -> None:
    answer = custody(*words)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_a_worker_without_a_configuration_says_what_it_does_not_serve(custody: Run) -> None:
    assert "`custody init`" in custody("worker", "run", "--until-idle", "--no-log").err
    assert "custody init" not in custody("worker", "run", "--until-idle", "--no-log", "--exec", "greet=true").err
    assert custody("init").code == 0
    assert "custody init" not in custody("worker", "run", "--until-idle", "--no-log").err
