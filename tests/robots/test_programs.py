"""Programs as robots: what they are told, what they may say, and that nothing of them outlives its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from custody.border import processes
from custody.errors import BadInput, Unavailable
from custody.kernel.model.item import NewItem
from custody.kernel.model.names.reserved import NOTED
from custody.kernel.stores import Store, open_store
from custody.robots import Item, Report, Robot
from custody.robots.discovery import find_robots
from custody.robots.lint import lint
from custody.robots.programs.label import read_label
from custody.robots.programs.program import MARK, Program, _judge, end_all
from custody.robots.programs.sandboxed import Confinement, TimedOut, Turn
from robots.lines import Said, types, wait_until, watched

LABEL = """
name = "pages"
version = "1.0"
event = "pages counted"
command = ["./pages.sh"]
tries = 1
sandbox = false
{more}
[when]
types = ["object"]
old = ["pages counted"]
"""
MAP = Item("map-1", frozenset({"object", "map"}), 1, 1, "atlas", "f1", {"folder": "/srv/map-1", "n": 3})


def label(folder: Path, script: str, more: str = "") -> Path:
    (folder / "pages.sh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "pages.sh").chmod(0o755)
    path = folder / "pages.robot.toml"
    path.write_text(LABEL.format(more=more))
    return path


def pages(folder: Path, script: str, more: str = "") -> Robot:
    return read_label(label(folder, script, more))


SAYINGS: dict[str, tuple[str, str, dict[str, object]]] = {
    "silence is a success": ("true", "success", {}),
    "a finding is a failure": (
        """echo '{"finding": "R1", "reason": "torn", "file": "3.tif"}'""",
        "failure",
        {"findings": [{"code": "R1", "reason": "torn", "file": "3.tif"}]},
    ),
    "a warning moves the line": (
        """echo '{"warning": "R2"}'""",
        "warning",
        {"warnings": [{"code": "R2", "reason": ""}]},
    ),
    "facts are noted": ("""echo '{"note": {"pages": 12}}'""", "success", {"pages": 12}),
    "other lines are its output": ("echo hello; echo you", "success", {"output": "hello\nyou\n"}),
    "exit 1 is a failure, for what it complained about": (
        "echo 'page 3 is torn' >&2; exit 1",
        "failure",
        {"findings": [{"code": "exit.1", "reason": "page 3 is torn"}]},
    ),
    "it is told the item on standard input": (
        """read item; case "$item" in *'"id": "map-1"'*'"n": 3'*) exit 0;; esac; exit 1""",
        "success",
        {},
    ),
    "and in variables": (
        """test "$CUSTODY_ITEM $CUSTODY_TYPES $CUSTODY_COLLECTION $CUSTODY_FOLDER" = "map-1 map object atlas /srv/map-1" """,
        "success",
        {},
    ),
    "it need not listen": ("exec <&-; true", "success", {}),
}


@pytest.mark.parametrize("case", SAYINGS)
def test_what_a_program_may_say(case: str, tmp_path: Path) -> None:
    script, outcome, detail = SAYINGS[case]
    report = Report()
    pages(tmp_path, script)(MAP, report)
    assert (report.outcome, report.detail()) == (outcome, detail)


def test_it_may_postpone_and_it_may_change_the_item(tmp_path: Path) -> None:
    report = Report()
    pages(tmp_path, """echo '{"postpone": 60, "why": "the scanner is away"}'""")(MAP, report)
    assert report.postponed == (60.0, "the scanner is away")
    report = Report()
    pages(tmp_path, """echo '{"changed": {"fingerprint": "f2", "pages": 12}}'""")(MAP, report)
    assert report.edited is not None
    assert (report.edited.fingerprint, report.edited.detail) == ("f2", {"pages": 12})


TROUBLES = [
    ("exit 75", Unavailable, "robot.not-now"),
    ("echo no >&2; exit 9", Unavailable, "exit.9"),
    ("kill -SEGV $$", Unavailable, f"exit.-{signal.SIGSEGV}"),
    ("echo '{\"finding\"'", BadInput, "robot.answer"),
    ("echo '{\"fnding\": 1}'", BadInput, "robot.answer"),
    ("echo '{\"note\": 3}'", BadInput, "robot.answer"),
    *(
        (f"echo '{line}'", BadInput, "robot.answer")
        for line in (
            '{"finding": ["a", "b"]}',
            '{"finding": {"a": 1}}',
            '{"finding": true}',
            '{"finding": ""}',
            '{"finding": null}',
            '{"finding": "a", "reason": ["b"]}',
            '{"warning": ["a"]}',
            '{"warning": "a", "reason": {}}',
            '{"postpone": "soon"}',
            '{"postpone": true}',
            '{"postpone": "60"}',
            '{"postpone": 60, "why": ["x"]}',
            '{"changed": {"fingerprint": ["x"]}}',
            '{"changed": {"fingerprint": ""}}',
            '{"item": "it:b", "note": {"a": 1}}',
            '{"note": {"a": 1}, "finding": "x"}',
            '{"postpone": 60, "item": "it:b"}',
            '{"changed": {"fingerprint": "f2"}, "pages": 1}',
            '{"finding": "x", "code": "y"}',
            '{"warning": "x", "code": "y"}',
            '{"finding": "x", "warning": "y"}',
        )
    ),
    *((f"""echo '{{"postpone": {seconds}}}'""", BadInput, "robot.postpone") for seconds in (0, -5, 1e12)),
]


@pytest.mark.parametrize(("script", "error", "code"), TROUBLES)
def test_what_went_wrong_has_its_own_code(script: str, error: type, code: str, tmp_path: Path) -> None:
    with pytest.raises(error) as raised:
        pages(tmp_path, script)(MAP, Report())
    assert raised.value.code == code


@pytest.mark.parametrize("word", NOTED)
def test_a_program_cannot_note_what_only_the_system_says(word: str) -> None:
    report = Report()
    with pytest.raises(BadInput, match=f"'{word}' is not theirs to set") as raised:
        _judge(0, json.dumps({"note": {word: "f1", "pages": 12}}).encode(), b"", report, MAP)
    assert (raised.value.code, raised.value.where, report.detail()) == ("robot.reserved", "map-1", {})


@pytest.mark.parametrize(
    "word",
    [
        "item",
        "id",
        "collection",
        "Collection",
        "ＩＤ",
        "c\u043ellection",
        "it em",
        "Title",
        "7itle",
        "p14ce",
        "robot priority",
        "Vers1on",
        "FILE5",
    ],
)
def test_a_program_cannot_set_what_reads_as_a_word_of_the_systems(word: str) -> None:
    report = Report()
    with pytest.raises(BadInput, match="is not theirs to set") as raised:
        _judge(0, json.dumps({"changed": {"fingerprint": "f2", word: "it:b"}}).encode(), b"", report, MAP)
    assert (raised.value.code, report.edited) == ("robot.reserved", None)


@pytest.mark.parametrize("word", ["Why", "wh-y", "BY_HAND", "f4cts", "0utcome", "finding5", "rea son", "ѕtate"])
def test_a_program_cannot_note_what_reads_as_the_systems_word(word: str) -> None:
    with pytest.raises(BadInput, match=r"is not theirs to set: it looks like") as raised:
        _judge(0, json.dumps({"note": {word: "x"}}).encode(), b"", Report(), MAP)
    assert raised.value.code == "robot.reserved"
    with pytest.raises(BadInput):
        Report().note(**{word: "x"})


@pytest.mark.parametrize("word", ["finding", "warning"])
def test_nothing_beside_a_finding_reads_as_another_code_of_it(word: str) -> None:
    with pytest.raises(BadInput) as raised:
        _judge(0, json.dumps({word: "R1", "C0de": "R2"}).encode(), b"", Report(), MAP)
    assert raised.value.code == "robot.reserved"


@pytest.mark.parametrize("need", ["/etc", "../custody.toml", "..", ".", "away", "gone.txt", "a\0b"])
def test_lint_tells_what_a_program_cannot_be_given(need: str, tmp_path: Path) -> None:
    folder = tmp_path / "line"
    folder.mkdir()
    (tmp_path / "custody.toml").write_text("")
    (folder / "away").symlink_to("/etc")
    (folder / "words.txt").write_text("")
    (folder / "near").symlink_to("words.txt")
    robot = pages(folder, "true")
    asked = Confinement(needs=("words.txt", "near", need))
    assert isinstance(robot.work, Program)
    (remark,) = lint([replace(robot, work=replace(robot.work, confined=asked))])
    assert (remark.robot, remark.code) == ("pages", "needs")
    assert repr(need)[1:-1] in repr(remark.text)


def test_what_cannot_be_started_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot start"):
        Program(("./nobody",), tmp_path)(MAP, Report())


def test_more_than_anyone_would_read_does_not_fill_the_memory(tmp_path: Path) -> None:
    report = Report()
    pages(tmp_path, "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo >&2; head -c 9000000 /dev/zero >&2")(MAP, report)
    assert report.outcome == "success"
    assert len(report.ours["output"]) <= 2000


def alive(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    return [found.pid for found in processes.all_processes() if wanted in processes.environment(found.pid).split(b"\0")]


def test_when_its_time_is_over_everything_of_it_is_dead(tmp_path: Path) -> None:
    script = "sleep 300 & setsid sleep 300 & touch begun; wait"
    for seconds in (0.5, 5.0, 40.0):  # a busy machine takes its time to begin
        with pytest.raises(TimedOut):
            pages(tmp_path, script).work.run(MAP, Report(), Turn("test timeout 1", timeout=seconds))  # type: ignore[attr-defined]
        if (tmp_path / "begun").exists():
            break
    assert (tmp_path / "begun").exists()
    assert alive("test timeout 1") == []


def test_what_it_leaves_behind_does_not_keep_us_waiting_and_dies(tmp_path: Path) -> None:
    report = Report()
    pages(tmp_path, "setsid sleep 300 & echo done").work.run(MAP, report, Turn("test behind 1", timeout=50))  # type: ignore[attr-defined]
    assert report.ours["output"] == "done\n"
    assert alive("test behind 1") == []


def test_an_item_that_takes_too_long_is_told_so_and_the_others_go_on(file_store: Store, tmp_path: Path) -> None:
    store = file_store
    script = 'case "$CUSTODY_ITEM" in slow) sleep 300;; esac'
    slow = pages(tmp_path, script, "timeout = 8.0\nat_once = 3")
    store.records.put([NewItem(name, frozenset({"object"})) for name in ("a", "b", "slow")])
    _, tally = watched(store, [slow])
    assert types(store, "a") == types(store, "b") == ["changed", "pages counted"]
    assert types(store, "slow") == ["changed"]
    (failure,) = store.queue.failures()
    assert failure.code == "robot.timeout"
    assert tally.counts["pages"] == {"success": 2, "timeout": 1}


@pytest.mark.kills
def test_a_worker_that_is_killed_leaves_nothing_that_its_successor_does_not_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    label(tmp_path, 'echo $$ >> pids; test -e go && exit 0; trap "" TERM; sleep 300 & wait')
    with open_store(url) as store:
        store.records.put([NewItem("a", frozenset({"object"}))])
        command = [sys.executable, "-m", "custody", "robot", "run", "pages.robot.toml", "--lease", "1", "--store", url]
        first = subprocess.Popen(command, cwd=tmp_path)
        second = None
        try:
            wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().strip())
            (left,) = map(int, (tmp_path / "pids").read_text().split())
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert processes.look(left) is not None, "a program does not die with its worker"
            (tmp_path / "go").touch()

            def counted() -> bool:
                """Once somebody runs it: until the first's lock has ended, whoever starts is sent away."""
                nonlocal second
                if second is None or second.poll() is not None:
                    second = subprocess.Popen(command, cwd=tmp_path)
                return "pages counted" in store.records.latest("a")

            wait_until(counted)
            assert processes.look(left) is None, "it was ended before the work began again"
            assert len((tmp_path / "pids").read_text().split()) == 2
        finally:
            for process in filter(None, (first, second)):
                process.kill()
                process.wait()
            for pid in map(int, (tmp_path / "pids").read_text().split()):
                if processes.look(pid):
                    os.killpg(pid, signal.SIGKILL)
        assert types(store, "a") == ["changed", "pages counted"]


