"""A sandbox runs one command, says how it ended, and is empty afterwards."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import custody
from border.sandbox_rig import PATIENCE, Box, box, need
from custody.border.roots import Root, Source, ours
from custody.border.sandbox import bwrap
from custody.border.sandbox.sandbox import End, Limits, Mount, Running, Sandboxes, Spec, available
from custody.border.sandbox.spec import decode_spec, encode_spec
from custody.errors import BadInput, NotFound, Refused, Unavailable


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


def test_a_command_is_run_without_a_shell(here: Box) -> None:
    awkward = ("printf", "%s|", "$(id)", "a b", "it's", 'say "x"', "two\nlines", "*", "", "é", "-n")
    end, said = here.run(argv=awkward)
    assert end.ok
    assert said == "|".join(awkward[2:]) + "|"


def test_a_script_stops_at_its_first_error_and_its_code_is_kept(here: Box) -> None:
    end, said = here.run("echo one; (exit 7); echo two")
    assert (end.reason, end.code, said) == ("exited", 7, "one\n")
    assert not end.ok


def test_a_script_may_name_another_shell(here: Box) -> None:
    end, said = here.run("print 6 * 7;", shell=("perl", "-w"))
    assert (end.ok, said) == (True, "42")


def test_the_work_folder_is_the_current_folder_and_what_is_written_there_stays(here: Box) -> None:
    (here.work / "in.txt").write_text("from the revision")
    end, said = here.run("pwd; cat in.txt; mkdir -p dist; echo made > dist/out.txt")
    assert end.ok
    assert said == "/work\nfrom the revision"
    assert (here.work / "dist/out.txt").read_text() == "made\n"


def test_the_environment_is_the_given_one_and_nothing_of_the_workers(
    here: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "worker-secret")
    end, said = here.run("env; cat /proc/*/environ | tr '\\0' '\\n'", env={"CUSTODY_REVISION": "12"})
    assert end.ok
    assert "CUSTODY_REVISION=12" in said
    assert "worker-secret" not in said


def test_read_only_mounts_are_seen_and_cannot_be_written(here: Box, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index/db").write_text("rows")
    os.chmod(tmp_path / "index", 0o755)
    mounts = (Mount(ours(tmp_path / "index"), "/inputs/index"), Mount(ours(tmp_path / "index/db"), "/inputs/one-file"))
    end, said = here.run("cat /inputs/index/db /inputs/one-file; echo x > /inputs/index/db", mounts=mounts)
    assert not end.ok
    assert said.startswith("rowsrows")
    assert "Read-only" in said
    assert (tmp_path / "index/db").read_text() == "rows"


def test_a_socket_can_be_mounted_and_talked_to_without_any_network(here: Box, tmp_path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "s"))
    os.chmod(tmp_path / "s", 0o666)
    server.listen(1)
    with server:
        talk = "socket(S,1,1,0) and connect(S,pack('Sa*',1,'/run/custody')) and syswrite(S,'hello') or die $!"
        running = here.start(argv=("perl", "-e", talk), mounts=(Mount(ours(tmp_path / "s"), "/run/custody"),))
        server.settimeout(PATIENCE)
        caller, _ = server.accept()
        with caller:
            assert caller.recv(100) == b"hello"
    assert running.wait(PATIENCE) == running.end()


def test_work_and_state_may_be_where_mounts_are_staged(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not Path("/mnt").is_dir():
        pytest.skip("only root stages mounts")
    place = Path(f"/mnt/custody-test-{os.getpid()}")
    place.mkdir(mode=0o700)
    (place / "work").mkdir()
    try:
        with Sandboxes(place / "state") as sandboxes:
            running = sandboxes.start(Spec(name="x", work=place / "work", script="echo made > out"))
            assert running.wait(PATIENCE) == running.end()
        assert (place / "work/out").read_text() == "made\n"
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_missing_command_is_told_apart_from_a_failing_one(here: Box) -> None:
    missing, _ = here.run(argv=("no-such-command",))
    failing, _ = here.run(argv=("false",))
    assert (missing.reason, missing.code) == ("not-started", None)
    assert "no-such-command" in missing.detail
    assert (failing.reason, failing.code) == ("exited", 1)


def test_a_command_killed_by_a_signal_ends_as_a_shell_would_say(here: Box) -> None:
    end, _ = here.run("kill -SEGV $$")
    assert (end.reason, end.code) == ("exited", 139)


def test_stop_sends_term_first_and_the_script_may_clean_up(here: Box) -> None:
    running = here.start("trap 'echo cleaned; exit 9' TERM; echo ready; sleep 60")
    _await(running, b"ready")
    end = running.stop(grace=PATIENCE)
    assert (end.reason, end.code) == ("stopped", 9)
    assert end.seconds < PATIENCE, "it is not waited for longer than it takes"
    assert b"cleaned" in running.output()


def test_stop_kills_after_the_grace_what_ignores_term(here: Box) -> None:
    running = here.start("trap '' TERM; echo ready; while :; do sleep 60; done")
    _await(running, b"ready")
    began = time.monotonic()
    end = running.stop(grace=0.3)
    assert 0.3 <= time.monotonic() - began < PATIENCE, "long before the script would end"
    assert (end.reason, end.code) == ("stopped", 137)


def test_stop_of_an_ended_sandbox_answers_how_it_ended(here: Box) -> None:
    running = here.start("exit 3")
    first = running.wait(PATIENCE)
    assert running.stop() == first
    assert first is not None
    assert first.reason == "exited"


def test_a_timeout_is_not_a_failure_of_the_command(here: Box) -> None:
    end, _ = here.run("sleep 60", timeout=0.2)
    assert end.reason == "timeout"


def test_wait_gives_up_after_its_time_and_leaves_the_sandbox_alone(here: Box) -> None:
    running = here.start("sleep 60")
    assert running.wait(0.05) is None
    assert running.end() is None
    assert running.stop(0).reason == "stopped"


def test_an_unconfirmed_sandbox_is_emptied_when_its_lease_ends(here: Box) -> None:
    began = time.monotonic()
    running = here.start("sleep 60", lease=0.3)
    end = running.wait(PATIENCE)
    assert end is not None
    assert (end.reason, end.code) == ("lease", 137)
    assert 0.3 <= time.monotonic() - began < PATIENCE


def test_confirming_keeps_it_alive_and_says_when_it_is_too_late(here: Box) -> None:
    running, began = confirmed(here, lease=1.0)
    assert running.wait(began + 1.3 - time.monotonic()) is None, "its first lease is over, and it lives"
    assert running.confirm(time.monotonic() + 0.3)
    end = running.wait(PATIENCE)
    assert end is not None
    assert end.reason == "lease"
    assert not running.confirm(time.monotonic() + 10)


def confirmed(here: Box, lease: float) -> tuple[Running, float]:
    """A sandbox that was confirmed for long within its first lease, and when that began; on a machine that stands still
    for that long, the next one."""
    for _ in range(20):
        began = time.monotonic()
        running = here.start("sleep 600", lease=lease, timeout=600.0)
        if running.confirm(time.monotonic() + 600):
            return running, began
        assert time.monotonic() - began > lease, "refused within its lease"
    raise AssertionError("never confirmed")


def test_a_sandbox_being_stopped_cannot_be_confirmed_any_more(here: Box) -> None:
    running = here.start("trap '' TERM; echo ready; while :; do sleep 60; done")
    _await(running, b"ready")
    assert running._ask({"do": "stop", "grace": PATIENCE}) == {"ok": True}
    assert not running.confirm(time.monotonic() + 30)
    assert running.end() is None  # it is still within its grace
    assert running.stop(0).reason == "stopped"


def test_many_may_ask_at_once_and_all_are_answered(here: Box) -> None:
    """A connection that closes gives its descriptor to the next one; their questions must not be mixed up."""
    running = here.start("sleep 60")
    answers: list[bool] = []

    def ask() -> None:
        answers.extend(running.confirm(time.monotonic() + 30) for _ in range(60))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.stop(0)
    assert answers == [True] * 480


def test_guests_who_come_after_the_output_was_closed_do_not_disturb_the_end(here: Box) -> None:
    """They get the descriptors that the pipes had."""
    running = here.start("echo all of it; exec >&- 2>&-; until [ -e guests-are-in ]; do sleep 0.02; done; exit 4")
    _await(running, b"all of it")
    time.sleep(0.1)
    guests = [running._connect() for _ in range(6)]
    (here.work / "guests-are-in").touch()
    end = running.wait(PATIENCE)
    for guest in guests:
        assert guest is not None
        guest.close()
    assert end is not None
    assert (end.reason, end.code, running.output()) == ("exited", 4, b"all of it\n")


def test_the_dead_are_buried(here: Box) -> None:
    """Not every machine has a first process that does it."""
    for _ in range(5):
        running = here.start("setsid sleep 60 & true")
        assert running.wait(PATIENCE) is not None
        first = json.loads((running.folder / "pids.json").read_text())["pid"]
        assert not Path(f"/proc/{first}").exists()


def test_a_name_is_used_once(here: Box) -> None:
    running = here.start("true", name="once")
    with pytest.raises(Refused, match="once") as caught:
        here.start("true", name="once")
    assert caught.value.code == "sandbox.exists"
    running.wait(PATIENCE)
    running.remove()
    assert here.start("true", name="once").wait(PATIENCE) == here.sandboxes.find("once").end()  # type: ignore[union-attr]


@pytest.mark.parametrize("ask", [Running.end, Running.stop, Running.wait, Running.remove])
def test_whoever_asks_for_a_sandbox_that_another_has_removed_is_told_so(
    here: Box, ask: Callable[[Running], object]
) -> None:
    here.run("true", name="twice")
    kept, also = here.sandboxes.find("twice"), here.sandboxes.find("twice")
    assert kept is not None
    assert also is not None
    kept.remove()
    with pytest.raises(NotFound) as caught:
        ask(also)
    assert caught.value.code == "sandbox.missing"


def test_a_running_sandbox_cannot_be_removed(here: Box) -> None:
    running = here.start("sleep 60")
    with pytest.raises(Refused) as caught:
        running.remove()
    assert caught.value.code == "sandbox.running"
    running.stop(0)
    running.remove()
    with pytest.raises(NotFound):
        running.confirm(time.monotonic() + 1)


def test_a_source_that_does_not_exist_is_refused_and_leaves_no_folder(here: Box, tmp_path: Path) -> None:
    before = sorted(os.listdir(here.sandboxes.root))
    with pytest.raises(NotFound) as caught:
        here.start("true", mounts=(Mount(Source(Root("ours", tmp_path), "nothing"), "/inputs/x"),))
    assert caught.value.where == str(tmp_path / "nothing")
    assert sorted(os.listdir(here.sandboxes.root)) == before


def test_a_nursery_that_died_is_replaced(here: Box) -> None:
    nursery = here.sandboxes._nursery
    here.run("true")
    assert nursery._process is not None
    nursery._process.kill()
    nursery._process.wait()
    assert here.run("echo again")[1] == "again\n"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "../up"}, "sandbox.name"),
        ({"name": "-rf"}, "sandbox.name"),
        ({"name": ""}, "sandbox.name"),
        ({"name": "a" * 129}, "sandbox.name"),
        ({"argv": ()}, "sandbox.command"),
        ({"script": "true"}, "sandbox.command"),
        ({"argv": ("a\0b",)}, "sandbox.command"),
        ({"argv": ("-x",)}, "sandbox.command"),
        ({"argv": ("",)}, "sandbox.command"),
        ({"shell": ()}, "sandbox.shell"),
        ({"env": {"A=B": "c"}}, "sandbox.env"),
        ({"env": {"1A": "c"}}, "sandbox.env"),
        ({"secrets": {"../x": b"long enough"}}, "sandbox.secrets"),
        ({"secrets": {"x": b"abc"}}, "sandbox.secrets"),
        ({"timeout": -1.0}, "sandbox.time"),
        ({"lease": float("nan")}, "sandbox.time"),
        ({"grace": float("inf")}, "sandbox.time"),
        ({"output_limit": 10}, "sandbox.output"),
    ],
)
def test_a_senseless_request_is_refused_before_anything_starts(fields: dict[str, object], code: str) -> None:
    with pytest.raises(BadInput) as caught:
        Spec(**({"name": "x", "work": Path("/w"), "argv": ("true",)} | fields))  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    "at",
    [
        "/",
        "/usr",
        "/etc/passwd",
        "/work",
        "/work/x",
        "relative",
        "/inputs/../etc",
        "/inputs",
        "/run/secrets/x",
        "/run/script",
        "/proc/1",
        "/inputs//x",
        "/inputs/a\0b",
        "/tmp/x",
    ],
)
def test_a_mount_has_its_place(at: str) -> None:
    with pytest.raises(BadInput):
        Mount(ours(Path("/usr")), at)


@pytest.mark.parametrize("limit", [{"memory": 0}, {"processes": -1}, {"open_files": True}, {"disk": 2**63}])
def test_a_limit_is_a_positive_number(limit: dict[str, int]) -> None:
    with pytest.raises(BadInput):
        Limits(**limit)


def test_a_request_survives_the_way_to_the_deadman() -> None:
    spec = Spec(
        name="x",
        work=Path("/w"),
        script="echo é",
        env={"A": "b"},
        mounts=(Mount(ours(Path("/usr")), "/inputs/usr"),),
        secrets={"k": b"\x00\xff12"},
        limits=Limits(disk=5),
        timeout=1.5,
    )
    assert decode_spec(encode_spec(spec)) == spec
    assert "\\xff12" not in repr(spec)


def test_available_tells_what_works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    need("bwrap", "bubblewrap")
    found = available()
    assert (found.works, found.reason) == (True, "")
    monkeypatch.setattr(bwrap, "PATH", "/nowhere")
    missing = available()
    assert not missing
    assert "apt-get install bubblewrap" in missing.hint


def test_a_worker_that_is_not_root_gets_the_same_sandbox(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run in a process of another user, with a copy of the package that this user can read."""
    python, nobody = need("python3", "python3"), 65534
    if os.geteuid() != 0:
        pytest.skip("the other tests show it")
    folder = Path("/var/tmp") / f"custody-test-{os.getpid()}"
    subprocess.run(["cp", "-r", str(Path(custody.__file__).parent), str(_open(folder) / "custody")], check=True)
    try:
        subprocess.run(["chown", "-R", str(nobody), str(folder)], check=True)
        folder.chmod(0o700)
        done = subprocess.run(
            [python, "-B", "-c", _AS_NOBODY, str(folder)],
            env={"PYTHONPATH": str(folder)},
            user=nobody,
            group=nobody,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "ok": [True, "1000\nin\n"],
            "host": False,
            "bomb": [True, "stopped at the limit\n"],
            "left": [],
        }
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


