"""The command line with ZooKeeper as the queue: the same words, and the names that the tree has."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.cli import main
from ingest.test_mixed_fleet import tree_url


@pytest.fixture
def custody(
    zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> object:
    """Run a command in a folder of its own; its exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUSTODY_STORE", tree_url(zookeeper_hosts, tmp_path))
    monkeypatch.setenv("CUSTODY_WHO", "ada")

    def run(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out + err

    return run


def test_a_deposit_from_the_first_word_to_the_last(custody, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    work = ("worker", "run", "--until-idle", "--no-log", "--lease", "10")
    assert custody("init")[0] == 0
    (tmp_path / "letter.txt").write_text("Dear sister")
    submit = ("batch", "submit", "letter.txt", "--profile", "example")

    code, said = custody(*submit, "--key", "k1")
    assert (code, "batch bid0000000000\n" in said) == (0, True)
    assert "no worker for it has been seen" in custody("job", "why", "bid0000000000")[1]
    assert custody(*work)[0] == 0
    assert "completed" in custody("batch", "show", "bid0000000000")[1]
    assert "jid0000000001" in custody("job", "show", "jid0000000001")[1]
    assert "completed" in _line(custody("batch", "list")[1], "bid0000000000")
    assert "completed" in _line(custody("job", "list", "--kind", "ingest/job")[1], "jid0000000001")
    assert "batch bid0000000000: it has ended: completed" in custody("batch", "why", "bid0000000000")[1]

    code, said = custody(*submit, "--key", "k1", "--title", "another")
    assert (code, "for another request" in said, "bid0000000000" in said) == (3, True, True)
    code, said = custody("batch", "show", "jid0000000001")
    assert (code, "jid0000000001 is a job of batch bid0000000000, not a batch" in said) == (2, True)
    assert "`custody job show jid0000000001` shows it; `custody batch show bid0000000000`, its batch" in said

    assert custody("hold", "set", "collection", "example", "--why", "moving house")[0] == 0
    custody(*submit)
    custody(*work)
    assert "moving house" in custody("job", "why", "bid0000000001")[1]
    assert "moving house" in custody("batch", "why", "bid0000000001")[1]
    assert "held" in _line(custody("batch", "list")[1], "bid0000000001")
    code, said = custody("batch", "release", "bid0000000001")
    assert (code, "custody hold lift collection example" in said) == (3, True)
    assert custody("hold", "lift", "collection", "example")[0] == 0
    assert custody("batch", "release", "bid0000000001")[0] == 0
    custody(*work)
    assert "completed" in custody("batch", "show", "bid0000000001")[1]

    assert custody("batch", "delete", "bid0000000001", "--why", "tidy", "--yes")[0] == 0
    code, said = custody("batch", "show", "bid0000000001")
    assert (code, "there is no batch bid0000000001" in said) == (2, True)
    code, said = custody("job", "why", "jid1")
    assert (code, "jid0000000012" in said) == (2, True), "the right form is shown"


def _line(said: str, name: str) -> str:
    (line,) = [line for line in said.splitlines() if name in line]
    return line
