"""A private PgBouncer before a private PostgreSQL: a few server connections, handed from client to client."""

from __future__ import annotations

import shutil
import signal
from urllib.parse import urlsplit

import psycopg

from rig.install import program
from rig.postgres import Postgres
from rig.program import LOOPBACK, CannotStart, Program, free_port, room, unprivileged_user

SETTINGS = """
[databases]
* = host={host} port={server}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = {mode}
max_client_conn = {clients}
query_wait_timeout = {waits}
default_pool_size = {size}
server_login_retry = 0.2
server_round_robin = {round_robin}
ignore_startup_parameters = {drops}
"""


class PgBouncer:
    """`mode` is transaction, session or statement. With `round_robin` every transaction meets another session;
    `drops` names what clients bring and it leaves out instead of refusing it. It takes so many
    clients, and lets each wait so many seconds for a session."""

    def __init__(
        self,
        server: Postgres,
        mode: str = "transaction",
        *,
        size: int = 20,
        round_robin: bool = False,
        drops: str = "",
        clients: int = 400,
        waits: int = 120,
    ) -> None:
        self.user = unprivileged_user()
        self.folder = room("pgbouncer", self.user)
        self.port = free_port()
        self.server = server
        self.program = Program("pgbouncer", self.folder / "log", user=self.user)
        users = self.folder / "users"
        users.write_text(f'"custody" "{server.password}"\n')
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(
                host=LOOPBACK,
                server=server.port,
                port=self.port,
                users=users,
                mode=mode,
                size=size,
                round_robin=int(round_robin),
                drops=drops,
                clients=clients,
                waits=waits,
            )
        )
        for file in (users, settings):
            file.chmod(0o600)
            if self.user:
                shutil.chown(file, self.user)

    def url(self, direct: str) -> str:
        """The same database, through the pooler."""
        parts = urlsplit(direct)
        return parts._replace(netloc=parts.netloc.replace(f":{self.server.port}", f":{self.port}")).geturl()

    def start(self) -> None:
        where = program("pgbouncer")
        if where is None:
            raise CannotStart("PgBouncer is not installed")
        self.program.run([where, self.folder / "pgbouncer.ini"], self._ready, cwd=self.folder)

    def remove(self) -> None:
        self.program.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> None:
        psycopg.connect(self.url(self.server.url()), connect_timeout=2, autocommit=True).close()
