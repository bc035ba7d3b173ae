"""Applications as values: what they say of themselves, how they are found, and what stands in each other's way."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody import application
from custody.application import OURS, Application, Noun, installed
from custody.errors import BadInput

STRANGER = """\
from custody.application import Application
APPLICATION = Application(name="{name}", {said})
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which other people's packages are installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    application.forget()
    yield tmp_path
    application.forget()
    for name in [name for name in sys.modules if "_package" in name]:
        del sys.modules[name]


def install(shelf: Path, name: str, said: str = "", text: str = STRANGER) -> None:
    (shelf / f"{name}_package").mkdir()
    (shelf / f"{name}_package" / "app.py").write_text(text.format(name=name, said=said))
    about = shelf / f"{name}_archive-1.0.dist-info"
    about.mkdir()
    entry = f"[console_scripts]\nx = y:z\n\n[{application.GROUP}]\n{name} = {name}_package.app:APPLICATION\n\n[more]\na = b:c\n"
    (about / "entry_points.txt").write_text(entry)
    importlib.invalidate_caches()


def test_ours_are_there_in_the_order_of_the_dashboard() -> None:
    assert [each.name for each in installed()][:4] == list(OURS)
    assert not application.broken()


def test_what_an_application_says_is_read_without_its_machinery() -> None:
    """`custody --help` reads all of them."""
    names = [f"custody.{name}.app" for name in OURS]
    program = f"import sys, json\nfor name in {names}: __import__(name)\nprint(json.dumps(sorted(sys.modules)))"
    told = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    ours = {name for name in told if name.partition(".")[0] == "custody"}
    assert ours <= {"custody", "custody.application", "custody.errors", *(f"custody.{name}" for name in OURS), *names}
    assert not {"dataclasses", "typing", "importlib.metadata"} & set(told)


@pytest.mark.parametrize("name", [each.name for each in installed() if each.config])
def test_a_table_of_the_configuration_is_read_without_its_application(name: str) -> None:
    """Every command reads custody.toml."""
    program = f"import sys, json, custody.{name}.config\nprint(json.dumps(sorted(sys.modules)))"
    told = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    ours = {each for each in told if each.partition(".")[0] == "custody"}
    assert ours == {"custody", "custody.errors", f"custody.{name}", f"custody.{name}.config"}


def test_a_command_imports_no_machinery_of_applications_that_it_does_not_ask(tmp_path: Path) -> None:
    (tmp_path / "custody.toml").write_text("[ingest]\n[workflows]\n[channels]\n")
    (tmp_path / "profiles").mkdir()
    program = (
        "import sys, json, atexit\natexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
    )
    program += "from custody.cli import main\nmain(sys.argv[1:])"
    for words, most in ((["batch", "list"], 130), (["job", "list"], 115)):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, cwd=tmp_path, check=True)
        ours = [each for each in json.loads(done.stderr) if each.partition(".")[0] == "custody"]
        assert len(ours) <= most, words
        others = [
            each for each in ours if each.startswith(("custody.workflows.", "custody.channels.", "custody.robots."))
        ]
        assert {each.rpartition(".")[2] for each in others} <= {"app", "config", "makers"}, words


def test_an_application_is_a_value() -> None:
    one, other = (Application(name="a", nouns={"x": Noun("a line", "m:app")}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Application(name="a")
    with pytest.raises(AttributeError):
        one.name = "b"
    with pytest.raises(AttributeError):
        del one.name
    assert repr(Noun("a line", "m:app")) == "Noun(line='a line', commands='m:app')"


def test_a_package_of_somebody_else_is_found_after_ours(shelf: Path) -> None:
    install(shelf, "zebra")
    install(shelf, "parcels")
    assert [each.name for each in installed()] == [*OURS, "parcels", "zebra"]


def test_one_that_cannot_be_imported_is_known_and_stops_nobody(shelf: Path) -> None:
    install(shelf, "parcels", text="import nothing_of_this_name\n")
    install(shelf, "zebra", text="APPLICATION = 'zebra'\n")
    assert [each.name for each in installed()] == list(OURS)
    first, second = application.broken()
    assert (first.name, first.distribution) == ("parcels", "parcels_archive")
    assert "nothing_of_this_name" in first.why
    assert "is no application of that name" in second.why


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ('kinds=("ingest/mine/",)', "the kinds ingest/mine/"),
        ('kinds=("in",)', "the kinds in"),
        ('nouns={{"batch": None}}', "the noun batch"),
    ],
)
def test_two_that_want_the_same_are_refused_with_the_names_of_both(shelf: Path, said: str, what: str) -> None:
    install(shelf, "parcels", said.replace("{{", "{").replace("}}", "}"))
    with pytest.raises(BadInput) as refused:
        installed()
    assert refused.value.code == "application.conflict"
    assert refused.value.message == f"two applications want {what}: parcels (parcels_archive) and ingest (custody)"


def test_two_of_one_name_are_refused(shelf: Path) -> None:
    install(shelf, "ingest")
    with pytest.raises(BadInput, match="two applications want the name ingest"):
        installed()
