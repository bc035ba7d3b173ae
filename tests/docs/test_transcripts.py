"""The commands in the README and the docs are run, in order, and must do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.swift import swift_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
FILE = re.compile(r"```\w+ file=(\S+)\n(.*?)```", re.DOTALL)
ARK = re.compile(r"ark:/99999/fk4[0-9a-z]{8}\b")


def transcripts() -> list[tuple[str, str, dict[str, str]]]:
    """Every page with console blocks: its name, its commands as one session per block, and the files it shows."""
    return [
        (f"{page.relative_to(ROOT)} #{number}", block, dict(FILE.findall(page.read_text())))
        for page in PAGES
        for number, block in enumerate(BLOCK.findall(page.read_text()), start=1)
        if "$ custody" in block
    ]


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Commands with the lines that are shown after them."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("   #")[0], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    with swift_commands() as folder:
        yield folder


@pytest.mark.parametrize(("where", "block", "files"), transcripts(), ids=[where for where, _, _ in transcripts()])
def test_a_page_says_what_happens(
    commands: Path, where: str, block: str, files: dict[str, str], tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "CUSTODY_WHO": "ada"}
    environment.pop("CUSTODY_STORE", None)
    for command, shown in steps(block):
        if ARK.search("\n".join((command, *shown))):  # every store gives its objects names of its own
            command, *shown = (ARK.sub(only_object(tmp_path, environment), each) for each in (command, *shown))
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
        for line in shown:
            assert line in done.stdout, f"{where}: {command} did not say {line!r} but\n{done.stdout}"


def only_object(folder: Path, environment: dict[str, str]) -> str:
    """The one that a page speaks of."""
    listed = subprocess.run(
        "custody item list", shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=150
    )
    (found,) = set(ARK.findall(listed.stdout))
    return str(found)


def test_there_is_something_to_run() -> None:
    assert len(transcripts()) >= 3


def test_no_page_points_at_a_file_that_is_not_there() -> None:
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert missing == []
