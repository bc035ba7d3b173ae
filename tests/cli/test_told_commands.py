"""Commands that are told to somebody: pasted, they do what they say, to the store that was asked about."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import apsw
import pytest

from custody.cli.doctor.report import examine
from custody.cli.told_commands import aimed, asked
from custody.formats.shell import command
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.model.schedule import Schedule
from custody.kernel.stores import open_store
from kernel.stores.acts import execute
from rig.commands import Run, Said

ODD = "-r --help"


def nobodys(url: str, *names: str) -> None:
    """Schedules of before the names, in a store that is not this folder's."""
    with open_store(url) as store:
        for name in names:
            store.schedules.put(Schedule("x", "every 1h", "greet"), system("eva"))
            sql = f"update schedule set name = '{name}', by = '' where name = 'x'"
            store.db.write(lambda tx, sql=sql: execute(tx, sql))  # type: ignore[misc]


def commands(said: Said) -> list[list[str]]:
    """Every command that was told of a schedule, as a shell would take it."""
    found = re.findall(r"custody (schedule (?:adopt|continue|drop) [^`\n]+)", said.out)
    return [shlex.split(words) for words in found]


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    folder = tmp_path / "another place"
    folder.mkdir()
    return f"sqlite:///{folder}/its own.db"


@pytest.mark.parametrize("verb", [("doctor",), ("schedule", "list")])
@pytest.mark.parametrize("by", ["store", "config"])
def test_a_command_that_is_told_means_the_store_that_was_asked_about(
    custody: Run, elsewhere: str, verb: tuple[str, ...], by: str, tmp_path: Path
) -> None:
    nobodys(elsewhere, "nightly", ODD)
    config = tmp_path / "another place" / "its.toml"
    config.write_text('store = "sqlite:///its own.db"\n')
    words = ["--store", elsewhere] if by == "store" or verb != ("doctor",) else ["--config", str(config)]
    told = commands(custody(*verb, *words))
    assert len(told) == 2
    for pasted in told:
        said = custody(*pasted)
        assert said.code == 0, (pasted, said)
    assert commands(custody(*verb, *words)) == [], "both are adopted"
    assert not Path("custody.db").exists(), "and no other store was touched"


def test_every_command_of_the_doctor_that_takes_a_store_carries_it(custody: Run, elsewhere: str) -> None:
    nobodys(elsewhere, "nightly")
    for line in custody("doctor", "--store", elsewhere).out.splitlines():
        for found in re.findall(r"custody (?:worker run|schedule \w+|history seal|job \w+)(.{9})?", line):
            assert found == " --store ", line


def test_a_store_in_the_environment_goes_before_that_of_a_configuration_in_told_commands_too(
    custody: Run, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobodys(elsewhere, "nightly")
    Path("c.toml").write_text('store = "sqlite:///another.db"\n')
    monkeypatch.setenv("CUSTODY_STORE", elsewhere)
    (told,) = commands(custody("doctor", "--config", "c.toml"))
    assert told[told.index("--store") + 1] == elsewhere
    assert custody(*told).code == 0


def test_why_tells_commands_for_its_store(custody: Run, elsewhere: str) -> None:
    with open_store(elsewhere) as store:
        job = store.queue.submit([NewJob("greet")])[0].id
    assert (
        f"custody worker run --store {shlex.quote(elsewhere)}"
        in custody("job", "why", str(job), "--store", elsewhere).out
    )
    assert (
        f"custody job list --store {shlex.quote(elsewhere)}" in custody("job", "show", "99", "--store", elsewhere).err
    )


@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@host/db", "postgres://h/db?password=secret", "zookeeper://a:secret@h/"]
)
def test_an_address_that_may_hold_a_password_is_not_told(url: str) -> None:
    with asked(["doctor", "--store", url]):
        assert aimed("custody schedule drop -- -x") == "custody schedule drop --store … -- -x"


def test_a_password_in_a_configuration_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('store = "postgresql://ada:secret@host/db"\n')
    with asked(["doctor", f"--config={tmp_path}/c.toml"]):
        assert aimed("custody schedule drop x") == "custody schedule drop --store … x"
        assert aimed("custody worker run") == f"custody worker run --config {tmp_path}/c.toml"


@pytest.mark.parametrize(
    "text", ["custody history key history.key", "custody completion bash", "in custody since", "custody frobnicate it"]
)
def test_what_takes_no_store_is_told_as_it_is(text: str) -> None:
    with asked(["doctor", "--store", "sqlite:///x.db"]):
        assert aimed(text) == text


def test_without_a_store_that_was_named_a_command_is_told_as_it_is(custody: Run) -> None:
    assert aimed("custody worker run") == "custody worker run"
    assert "`custody schedule set` makes one" in custody("schedule", "list").out


def test_names_are_told_so_that_no_shell_and_no_option_takes_them() -> None:
    assert command("schedule adopt", "night ly") == "custody schedule adopt 'night ly'"
    assert command("schedule adopt", "-x") == "custody schedule adopt -- -x"
    assert command("archive grant", "-b", "network", "h", why="…") == "custody archive grant --why … -- -b network h"
    assert command("job list", kind="-k") == "custody job list --kind=-k"


def test_a_new_schedule_does_not_begin_with_a_dash(custody: Run) -> None:
    said = custody("schedule", "set", "--", "-x", "every 1h", "greet")
    assert (said.code, "it does not begin with -" in said.err) == (2, True), said


# No store is made by looking at it


def test_the_doctor_makes_no_store_where_there_is_none(custody: Run) -> None:
    said = custody("doctor", "--store", "sqlite:///typo.db")
    assert (said.code, "there is no store" in said.out) == (1, True), said
    Path("empty.db").touch()
    said = custody("doctor", "--store", "sqlite:///empty.db")
    assert (said.code, "there is no store" in said.out) == (1, True), said
    assert os.listdir() == ["empty.db"]
    assert Path("empty.db").stat().st_size == 0
    other = apsw.Connection("other.db")
    other.execute("create table bird (name text)")
    said = custody("doctor", "--store", "sqlite:///other.db")
    assert (said.code, "is no store of ours" in said.out) == (1, True), said
    assert [name for (name,) in other.execute("select name from sqlite_master")] == ["bird"]
    other.close()


def test_the_doctor_makes_no_store_in_a_database_that_is_none(postgres_url: str) -> None:
    for _ in range(2):
        (said,) = [finding for finding in examine(postgres_url, None) if "the store" in finding.what]
        assert (said.grade, "there is no store in this database" in said.what) == ("unsafe", True), said
    with open_store(postgres_url) as store:
        assert store.queue.list() == []
    assert not [finding for finding in examine(postgres_url, None) if "there is no store" in finding.what]


# What the history needs


def test_every_way_to_seal_that_is_told_names_a_key(custody: Run) -> None:
    custody("job", "submit", "greet")
    (line,) = [line for line in custody("doctor").out.splitlines() if "history seal" in line]
    assert "custody history seal --key history.key --witness FILE" in line
    custody("history", "key", "history.key")
    sealing = re.findall(r"custody (history seal .*)", line)[0]
    assert custody(*shlex.split(sealing)).code == 0