def test_ending_what_is_not_there_is_no_trouble() -> None:
    end_all("nobody has this mark")


MISTAKES = [
    ("event = 3", "event"),
    ("evnt = 'x'", "unknown key evnt"),
    ("timeout = 'long'", "timeout"),
    ("at_once = true", "at_once"),
    ("timeout = -1", "timeout"),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES)
def test_a_mistake_in_a_label_is_named(line: str, words: str, tmp_path: Path) -> None:
    path = label(tmp_path, "true")
    key = line.split(" ", maxsplit=1)[0]
    kept = [each for each in path.read_text().splitlines() if not each.startswith(f"{key} ")]
    path.write_text("\n".join([line, *kept]))
    with pytest.raises(BadInput, match=words):
        read_label(path)


def test_a_mistake_in_a_trigger_is_named(tmp_path: Path) -> None:
    path = label(tmp_path, "true")
    path.write_text(path.read_text().replace("old =", "odl ="))
    with pytest.raises(BadInput, match=r"when\.odl"):
        read_label(path)


PYTHON = """
from custody.robots import robot

@robot(name="{name}", version="1", event="{name} done", when={{"absent": {{"{name} done"}}}})
def work(item, report):
    pass
"""


def test_robots_are_found_in_files_folders_modules_and_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "line"
    folder.mkdir()
    label(folder, "true")
    (folder / "one.py").write_text(PYTHON.format(name="one"))
    (tmp_path / "offered.py").write_text(PYTHON.format(name="two"))
    about = tmp_path / "offering-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[custody.robots]\nall = offered\nsingle = offered:work\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def names(*places: str) -> list[str]:
        return [robot.name for robot in find_robots(places)]

    assert names(str(folder)) == ["one", "pages"]
    assert names(str(folder / "one.py")) == ["one"]
    assert names(str(folder / "pages.robot.toml")) == ["pages"]
    assert names("offered") == names("installed") == names("installed:single") == ["two"]
    with pytest.raises(BadInput, match="no robot in installed:nothing"):
        names("installed:nothing")
    with pytest.raises(BadInput, match="two robots named one"):
        names(str(folder), str(folder / "one.py"))


