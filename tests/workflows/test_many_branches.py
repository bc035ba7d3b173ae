"""More branches than are followed: those that are wait, are named everywhere, and go on by themselves when there is room."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.cli.doctor.report import examine
from custody.config import read as read_config
from custody.errors import BadInput, NotFound, Refused
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.git.git_branches import BRANCHES, following, keep_limit, limit
from custody.workflows.archives.git.git_folder import MOST_REFS, GitFolder
from custody.workflows.archives.git.git_journal import in_order
from custody.workflows.archives.hook_spool import SPOOL, WHOLE, spooled
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig, open_shop, reconcile_all
from custody.workflows.makers import COMMIT_KIND, commit_key
from workflows.repositories import GitRepository

NOTHING = "0" * 40


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    local = f"sqlite:///{tmp_path / 'custody.db'}"
    with open_store(local if request.param == "sqlite" else request.getfixturevalue("postgres_url")) as opened:
        yield opened


@pytest.fixture
def tip(proj_git: GitRepository) -> str:
    made = proj_git.commit("f", "1")
    proj_git.push()
    return made


def branches(repository: GitRepository, tip: str, names: range) -> None:
    for name in names:
        (repository.path / f"refs/heads/a{name:03d}").write_text(f"{tip}\n")


def counted(store: Store, repository: GitRepository) -> list[str]:
    archive = GitArchive(repository.path, store)
    return [archive.update(number).ref.removeprefix("refs/heads/") for number in range(1, archive.youngest() + 1)]


def told(store: Store) -> list[str]:
    listed = CliRunner().invoke(app, ["list", "--json", "--store", store.url])
    assert listed.exit_code == 0
    asked = CliRunner().invoke(app, ["why", "proj", "99", "--store", store.url])
    assert asked.exit_code != 0
    assert isinstance(asked.exception, NotFound)
    return [listed.output, "\n".join(finding.what for finding in examine(store.url, None)), asked.exception.hint]


def test_what_is_over_the_limit_waits_is_named_and_goes_on_by_itself(
    store: Store, proj_git: GitRepository, tip: str
) -> None:
    keep_limit(store, 4)
    Archives(store).add("proj", "git", str(proj_git.path), "ada")
    reconcile_all(store)
    branches(proj_git, tip, range(9))
    with pytest.raises(Refused) as refused:
        reconcile(store, Archives(store).get("proj"))
    assert refused.value.code == "archive.branches"
    assert "`branches` under [workflows]" in refused.value.hint
    reconcile_all(store)
    assert counted(store, proj_git) == ["main", "a000", "a001", "a002"]
    assert Archives(store).get("proj").last == 4, "the others are taken in"
    words = "it has 10 branches, and 4 are followed at most: refs/heads/a003, refs/heads/a004"
    for said in told(store):
        assert f"{words}, refs/heads/a005, refs/heads/a006, refs/heads/a007 and 1 more wait" in said
    new = proj_git.commit("f", "2")
    proj_git.push()
    reconcile_all(store)
    assert counted(store, proj_git)[4:] == ["main"], "one that is followed goes on"
    (proj_git.path / "refs/heads/a001").unlink()
    reconcile_all(store)
    assert counted(store, proj_git)[5:] == ["a003"], "there is room for one"
    keep_limit(store, 100)
    reconcile_all(store)
    assert counted(store, proj_git)[6:] == ["a004", "a005", "a006", "a007", "a008"]
    assert Archives(store).out_of_reach("proj") == ""
    assert Archives(store).get("proj").frozen == ""
    keep_limit(store, 2)
    (proj_git.path / "refs/heads/a004").write_text(f"{new}\n")
    reconcile_all(store)
    assert counted(store, proj_git)[11:] == ["a004"], "those that were counted are followed, whatever the limit is now"


def test_one_with_too_many_is_not_added_and_head_comes_first(store: Store, proj_git: GitRepository, tip: str) -> None:
    branches(proj_git, tip, range(5))
    keep_limit(store, 5)
    done = CliRunner().invoke(app, ["add", "proj", str(proj_git.path), "--store", store.url])
    assert isinstance(done.exception, Refused)
    assert done.exception.code == "archive.branches"
    assert "refs/heads/a004 waits" in done.exception.message
    assert Archives(store).list() == ()
    assert store.queue.by_key(COMMIT_KIND, commit_key("proj", 1)) is None, "nothing of it is left to be worked on"
    assert counted(store, proj_git) == ["a000", "a001", "a002", "a003", "main"]
    keep_limit(store, 6)
    done = CliRunner().invoke(app, ["add", "proj", str(proj_git.path), "--store", store.url])
    assert done.exit_code == 0, done.exception


def test_what_hooks_told_of_is_held_to_the_same_limit(store: Store, proj_git: GitRepository, tip: str) -> None:
    keep_limit(store, 3)
    (proj_git.path / SPOOL).mkdir()
    words = [word for name in ("x", "y", "z", "v") for word in (NOTHING, tip, f"refs/heads/{name}")]
    (proj_git.path / SPOOL / "1").write_text("\n".join(words))
    assert counted(store, proj_git)[:3] == ["x", "y", "z"]
    assert "v" not in counted(store, proj_git)


def test_everybody_keeps_to_what_the_configuration_says(store: Store, tmp_path: Path) -> None:
    assert limit(store) == BRANCHES == WorkflowConfig().branches
    file = tmp_path / "custody.toml"
    file.write_text("[workflows]\nbranches = 7\n")
    open_shop(store, read_config(file).workflows, tmp_path).sandboxes.__exit__(None, None, None)
    assert limit(store) == 7
    with open_store(store.url) as other:
        assert limit(other) == 7, "also those who have no configuration"


@pytest.mark.parametrize("wrong", ["0", "-1", '"many"', "true"])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "custody.toml"
    file.write_text(f"[workflows]\nbranches = {wrong}\n")
    with pytest.raises(BadInput, match=r"workflows\.branches"):
        read_config(file)


def test_fifty_thousand_branches_are_looked_at_without_opening_them(
    own_store: Store, proj_git: GitRepository, tip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (proj_git.path / "packed-refs").open("w") as packed:
        packed.writelines(f"{tip} refs/heads/p{number:05d}\n" for number in range(30_000))
        packed.writelines(f"{tip} refs/tags/t{number:05d}\n" for number in range(50_000))
    for number in range(2_000):
        (proj_git.path / f"refs/heads/l{number:05d}").write_text(f"{tip}\n")
    keep_limit(own_store, 50)
    opened = list[object]()
    before = GitFolder._read

    def seen(folder: GitFolder, name: str, most: int, above: int | None = None) -> bytes:
        opened.append(name)
        return before(folder, name, most, above)

    monkeypatch.setattr(GitFolder, "_read", seen)
    archive = GitArchive(proj_git.path, own_store)
    begun = time.monotonic()
    assert archive.youngest() == 50
    assert time.monotonic() - begun < 30
    assert len(opened) < 200
    with pytest.raises(Refused, match="it has 32,001 branches, and 50 are followed at most"):
        archive.must_be_counted()


def test_more_than_anybody_looks_at_is_refused_in_words(
    own_store: Store, proj_git: GitRepository, tip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_REFS == 200_000
    monkeypatch.setattr("custody.workflows.archives.git.git_folder.MOST_REFS", 10)
    branches(proj_git, tip, range(6))
    with (proj_git.path / "packed-refs").open("w") as packed:
        packed.writelines(f"{tip} refs/heads/p{number}\n" for number in range(5))
    with pytest.raises(Refused, match="more than 10 branches") as refused:
        GitArchive(proj_git.path, own_store).youngest()
    assert refused.value.code == "archive.branches"


def test_notes_are_read_a_few_megabytes_at_a_time(proj_git: GitRepository) -> None:
    (proj_git.path / SPOOL).mkdir()
    for number in range(12):
        (proj_git.path / SPOOL / str(number)).write_bytes(b"x\n" * (1 << 18))
    first = spooled(proj_git.path)
    assert WHOLE <= sum(len("\n".join(note.words)) + 1 for note in first) <= WHOLE + (1 << 20)
    for note in first:
        note.forget()
    assert len(spooled(proj_git.path)) == 12 - len(first), "the others are read at the next look"


def test_updates_come_in_the_order_of_the_pushes() -> None:
    tips = {"m": "1"}

    def taken(told: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
        found = []
        for ref, _, new in in_order(told, lambda ref: tips.get(ref, "")):
            tips[ref] = new
            found.append((ref, new))
        return found

    assert taken([("m", "2", "3"), ("m", "1", "2"), ("b", "000", "x"), ("b", "x", "0000"), ("b", "00", "y")]) == [
        ("m", "2"),
        ("m", "3"),
        ("b", "x"),
        ("b", "0000"),
        ("b", "y"),
    ]
    assert taken([("m", "8", "9"), ("m", "7", "8")]) == [("m", "9"), ("m", "8")], "what follows nothing comes as it is"
    many = [("c", str(number), str(number + 1)) for number in range(50_000, 0, -1)]
    begun = time.monotonic()
    assert len(taken(many)) == 50_000
    assert time.monotonic() - begun < 10


def test_names_that_are_no_text_wait_like_others() -> None:
    name = os.fsdecode(b"refs/heads/caf\xe9")
    found = following({name, "refs/heads/a"}, {}, "", 1)
    waits = found.waits("here")
    assert waits is not None
    assert "refs/heads/caf\\xe9 waits" in waits.message
