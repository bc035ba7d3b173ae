"""The parts of a sandbox that can be looked at without one."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import custody
from custody.border import processes
from custody.border.egress.allowance import Egress
from custody.border.roots import ours
from custody.border.sandbox import bwrap, cgroup, containers, launch, seccomp
from custody.border.sandbox.disk_usage import Disk
from custody.border.sandbox.launch import Launched
from custody.border.sandbox.spec import Engine, Mount, Spec
from custody.border.sandbox.watchdog import Deadman
from custody.errors import Unavailable
from rig.descriptors import descriptors_below


def arguments(**fields: object) -> list[str]:
    spec = Spec(**({"name": "x", "work": Path("/w"), "argv": ("true",)} | fields))  # type: ignore[arg-type]
    sources = [f"/stage/{number}" for number in range(1 + len(spec.mounts))]
    return bwrap.arguments(spec, sources, lambda data: 7)


@pytest.mark.parametrize("network", [None, Egress("archive/book", ("*:443",)), Egress("robot/pages", ())])
def test_the_network_is_never_the_hosts(network: Egress | None, tmp_path: Path) -> None:
    made = arguments(network=network)
    assert "--unshare-net" in made
    assert "--share-net" not in made
    assert not {"/etc/resolv.conf", "/etc/services"} & set(made), "nothing tells of the network outside"
    spec = Spec(name="x", work=tmp_path, argv=("true",), network=network, image="a", engine=Engine("podman"))
    words = containers.arguments(spec, "token", 1, tmp_path, None, [])
    places = [place for place, word in enumerate(words) if word.startswith("--net")]
    assert [words[place : place + 2] for place in places] == [["--network", "none"]]


def test_no_line_of_ours_gives_a_sandbox_the_hosts_network() -> None:
    source = Path(custody.__file__).parent
    lines = [line for file in source.rglob("*.py") for line in file.read_text().splitlines()]
    assert not [line for line in lines if re.search(r"share-net\b(?<!unshare-net)|network[ =\"',]+host\b", line)]


@pytest.mark.parametrize(
    "word",
    [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
    ],
)
def test_every_wall_is_there(word: str) -> None:
    assert word in arguments()


def test_nothing_is_mounted_writable_but_the_work_folder() -> None:
    made = arguments(mounts=(Mount(ours(Path("/usr")), "/inputs/data"),))
    binds = [place for place, word in enumerate(made) if word in ("--bind", "--dev-bind")]
    writable = [made[place + 1 : place + 3] for place in binds]
    assert writable == [["/stage/0", "/work"]]
    assert made[made.index("/stage/1") - 1] == "--ro-bind"
    assert made.index("--remount-ro") < made.index("--chdir")


def test_the_root_becomes_read_only_after_everything_is_in_it() -> None:
    made = arguments(secrets={"token": b"12345678"}, script="x", argv=())
    last = max(place for place, word in enumerate(made) if word in ("--ro-bind-data", "--tmpfs", "--bind", "--proc"))
    assert last < len(made) - 1 - made[::-1].index("--remount-ro")
    secret = made.index("/run/secrets/token")
    assert made[secret - 3 : secret] == ["0400", "--ro-bind-data", "7"]


def test_a_tasks_own_variables_win_over_ours() -> None:
    made = arguments(env={"PATH": "/work/bin", "X": "y"})
    pairs = {made[place + 1]: made[place + 2] for place, word in enumerate(made) if word == "--setenv"}
    assert pairs["PATH"] == "/work/bin"
    assert pairs["X"] == "y"
    assert made.count("PATH") == 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_well_formed(machine: str) -> None:
    """Every jump stays inside and every way ends in a verdict."""
    code = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    assert 50 < len(code) < 4096
    for place, (operation, if_true, if_false, _) in enumerate(code):
        if operation & 7 == 5:
            assert place + 1 + max(if_true, if_false) < len(code)
    assert code[-1] == (0x06, 0, 0, 0x7FFF0000)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_call_by_call(machine: str) -> None:
    calls = seccomp.refused_calls(machine)
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    clone, socket_, ioctl = {"x86_64": (56, 41, 16), "aarch64": (220, 198, 29)}[machine]
    allow, kill, eperm, enosys, family = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061
    for name in (
        "mount",
        "ptrace",
        "bpf",
        "keyctl",
        "unshare",
        "setns",
        "io_uring_setup",
        "open_by_handle_at",
    ):
        assert _verdict(machine, arch, calls[name]) == eperm
    assert _verdict(machine, 0x40000003, 5) == kill  # the same number means another call for 32-bit programs
    assert _verdict(machine, arch, 435) == enosys
    assert _verdict(machine, arch, clone, 17) == allow
    assert _verdict(machine, arch, clone, 0x10000011) == eperm
    assert [_verdict(machine, arch, socket_, number) for number in (1, 2, 10, 16)] == [allow] * 4
    assert [_verdict(machine, arch, socket_, number) for number in (0, 17, 38, 40)] == [family] * 4
    assert [_verdict(machine, arch, ioctl, 0, number) for number in (0x5412, 0x541C, 0x5401)] == [
        eperm,
        eperm,
        allow,
    ]
    assert _verdict(machine, arch, 1) == allow


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_call_makes_a_set_uid_or_set_gid_file(machine: str) -> None:
    """Numbers out of the kernel's own tables; in each, which argument is the mode, and which the flags, if any."""
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    calls = {
        "x86_64": {
            "creat": (85, 1),
            "chmod": (90, 1),
            "fchmod": (91, 1),
            "mknod": (133, 1),
            "mknodat": (259, 2),
            "fchmodat": (268, 2),
            "fchmodat2": (452, 2),
            "open": (2, 2),
            "openat": (257, 3),
        },
        "aarch64": {
            "mknodat": (33, 2),
            "fchmod": (52, 1),
            "fchmodat": (53, 2),
            "fchmodat2": (452, 2),
            "openat": (56, 3),
        },
    }[machine]
    for name, (number, at) in calls.items():
        for mode, wanted in ((0o755, 0x7FFF0000), (0o1777, 0x7FFF0000), (0o4755, 0x50001), (0o2755, 0x50001)):
            for flags in (0o100, 0o20200000) if name.startswith("open") else (0,):
                arguments = [0] * at + [mode]
                if name.startswith("open"):
                    arguments[at - 1] = flags
                assert _verdict(machine, arch, number, *arguments) == wanted, (name, oct(mode), oct(flags))
        if name.startswith("open"):
            assert _verdict(machine, arch, number, *[0] * at, 0o6777) == 0x7FFF0000, "nothing is made"
    assert _verdict(machine, arch, 437) == 0x50026, "openat2 hides its mode"


