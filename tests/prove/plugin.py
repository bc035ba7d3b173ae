"""Adds `--prove` to pytest: runs the tests of the rows asked for at the rows' scale, and prints the table.

python -m pytest --prove=all          every row, quick
python -m pytest --prove=G5,G6 --long --figures=proof.json

What a test tells travels with its report, and reports are added up where they arrive: so it does not matter whether
one process runs all tests or several share them (`-n 2`).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw
import pytest

from prove.rows import CASES, ROWS, Row, Scale
from rig.install import postgres_folder

T = TypeVar("T")
Scaled = Callable[[T, T, T], T]


class Tell(Protocol):
    def __call__(self, text: str, **figures: float) -> None: ...


@dataclass(slots=True)
class Standing:
    """What the tests of one row have shown so far."""

    row: Row
    figures: dict[str, float] = field(default_factory=dict)
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0

    def add(self, name: str, figure: float) -> None:
        target = self.row.targets.get(name)
        if target is not None and target.at_most:
            self.figures[name] = max(self.figures.get(name, figure), figure)
        else:
            self.figures[name] = self.figures.get(name, 0) + figure

    def stands(self, scale: Scale) -> bool:
        told = self.figures | {CASES: self.passed}
        met = all(target.met(told.get(name), scale) for name, target in self.row.targets.items())
        return met and not self.failed and self.passed > 0


@dataclass(slots=True)
class Proof:
    scale: Scale
    rows: frozenset[str]
    standing: dict[str, Standing] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def of(self, row: str) -> Standing:
        return self.standing.setdefault(row, Standing(ROWS[row]))


PROOF = pytest.StashKey[Proof]()
PROVES, TOLD = "proves", "told"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("prove")
    group.addoption("--prove", metavar="ROWS", default="", help="prove these rows: `all`, or G4,H1")
    group.addoption("--long", action="store_true", help="at the scale of days, not minutes")
    group.addoption("--figures", metavar="FILE", help="write what was measured as JSON")
    group.addoption("--seed", type=int, default=0, help="where random choices start")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(*rows): a part of the proof of these rows (tests/prove/rows.py)")
    asked = [row for row in config.getoption("--prove").split(",") if row]
    unknown = set(asked) - set(ROWS) - {"all"}
    if unknown:
        raise pytest.UsageError(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    scale: Scale = "test" if not asked else "long" if config.getoption("--long") else "quick"
    os.environ["CUSTODY_SCALE"] = scale  # for what is decided when a test file is read
    config.stash[PROOF] = Proof(scale, frozenset(ROWS if "all" in asked else asked))
    if not shared_with(config):
        config.pluginmanager.register(Listener(config.stash[PROOF]))
    if asked:
        config.option.timeout = 24 * 3600 if scale == "long" else 1200  # before pytest-timeout looks


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file that names none of the rows asked for need not be read."""
    rows = config.stash[PROOF].rows
    if not rows or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text()
    return None if any(f'"{row}"' in text for row in rows) else True


def shared_with(config: pytest.Config) -> bool:
    """Is this one of several processes that run the tests for another, which hears of all?"""
    return hasattr(config, "workerinput")


def rows_of(item: pytest.Item) -> list[str]:
    return [row for mark in item.iter_markers("proves") for row in mark.args]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for row in rows_of(item):
            if row not in ROWS:
                raise pytest.UsageError(f"{item.nodeid} proves {row}, which is no row of tests/prove/rows.py")
        if rows_of(item):
            item.user_properties.append((PROVES, rows_of(item)))
    wanted = config.stash[PROOF].rows
    if wanted:
        chosen = [item for item in items if wanted & set(rows_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


@pytest.fixture
def scaled(request: pytest.FixtureRequest) -> Callable[[Any, Any, Any], Any]:
    """How much of it: in the test run, in a quick proof, in a long one."""
    scale = request.config.stash[PROOF].scale
    return lambda test, quick, long: {"test": test, "quick": quick, "long": long}[scale]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given: int = request.config.getoption("--seed")
    return given


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Say what a reader of the test run should see, and the figures that count for the rows of this test."""

    def say(text: str, **figures: float) -> None:
        request.node.user_properties.append((TOLD, [text, figures]))

    return say


class Listener:
    """Adds up what the reports bring; they come from this process or from those that share the tests."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rows = [row for name, rows in report.user_properties if name == PROVES for row in rows]
        told = [said for name, said in report.user_properties if name == TOLD]
        last = report.when == "teardown"  # each report repeats what those before it said
        self.proof.texts += [text for text, _ in told if text and last]
        for row in rows:
            standing = self.proof.of(row)
            standing.seconds += report.duration
            if report.failed:
                standing.failed.append(report.nodeid)
            standing.skipped += report.skipped
            standing.passed += report.passed and report.when == "call"
            for name, figure in ((name, figure) for _, figures in told if last for name, figure in figures.items()):
                if name.replace("_", " ") in standing.row.targets:
                    standing.add(name.replace("_", " "), figure)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    proof = config.stash[PROOF]
    for text in proof.texts:
        terminalreporter.write_line(f"told: {text}")
    if proof.rows:
        for line in table(proof):
            terminalreporter.write_line(line)
        if config.getoption("--figures"):
            Path(config.getoption("--figures")).write_text(json.dumps(as_json(proof, config), indent=1) + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    proof = session.config.stash.get(PROOF, None)
    if proof is None or shared_with(session.config):
        return
    if any(not proof.of(row).stands(proof.scale) for row in proof.rows):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def table(proof: Proof) -> Iterator[str]:
    yield f"{'row':4} {'stands':7} {'seconds':>8}  claim and figures"
    for name in ROWS:
        if name not in proof.rows:
            continue
        standing = proof.of(name)
        told = standing.figures | {CASES: standing.passed}
        figures = "; ".join(
            f"{what} {told.get(what, 0):,.6g} ({'at most' if target.at_most else 'of'} {target.wanted(proof.scale):,.6g})"
            for what, target in standing.row.targets.items()
        )
        word = "yes" if standing.stands(proof.scale) else "SHORT"
        yield f"{name:4} {word:7} {standing.seconds:8.1f}  {standing.row.claim}"
        yield f"{'':22} {figures}"
        if standing.failed:
            yield f"{'':22} failed: {', '.join(standing.failed)}"
        if word == "SHORT" and standing.row.short:
            yield f"{'':22} {standing.row.short}"


def as_json(proof: Proof, config: pytest.Config) -> dict[str, Any]:
    return {
        "scale": proof.scale,
        "seed": config.getoption("--seed"),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "rows": {
            name: {
                "claim": ROWS[name].claim,
                "stands": proof.of(name).stands(proof.scale),
                "figures": proof.of(name).figures | {CASES: proof.of(name).passed},
                "targets": {what: target.wanted(proof.scale) for what, target in ROWS[name].targets.items()},
                "failed": proof.of(name).failed,
                "skipped": proof.of(name).skipped,
                "seconds": round(proof.of(name).seconds, 1),
            }
            for name in ROWS
            if name in proof.rows
        },
    }


def versions() -> dict[str, str]:
    from custody import __version__

    found = {"custody": __version__, "python": sys.version.split()[0], "sqlite": apsw.sqlite_lib_version()}
    found["system"] = platform.platform()
    folder = postgres_folder()
    if folder is not None:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
        found["postgresql"] = said.stdout.strip()
    return found
