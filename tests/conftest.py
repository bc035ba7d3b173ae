"""The servers as fixtures: started when the first test asks for one, ended with the test run.

A service that is not installed skips the tests that ask for it, and fails them in CI (`rig.need`). Where several processes
share the tests (`-n 3`), each has servers of its own, and takes one file after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from prove import order
from rig.alone import turn
from rig.need import need

pytest_plugins = ["prove.plugin", "rig.commands"]

# How long an example takes says something about the machine, nothing about the promise.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from rig.apache import Apache
    from rig.azurite import Azurite
    from rig.mail import Mailbox
    from rig.outside import Outside
    from rig.podman import Podman
    from rig.postgres import Postgres
    from rig.svn import Repository, Subversion
    from rig.temporal import Temporal
    from rig.zookeeper import ZooKeeper

HEAVIEST = (
    "faults/test_kills.py",
    "web/test_browser.py",
    "kernel/stores/test_postgres_batches.py",
    "ingest/test_two_hundred.py",
    "border/test_fuzz.py",
    "docs/test_transcripts.py",
    "workflows/test_rootless.py",
    "channels/test_temporal.py",
    "channels/test_kills.py",
    "ingest/test_end_to_end.py",
    "channels/test_crashes.py",
    "workflows/test_story.py",
    "faults/test_crashes_of_deposits.py",
    "workflows/test_commits.py",
    "stateful/test_comparison.py",
    "robots/test_confined.py",
    "ingest/test_kills.py",
    "kernel/stores/test_strays.py",
    "robots/test_locks.py",
    "robots/test_robots.py",
    "kernel/stores/test_lines.py",
    "faults/test_crash_points.py",
)
"""Begun first, so that no process is left with a long file when the others have ended."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--prove"):
        items.sort(key=order.place)
        return
    place = {Path(__file__).parent / name: number for number, name in enumerate(HEAVIEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture(autouse=True)
def own_turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test that is marked `alone` runs while the processes that share the run hold still."""
    if not hasattr(request.config, "workerinput"):
        yield
        return
    with turn(tmp_path_factory.getbasetemp().parent, alone=request.node.get_closest_marker("alone") is not None):
        yield


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    from rig.outside import Outside

    world = Outside()
    try:
        world.start()
        yield world
    finally:
        world.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A private PostgreSQL, durable as in production; a test that stops it starts it again."""
    need("postgresql")
    from rig.postgres import Postgres

    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """An empty database for this test alone."""
    url = postgres.fresh_database()
    yield url
    if not postgres.program.running:  # a crash test that failed half-way must not fail its neighbours
        postgres.start()
    postgres.give_back(url)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """A private ZooKeeper; a test that stops it starts it again."""
    need("zookeeper")
    from rig.zookeeper import ZooKeeper

    server = ZooKeeper()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def zookeeper_hosts(zookeeper: ZooKeeper) -> str:
    """The address of an empty tree for this test alone."""
    return zookeeper.fresh_root()


@pytest.fixture(scope="session")
def svn() -> Iterator[Subversion]:
    """A private svnserve."""
    need("subversion")
    from rig.svn import Subversion

    server = Subversion()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def repository(svn: Subversion) -> Repository:
    """An empty Subversion repository for this test alone."""
    return svn.fresh_repository()


@pytest.fixture(scope="session")
def apache() -> Iterator[Apache]:
    """A private Apache with mod_dav_svn."""
    need("mod-dav-svn")
    from rig.apache import Apache

    server = Apache()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def smtp() -> Iterator[Mailbox]:
    """An SMTP server that keeps the letters it gets."""
    from rig.mail import Mailbox

    mailbox = Mailbox()
    mailbox.start()
    yield mailbox
    mailbox.stop()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """A private stand-in for Azure's Blob and Queue storage."""
    need("azurite")
    from rig.azurite import Azurite

    server = Azurite()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def temporal() -> Iterator[Temporal]:
    """A private Temporal server; a test that stops it starts it again."""
    need("temporal")
    from rig.temporal import Temporal

    server = Temporal()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """A private podman store with one small image; a machine whose kernel lets no container run says what it said."""
    need("podman")
    from rig.podman import Podman
    from rig.program import CannotStart

    store = Podman()
    try:
        store.start()
    except CannotStart as error:
        store.remove()
        pytest.skip(f"podman is installed but cannot run a container on this machine: {error}")
    yield store
    store.remove()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium. Per module, as playwright keeps an event loop running in this thread."""
    need("chromium")
    from playwright.sync_api import sync_playwright

    from rig.browser import launch_options

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(**launch_options())
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without cookies or cache of earlier tests."""
    context = browser.new_context()
    yield context.new_page()
    context.close()
