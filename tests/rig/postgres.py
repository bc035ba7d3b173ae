"""A private PostgreSQL cluster: Debian's binaries, our data, a free port, a password nobody else knows."""

from __future__ import annotations

import itertools
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from rig.install import postgres_folder
from rig.program import LOOPBACK, CannotStart, Program, as_user, free_port, room, tail, unprivileged_user

STOP = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_line_prefix": "%m [%p] %d ",
    "autovacuum_naptime": "5s",  # a queue table left unswept for the usual minute would slow later tests
}
# For tests that crash no machine: a killed server still recovers everything, a power cut would tear it.
FAST = {"fsync": "off", "full_page_writes": "off"}


# Cheaper than a new database (hundreds of files), and to a test the same.
EMPTY = """
set lock_timeout = '60s';
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid();
do $$
declare name text;
begin
    for name in select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
    loop execute format('drop schema %I cascade', name); end loop;
    execute format('alter database %I reset all', current_database());
end $$;
create schema public authorization pg_database_owner;
grant usage on schema public to public;
"""


class Postgres:
    """One cluster. `stop("immediate")` is a crash; `start()` recovers the same data on the same port."""

    def __init__(self, *, fast: bool = False) -> None:
        self.user = unprivileged_user()
        self.folder = room("postgres", self.user)
        self.port = free_port()
        self.password = secrets.token_hex(12)
        self.settings = SETTINGS | {"port": str(self.port)} | (FAST if fast else {})
        self.program = Program("postgres", self.folder / "log", user=self.user, dies_by=STOP["immediate"])
        self._numbers = itertools.count(1)
        self._spare: list[str] = []
        self._init()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://custody:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> None:
        settings = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        self.program.run([self._tool("postgres"), "-D", self.data, *settings], self._ready, cwd=self.folder)

    def stop(self, mode: str = "fast") -> None:
        self.program.end(STOP[mode])

    def fresh_database(self, template: str = "") -> str:
        """The address of an empty database; or of a copy of `template`, which nobody may be using."""
        if self._spare and not template:
            return self._spare.pop()
        name = f"test_{next(self._numbers)}"
        statement = sql.SQL("create database {} template {}")
        self._tell(statement.format(sql.Identifier(name), sql.Identifier(template or "template0")))
        return self.url(name)

    def give_back(self, url: str) -> None:
        """The test is over: disconnect whoever is left, empty the database and keep it for the next test."""
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(EMPTY)
            self._spare.append(url)
        except psycopg.Error:
            name = sql.Identifier(url.rpartition("/")[2])
            self._tell(sql.SQL("drop database if exists {} with (force)").format(name))

    def standby(self, name: str = "standby") -> Postgres:
        """A copy of it that follows it, known to it by that name; started, and promoted by `promote`."""
        copy = Postgres.__new__(Postgres)
        copy.__dict__.update(self.__dict__)
        copy.folder = room("postgres", self.user)
        copy.port = free_port()
        copy.settings = self.settings | {"port": str(copy.port)}
        copy.program = Program("standby", copy.folder / "log", user=self.user, dies_by=STOP["immediate"])
        copy._numbers, copy._spare = itertools.count(1_000_000), []
        source = f"{self.url().replace('/postgres', '')}/postgres?application_name={name}"
        words: list[str | Path] = [self._tool("pg_basebackup"), "-D", copy.data, "-R", "-c", "fast", "--no-sync"]
        self._do([*words, "-d", source], copy.folder / "log")
        copy.start()
        return copy

    def promote(self) -> None:
        """Ask for it, and then look until it is so: a statement that waits for it may be cancelled by what is replayed."""
        end = time.monotonic() + 60
        asked = False
        while time.monotonic() < end:
            with (
                suppress(psycopg.errors.SerializationFailure),
                psycopg.connect(self.url(), autocommit=True) as connection,
            ):
                if not asked:
                    connection.execute("select pg_promote(false)")
                    asked = True
                if connection.execute("select not pg_is_in_recovery()").fetchone() == (True,):
                    return
            time.sleep(0.05)
        raise TimeoutError("the standby was not promoted")

    def set(self, **settings: str) -> None:
        """Change settings of a server that runs."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            for name, value in settings.items():
                connection.execute(sql.SQL("alter system set {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            connection.execute("select pg_reload_conf()")

    def keep_a_copy(self) -> Path:
        """A cold copy of its disk, as a snapshot of a volume is one."""
        self.stop()
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", self.data, copy], check=True)
        self.start()
        return copy

    def put_back(self, copy: Path) -> None:
        """Its disk is what it was: the same system, the same timeline, an earlier history."""
        self.stop()
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", copy, self.data], check=True)
        self.start()

    def dump(self, database: str) -> Path:
        file = self.folder / f"{database}.dump"
        self._tool_on(database, "pg_dump", "-Fc", "-f", file)
        return file

    def restore(self, database: str, file: Path, *words: str) -> None:
        self._tool_on(database, "pg_restore", *words, file)

    def drop_and_create(self, database: str) -> None:
        name = sql.Identifier(database)
        self._tell(sql.SQL("drop database {} with (force)").format(name))
        self._tell(sql.SQL("create database {} template template0").format(name))

    def _tool_on(self, database: str, tool: str, *words: str | Path) -> None:
        self._do([self._tool(tool), "-d", self.url(database), *words], self.folder / "tool.log")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _tool(name: str) -> Path:
        folder = postgres_folder()
        if folder is None:
            raise CannotStart(f"PostgreSQL is not installed: no {name}")
        return folder / name

    def _tell(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _ready(self) -> None:
        psycopg.connect(self.url(), connect_timeout=2).close()

    def _init(self) -> None:
        password = self.folder / "password"
        password.write_text(self.password)
        if self.user:
            shutil.chown(password, self.user)
        password.chmod(0o600)
        words: list[str | Path] = [self._tool("initdb"), "-D", self.data, "-U", "custody"]
        words += ["-E", "UTF8", "--locale=C", "-A", "scram-sha-256", "--pwfile", password, "--no-sync"]
        self._do(words, self.folder / "log")

    def _do(self, words: list[str | Path], log: Path) -> None:
        with log.open("wb") as output:
            done = subprocess.run(
                [*as_user(self.user), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
            )
        if done.returncode:
            raise CannotStart(f"{Path(words[0]).name} failed:\n{tail(log)}")
