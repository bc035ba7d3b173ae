"""Links planted in an item's folder: neither the ready-made robots nor the pages follow them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from custody.border.roots import Root, roots
from custody.errors import CustodyError
from custody.kernel.model.item import Item
from custody.kernel.model.names.reserved import FOLDER
from custody.robots.ready.ocfl import contents, current, folder_of
from custody.web.queries import job_files as logs


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """An object below a root, with one file."""
    folder = tmp_path / "root/a/object"
    (folder / "v1/content").mkdir(parents=True)
    (folder / "v1/content/page").write_text("page")
    inventory = {"head": "v1", "manifest": {"d": ["v1/content/page"]}, "versions": {"v1": {"state": {"d": ["page"]}}}}
    (folder / "inventory.json").write_text(json.dumps(inventory))
    return folder


def item(place: str = "store:a/object", **detail: str) -> Item:
    return Item("ark:/1/x", frozenset(), 1, 1, place=place, detail=detail)


def shown(tmp_path: Path) -> list[str]:
    return [file.name for file in logs.stored(item(), roots([Root("store", tmp_path / "root")]))]


def test_an_object_without_links_is_read(stored: Path, tmp_path: Path) -> None:
    assert shown(tmp_path) == ["page"]
    assert [name for name, _ in current(folder_of(item(**{FOLDER: str(stored)})))] == ["page"]


def test_an_inventory_that_is_a_link_is_not_read(stored: Path, tmp_path: Path) -> None:
    (stored / "inventory.json").rename(tmp_path / "moved")
    (stored / "inventory.json").symlink_to(tmp_path / "moved")
    assert shown(tmp_path) == []
    for act in (
        lambda: list(contents(stored)),
        lambda: list(current(stored)),
        lambda: folder_of(item(**{FOLDER: str(stored)})),
    ):
        with pytest.raises(CustodyError):
            act()


@pytest.mark.parametrize("planted", ["root/a", "root/a/object", "root/a/object/v1", "root/a/object/v1/content/page"])
def test_a_link_on_the_way_or_in_it_is_not_followed(stored: Path, tmp_path: Path, planted: str) -> None:
    (tmp_path / planted).rename(tmp_path / "moved")
    (tmp_path / planted).symlink_to(tmp_path / "moved")
    assert shown(tmp_path) == []