def test_an_unknown_processor_has_no_filter() -> None:
    assert seccomp.program("riscv64") == b""
    assert seccomp.refused_calls("riscv64") == {}


def test_old_control_groups_have_a_folder_for_each_controller(tmp_path: Path) -> None:
    for controller in ("memory", "pids"):
        (tmp_path / controller / "me").mkdir(parents=True)
    own = "9:name=systemd:/\n8:pids:/me\n4:memory,x:/me\n3:cpu:/absent\n0::/\n"
    assert cgroup.places(own, tmp_path) == {"pids": tmp_path / "pids/me", "memory": tmp_path / "memory/me"}


def test_new_control_groups_are_used_where_they_are_delegated(tmp_path: Path) -> None:
    (tmp_path / "me").mkdir()
    assert cgroup.places("0::/me\n", tmp_path) == {}
    (tmp_path / "me/cgroup.subtree_control").write_text("cpu memory pids\n")
    assert cgroup.places("0::/me\n", tmp_path) == {"all": tmp_path / "me"}


@pytest.mark.parametrize(
    ("controller", "expected"),
    [
        ("all", {"memory.max": "1000", "memory.swap.max": "0", "pids.max": "5", "cpu.max": "150000 100000"}),
        ("memory", {"memory.limit_in_bytes": "1000", "memory.memsw.limit_in_bytes": "1000"}),
        ("pids", {"pids.max": "5"}),
        ("cpu", {"cpu.cfs_quota_us": "150000"}),
    ],
)
def test_a_group_is_made_with_its_limits(tmp_path: Path, controller: str, expected: dict[str, str]) -> None:
    group = cgroup.make("custody-x", {controller: tmp_path}, memory=1000, processes=5, processors=1.5)
    assert group is not None
    assert {file.name: file.read_text() for file in (tmp_path / "custody-x").iterdir()} == expected
    group.add(12)
    assert (tmp_path / "custody-x/cgroup.procs").read_text() == "12"


