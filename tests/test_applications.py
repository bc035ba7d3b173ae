"""Applications as values: what they say of themselves, how they are found, and what stands in each other's way."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from custody import application
from custody.application import OURS, Application, Noun, installed, load
from custody.cli import all_nouns
from custody.cli.command_tree import verbs
from custody.cli.composition import opened
from custody.cli.doctor.report import application_findings
from custody.config import read
from custody.errors import BadInput, Unsafe
from custody.kernel.engine.makers import Maker
from custody.kernel.model.machine import Machine
from custody.kernel.operations.findings import Finding
from custody.kernel.stores import Store, open_store
from custody.opening import Folder, Here, Opened, Scheme, Scope
from custody.web.sections import Section

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
    assert ours == {"custody", "custody.errors", "custody.opening", f"custody.{name}", f"custody.{name}.config"}


def test_a_command_imports_no_machinery_of_applications_that_it_does_not_ask(tmp_path: Path) -> None:
    (tmp_path / "custody.toml").write_text("[ingest]\n[workflows]\n[channels]\n")
    (tmp_path / "profiles").mkdir()
    program = (
        "import sys, json, atexit\natexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
    )
    program += "from custody.cli import main\nmain(sys.argv[1:])"
    for words, most in ((["batch", "list"], 120), (["job", "list"], 125)):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, cwd=tmp_path, check=True)
        ours = [each for each in json.loads(done.stderr) if each.partition(".")[0] == "custody"]
        assert len(ours) <= most, words
        others = [
            each for each in ours if each.startswith(("custody.workflows.", "custody.channels.", "custody.robots."))
        ]
        assert {each.rpartition(".")[2] for each in others} <= {"app", "config", "makers", "part"}, words


@pytest.mark.parametrize("one", installed(), ids=lambda one: one.name)
def test_every_reference_leads_to_what_is_asked_for(one: Application) -> None:
    for noun in one.nouns.values():
        assert isinstance(load(noun.commands), typer.Typer)
    if one.config:
        table = load(one.config)
        assert dataclasses.is_dataclass(table)
        assert table() == table(), "with defaults"
    home = Path("/nowhere")
    folders = list(load(one.folders)(load(one.config)() if one.config else None, home)) if one.folders else []
    assert all(isinstance(each, Folder) and each.path.is_relative_to(home) for each in folders)
    assert all(isinstance(each, Machine) for each in (load(one.machines) if one.machines else {}).values())
    makers = load(one.makers)
    assert makers
    assert all(isinstance(each, Maker) and each.kind.startswith(one.kinds) for each in makers)
    assert isinstance(load(one.section), Section)
    assert load(one.section).application == one.name
    assert all(isinstance(load(each), Scheme) for each in one.stores.values())
    assert all(isinstance(load(each), Scope) for each in one.scopes.values())
    assert set(one.acts.values()) <= {verb.command.removeprefix("custody ") for verb in verbs()}
    assert not one.may_import or callable(load(one.may_import))


@pytest.mark.parametrize("one", installed(), ids=lambda one: one.name)
def test_who_only_looks_gets_no_work_and_makes_nothing(one: Application, store: Store, tmp_path: Path) -> None:
    for table in (None, load(one.config)() if one.config else None):
        opened = load(one.open)(store, table, Here(home=tmp_path))
        assert isinstance(opened, Opened)
        assert (opened.kinds, opened.chores, opened.view) == ((), (), None)
        assert all(isinstance(each, Finding) for each in opened.findings(False))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("sqlite://:memory:") as opened:
        yield opened


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


LOOKING = """\
from custody import Application
APPLICATION = Application(name="{name}", {said} open="{name}_package.app:open_here")
ENDED = []

def open_here(store, config, here):
    from custody import Finding, Opened

    def findings(repair):
        yield Finding("fine", "{name} was looked at")
        raise ZeroDivisionError("{name}")

    return Opened(findings=findings, close=lambda: ENDED.append("{name}"))
"""


def test_one_that_cannot_be_looked_at_is_a_finding_and_keeps_no_other_from_it(shelf: Path, store: Store) -> None:
    install(shelf, "parcels", text=LOOKING)
    install(shelf, "zebra", text=LOOKING)
    told = [(each.grade, each.what) for each in application_findings(store, None)]
    assert told == [
        ("fine", "parcels was looked at"),
        ("unsafe", "parcels could not be looked at: ZeroDivisionError: parcels"),
        ("fine", "zebra was looked at"),
        ("unsafe", "zebra could not be looked at: ZeroDivisionError: zebra"),
    ]


def test_what_was_opened_is_closed_in_reverse_and_one_that_is_left_out_is_not_opened(shelf: Path, store: Store) -> None:
    for name in ("parcels", "quilts", "zebra"):
        install(shelf, name, text=LOOKING)
    with opened(store, None, works=True, without=["quilts"]) as found:
        assert list(found) == [*OURS, "parcels", "zebra"]
    modules = [importlib.import_module(f"{name}_package.app") for name in ("parcels", "quilts", "zebra")]
    assert [module.ENDED for module in modules] == [["parcels"], [], ["zebra"]]


def test_nobody_starts_beside_one_that_is_broken_unless_told_to_do_without_it(shelf: Path, store: Store) -> None:
    install(shelf, "parcels", text="import nothing_of_this_name\n")
    with (
        pytest.raises(Unsafe, match=r"parcels .parcels_archive. cannot be imported") as refused,
        opened(store, None, works=True),
    ):
        raise AssertionError
    assert refused.value.code == "application.broken"
    assert "--without parcels" in refused.value.hint
    with opened(store, None, works=True, without=["parcels"]) as found:
        assert list(found) == list(OURS)
    with (
        pytest.raises(BadInput, match="there is no application letters"),
        opened(store, None, works=True, without=["letters", "parcels"]),
    ):
        raise AssertionError
    (told,) = application_findings(store, None)
    assert (told.grade, "the application parcels (parcels_archive) cannot be imported" in told.what) == ("unsafe", True)


def test_a_table_of_one_that_is_broken_is_left_alone(shelf: Path) -> None:
    install(shelf, "parcels", text="import nothing_of_this_name\n")
    (shelf / "custody.toml").write_text("[parcels]\ntape = 3\n")
    assert read(shelf / "custody.toml").home == shelf


def test_an_application_cannot_have_the_name_of_a_table_that_is_the_programs(shelf: Path) -> None:
    install(shelf, "history")
    (shelf / "custody.toml").write_text("")
    with pytest.raises(BadInput, match=r"two applications want the table \[history\]: history and the program itself"):
        read(shelf / "custody.toml")


def test_a_noun_of_the_programs_is_refused(shelf: Path) -> None:
    install(shelf, "parcels", 'nouns={{"job": None}},'.replace("{{", "{").replace("}}", "}"))
    with pytest.raises(BadInput, match="two applications want the noun job"):
        all_nouns()


def test_two_of_one_name_are_refused(shelf: Path) -> None:
    install(shelf, "ingest")
    with pytest.raises(BadInput, match="two applications want the name ingest"):
        installed()
