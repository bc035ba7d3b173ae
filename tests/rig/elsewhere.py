"""A public host for proxies whose servers are in the test: its name has a public address, and calls to it come here.

The machine's own addresses are closed to every sandbox, so a server on the loopback has to be somebody else's. Only the
lookup and the last wire are the test's; whoever is judged is judged by what the proxy always judges by.
"""

from __future__ import annotations

from custody.border.sandbox import fork_server

HOST = "witness.example.org"
_BOOT = f"""
import sys; sys.path.append(sys.argv[1])
from custody.border.egress import proxy
names, dial = {{"{HOST}": ["93.184.216.34"], "inside.example.org": ["127.0.0.1"]}}, proxy.dial
proxy.Proxy.__init__.__kwdefaults__.update(
    resolve=lambda host, port: names.get(host, []), dial=lambda address, port, seconds: dial("127.0.0.1", port, seconds)
)
from custody.border.sandbox.fork_server import main; main()
"""


def install() -> None:
    """For a whole process; in a test, `monkeypatch.setattr(*PATCH)`."""
    fork_server._BOOT = _BOOT


PATCH = (fork_server, "_BOOT", _BOOT)