def test_a_process_can_enter_by_itself_where_the_interface_is_the_old_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, files in ((old, ("tasks", "cgroup.procs")), (new, ("cgroup.procs",))):
        folder.mkdir()
        for file in files:
            (folder / file).write_text("7\n12\n")
    (entrance,) = cgroup.Group((old,)).entrances()
    os.write(entrance, b"0")
    os.close(entrance)
    assert (old / "tasks").read_text().startswith("0")
    assert cgroup.Group((new,)).entrances() == []
    before = descriptors_below(tmp_path)
    assert cgroup.Group((old, new)).entrances() == [], "all of them, or none"
    assert descriptors_below(tmp_path) == before
    assert cgroup.Group((old, new)).has(12)
    assert not cgroup.Group((old, new)).has(1)


def test_a_group_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    assert cgroup.make("x", {"pids": tmp_path / "absent"}, memory=1, processes=1, processors=None) is None
    assert cgroup.make("x", {}, memory=1, processes=1, processors=None) is None


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 2\n", True),
        ("memory.events", "low 0\noom 1\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True),
        ("other", "", False),
    ],
)
def test_a_group_knows_if_memory_ran_out(tmp_path: Path, file: str, text: str, expected: bool) -> None:
    (tmp_path / file).write_text(text)
    assert cgroup.Group((tmp_path,)).ran_out_of_memory() is expected


def test_a_large_folder_is_counted_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custody.border.sandbox.disk_usage._STEP", 10)
    for number in range(25):
        (tmp_path / str(number)).write_bytes(b"x" * 4096)
    disk = Disk(tmp_path, limit=22 * 4096, keep_free=1)
    assert [disk.too_full(1.0), disk.too_full(1.0), disk.too_full(1.0)] == [False, False, True]


def test_links_are_not_followed_when_a_folder_is_counted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "big").write_bytes(b"x" * 1_000_000)
    (tmp_path / "work/link").symlink_to(tmp_path)
    assert not Disk(tmp_path / "work", limit=500_000, keep_free=1).too_full(1.0)


def test_a_process_is_opened_only_if_it_is_the_one_that_was_meant() -> None:
    this = processes.look(os.getpid())
    assert this is not None
    assert (this.pid, this.parent, this.session) == (os.getpid(), os.getppid(), os.getsid(0))
    descriptor = processes.opened(this)
    assert descriptor is not None
    os.close(descriptor)
    assert processes.opened(replace(this, started=this.started - 1)) is None


@pytest.mark.parametrize("gone", [FileNotFoundError, ProcessLookupError])
def test_a_sandbox_that_gives_up_while_it_is_looked_at_is_no_surprise(
    gone: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """bwrap ends by itself when a folder is swapped while it binds it: its file is opened, and then it is gone."""
    child = subprocess.Popen(["sleep", "60"])
    init = processes.look(child.pid)
    assert init is not None
    ends = [os.pipe() for _ in range(5)]
    out, err, status, door, second = ends
    made = Launched(child, init, os.pidfd_open(child.pid), out[0], err[0], status[0], door[1], second[1], None)

    def read_text(_path: Path) -> str:
        child.kill()
        child.wait()
        raise gone

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", read_text)
        made.release()
    for descriptor in (made.init_fd, *(end for pair in ends for end in pair if end not in (door[1], second[1]))):
        os.close(descriptor)


def test_one_that_gives_up_without_a_word_is_told_of_all_the_same() -> None:
    status, err = os.pipe(), os.pipe()  # the far end of `err` stays open, as if somebody had been left behind
    os.close(status[1])
    child = subprocess.Popen(["true"])
    with pytest.raises(Unavailable, match="could not be made") as told:
        launch._first_process(child, status[0], err[0])
    assert told.value.code == "sandbox.setup"
    for descriptor in (status[0], *err):
        os.close(descriptor)


def test_an_event_for_a_descriptor_of_yesterday_closes_nothing() -> None:
    """A descriptor closed while events are handled may now be somebody else's, who has said nothing yet."""
    guest, other = socket.socketpair()
    guest.setblocking(False)
    with guest, other:
        Deadman.__new__(Deadman)._hear(guest)
        assert guest.fileno() >= 0


def _verdict(machine: str, arch: int, number: int, *arguments: int) -> int:
    """Run the filter as the kernel would."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    place, value = 0, 0
    while True:
        operation, if_true, if_false, constant = code[place]
        place += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("<I", data, constant)
        elif operation == 0x06:
            return int(constant)
        else:
            true = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[operation]
            place += if_true if true else if_false
