"""Calls the command line tools of version control systems.

With a clean environment (no configuration of whoever runs the worker, no prompts, one language), a time
limit, and errors in our own words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from custody.model.errors import Unavailable

_PATH = "/usr/local/bin:/usr/bin:/bin"
_PACKAGES = {"svn": "subversion", "svnlook": "subversion", "git": "git"}


class Failed(Exception):
    """The tool ran and said no."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said


def call(
    argv: Sequence[str], *, seconds: float = 60, given: bytes = b"", env: Mapping[str, str] | None = None
) -> bytes:
    """What the tool printed. `Failed` with what it said if it did not end well."""
    try:
        done = subprocess.run(
            argv,
            input=given,
            capture_output=True,
            timeout=seconds,
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(env or {})},
            cwd="/",
        )
    except FileNotFoundError:
        hint = f"apt-get install {_PACKAGES.get(argv[0], argv[0])}"
        raise Unavailable(f"{argv[0]} is not installed", code="archive.tool", hint=hint) from None
    except subprocess.TimeoutExpired:
        message = f"{argv[0]} gave no answer within {seconds:g} seconds"
        raise Unavailable(message, code="archive.silent") from None
    if done.returncode:
        raise Failed(done.returncode, done.stderr.decode(errors="replace").strip())
    return done.stdout
