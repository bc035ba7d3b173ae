"""The way out of a sandbox, with real programs: what is granted works, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.border import processes
from custody.border.egress.allowance import FRESH_SECONDS, Leave
from custody.border.sandbox.sandbox import Running
from custody.border.sandbox.spec import LEASE
from rig.outside import Outside
from rig.program import room, unprivileged_user

from .egress_rig import CA, CURL, OutBox, boxes, way
from .sandbox_rig import PATIENCE

DATA = "data.example.org:443"
WHEEL = "greeting-1.0-py3-none-any.whl"


@pytest.fixture
def here(outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutBox]:
    with boxes(outside, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def as_ordinary_user(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutBox]:
    folder = room("egress", unprivileged_user())
    with boxes(outside, folder, monkeypatch, unprivileged_user()) as made:
        for part in (made.work, made.sandboxes.root):
            os.chown(part, folder.stat().st_uid, folder.stat().st_gid)
        yield made


PROGRAMS = {
    "curl": f"{CURL} https://data.example.org/hello",
    "python": "SSL_CERT_FILE=" + CA + " python3 -c 'import urllib.request as u; "
    'print(u.urlopen("https://data.example.org/hello").read().decode(), end="")\'',
    "git": f"git -c http.sslCAInfo={CA} clone -q https://data.example.org/book.git book && cat book/hello",
    "pip": f"python3 -m pip --disable-pip-version-check download -q --no-cache-dir --cert {CA} --no-deps "
    "-i https://data.example.org/simple greeting==1.0 && python3 -m zipfile -e greeting*.whl . && cat greeting.py",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_that_know_of_a_proxy_reach_what_is_granted(program: str, here: OutBox, outside: Outside) -> None:
    if (
        program == "pip"
        and subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode
    ):
        pytest.skip("this machine's own Python has no pip: apt-get install python3-pip")
    _fill(outside.site)
    end, printed = here.run(PROGRAMS[program], network=way(DATA))
    assert end.ok, printed
    assert "hello from outside" in printed


def _fill(site: Path) -> None:
    """A repository that git can read from files, and an index of one package."""
    if (site / "book.git").exists():
        return
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(site / "draft")]
    (site / "draft").mkdir()
    (site / "draft/hello").write_text("hello from outside\n")
    for words in (["init", "-q"], ["add", "hello"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(site / "draft"), str(site / "book.git")], check=True)
    subprocess.run(["git", "-C", str(site / "book.git"), "update-server-info"], check=True)
    (site / "simple/greeting").mkdir(parents=True)
    (site / "simple/greeting/index.html").write_text(f'<a href="/{WHEEL}">{WHEEL}</a>')
    with zipfile.ZipFile(site / WHEEL, "w") as wheel:
        wheel.writestr("greeting.py", "# hello from outside\n")
        wheel.writestr("greeting-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr("greeting-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("greeting-1.0.dist-info/RECORD", "")


def test_an_ordinary_user_has_the_same_way_out(as_ordinary_user: OutBox, outside: Outside) -> None:
    asked = {"granted": f"{CURL} https://data.example.org/hello", "not": f"{CURL} https://files.example.org/hello"}
    asked |= {"direct": DIRECT, "loopback": f"{DIRECT.rpartition(' ')[0]} http://127.0.0.1:8080/hello"}
    script = "set +e\n" + "\n".join(
        f"{words} >{name} 2>{name}.err; echo $? >{name}.code" for name, words in asked.items()
    )
    _, printed = as_ordinary_user.run(script, network=way(DATA))
    said = {name: (as_ordinary_user.work / name).read_text() for name in asked}
    codes = {name: int((as_ordinary_user.work / f"{name}.code").read_text()) for name in asked}
    assert said == {"granted": "hello from outside\n", "not": "", "direct": "", "loopback": ""}
    assert codes == {"granted": 0, "not": 56, "direct": 7, "loopback": 7}, "refused by the proxy; no way there at all"
    (told,) = printed.splitlines()
    assert told.startswith("custody: network: files.example.org:443 is not granted to book; an operator can: `custody")
    assert outside.reached() == []


DIRECT = "curl -sS --noproxy '*' --max-time 5 http://93.184.216.34/hello"


def test_plain_http_is_a_grant_of_its_own(here: OutBox, outside: Outside) -> None:
    ask = (
        "set +e; curl -sS --max-time 20 http://data.example.org/hello; echo; curl -sS -d abc http://data.example.org/x"
    )
    _, refused = here.run(ask, network=way(DATA))
    assert "http://data.example.org:80 is not granted" in refused
    assert outside.hits("far") == [], "not even looked up"
    end, printed = here.run(ask, network=way("http://data.example.org:80"))
    assert printed == "hello from outside\n\n3", printed
    assert end.ok
    (asked,) = [hit for hit in outside.hits("far") if hit.get("path") == "/hello"]
    assert asked["host"] == "data.example.org"
    assert not [name for name in asked["heads"] if name.lower().startswith("proxy")]


def test_the_proxy_sees_nothing_of_the_machine(here: OutBox) -> None:
    running = here.start("sleep 60", network=way(DATA), secrets={"key": b"the very secret word"})
    proxy = proxy_of(running)
    status = Path(f"/proc/{proxy}/status").read_text()
    assert "\nCapEff:\t0000000000000000" in status
    assert "\nNoNewPrivs:\t1" in status
    assert "\nSeccomp:\t2" in status
    assert "\nUid:\t19000" in status
    seen = sorted(str(path.relative_to(f"/proc/{proxy}/root")) for path in Path(f"/proc/{proxy}/root").rglob("*"))
    assert set(seen) <= {
        f"etc{name}" for name in ("", "/resolv.conf", "/hosts", "/nsswitch.conf", "/host.conf", "/gai.conf")
    }
    open_ = [os.readlink(path) for path in Path(f"/proc/{proxy}/fd").iterdir()]
    assert all(name == "/dev/null" or name.startswith("socket:") for name in open_), open_
    assert Path(f"/proc/{proxy}/environ").read_bytes().strip(b"\0") in (b"", b"PWD=/")
    assert b"very secret" not in memory_of(proxy), "forked before there was a secret"
    for namespace in ("user", "mnt", "pid", "ipc", "uts"):
        assert os.readlink(f"/proc/{proxy}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}")
    running.stop(0)
    assert not Path(f"/proc/{proxy}").exists()


def memory_of(pid: int) -> bytes:
    """All that can be written there: what it has come to know is in it."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(part, 16) for part in span.split("-"))
                memory.seek(start)
                found.append(memory.read(end - start))
    return b"".join(found)


