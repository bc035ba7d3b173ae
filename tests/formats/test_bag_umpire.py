"""One judge of bags, and the Library of Congress's own program as its umpire, over a whole family of bags."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.formats.bagit import check_bag, check_files
from formats.bag_family import lenient, members, umpire


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """The umpire has much to say about each of them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def by_name(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def test_every_member_of_the_family_is_judged_as_the_umpire_judges_it(tmp_path: Path) -> None:
    judged = {what: (is_sound, umpire(folder), check_bag(folder).ok) for what, folder, is_sound in members(tmp_path)}
    assert len(judged) > 200
    assert {what: each for what, each in judged.items() if len(set(each)) > 1} == {}


def test_where_the_umpire_is_lenient_the_standard_decides(tmp_path: Path) -> None:
    for what, folder in lenient(tmp_path):
        assert umpire(folder), what
        assert not check_bag(folder).ok, what


def test_a_bag_is_judged_alike_as_a_folder_and_as_files_that_lie_anywhere(tmp_path: Path) -> None:
    for what, folder, _ in members(tmp_path):
        of_folder, of_files = check_bag(folder).faults, check_files(by_name(folder)).faults
        assert [fault for fault in of_folder if fault.code != "bag.data"] == list(of_files), what
