"""How the dashboard tests start Debian's Chromium, so that it talks to nobody but the test's own server."""

from __future__ import annotations

import os
from typing import Any

from rig.install import chromium_program
from rig.program import CannotStart

QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # A proxy that is not there, for all but loopback. Refusing names instead (--host-resolver-rules) is not
    # enough: after a name that was not found, Chromium asks public name servers whether the network is down.
    "--proxy-server=http://127.0.0.1:1",
)


def launch_options() -> dict[str, Any]:
    """For playwright's `chromium.launch(**launch_options())`."""
    path = chromium_program()
    if path is None:
        raise CannotStart("Chromium is not installed")
    as_root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    return {"executable_path": path, "headless": True, "args": [*QUIET, *as_root]}
