"""The reference is the program's own account of itself, and the pictures are the dashboard's."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from custody.cli import all_nouns
from custody.cli.command_tree import verbs

ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    found: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["pages"]()
    return found


@pytest.mark.parametrize("name", ["cli.md", "api.md", "authority.md"])
def test_the_reference_is_current(made: dict[str, str], name: str) -> None:
    kept = (ROOT / "docs" / "reference" / name).read_text()
    assert kept == made[name], "python docs/make_reference.py"


def test_every_command_and_every_option_says_what_it_is_for(made: dict[str, str]) -> None:
    assert {verb.noun for verb in verbs()} == set(all_nouns())
    for verb in verbs():
        assert verb.help.strip(), verb.command
        assert f"`{verb.usage}`" in made["cli.md"]


def test_every_operation_of_the_api_says_who_may_use_it(made: dict[str, str]) -> None:
    assert made["api.md"].count("### `") == made["api.md"].count("\nFor: ")
    assert "### `POST /api/v1/jobs/{job}/{action}`\n" in made["api.md"]
    assert "For: admin, operator." in made["api.md"]


def test_pictures_are_there_and_small() -> None:
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    assert len(pictures) >= 5
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert sum(picture.stat().st_size for picture in pictures) <= MOST_BYTES


def test_the_reference_of_robots_has_every_key_and_every_line() -> None:
    from custody.kernel.model.trigger import Trigger
    from custody.robots.programs import label, program
    from custody.robots.programs.sandboxed import Confinement

    text = (ROOT / "docs" / "reference" / "robots.md").read_text()
    keys = {*label.NEEDED, *label.OPTIONS, *Confinement.__slots__, *Trigger.__slots__}
    rows = {line.split("|")[1].strip(" `[]") for line in text.splitlines() if line.startswith("| `")}
    assert rows - set(rows_of_lines(text)) == keys
    assert {line.split('"')[1] for line in rows_of_lines(text)} == set(program._WORDS)


def rows_of_lines(text: str) -> list[str]:
    return [line.split("|")[1].strip(" `[]") for line in text.splitlines() if line.startswith("| `{")]
