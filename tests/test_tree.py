"""The tree can be read: rooms of a size that one takes in at a glance, each with a word on what it is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import custody
from custody.application import OURS

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


SHELLS = ("custody.cli", "custody.web", "fastapi", "starlette", "typer", "rich")


def imported(file: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    whole = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    return [*whole, *(str(node.module) for node in nodes if isinstance(node, ast.ImportFrom))]


@pytest.mark.parametrize("name", OURS)
def test_only_the_commands_the_pages_and_the_api_of_an_application_know_the_shells(name: str) -> None:
    """A worker that serves it does without a web framework, and without a terminal."""
    room = SOURCE / name
    inner = [
        file for file in room.rglob("*.py") if file.relative_to(room).parts[0] not in ("commands", "pages", "api.py")
    ]
    assert len(inner) > 10
    assert [
        (file, each)
        for file in inner
        for each in imported(file)
        if f"{each}.".startswith(tuple(f"{s}." for s in SHELLS))
    ] == []


def test_no_shell_names_an_application() -> None:
    """Not in a text either, which no linter of imports would see."""
    words = tuple(f"custody.{name}" for name in OURS)
    files = [
        *(SOURCE / "cli").rglob("*.py"),
        *(SOURCE / "web").rglob("*.py"),
        SOURCE / "config.py",
        SOURCE / "opening.py",
    ]
    assert [file for file in files if any(word in file.read_text() for word in words)] == []


MOST_LINES = 350
ALONE = SOURCE / "kernel/history/exchange/standalone_verifier.py"  # one file by intent: it is handed out by itself


def test_a_module_is_read_in_one_sitting_and_laid_out_as_all_are() -> None:
    found = {file: file.read_text() for file in SOURCE.rglob("*.py")}
    assert [file for file, text in found.items() if text.count("\n") > MOST_LINES and file != ALONE] == []
    assert [file for file, text in found.items() if "# fmt: skip" in text] == [], "what is too dense is cut, not packed"


def test_no_module_counts_the_folders_above_it() -> None:
    """A path from where a module lies is wrong as soon as it moves: from the package, it is not."""
    assert [file for file in SOURCE.rglob("*.py") if "Path(__file__).parents" in file.read_text()] == []


# The kernel names no application

APPLICATION = re.compile("ingest|workflow|channel|robot", re.IGNORECASE)
KERNEL = SOURCE / "kernel"
FROZEN = 20
"""Migrations up to this one were written when there was one line for all, and are never edited."""
IN_PROSE = 12
"""So often examples may name one."""


def names_and_strings(tree: ast.AST) -> Iterator[str]:
    """All that a program says and is not prose: strings that stand by themselves are."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in prose:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            if isinstance(value := getattr(node, field, None), str):
                yield value


@pytest.mark.parametrize("file", sorted(KERNEL.rglob("*.py")), ids=lambda file: file.relative_to(KERNEL).as_posix())
def test_no_name_and_no_string_of_the_kernel_names_an_application(file: Path) -> None:
    """Neither modules nor what they say: what the kernel has to know of one is given to it (`part.py` of each)."""
    assert [said for said in names_and_strings(ast.parse(file.read_text())) if APPLICATION.search(said)] == []
    assert not APPLICATION.search(file.relative_to(SOURCE).as_posix())


@pytest.mark.parametrize("file", sorted(KERNEL.rglob("*.sql")), ids=lambda file: file.relative_to(KERNEL).as_posix())
def test_no_sql_of_the_kernel_names_an_application_but_what_is_frozen(file: Path) -> None:
    found = APPLICATION.findall(file.read_text())
    if number := re.match(r"(\d{4})_", file.name):
        assert int(number[1]) <= FROZEN or found == []
    else:
        assert found == []


def test_prose_of_the_kernel_names_applications_sparingly() -> None:
    found = {file.name: APPLICATION.findall(file.read_text()) for file in KERNEL.rglob("*.py")}
    assert sum(map(len, found.values())) <= IN_PROSE, {name: words for name, words in found.items() if words}


def test_the_search_for_names_finds_what_there_is() -> None:
    """Elsewhere, where they belong: what finds nothing there would find nothing here."""
    for name in ("ingest", "workflows", "channels", "robots"):
        said = list(names_and_strings(ast.parse((SOURCE / name / "part.py").read_text())))
        assert any(APPLICATION.search(each) for each in said)


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
