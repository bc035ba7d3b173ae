"""What is asked of a sandbox and what it answers: values only, checked when they are made.

`sandbox.py` starts what a `Spec` describes, `bwrap.py` turns it into arguments, and `watchdog.py` reports an
`End`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from custody.border.egress.allowance import VARIABLES, Egress, egress_from
from custody.border.roots import Root, Source
from custody.border.sandbox.masking import SHORTEST
from custody.border.sandbox.output import SMALLEST_LIMIT
from custody.errors import BadInput

MIB = 1024 * 1024

# Why a sandbox ended. Only the first three are the command's own doing.
EXITED = "exited"
NOT_STARTED = "not-started"  # no such command, or the sandbox could not be set up; `detail` says what
MEMORY = "memory"
DISK = "disk"
TIMEOUT = "timeout"
STOPPED = "stopped"  # somebody asked for it
LEASE = "lease"  # nobody confirmed in time that the work is still wanted
LOST = "lost"  # its deadman died, and the sandbox with it; the code is unknown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_MOUNT_PLACES = ("/inputs", "/run")
_OURS = ("/run/secrets", "/run/script")


@dataclass(frozen=True, slots=True)
class Limits:
    memory: int = 2048 * MIB  # all processes together where control groups work, else each
    processes: int = 256
    processors: float | None = None  # 1.5 = one and a half; needs control groups
    cpu_seconds: int | None = None  # of each process
    open_files: int = 1024
    file_size: int = 4096 * MIB
    tmp: int = 256 * MIB  # /tmp and /dev/shm, in memory
    disk: int | None = None  # the work folder together
    keep_free: int = 64 * MIB  # on the disk of the work folder; below it the sandbox is killed

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not 0 < value < 2**62):
                _bad(f"limit {name} must be a positive number", "limits", value=value)


@dataclass(frozen=True, slots=True)
class Mount:
    """A file, folder or socket below a root, seen read-only inside (a socket can still be talked to)."""

    source: Source
    at: str

    def __post_init__(self) -> None:
        path = PurePosixPath(self.at)
        inside = any(place in map(str, path.parents) for place in _MOUNT_PLACES)
        if str(path) != self.at or ".." in path.parts or "\0" in self.at or not inside:
            _bad(f"{self.at!r} is not a place for a mount", "mount", hint="use /inputs/NAME or /run/NAME")
        if any(self.at == ours or self.at.startswith(ours + "/") for ours in _OURS):
            _bad(f"{self.at!r} is used by the sandbox itself", "mount")


@dataclass(frozen=True, slots=True)
class Engine:
    """A program that runs images, the options it always gets, and its environment."""

    program: str
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spec:
    """One command (`argv`) or script, the folder it works in, and what it may have."""

    name: str  # unique on this machine, e.g. my-project.12.commit.index.1
    work: Path  # becomes /work, the only place that can be written and that stays
    argv: tuple[str, ...] = ()
    script: str = ""
    shell: tuple[str, ...] = ("sh", "-eu")
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # become /run/secrets/NAME
    network: Egress | None = None  # the way out; in any case it has a network of its own
    lease: float = 30.0  # seconds until the first `confirm` is due
    timeout: float | None = None
    grace: float = 10.0  # between TERM and KILL
    limits: Limits = field(default_factory=Limits)
    output_limit: int = 64 * MIB
    one_pipe: bool = False  # for both streams: what is printed is kept in the order of writing, as a terminal has it
    image: str = ""  # run in this image, by `engine`, instead of with this machine's own programs
    engine: Engine | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if bool(self.argv) == bool(self.script):
            _bad("give either a command or a script", "command")
        if self.argv and (not self.argv[0] or self.argv[0].startswith("-")):
            _bad(f"{self.argv[0]!r} is not a command", "command")
        if bool(self.image) != bool(self.engine):
            _bad("an image needs an engine", "image")
        if not self.shell:
            _bad("a script needs a shell", "shell")
        if any("\0" in text for text in (*self.argv, *self.shell, *self.env.values(), self.script)):
            _bad("a command, script or variable cannot contain a NUL", "command")
        if wrong := [name for name in self.env if not _VARIABLE.match(name)]:
            _bad(f"{wrong[0]!r} is not a name for a variable", "env")
        if wrong := [name for name, value in self.secrets.items() if not _usable(name, value)]:
            hint = f"at least {SHORTEST} bytes, or it cannot be masked"
            _bad(f"secret {wrong[0]!r} needs a plain name and a value", "secrets", hint=hint)
        if not all(0 <= seconds < 1e9 for seconds in (self.lease, self.timeout or 0, self.grace)):
            _bad("lease, timeout and grace are seconds", "time")
        if self.output_limit < SMALLEST_LIMIT:
            _bad(f"the output limit must be at least {SMALLEST_LIMIT} bytes", "output")

    @property
    def variables(self) -> Mapping[str, str]:
        """What it finds in its environment: its own win over ours."""
        return {**(VARIABLES if self.network else {}), **self.env}

    def described(self) -> dict[str, Any]:
        """For the state folder: everything but the secrets and the script."""
        command = list(self.argv) if self.argv else [*self.shell, "/run/script"]
        told: dict[str, Any] = {"name": self.name, "work": str(self.work), "command": command, "grace": self.grace}
        return told | ({"image": self.image, "engine": asdict(self.engine)} if self.engine else {})


def _usable(name: str, value: bytes) -> bool:
    return bool(_NAME.match(name)) and len(value.strip()) >= SHORTEST


def check_name(name: str) -> None:
    if not _NAME.match(name):
        _bad(f"{name!r} is not a name for a sandbox", "name", hint="letters, digits, '.', '_', '-'; up to 128")


@dataclass(frozen=True, slots=True)
class End:
    """How a sandbox ended. When one exists, nothing of the sandbox is alive."""

    reason: str
    code: int | None = None  # as a shell would say it: 128 + n for a command killed by signal n
    seconds: float = 0.0
    output_bytes: int = 0
    dropped_bytes: int = 0
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.reason == EXITED and self.code == 0


def encode_spec(spec: Spec) -> bytes:
    """For the pipe to the deadman; the only place where secrets are written down, and it is not a file."""
    fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    fields |= {
        "work": str(spec.work),
        "env": dict(spec.env),
        "mounts": [_told(mount) for mount in spec.mounts],
        "secrets": {name: base64.b64encode(value).decode() for name, value in spec.secrets.items()},
        "limits": {name: getattr(spec.limits, name) for name in spec.limits.__dataclass_fields__},
        "engine": asdict(spec.engine) if spec.engine else None,
        "network": spec.network.as_dict() if spec.network else None,
    }
    return json.dumps(fields).encode()


def decode_spec(data: bytes) -> Spec:
    fields = json.loads(data)
    fields |= {
        "work": Path(fields["work"]),
        "argv": tuple(fields["argv"]),
        "shell": tuple(fields["shell"]),
        "mounts": tuple(_mount(*told) for told in fields["mounts"]),
        "secrets": {name: base64.b64decode(value) for name, value in fields["secrets"].items()},
        "limits": Limits(**fields["limits"]),
        "engine": engine_from(fields["engine"]) if fields["engine"] else None,
        "network": egress_from(fields["network"]) if fields["network"] else None,
    }
    return Spec(**fields)


def _told(mount: Mount) -> tuple[str, str, bool, str, str]:
    root = mount.source.root
    return root.name, str(root.path), root.across, mount.source.relative, mount.at


def _mount(name: str, path: str, across: bool, relative: str, at: str) -> Mount:
    return Mount(Source(Root(name, Path(path), across), relative), at)


def engine_from(told: Mapping[str, Any]) -> Engine:
    return Engine(told["program"], tuple(told["options"]), told["env"])


def _bad(message: str, what: str, *, hint: str = "", **facts: Any) -> None:
    raise BadInput(message, code=f"sandbox.{what}", where="sandbox", hint=hint, **facts)
