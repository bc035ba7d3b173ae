"""Programs in the sandbox: they see their item and nothing else, and nothing of them is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import custody
from custody.border import processes
from custody.border.egress.allowance import Permit, Rules
from custody.border.roots import Root, roots
from custody.errors import BadInput, NotFound, Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store, open_store
from custody.robots import Item, Report, Robot
from custody.robots.commands.robot import app as robot_app
from custody.robots.programs.label import read_label
from custody.robots.programs.outputs import folder_name
from custody.robots.programs.sandboxed import Interrupted, TimedOut, Turn, Yard
from custody.robots.runner import kinds, subscribe
from custody.robots.sweep import sweep
from rig import elsewhere
from rig.need import need
from robots.lines import Said, types, wait_until, watched

LABEL = """
name = "pages"
version = "1.0"
event = "pages counted"
command = ["./pages.sh", "--quietly"]
tries = 1
{more}
[when]
types = ["object"]
old = ["pages counted"]
[sandbox]
{sandbox}
"""


def label(folder: Path, script: str, more: str = "", sandbox: str = "") -> Path:
    (folder / "pages.sh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "pages.sh").chmod(0o755)
    path = folder / "pages.robot.toml"
    path.write_text(LABEL.format(more=more, sandbox=sandbox))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder as an archivist has it: the label, the store beside it, and two objects."""
    need("bubblewrap")
    for name in ("map-1", "map-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.txt").write_text(f"the page of {name}\n")
    (tmp_path / "custody.toml").write_text('[storage]\nroots = {maps = "."}\n')
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}"):
        pass
    return tmp_path


@pytest.fixture
def yard(home: Path) -> Iterator[Yard]:
    made = Yard(home / "yard", roots([Root("maps", home)]))
    yield made
    left = [*(home / "yard").glob("boxes/*"), *(home / "yard").glob("work/*")]
    made.close()
    assert left == []


def item(home: Path) -> Item:
    return Item("map-1", frozenset({"object"}), 1, 1, "atlas", "f1", place="maps:map-1")


def run(robot: Robot, home: Path, yard: Yard, **more: Any) -> Report:
    report = Report()
    robot.work.run(item(home), report, Turn("a test", yard=yard, **more))  # type: ignore[attr-defined]
    return report


def tried(home: Path, yard: Yard, script: str, more: str = "", sandbox: str = "", **turn: Any) -> Report:
    return run(read_label(label(home, script, more, sandbox)), home, yard, **turn)


def test_it_is_told_its_item_and_sees_its_files(home: Path, yard: Yard) -> None:
    script = """
    read item
    case "$item" in *'"id": "map-1"'*'"folder": "/inputs/item"'*) ;; *) echo "$item"; exit 9;; esac
    test "$CUSTODY_ITEM $CUSTODY_FOLDER $CUSTODY_OUTPUT $1" = "map-1 /inputs/item /work --quietly" || exit 8
    cat "$CUSTODY_FOLDER/page.txt"; cat /inputs/program/words/one.txt
    echo '{"note": {"pages": 12}}'
    """
    (home / "words").mkdir()
    (home / "words" / "one.txt").write_text("one\n")
    report = tried(home, yard, script, sandbox='needs = ["words"]')
    assert (report.outcome, report.facts) == ("success", {"pages": 12})
    assert report.ours == {"output": "the page of map-1\none\n"}


ABUSES = {
    "the store": "cat @HOME@/custody.db custody.db ../custody.db /inputs/program/custody.db",
    "another item": "cat @HOME@/map-2/page.txt /inputs/item/../map-2/page.txt",
    "its own label": "cat @HOME@/pages.robot.toml /inputs/program/pages.robot.toml",
    "changing its item": "echo more >> /inputs/item/page.txt",
    "adding to its item": "touch /inputs/item/more.txt",
    "removing its item's files": "rm -f /inputs/item/page.txt && ! test -e /inputs/item/page.txt",
    "changing its own program": "echo true >> /inputs/program/pages.sh",
    "the worker's environment": "env | grep SECRET_OF_THE_WORKER || cat /proc/@WORKER@/environ",
    "a server on this machine": "perl -e 'use Socket; socket(S,2,1,6); connect(S,pack(\"SnC4x8\",2,@PORT@,127,0,0,1)) or exit 1'",
    "the worker's processes": "kill -0 @WORKER@",
    "home folders": "ls /root /home",
}


