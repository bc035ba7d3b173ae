"""What operators say to an archive's tasks does what it says, from wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from custody.errors import CustodyError, NotFound, Refused
from custody.kernel.engine import Serving, Settings, Worker
from custody.workflows.commands.archive import app
from custody.workflows.kinds import kinds
from custody.workflows.makers import COMMIT_KIND
from workflows.desk import Desk, until


def archive(desk: Desk, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", desk.store.url])


def test_logs_and_the_index_are_found_from_another_folder_by_the_configuration(
    one_desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "- {name: a, script: echo hello}\n- {name: index, ready: index}\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    one_desk.run()
    (tmp_path / "custody.toml").write_text(f'store = "{one_desk.store.url}"\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for words in (["log", "proj", "1", "a"], ["search", "proj", "hello"]):
        missing = archive(one_desk, *words)
        assert isinstance(missing.exception, CustodyError)
        assert "CUSTODY_CONFIG" in missing.exception.hint
        found = archive(one_desk, *words, "--config", str(tmp_path / "custody.toml"))
        assert "hello" in found.stdout
        monkeypatch.setenv("CUSTODY_CONFIG", str(tmp_path / "custody.toml"))
        assert archive(one_desk, *words).stdout == found.stdout
        monkeypatch.delenv("CUSTODY_CONFIG")


def test_a_log_that_another_machine_has_is_told_of(
    one_desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": "- {name: a, script: echo hello}\n"}))
    one_desk.run()
    (tmp_path / "custody.toml").write_text(f'store = "{one_desk.store.url}"\n[workflows]\nkept = "other"\n')
    monkeypatch.chdir(tmp_path)
    done = archive(one_desk, "log", "proj", "1", "a")
    assert isinstance(done.exception, NotFound)
    assert "another machine" in done.exception.hint


def test_a_retry_of_what_a_newer_one_has_replaced_does_not_say_that_it_will_run(one_desk: Desk) -> None:
    text = "- {name: pdf, cancels: [PREV], script: 'test $CUSTODY_REVISION = 2'}\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    one_desk.run()
    one_desk.notify(one_desk.commit({"n": "1"}))
    one_desk.run()
    assert one_desk.states("pdf", 1, 2) == ["failed", "done"]
    told = archive(one_desk, "retry", "proj", "1", "pdf").stdout
    assert one_desk.states("pdf", 1) == ["superseded"]
    assert "will run again" not in told
    assert "custody archive run proj pdf --revision 1" in told


def test_why_of_a_faulty_definition_asks_for_a_commit_not_for_a_retry(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": "- nmae: wrong\n"}))
    one_desk.run()
    told = archive(one_desk, "why", "proj", "1", "(definition)").stdout
    assert "unknown key 'nmae'" in told
    assert "until: a later commit mends it" in told


@pytest.mark.parametrize("words", [["show", "nobody", "1"], ["runs", "nobody"], ["grants", "nobody"]])
def test_an_archive_that_is_not_there_is_told_of(one_desk: Desk, words: list[str]) -> None:
    done = archive(one_desk, *words)
    assert isinstance(done.exception, NotFound)
    assert "no archive nobody" in done.exception.message


@pytest.mark.parametrize("revision", ["9" * 30, "²"])
def test_a_number_that_no_revision_has_is_refused_in_words(one_desk: Desk, revision: str) -> None:
    done = archive(one_desk, "notify", "proj", revision)
    assert done.exit_code == 0 or isinstance(done.exception, CustodyError), done.exception


def test_a_commit_that_was_held_up_by_a_task_that_is_gone_can_be_had_to_go_on(desk: Desk) -> None:
    """`why` says that an operator cancels or resumes it, and that has to help."""
    text = "order: strict\ntasks:\n  - {name: gate, script: exit 1}\n"
    desk.notify(desk.commit({"_workflows/a.yaml": text}))
    desk.notify(desk.commit({"_workflows/a.yaml": text.replace("exit 1", "exit 0")}))
    desk.run()
    desk.operator.delete(desk.task(1, "gate").id, "it was a mistake")
    commit = desk.task(2, "COMMIT").id
    (reason,) = desk.store.queue.why(commit)
    assert "was deleted" in reason.text
    assert "cancels and resumes it" in reason.clears
    desk.operator.cancel(commit, "let it go on")
    desk.operator.resume(commit, "without that one")
    desk.run()
    assert desk.states("gate", 2) == ["done"]


def test_what_was_cancelled_can_be_accepted_so_that_later_revisions_go_on(desk: Desk) -> None:
    """The only other way would be to run what somebody has just stopped."""
    text = "- {name: a, depends: [PREV], script: test $CUSTODY_REVISION = 2}\n"
    desk.notify(desk.commit({"_workflows/a.yaml": text}))
    desk.worker().run_until_idle(1)
    assert archive(desk, "cancel", "proj", "1", "a", "--why", "not needed").exit_code == 0
    desk.notify(desk.commit({"n": "1"}))
    desk.run()
    assert "custody archive accept proj 1 a --why" in archive(desk, "why", "proj", "2", "a").stdout
    assert archive(desk, "accept", "proj", "1", "a", "--why", "as it is").exit_code == 0
    desk.run()
    assert desk.states("a", 2) == ["done"]


FAILING = """
- name: index
  ready: index
