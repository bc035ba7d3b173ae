"""Links that somebody planted below a storage root are not followed: neither to be read nor to be written through."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from custody.errors import CustodyError, Refused, Unsafe
from custody.ingest.storage.ocfl.change import Change, Given
from custody.ingest.storage.ocfl.fixity import verify
from custody.ingest.storage.ocfl.open_root import open_root
from custody.ingest.storage.ocfl.root import OcflRoot
from rig.program import room

ARK = "ark:/99999/fk4test"
NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


@pytest.fixture
def place() -> Iterator[Path]:
    folder = room("planted")
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def root(place: Path) -> OcflRoot:
    made = open_root(place / "store")
    made.path.chmod(0o755)
    return made


def change(place: Path, request: str, text: str, name: str = "a/b.txt") -> Change:
    file = place / f"given-{request}"
    file.write_text(text)
    return Change({name: Given(file)}, request, NOON, update=True)


def elsewhere(place: Path) -> Path:
    folder = place / "elsewhere"
    folder.mkdir(exist_ok=True)
    return folder


def all_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_an_object_is_neither_stored_nor_read_through_a_link(root: OcflRoot, place: Path, depth: int) -> None:
    other = open_root(place / "other")
    other.store(ARK, change(place, "r1", "one"))
    parts = other.folder(ARK).relative_to(other.path).parts
    planted = root.path.joinpath(*parts[:depth])
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(other.path.joinpath(*parts[:depth]))
    before = all_in(other.path)
    for act in (
        lambda: root.store(ARK, change(place, "r2", "two")),
        lambda: root.inventory(ARK),
        lambda: root.holds(ARK),
        lambda: root.file(ARK, "a/b.txt"),
    ):
        with pytest.raises(Refused, match="a link is in the way") as refused:
            act()
        assert refused.value.code == "place.link"
        assert refused.value.where == str(planted)
    (damage,) = verify(root, ARK)
    assert "a link" in damage.problem
    assert all_in(other.path) == before
    assert list(root.staging.iterdir()) == []


def test_a_link_that_leads_into_nothing_is_not_written_through_either(root: OcflRoot, place: Path) -> None:
    parts = root.path.joinpath(root.relative(ARK)).relative_to(root.path).parts
    (root.path / parts[0]).symlink_to(elsewhere(place))
    with pytest.raises(Refused):
        root.store(ARK, change(place, "r1", "one"))
    assert all_in(elsewhere(place)) == []


@pytest.mark.parametrize("planted", ["v1", "v1/content", "v1/content/a", "v1/content/a/b.txt"])
def test_what_is_in_an_object_is_not_followed_either(root: OcflRoot, place: Path, planted: str) -> None:
    root.store(ARK, change(place, "r1", "one"))
    part = root.folder(ARK) / planted
    target = elsewhere(place) / "moved"
    shutil.move(part, target)
    part.symlink_to(target)
    found = verify(root, ARK)
    assert any("link" in damage.problem and damage.path.startswith("v1") for damage in found), found
    before = all_in(elsewhere(place))
    with pytest.raises(Refused) as refused:
        root.store(ARK, change(place, "r2", "two"))
    assert refused.value.code in ("object.damaged", "place.link")
    assert all_in(elsewhere(place)) == before
    assert len(root.inventory(ARK).versions) == 1


@pytest.mark.parametrize("planted", ["extra", "v1/content/extra"])
def test_a_link_that_no_inventory_names_is_damage_and_is_not_carried_on(
    root: OcflRoot, place: Path, planted: str
) -> None:
    root.store(ARK, change(place, "r1", "one"))
    (root.folder(ARK) / planted).symlink_to(elsewhere(place))
    assert [damage.path for damage in verify(root, ARK)] == [planted]
    with pytest.raises(Refused):
        root.store(ARK, change(place, "r2", "two"))


@pytest.mark.parametrize("planted", ["inventory.json", "inventory.json.sha512", "v1/inventory.json"])
def test_an_inventory_that_is_a_link_is_not_read(root: OcflRoot, place: Path, planted: str) -> None:
    root.store(ARK, change(place, "r1", "one"))
    file = root.folder(ARK) / planted
    shutil.move(file, elsewhere(place) / "moved")
    file.symlink_to(elsewhere(place) / "moved")
    assert verify(root, ARK) != []
    if not planted.startswith("v1"):
        with pytest.raises(CustodyError):
            root.inventory(ARK)


def test_nothing_is_removed_through_a_bench_that_is_a_link(root: OcflRoot, place: Path) -> None:
    """What a crash left is cleared away before anything is staged: `new`, `part` and the rest."""
    root.store(ARK, change(place, "r1", "one"))
    name_of_bench = hashlib.sha256(ARK.encode()).hexdigest()[:32]  # no secret
    for name in ("new", "part", "waste"):
        (elsewhere(place) / name).mkdir()
        (elsewhere(place) / name / "theirs").write_text("theirs")
    (root.staging / name_of_bench).symlink_to(elsewhere(place))
    before = all_in(elsewhere(place))
    with pytest.raises(Refused, match="a link is in the way"):
        root.store(ARK, change(place, "r2", "two"))
    root.tidy()
    assert all_in(elsewhere(place)) == before


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_folder_on_the_way_that_others_may_write_to_is_read_and_not_written_to(
    root: OcflRoot, place: Path, mode: int
) -> None:
    root.store(ARK, change(place, "r1", "one"))
    first = root.path / root.folder(ARK).relative_to(root.path).parts[0]
    first.chmod(mode)
    with pytest.raises(Unsafe) as refused:
        root.store(ARK, change(place, "r2", "two"))
    assert (refused.value.code, str(first) in refused.value.message) == ("folder.closed", True)
    assert len(root.inventory(ARK).versions) == 1
    assert verify(root, ARK) == []
    first.chmod(0o755)
    assert root.store(ARK, change(place, "r2", "two")).version == 2