_AS_NOBODY = r"""
import json, sys, os
from pathlib import Path
from custody.border import processes
from custody.border.sandbox.launch import MARK, mark_of
from custody.border.sandbox.sandbox import Limits, Sandboxes, Spec
here = Path(sys.argv[1])
(here / "work").mkdir()
(here / "work/f").write_text("in\n")
(here / "secret").write_text("x")
with Sandboxes(here / "state") as sandboxes:
    def run(name, script, **more):
        running = sandboxes.start(Spec(name=name, work=here / "work", script=script, timeout=20, **more))
        return running.wait(), running.output().decode()
    ok, said = run("a", "id -u; cat f; setsid sleep 99 &")
    host, _ = run("b", f"cat {here}/secret")
    bomb = 'my $n = 0; while ($n < 500) { my $p = fork; last unless defined $p; if (!$p) { sleep 9; exit } '
    bomb += '$n++ } '
    bomb += 'print $n < 30 ? "stopped at the limit\n" : "made $n\n"'
    limited, tried = run("c", bomb, shell=("perl",), limits=Limits(processes=20))
mark = f"{MARK}={mark_of(here / 'state')}-".encode()
left = [p.pid for p in processes.all_processes() if mark in processes.environment(p.pid)]
print(json.dumps({"ok": [ok.ok, said], "host": host.ok, "bomb": [limited.ok, tried], "left": left}))
"""


def _open(folder: Path) -> Path:
    folder.mkdir(mode=0o755)
    return folder


def _await(running: Running, word: bytes) -> None:
    for chunk in running.follow():
        if word in chunk.data:
            return
    raise AssertionError(f"it ended without saying {word!r}: {running.end()}")


def test_nothing_is_left_on_the_machine(here: Box) -> None:
    for name in here.sandboxes.names():
        running = here.sandboxes.find(name)
        assert running is not None
        running.stop(0)
    assert here.left_behind() == {"processes": [], "groups": [], "mounts": []}


def test_an_end_is_ok_only_if_the_command_itself_ended_well() -> None:
    assert End("exited", 0).ok
    assert not End("stopped", 0).ok
    assert not End("exited", 1).ok


def test_a_state_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    need("bwrap", "bubblewrap")
    with Sandboxes(tmp_path / "state") as sandboxes:
        os.rmdir(tmp_path / "state")
        with pytest.raises(Unavailable) as caught:
            sandboxes.start(Spec(name="x", work=tmp_path, argv=("true",)))
    assert caught.value.code == "sandbox.state"