def proxy_of(running: Running) -> int:
    """The one process below the deadman that is not bwrap's."""
    import json

    inside = json.loads((running.folder / "pids.json").read_text())["pid"]
    bwrap = processes.look(inside)
    assert bwrap is not None
    parent = processes.look(bwrap.parent)
    assert parent is not None
    family = [process.pid for process in processes.all_processes() if process.parent == parent.parent]
    (proxy,) = [pid for pid in family if pid != parent.pid]
    return proxy


def slow(here: OutBox, outside: Outside, **more: object) -> Running:
    """A sandbox with a connection through which drops keep falling."""
    running: Running = here.start(
        f"set +e; {CURL} -N --max-time 300 https://data.example.org/slow; echo over; sleep 300",
        timeout=None,
        network=way(DATA),
        **more,
    )
    wait_for(lambda: any("dripped" in hit for hit in outside.hits("far")))
    return running


def wait_for(happened: object) -> None:
    until = time.monotonic() + PATIENCE
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def cut(outside: Outside) -> bool:
    return any("cut" in hit for hit in outside.hits("far"))


def test_a_withdrawn_grant_cuts_what_goes_on_and_the_task_goes_on(here: OutBox, outside: Outside) -> None:
    running = slow(here, outside)
    assert running.confirm(time.monotonic() + 60, leave(60, [DATA, "git.example.org:443"]))
    assert not cut(outside), "it is granted still"
    assert running.confirm(time.monotonic() + 60, leave(60, ["git.example.org:443"]))
    wait_for(lambda: cut(outside))
    wait_for(lambda: b"over" in running.output())
    assert running.end() is None


def leave(seconds: float, granted: list[str] | None = None, looked: float = 0.0) -> Leave:
    return Leave(time.monotonic() + seconds, time.monotonic() + looked, granted)


