"""Somebody else on the same machine: he comes to nothing that a sandbox writes, and reads nothing that is kept.

Real users, in a folder that everybody may enter: a worker that is root or an ordinary user, and a neighbour. Every job
of the program is done under a careless umask, and the neighbour looks at every file that came of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import custody
from border.sandbox_rig import need
from hostile.stage import ENV, NOBODY, ORDINARY
from rig.program import reachable_python, room

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs users of its own")
PATIENCE = 120.0

ATTACK = """\
- name: let-in
  outputs: [kept/*]
  script: |
    cp /bin/sh su; chmod 6777 su || echo "no set-uid"; chmod 777 .; umask 0
    mkdir -p d kept; chmod 777 d kept; echo made > kept/made; chmod 777 kept/made; mkfifo kept/pipe
    perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); bind(S,pack_sockaddr_un("d/way")); listen(S,1); chmod 0777,"d/way";
      open F,">up"; close F; my $r=""; vec($r,fileno(S),1)=1; print select($r,undef,undef,20) ? "let out" : "alone"'
"""

LOOK = """
import json, os, socket, sys
def tried(what):
    try:
        return what()
    except OSError as error:
        return error.strerror
def connect(path):
    wire = socket.socket(socket.AF_UNIX)
    folder = os.open(os.path.dirname(path), os.O_PATH)
    wire.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    return "connected"
def walk(top):
    for folder, folders, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            if os.access(path, os.R_OK) or os.access(path, os.W_OK):
                yield path
told = {"read": sorted(walk(sys.argv[1]))}
for place in sys.argv[2:]:
    told[place] = {"list": tried(lambda: os.listdir(place)), "su": tried(lambda: os.stat(place + "/su").st_mode),
                   "way": tried(lambda: connect(place + "/d/way"))}
print(json.dumps(told))
"""


@dataclass
class House:
    """A folder that everybody may enter, and a home in it as `custody init` makes it."""

    folder: Path
    uid: int
    umask: int
    python: str

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def begin(self, *words: str, uid: int | None = None, python: str = "-m") -> subprocess.Popen[str]:
        who = self.uid if uid is None else uid
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
            "CUSTODY_WHO": "ada",
            "USER": "ordinary",
        }
        environ["PYTHONPATH"] = f"{Path(custody.__file__).parents[1]}:{sysconfig.get_path('purelib')}"
        return subprocess.Popen(
            [self.python, python, *(["custody"] if python == "-m" else []), *words],
            env=environ,
            umask=self.umask,
            cwd=self.home if who == self.uid else "/",
            user=who,
            group=who,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def custody(self, *words: str, code: int = 0) -> str:
        process = self.begin(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{words}: {out}{err}"
        return out

    def neighbour(self, *places: Path) -> dict[str, Any]:
        process = self.begin(LOOK, str(self.home), *map(str, places), uid=NOBODY, python="-c")
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    def repository(self, workflow: str) -> Path:
        """One of the worker's own, closed to others as its owner has made it."""
        bare, desk = self.folder / "book.git", self.folder / "desk"
        git = ["git", "-c", "init.defaultBranch=main"]
        words = {"env": ENV, "check": True, "user": self.uid, "group": self.uid, "extra_groups": [], "cwd": self.folder}
        subprocess.run([*git, "init", "-q", "--bare", str(bare)], **words)
        subprocess.run([*git, "clone", "-q", str(bare), str(desk)], **words, capture_output=True)
        (desk / "_workflows").mkdir()
        (desk / "_workflows" / "publish.yaml").write_text(workflow)
        subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", str(desk)], check=True)
        for command in (["add", "."], ["commit", "-qm", "one"], ["push", "-q", "origin", "main"]):
            subprocess.run([*git, "-C", str(desk), *command], **words, capture_output=True)
        return bare


@pytest.fixture(params=["root", "ordinary"])
def whose(request: pytest.FixtureRequest) -> int:
    return {"root": 0, "ordinary": ORDINARY}[request.param]


@pytest.fixture(params=[0o022, 0o000], ids=["umask-022", "umask-000"])
def house(request: pytest.FixtureRequest, whose: int) -> Iterator[House]:
    need("bwrap", "bubblewrap")
    folder = room("neighbours")
    folder.chmod(0o755)
    os.chown(folder, whose, whose)
    words = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--"]
    made = House(folder, whose, request.param, reachable_python(words))
    made.home.mkdir(mode=0o755)
    made.home.chmod(0o755)
    os.chown(made.home, whose, whose)
    made.custody("init")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("house", [0o022], indirect=True)
def test_a_task_that_opens_its_folder_to_all_lets_nobody_in_and_nobody_lets_it_out(house: House) -> None:
    house.custody("archive", "add", "book", str(house.repository(ATTACK)))
    (house.home / "work-tasks").mkdir(exist_ok=True)
    (house.home / "work-tasks").chmod(0o777)  # as an earlier version, or somebody careless, has left it
    os.chown(house.home / "work-tasks", house.uid, house.uid)
    worker = house.begin("worker", "run", "--until-idle")
    places = [_when_there(house.home / "work-tasks", worker)]
    told = house.neighbour(*places)
    out, err = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, out + err
    assert told[str(places[0])] == {"list": "Permission denied", "su": "Permission denied", "way": "Permission denied"}
    (log,) = (house.home / "tasks").rglob("attempt-1.log")
    said = log.read_text().splitlines()[:3]  # what it says and what fails come by two ways, in no order
    assert sorted(said) == ["alone", "chmod: changing permissions of 'su': Operation not permitted", "no set-uid"]
    (kept,) = (house.home / "tasks").rglob("made")
    assert kept.stat().st_mode & 0o7022 == 0, "what is kept has none of the rights that it was given there"
    assert [path.name for path in kept.parent.iterdir()] == ["made"]
    assert list((house.home / "work-tasks").glob("*task-*")) == []


def _when_there(work: Path, worker: subprocess.Popen[str]) -> Path:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := list(work.glob("task-*/up")):
            return found[0].parent
        if worker.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"it has not begun: {worker.communicate()}")


