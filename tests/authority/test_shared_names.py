"""An archive and deposits of one name are one collection for rights: only where somebody has said so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from custody.errors import BadInput, Refused
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.registers.collections import must_be_free, must_not_be_an_archive
from custody.workflows.archives.table import Archives
from custody.workflows.doctor import shared_findings
from rig.commands import Run


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'own.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def add(store: Store, name: str) -> None:
    store.db.write(lambda tx: tx.run("wf_add_archive", name=name, system="git", location="/x", uuid=name, last=0))


def test_a_name_is_taken_by_whoever_has_used_it_as_a_collection(either: str) -> None:
    with open_store(either) as store:
        store.queue.submit([NewJob("ingest/batch", collection="handed"), NewJob("greet", collection="free")])
        store.queue.submit([NewJob("workflow/task", collection="book"), NewJob("robot/r", collection="book")])
        revision = NewItem("book@1", frozenset({"revision"}), "book")
        store.records.put([NewItem("it:1", frozenset({"map"}), "item"), revision])
        for name in ("handed", "free", "item", "maps"):
            with pytest.raises(Refused) as refused:
                must_be_free(store, name, ["maps"], "l.git")
            assert refused.value.code == "collection.shared"
        for name in ("book", "new"):
            must_be_free(store, name, ["maps"], "l.git")


def test_nothing_is_handed_in_to_a_new_profile_that_is_called_like_an_archive(either: str) -> None:
    with open_store(either) as store:
        for name in ("letters", "old", "agreed"):
            add(store, name)
        store.queue.submit([NewJob("ingest/batch", collection="old")])
        store.grants.grant("archive/agreed", "collection", "deposits", "ada", "the same people")
        with pytest.raises(Refused, match="there is an archive letters") as refused:
            must_not_be_an_archive(store, "letters")
        assert "custody archive grant letters collection deposits" in refused.value.hint
        for name in ("old", "agreed", "maps"):
            must_not_be_an_archive(store, name)


def test_it_is_refused_and_told_on_the_command_line(custody: Run, tmp_path: Path) -> None:
    def sure(*words: str) -> str:
        said = custody(*words)
        assert said.code == 0, said.err
        return said.out + said.err

    sure("init")
    home, profiles = tmp_path, tmp_path / "profiles"
    example = (profiles / "example.toml").read_text()
    (profiles / "letters.toml").write_text(example)
    for name in ("l.git", "b.git"):
        subprocess.run(["git", "init", "-q", "--bare", str(home / name)], check=True)
    refused = custody("archive", "add", "letters", str(home / "l.git"))
    assert refused.code != 0
    assert "there is a collection letters already (the profile letters takes deposits)" in refused.err
    assert custody("archive", "add", "letters", str(home / "l.git"), "--share-collection").code != 0, "without a why"
    assert "letters" not in sure("archive", "list")
    sure("archive", "add", "letters", str(home / "l.git"), "--share-collection", "--why", "one team")
    assert "fine     archive letters shares its collection" in custody("doctor").out
    assert "letters is an archive and besides" in sure("token", "create", "op", "--role", "operator@letters")
    sure("archive", "withdraw", "letters", "collection", "deposits", "--why", "two teams")
    said = custody("doctor").out
    assert "WARNING  archive letters shares its collection" in said
    assert "custody archive grant letters collection deposits" in said

    sure("archive", "add", "book", str(home / "b.git"))
    (profiles / "book.toml").write_text(example)
    (home / "a.txt").write_text("a")
    refused = custody("batch", "submit", str(home / "a.txt"), "--profile", "book")
    assert refused.code != 0
    assert "there is an archive book" in refused.err
    assert custody("archive", "grant", "book", "collection", "all", "--why", "x").code != 0
    sure("archive", "grant", "book", "collection", "deposits", "--why", "one team")
    sure("batch", "submit", str(home / "a.txt"), "--profile", "book")


def test_an_archive_that_looks_like_a_collection_of_others_is_refused_whatever_is_agreed(
    either: str, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "l.git")], check=True)
    with open_store(either) as store:
        store.queue.submit([NewJob("ingest/batch", collection="handed")])
        store.records.put([NewItem("it:1", frozenset({"map"}), "place")])
        for name in ("Handed", "h\u0430nded", "pIace", "rnaps"):
            for shares in ("", "both are ours"):
                with pytest.raises(BadInput) as refused:
                    Archives(store).add(name, "git", str(tmp_path / "l.git"), "ada", shares=shares, profiles=["maps"])
                assert (refused.value.code, "looks like" in refused.value.message) == ("archive.name", True)
        for name in ("hand\u200bed", "boo\u0301k".replace("\u0301", "\u2060")):
            with pytest.raises(BadInput):
                Archives(store).add(name, "git", str(tmp_path / "l.git"), "ada")
        assert Archives(store).list() == ()


def test_the_first_deposit_to_a_profile_that_looks_like_an_archive_is_refused(either: str) -> None:
    with open_store(either) as store:
        add(store, "maps")
        for name in ("Maps", "rnaps", "m\u0430ps"):
            with pytest.raises(Refused) as refused:
                must_not_be_an_archive(store, name)
            assert refused.value.code == "collection.alike"
        must_not_be_an_archive(store, "papers")
        told = [finding.what for finding in shared_findings(store, ["rnaps", "papers"])]
        assert any("look alike: maps, rnaps" in text for text in told)
