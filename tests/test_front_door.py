"""The front door: what `custody` itself offers, at the price of what is asked for."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import custody

TREE = ast.parse(Path(custody.__file__).read_text())


def names_for_type_checkers() -> list[str]:
    (block,) = [node for node in TREE.body if isinstance(node, ast.If)]
    return [each.asname or "" for node in block.body if isinstance(node, ast.ImportFrom) for each in node.names]


def modules_after(program: str) -> set[str]:
    told = (
        f"import sys, json\nbefore = set(sys.modules)\n{program}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_every_name_is_said_to_people_to_type_checkers_and_to_the_import_alike() -> None:
    assert sorted(names_for_type_checkers()) == sorted(custody._WHERE) == list(custody.__all__)
    assert set(custody.__all__) <= set(dir(custody))


@pytest.mark.parametrize("name", custody.__all__)
def test_a_name_is_what_its_module_calls_so(name: str) -> None:
    found = getattr(custody, name)
    assert found is getattr(sys.modules[custody._WHERE[name]], name)
    assert vars(custody)[name] is found, "kept: the next time it is simply there"


def test_no_name_hides_a_part_of_the_program() -> None:
    parts = {module.name for module in pkgutil.iter_modules(custody.__path__)}
    assert parts.isdisjoint(custody.__all__)


def test_what_is_not_there_is_told_as_usual() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Kin'"):
        custody.Kin  # noqa: B018
    with pytest.raises(ImportError):
        from custody import Kin  # noqa: F401


def test_the_door_itself_brings_nothing_along() -> None:
    assert modules_after("import custody") == {"custody"}


def test_whoever_asks_for_an_error_does_not_get_the_engine() -> None:
    assert {name for name in modules_after("from custody import Refused") if name.startswith("custody")} == {
        "custody",
        "custody.errors",
    }