- name: build
  depends: [index]
  script: exit 1
- name: publish
  depends: [build]
  script: echo published
"""


def test_what_was_skipped_says_what_brings_it_back(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": FAILING}))
    one_desk.run()
    said = archive(one_desk, "why", "proj", "1", "publish").stdout
    assert "`custody archive retry proj 1 build`" in said
    told = archive(one_desk, "retry", "proj", "1", "publish").stdout
    assert "will run again, but not yet" in told
    said = archive(one_desk, "why", "proj", "1", "publish").stdout
    assert "`custody archive retry proj 1 build`" in said
    assert "`custody archive accept proj 1 build --why …`" in said
    assert archive(one_desk, "accept", "proj", "1", "build", "--why", "known").exit_code == 0
    one_desk.run()
    assert one_desk.states("publish", 1) == ["done"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cancel", "proj", "1", "build", "--why", "x"], "build of revision 1 has ended (failed)"),
        (["cancel", "proj", "1", "publish", "--why", "x"], "publish of revision 1 has ended (skipped)"),
        (["accept", "proj", "1", "publish", "--why", "x"], "publish of revision 1 has ended (skipped)"),
        (["accept", "proj", "2", "build", "--why", "x"], "build of revision 2 has not ended"),
    ],
)
def test_what_cannot_be_done_to_a_task_is_refused_in_the_words_of_its_archive(
    one_desk: Desk, words: list[str], said: str
) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": FAILING}))
    one_desk.run()
    one_desk.notify(one_desk.commit({"a.txt": "a"}))
    Worker(one_desk.store, Serving(tuple(kinds(one_desk.shop))).only([COMMIT_KIND]), Settings()).run_until_quiet()
    refused = archive(one_desk, *words).exception
    assert isinstance(refused, Refused)
    assert said in refused.message
    assert "custody archive why proj" in refused.hint


def test_a_faulty_revision_says_where_its_faults_are_wherever_one_looks(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": "- {name: a, scirpt: echo}\n"}))
    one_desk.run()
    place = "`custody archive log proj 1 '(definition)'`"
    for words in (["graph", "proj"], ["show", "proj", "1"], ["why", "proj", "1"]):
        assert place in archive(one_desk, *words).stdout, words
    missing = archive(one_desk, "why", "proj", "1", "a").exception
    assert isinstance(missing, NotFound)
    assert place in missing.hint
    assert "scirpt" in archive(one_desk, "log", "proj", "1", "(definition)").stdout
    refused = archive(one_desk, "retry", "proj", "1", "(definition)").exception
    assert isinstance(refused, Refused)
    assert one_desk.states("(definition)", 1) == ["failed"]


@pytest.mark.parametrize("words", [["plan", "proj"], ["run", "proj", "build"]])
def test_an_archive_to_which_nothing_was_committed_says_so(one_desk: Desk, words: list[str]) -> None:
    missing = archive(one_desk, *words).exception
    assert isinstance(missing, NotFound)
    assert missing.message == "nothing has been committed to proj yet"


def test_a_task_that_runs_shows_what_it_has_printed_so_far(one_desk: Desk, tmp_path: Path) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": "- {name: long, script: echo begun; sleep 600}\n"}))
    (tmp_path / "custody.toml").write_text(f'store = "{one_desk.store.url}"\n')
    words = ["log", "proj", "1", "long", "--config", str(tmp_path / "custody.toml")]
    with one_desk.working(grace=0.1):
        until(lambda: archive(one_desk, *words).stdout == "begun\n")
        told = archive(one_desk, "cancel", "proj", "1", "long", "--why", "enough").stdout
        assert "is cancelled as soon as it is dead" in told
        until(lambda: one_desk.task(1, "long").ended == "cancelled")
    assert archive(one_desk, *words).stdout == "begun\n", "and so does one that has ended"


def test_a_paused_archive_says_so_in_the_list(one_desk: Desk) -> None:
    assert archive(one_desk, "hold", "proj", "--why", "lunch").exit_code == 0
    assert ": lunch" in archive(one_desk, "list").stdout
    assert archive(one_desk, "release", "proj").exit_code == 0
    assert "lunch" not in archive(one_desk, "list").stdout


def test_a_run_that_failed_says_of_which_task(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": FAILING}))
    one_desk.run()
    archive(one_desk, "run", "proj", "build")
    one_desk.run()
    assert "build (failed)" in archive(one_desk, "runs", "proj").stdout
