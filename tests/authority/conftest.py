"""Each promise about authority holds on both databases, and over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from custody.installation import machines
from custody.kernel.access.tokens import Tokens
from custody.kernel.stores import Store, open_store
from custody.web.app import Options, build_app
from custody.web.server import Server


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'custody.db'}" if sqlite else request.getfixturevalue("postgres_url")
    with open_store(url) as opened:
        yield opened


@dataclass
class Door:
    """A server on loopback, and those who knock."""

    store: Store
    url: str
    clients: list[httpx2.Client] = field(default_factory=list)

    def caller(self, name: str, *roles: str, collections: tuple[str, ...] = ("*",)) -> httpx2.Client:
        token, secret = Tokens(self.store).create(name, roles, collections)
        client = httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {secret}"}, timeout=30)
        client.token = token  # type: ignore[attr-defined]
        self.clients.append(client)
        return client


@pytest.fixture
def door(store: Store) -> Iterator[Door]:
    server = Server(build_app(store, Options(b"a secret of thirty-two bytes, no less", machines=machines()))).start()
    made = Door(store, server.url)
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        server.stop()


def refused(answer: httpx2.Response, code: str) -> dict[str, Any]:
    """The problem that was told; it must be this one."""
    told: dict[str, Any] = answer.json()
    assert 400 <= answer.status_code < 500, answer.text
    assert told.get("code") == code, answer.text
    return told