BUILT = """\
- name: build
  outputs: [out/*]
  script: mkdir out; cp notes.txt out/
- name: read
  depends: [build]
  script: cat /inputs/build/out/notes.txt
"""
ROBOT = """\
name = "pages"
version = "1"
event = "pages counted"
command = ["./pages.sh"]
keep = "pages"
[when]
past = ["ingested"]
absent = ["pages counted"]
"""


def test_nobody_else_reads_anything_that_was_made_whatever_the_umask(house: House) -> None:
    home = house.home
    (home / "notes.txt").write_text("a deposit\n")
    (home / "custody.toml").write_text((home / "custody.toml").read_text().replace("# [history]", "[history]"))
    house.custody("history", "key", "history.key")
    house.custody("batch", "submit", "notes.txt", "--profile", "example", "--title", "Notes")
    house.custody("archive", "add", "book", str(house.repository(BUILT)))
    house.custody("job", "submit", "greet", "{}", "--receipts", "receipts.txt")
    house.custody("worker", "run", "--until-idle", "--exec", "greet=/bin/true")
    (home / "line").mkdir()
    (home / "line" / "pages.robot.toml").write_text(ROBOT)
    (home / "line" / "pages.sh").write_text("#!/bin/sh\ncat $CUSTODY_FOLDER/v1/content/producer/* > page.txt\n")
    (home / "line" / "pages.sh").chmod(0o755)
    subprocess.run(["chown", "-R", f"{house.uid}:{house.uid}", str(home / "line")], check=True)
    mine = {home / "notes.txt", *(home / "line").iterdir()}  # what the test itself made
    assert "1 went well" in house.custody("robot", "run", "line", "--once")
    (made,) = (home / "line" / "pages").rglob("page.txt")
    assert made.read_text() == "a deposit\n", "a sandbox was shown what is stored"
    assert "a deposit" not in house.custody("archive", "list")
    house.custody("store", "backup", "copy.db")
    served = house.begin("serve", "--port", "0", "--no-login")
    try:
        served.wait(6)
    except subprocess.TimeoutExpired:
        served.terminate()
    served.communicate(timeout=PATIENCE)
    assert len([path for path in home.rglob("*") if path.is_file()]) > 30, "there is something to look at"
    assert {Path(path) for path in house.neighbour()["read"]} <= mine
    for name in ("custody.db", "copy.db", "custody.toml", "custody.secret"):
        assert (home / name).stat().st_mode & 0o777 == 0o600, name
    wide = [
        path.name for path in home.iterdir() if path not in mine and path.name != "line" and path.stat().st_mode & 0o077
    ]
    assert wide == []
    told = json.loads(house.begin("doctor", "--json").communicate(timeout=PATIENCE)[0])
    assert "of what is kept here, nobody else on this machine can read anything" in [each["what"] for each in told]