SPELLINGS = {
    "after its interpreter": '["/usr/bin/python3", "./hash.py"]',
    "without a folder": '["python3", "hash.py"]',
    "itself": '["./hash.py"]',
    "in a line for a shell": """["/bin/sh", "-c", "exec python3 './hash.py' --all"]""",
    "as a module": '["python3", "-m", "hash"]',
    "by a link": '["python3", "link"]',
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_file_that_a_label_names_in_its_command_is_never_imported(spelling: str, tmp_path: Path) -> None:
    folder = tmp_path / "line"
    folder.mkdir()
    path = label(folder, "true")
    text = path.read_text().replace('["./pages.sh"]', SPELLINGS[spelling]).replace("sandbox = false", "")
    path.write_text(text)
    (folder / "hash.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n" + PYTHON.format(name="hash"))
    (folder / "link").symlink_to("hash.py")
    (folder / "one.py").write_text(PYTHON.format(name="one"))
    assert [robot.name for robot in find_robots([str(folder)])] == ["one", "pages"]
    for places in ([str(folder / "hash.py")], [str(path), str(folder / "hash.py")]):
        with pytest.raises(BadInput, match=r"it is the program of .*pages\.robot\.toml, and is not imported"):
            find_robots(places)
    assert not (tmp_path / "imported").exists()


MARKS = "open({mark!r}, 'w')\nKINDS = []\n" + PYTHON.format(name="hash").replace("{", "{{").replace("}", "}}")


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A folder in which each of three Python files is the program of a label, and leaves a mark if it is imported."""
    folder = tmp_path / "pwn"
    (folder / "deep").mkdir(parents=True)
    for file, by in (("hash.py", folder), ("deep/__init__.py", folder / "deep"), ("deep/one.py", folder / "deep")):
        (folder / file).write_text(MARKS.format(mark=str(tmp_path / "imported")))
        name = file.replace("/", "-").removesuffix(".py").replace("_", "")
        text = label(by, "true").read_text().replace("sandbox = false", "").replace('"pages"', f'"{name}"')
        (by / f"{name}.robot.toml").write_text(text.replace('["./pages.sh"]', f'["python3", "{Path(file).name}"]'))
        (by / "pages.robot.toml").unlink()
    (tmp_path / "link.py").symlink_to("pwn/hash.py")
    about = tmp_path / "pwn-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pwn\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[custody.robots]\nit = pwn.hash:work\n")
    return tmp_path


NAMES = [
    "pwn/hash.py",
    "./pwn/../pwn/hash.py",
    "link.py",
    "pwn.hash",
    "pwn.deep",
    "pwn.deep.one",
    "pwn.deep.nothing",
    "installed",
    "installed:it",
]


VERBS = ["lint", "why hash map-1 --load", "dry-run hash --load"]


@pytest.mark.parametrize(
    ("name", "verb"), [*((name, "run --once") for name in NAMES), *(("pwn.hash", verb) for verb in VERBS)]
)
def test_by_no_name_is_a_labelled_program_imported(marked: Path, name: str, verb: str) -> None:
    said = Said(marked, "robot", *verb.split(), name)
    assert not (marked / "imported").exists()
    assert "robot.toml, and is not imported" in said.err, said.out + said.err


@pytest.mark.parametrize("name", ["pwn/hash.py", "link.py", "pwn/deep/one.py"])
def test_a_worker_loads_no_labelled_program_either(marked: Path, name: str) -> None:
    said = Said(marked, "worker", "run", "--load", name, "--until-idle")
    assert not (marked / "imported").exists()
    assert "robot.toml, and is not imported" in said.err, said.out + said.err


def test_lint_does_not_import_what_a_label_in_another_folder_names(tmp_path: Path) -> None:
    for name in ("labels", "shared"):
        (tmp_path / name).mkdir()
    path = label(tmp_path / "labels", "true")
    path.write_text(path.read_text().replace('["./pages.sh"]', '["python3", "../shared/hash.py"]'))
    (tmp_path / "shared" / "hash.py").write_text("open('imported', 'w')\n" + PYTHON.format(name="hash"))
    (tmp_path / "shared" / "one.py").write_text(PYTHON.format(name="one"))
    said = Said(tmp_path, "robot", "lint", "shared", "labels")
    assert "0 remarks" in said.err, said.out + said.err
    assert not (tmp_path / "imported").exists()


def test_a_python_file_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    said = Said(tmp_path, "robot", "run", "broken.py", "--once")
    assert said.code == 2
    assert "broken.py" in said.err
    assert "nothing_of_this_name" in said.err


def test_a_program_runs_from_the_command_line(tmp_path: Path) -> None:
    label(tmp_path, """echo '{"note": {"pages": 12}}'""")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.records.put([NewItem("a", frozenset({"object"}))])
        said = Said(tmp_path, "robot", "run", ".", "--once")
        assert (said.code, said.out) == (0, "pages: 1 went well\n")
        event = store.records.events("item/a")[-1]
        assert (event.type, event.agent, event.detail) == ("pages counted", "pages 1.0", {"pages": 12})
