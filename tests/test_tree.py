"""The tree can be read: rooms of a size that one takes in at a glance, each with a word on what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import custody

SOURCE = Path(custody.__file__).parent
FOLDERS = sorted({file.parent for file in SOURCE.rglob("*.py")})
MOST = 14


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(SOURCE).as_posix())
def test_a_folder_has_few_modules_and_says_what_it_is(folder: Path) -> None:
    modules = [file.name for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= MOST, f"make a room of some of them: {', '.join(sorted(modules))}"
    door = folder / "__init__.py"
    assert door.is_file(), "a folder without a door is importable by accident only"
    assert ast.get_docstring(ast.parse(door.read_text())), "its first line says what it is"
    assert not any((folder / name.removesuffix(".py")).is_dir() for name in modules), "a module or a folder, not both"


def test_no_module_counts_the_folders_above_it() -> None:
    """A path from where a module lies is wrong as soon as it moves: from the package, it is not."""
    assert [file for file in SOURCE.rglob("*.py") if "Path(__file__).parents" in file.read_text()] == []