@pytest.mark.parametrize("abuse", ABUSES)
def test_what_it_tries_and_does_not_get(abuse: str, home: Path, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "hunter2hunter2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = ABUSES[abuse].replace("@HOME@", str(home)).replace("@WORKER@", str(os.getpid()))
        script = script.replace("@PORT@", str(server.getsockname()[1]))
        report = tried(home, yard, f"if ( {script} ) >/dev/null 2>&1; then echo escaped; else echo held; fi")
    assert report.ours == {"output": "held\n"}
    assert (home / "map-1" / "page.txt").read_text() == "the page of map-1\n"


NAP = f"sleep {700_000 + os.getpid()}"  # no other test run's
OUTLIVING = {
    "a child": f"{NAP} &",
    "a session of its own": f"setsid {NAP} </dev/null >/dev/null 2>&1 &",
    "forked twice": f"(setsid sh -c '{NAP} &' &)",
    "one that ignores signals": f"(trap '' TERM HUP; {NAP}) &",
}


def sleepers() -> list[int]:
    return [
        each.pid
        for each in processes.all_processes()
        if command_line(each.pid) == f"{NAP}\0".replace(" ", "\0").encode()
    ]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("how", OUTLIVING)
def test_nothing_outlives_it(how: str, home: Path, yard: Yard) -> None:
    before = sleepers()
    assert tried(home, yard, f"{OUTLIVING[how]}\necho done").ours == {"output": "done\n"}
    assert sleepers() == before
    with pytest.raises(TimedOut):
        tried(home, yard, f"{OUTLIVING[how]}\n{NAP}", timeout=0.5)
    assert sleepers() == before, "and when its time is over everything of it is dead"


def test_it_is_given_what_its_label_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE_OF_PAGES", "dan")
    monkeypatch.setattr(*elsewhere.PATCH)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"{elsewhere.HOST}:{server.getsockname()[1]}"
        given = f'network = ["{place}"]\nvariables = ["LANGUAGE_OF_PAGES", "NOT_SET"]'
        permit = Permit("robot/pages", lambda: [place], Rules())
        ask = f"perl -e '{CONNECT}' {place}"
        with closing(Yard(home / "yard", roots([Root("maps", home)]))) as yard:
            report = tried(home, yard, f"echo $LANGUAGE_OF_PAGES; {ask}", sandbox=given, permit=permit)
    assert report.ours == {"output": "dan\nHTTP/1.1 200 Connection established\n"}


CONNECT = """use Socket; socket(S,2,1,6); connect(S,pack("SnC4x8",2,3128,127,0,0,1)) or die $!;
syswrite(S, "CONNECT $ARGV[0] HTTP/1.1\\r\\n\\r\\n"); print scalar <S>"""


TROUBLES = {
    "exit.9": ("echo no >&2; exit 9", "no"),
    f"exit.-{signal.SIGSEGV}": ("kill -SEGV $$", "SIGSEGV"),
    "robot.disk": (f"dd if=/dev/zero of=much bs=1M count=64; {NAP}", "wrote more"),
}


@pytest.mark.parametrize("code", TROUBLES)
def test_what_went_wrong_has_its_own_code(code: str, home: Path, yard: Yard) -> None:
    script, words = TROUBLES[code]
    with pytest.raises(Unavailable, match=words) as raised:
        tried(home, yard, script, sandbox="disk = 8")
    assert raised.value.code == code


def test_a_command_that_is_not_there_is_named(home: Path, yard: Yard) -> None:
    path = label(home, "")
    path.write_text(path.read_text().replace("./pages.sh", "no-such-command"))
    with pytest.raises(Unavailable, match="no-such-command") as raised:
        run(read_label(path), home, yard)
    assert raised.value.code == "exit.127"


def test_what_it_makes_is_kept_when_it_went_well(home: Path, yard: Yard) -> None:
    script = """
    cat /inputs/item/page.txt > page.txt; mkdir more; echo x > more/x.txt
    ln -s /etc/passwd link; mkfifo pipe
    """
    kept = home / "pages" / "map-1"
    report = tried(home, yard, script, 'keep = "pages"')
    assert report.ours == {
        "kept": str(kept),
        "made": ["more/x.txt", "page.txt"],
        "left_out": {"link": "it is a link, not a file", "pipe": "it is a pipe, a socket or a device, not a file"},
    }, "told, not only left out"
    found = sorted(str(path.relative_to(kept)) for path in kept.rglob("*"))
    assert found == ["more", "more/x.txt", "page.txt"], "no link, and no pipe"
    assert (kept / "page.txt").read_text() == "the page of map-1\n"
    tried(home, yard, "echo new > page.txt; exit 1", 'keep = "pages"')
    assert (kept / "page.txt").read_text() == "the page of map-1\n", "a failure leaves what was there"
    assert tried(home, yard, "true", 'keep = "pages"').ours == {"made": []}, "nothing is told as nothing"
    tried(home, yard, "echo new > new.txt", 'keep = "pages"')
    assert os.listdir(kept) == ["new.txt"], "replaced as a whole"
    assert os.listdir(home / "pages") == ["map-1"]
    tried(home, yard, "truncate -s 1500M holes", 'keep = "pages"')
    found = (kept / "holes").stat()
    assert (found.st_size, found.st_blocks < 100) == (1500 << 20, True), "holes stay holes"


@pytest.mark.parametrize("name", ["../../outside", "..", ".", "/tmp/outside", "more/pages", "pages/", "x\\u0000y"])
def test_a_label_keeps_nothing_elsewhere_than_in_a_folder_beside_it(home: Path, name: str) -> None:
    path = label(home, "true", f'keep = "{name}"')
    with pytest.raises(BadInput, match="is not the name of a folder beside the label") as raised:
        read_label(path)
    assert raised.value.code == "robot.keep"
    linted = CliRunner().invoke(robot_app, ["lint", str(path)])
    assert isinstance(linted.exception, BadInput)


def test_a_link_in_the_place_of_what_is_kept_is_not_followed(home: Path, yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    read = read_label(label(home, "echo x > x", 'keep = "pages"'))
    (home / "pages").symlink_to(outside)
    with pytest.raises(BadInput, match="that is a link"):
        run(read, home, yard)
    with pytest.raises(BadInput, match="that is a link"):
        tried(home, yard, "echo x > x", 'keep = "pages"')
    assert os.listdir(outside) == []
    (home / "pages").unlink()
    (home / "pages").write_text("")
    with pytest.raises(BadInput, match="that is no folder"):
        tried(home, yard, "echo x > x", 'keep = "pages"')


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../x", "é" * 90, ".new-1"])
def test_an_item_cannot_choose_where_its_files_go(name: str) -> None:
    made = folder_name(name)
    assert "/" not in made
    assert not made.startswith(".")
    assert len(made) < 255


def test_an_item_that_takes_too_long_is_told_so_and_the_others_go_on(home: Path, yard: Yard) -> None:
    path = label(home, f'case "$CUSTODY_ITEM" in slow) {NAP};; esac', "timeout = 9.0\nat_once = 3")
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        store.records.put([NewItem(name, frozenset({"object"})) for name in ("a", "b", "slow")])
        _, tally = watched(store, [read_label(path)], yard=yard)
        assert (types(store, "a"), types(store, "slow")) == (["changed", "pages counted"], ["changed"])
        assert [failure.code for failure in store.queue.failures()] == ["robot.timeout"]
        assert tally.counts["pages"] == {"success": 2, "timeout": 1}


def test_one_that_is_ended_because_its_lease_was_in_doubt_is_not_to_blame(home: Path, yard: Yard) -> None:
    path = label(home, f"test -e /inputs/item/go || {NAP}")  # one try
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        robot = read_label(path)
        with pytest.raises(Interrupted):
            run(robot, home, yard, trusted=lambda: 0.0)
        store.records.put([NewItem("map-1", frozenset({"object"}), place="maps:map-1")])
        subscribe(store, [robot])
        sweep(store, robot)
        worker = Worker(store, Serving(tuple(kinds(store, [robot], yard=yard))), Settings(threads=2, lease=30))
        thread = threading.Thread(target=worker.run_forever)
        thread.start()
        try:
            wait_until(lambda: list((home / "yard").glob("boxes/robot-*")))
            (name,) = yard.open().names()
            running = yard.open().find(name)
            assert running
            with suppress(NotFound):  # its worker may take it away as soon as it has ended
                running.stop(0)
            (home / "map-1" / "go").touch()
            wait_until(lambda: counted(store))
        finally:
            worker.stop()
            thread.join()


def counted(store: Store) -> bool:
    return "pages counted" in store.records.latest("map-1")


@pytest.mark.kills
def test_a_worker_that_is_killed_leaves_nothing_that_its_successor_does_not_end(home: Path) -> None:
    url = f"sqlite:///{home / 'custody.db'}"
    label(home, f"test -e /inputs/item/go && exit 0; {NAP} & setsid {NAP} & wait")
    command = [sys.executable, "-m", "custody", "robot", "run", "pages.robot.toml", "--lease", "3", "--store", url]

    started: list[subprocess.Popen[bytes]] = []
    with open_store(url) as store:
        store.records.put([NewItem("map-1", frozenset({"object"}), place="maps:map-1")])
        try:
            started.append(subprocess.Popen(command, cwd=home))
            wait_until(sleepers)
            started[0].kill()
            started[0].wait()
            (home / "map-1" / "go").touch()

            def done() -> bool:
                """Until the first's lock has ended, whoever starts is sent away."""
                if started[-1].poll() is not None:
                    started.append(subprocess.Popen(command, cwd=home))
                return counted(store)

            wait_until(done)
            assert sleepers() == []
        finally:
            for process in started:
                process.terminate()
                process.wait()
        assert types(store, "map-1") == ["changed", "pages counted"]
    assert list(home.glob("work-robots/*/*")) == []


def test_where_there_is_no_sandbox_it_is_said_at_once_and_what_to_do(
    home: Path, custody: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("custody.border.sandbox.bwrap.PATH", "/nowhere")
    path = label(home, "exit 0")
    said = custody("run", "pages.robot.toml", "--once", code=2)
    assert "robot pages runs in a sandbox, and bwrap is not installed" in said
    assert "apt-get install bubblewrap" in said
    assert "sandbox = false" in said
    path.write_text(path.read_text().replace("[when]", "sandbox = false\n[when]").replace("[sandbox]\n", ""))
    assert "nothing to do" in custody("run", "pages.robot.toml", "--once")


def test_it_runs_from_the_command_line(home: Path) -> None:
    label(home, "cat /inputs/item/page.txt")
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        store.records.put([NewItem("map-1", frozenset({"object"}), place="maps:map-1")])
        said = Said(home, "robot", "run", ".", "--once")
        assert (said.code, said.out) == (0, "pages: 1 went well\n"), said.err
        assert store.records.events("item/map-1")[-1].detail == {"output": "the page of map-1\n"}
    assert (home / "work-robots").stat().st_mode & 0o777 == 0o700
    assert list(home.glob("work-robots/*/*")) == []


def test_nobody_can_take_a_robots_folder_away_beforehand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is not known in a folder where everybody may write; and where it cannot be had, that is said at once."""
    (home / "custody.toml").unlink()
    (home / "tmp").mkdir(mode=0o1777)
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    label(home, "echo here")
    store = f"sqlite:///{home / 'custody.db'}"
    with open_store(store) as opened:
        opened.records.put([NewItem("map-1", frozenset({"object"}))])
    said = Said(home, "robot", "run", ".", "--once", "--store", store)
    assert (said.code, said.out) == (0, "pages: 1 went well\n"), said.err
    (own,) = (home / "state" / "custody").iterdir()
    assert (own.stat().st_mode & 0o777, list(own.glob("*/*"))) == (0o700, [])
    shutil.rmtree(own)
    own.symlink_to(home / "tmp")
    said = Said(home, "robot", "run", ".", "--once", "--store", store)
    assert said.code == 2
    assert f"robots' programs need the folder {own}, which is somebody else's, or a link" in said.err
    own.unlink()
    own.write_text("")
    said = Said(home, "robot", "run", ".", "--once", "--store", store)
    assert f"need the folder {own}, which cannot be made: File exists" in said.err
    assert "XDG_STATE_HOME" in said.err


def test_no_name_in_a_folder_for_everybody_can_be_known_beforehand() -> None:
    """Those of `tempfile` are made new, and refused if they are there."""
    source = Path(custody.__file__).parent
    found = [
        path for path in source.rglob("*.py") if re.search(r"gettempdir|mktemp\b|environ.*TMPDIR", path.read_text())
    ]
    assert found == []


MISTAKES = [
    ("netwrk = true", "unknown key sandbox.netwrk"),
    ("network = 1", "sandbox.network"),
    ('network = ["localhost"]', "sandbox.network"),
    ("memory = -1", "memory"),
    ("memory = true", "memory"),
    ("needs = 'x'", "needs"),
    ("variables = [3]", "variables"),
]


@pytest.mark.parametrize(("line", "words"), MISTAKES)
def test_a_mistake_in_what_it_says_of_the_sandbox_is_named(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        read_label(label(tmp_path, "true", sandbox=line))


@pytest.mark.parametrize("need_", ["nothing.txt", "../elsewhere", "/etc/passwd", "."])
def test_it_may_need_only_what_is_beside_its_label(need_: str, home: Path, yard: Yard) -> None:
    with pytest.raises(BadInput, match="not beside its label"):
        tried(home, yard, "true", sandbox=f'needs = ["{need_}"]')