def test_nothing_passes_while_nobody_has_looked_up_what_is_granted(here: OutBox, outside: Outside) -> None:
    running = slow(here, outside)
    deadman = deadman_of(running)
    running.confirm(time.monotonic() + 60, leave(60, looked=-FRESH_SECONDS))
    wait_for(lambda: stands_still(running))
    assert not cut(outside), "what goes on waits"
    before = running.output().count(b"drop")
    processes.send(deadman, signal.SIGSTOP)  # the proxy holds the time by itself
    processes.send(deadman, signal.SIGCONT)
    running.confirm(time.monotonic() + 60, leave(60))
    wait_for(lambda: running.output().count(b"drop") > before)


def test_the_way_is_closed_when_the_lease_ends_and_opened_by_the_next_one(here: OutBox, outside: Outside) -> None:
    again = f"{CURL} https://data.example.org/hello"
    running = here.start(
        f"set +e; {CURL} -N --max-time 300 https://data.example.org/slow; {again}; "
        f"while ! {again}; do sleep 0.1; done; sleep 300",
        timeout=None,
        network=way(DATA),
    )
    wait_for(lambda: any("dripped" in hit for hit in outside.hits("far")))
    deadman = deadman_of(running)
    running.confirm(time.monotonic() + 60, leave(1))
    processes.send(deadman, signal.SIGSTOP)
    wait_for(lambda: cut(outside))
    processes.send(deadman, signal.SIGCONT)
    wait_for(lambda: b"its worker has not confirmed in time that this is still wanted" in running.output())
    assert running.end() is None, "the sandbox itself was wanted for longer"
    assert b"hello from outside" not in running.output()
    running.confirm(time.monotonic() + 60, leave(60))
    wait_for(lambda: b"hello from outside" in running.output())


def stands_still(running: Running) -> bool:
    before = running.output()
    time.sleep(1)
    return running.output() == before


def deadman_of(running: Running) -> processes.Process:
    proxy = processes.look(proxy_of(running))
    assert proxy is not None
    found = processes.look(proxy.parent)
    assert found is not None
    return found


def test_when_the_lease_ends_every_connection_is_cut(here: OutBox, outside: Outside) -> None:
    running = slow(here, outside, lease=60.0)
    proxy = proxy_of(running)
    running.confirm(time.monotonic() + 0.3)
    end = running.wait(PATIENCE)
    assert end is not None
    assert end.reason == LEASE
    wait_for(lambda: cut(outside))
    assert not Path(f"/proc/{proxy}").exists()


def test_a_deadman_that_is_killed_takes_the_way_out_with_it(here: OutBox, outside: Outside) -> None:
    running = slow(here, outside)
    proxy = proxy_of(running)
    processes.send(deadman_of(running), signal.SIGKILL)
    wait_for(lambda: processes.look(proxy) is None)
    wait_for(lambda: cut(outside))
    end = running.end()
    assert end is not None


def test_who_finds_a_dead_deadman_ends_its_proxy_too(here: OutBox, outside: Outside) -> None:
    running = slow(here, outside)
    proxy = processes.look(proxy_of(running))
    assert proxy is not None
    deadman = processes.look(proxy.parent)
    assert deadman is not None
    processes.send(proxy, signal.SIGSTOP)  # it would not notice by itself
    processes.send(deadman, signal.SIGKILL)
    wait_for(running.end)
    wait_for(lambda: cut(outside))
    gone = processes.look(proxy.pid)
    assert gone is None or gone.started != proxy.started


def test_many_connections_at_once_are_a_matter_of_the_budget(here: OutBox, outside: Outside) -> None:
    script = f"""set +e
for n in $(seq 60); do {CURL} https://data.example.org/hello >>got & done; wait; grep -c hello got"""
    end, printed = here.run(script, network=way(DATA, connections=200))
    assert end.ok
    assert printed.split()[-1] == "60", printed


def test_sandboxes_without_a_way_out_have_no_proxy_and_no_variables(here: OutBox) -> None:
    end, printed = here.run("set +e; env | grep -i proxy; curl -sS http://127.0.0.1:3128/; true")
    assert end.ok
    assert "http_proxy" not in printed
    assert "onnect" in printed, "nothing listens there"
