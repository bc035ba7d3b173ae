"""The arguments that make bwrap build our sandbox.

Inside, a task sees an empty, read-only root with the host's /usr, a handful of harmless files of /etc, its
own /proc and /dev, memory-backed /tmp and /dev/shm of limited size, and /work. It is user 1000 of its own
user namespace, without capabilities, and can neither regain any nor make further namespaces. Its network is its own
too, always: a loopback, on which the way out listens if it has one (egress/way_out.py).

Everything that could tell about the host or the task (paths, variables, scripts, secrets) goes through
descriptors, not through the command line, which every user of the host can read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from custody.border.sandbox.spec import Spec

UID = 1000
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STARTER = "custody-start"
NEEDED = "0.8.0-2+deb12u1"  # --disable-userns and --size came with 0.8.0, --bind-fd with a mend of it and with 0.10

_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 -- inside the sandbox, each its own
_DEFAULT_ENV = {"PATH": PATH, "HOME": _TMP, "TMPDIR": _TMP, "LANG": "C.UTF-8", "USER": "custody"}
_NAMESPACES = ("user", "pid", "ipc", "uts", "cgroup", "net")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "ssl",
)
_ACCOUNTS = {
    "/etc/passwd": f"custody:x:{UID}:{UID}::/tmp:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
    "/etc/group": f"custody:x:{UID}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/hosts": "127.0.0.1 localhost custody\n::1 localhost\n",
}


def command(spec: Spec) -> tuple[str, ...]:
    """Behind the second door (launch.py): a shell that waits for one line and then becomes the command."""
    wanted = spec.argv or (*spec.shell, "/run/script")
    # Not the other way round: why it could not be started is told, and looked for, on the standard error.
    together = " >&2" if spec.one_pipe else ""
    return ("sh", "-c", f'read -r go && exec "$@" </dev/null{together}', STARTER, *wanted)


def arguments(spec: Spec, sources: Sequence[str | int], give: Callable[[bytes], int]) -> list[str]:
    """What goes through `--args`. `sources` are the work folder and what is mounted, `give` makes a descriptor."""
    made = ["--die-with-parent", "--new-session", "--disable-userns", "--hostname", "custody"]
    made += [f"--unshare-{namespace}" for namespace in _NAMESPACES]
    made += ["--uid", str(UID), "--gid", str(UID)]
    made += system()
    made += _file(_ACCOUNTS, "0444", give)
    made += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    for place in (_SHM, _TMP):
        made += ["--perms", "1777", "--size", str(spec.limits.tmp), "--tmpfs", place]
    made += _bound("--bind", sources[0], "/work")
    for source, mount in zip(sources[1:], spec.mounts, strict=True):
        made += _bound("--ro-bind", source, mount.at)
    if spec.script:
        made += _file({"/run/script": spec.script}, "0444", give)
    secrets = {f"/run/secrets/{name}": value for name, value in spec.secrets.items()}
    made += _file(secrets, "0400", give)
    made += ["--remount-ro", "/", "--chdir", "/work"]
    return made + _environment(spec.variables)


def _bound(option: str, source: str | int, at: str) -> list[str]:
    """A place on our own stage, or a descriptor: bwrap ends if what it has bound is not what that one holds."""
    return [option, source, at] if isinstance(source, str) else [f"{option}-fd", str(source), at]


def system() -> list[str]:
    made = ["--ro-bind", "/usr", "/usr"]
    for name in _MERGED:  # links into /usr on a merged system, folders of their own on an older one
        place = f"/{name}"
        if os.path.islink(place):
            made += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            made += ["--ro-bind", place, place]
    for name in _ETC:
        made += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return made


def _file(files: Mapping[str, str | bytes], mode: str, give: Callable[[bytes], int]) -> list[str]:
    made: list[str] = []
    for place, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        made += ["--perms", mode, "--ro-bind-data", str(give(data)), place]
    return made


def _environment(env: Mapping[str, str]) -> list[str]:
    made = ["--clearenv"]
    for name, value in (_DEFAULT_ENV | dict(env)).items():
        made += ["--setenv", name, value]
    return made


def joined(arguments: Sequence[str]) -> bytes:
    """As `--args` reads them."""
    return b"".join(argument.encode("utf-8", "surrogateescape") + b"\0" for argument in arguments)
