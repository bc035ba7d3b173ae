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


MOST_LINES = 350
ALONE = SOURCE / "kernel/history/exchange/standalone_verifier.py"  # one file by intent: it is handed out by itself


def test_a_module_is_read_in_one_sitting_and_laid_out_as_all_are() -> None:
    found = {file: file.read_text() for file in SOURCE.rglob("*.py")}
    assert [file for file, text in found.items() if text.count("\n") > MOST_LINES and file != ALONE] == []
    assert [file for file, text in found.items() if "# fmt: skip" in text] == [], "what is too dense is cut, not packed"


def test_no_module_counts_the_folders_above_it() -> None:
    """A path from where a module lies is wrong as soon as it moves: from the package, it is not."""
    assert [file for file in SOURCE.rglob("*.py") if "Path(__file__).parents" in file.read_text()] == []


NAMED_FROM = 4
BY_PLACE_ONLY = {
    # C functions and those of others that take any number of arguments, in their order
    "prctl",
    "mount",
    "syscall",
    "pack",
    "swap",
    "within",
    "OSError",
    "add_row",
    "run_in_threadpool",
}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_a_call_gives_at_most_four_arguments_by_place_alone() -> None:
    """Whoever reads a call must not count commas: from the fifth on, an argument is named. Only those who take any
    number of them (`*words`), or are not written in Python, are given more; and what is unpacked (`*row`) is not
    counted."""
    trees = {file: ast.parse(file.read_text()) for file in SOURCE.rglob("*.py")}
    nodes = [(file, node) for file, tree in trees.items() for node in ast.walk(tree)]
    free = {node.name for _, node in nodes if isinstance(node, ast.FunctionDef) and node.args.vararg} | BY_PLACE_ONLY
    found = [
        f"{file.relative_to(SOURCE)}:{call.lineno} {_called(call)}"
        for file, call in nodes
        if isinstance(call, ast.Call) and _called(call) not in free
        if sum(not isinstance(argument, ast.Starred) for argument in call.args) > NAMED_FROM
    ]
    assert found == []
