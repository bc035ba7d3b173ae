"""Every role, every kind, every collection, every way in: tried over HTTP on a served archive, and written down."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from authority.rules import Somebody, word
from custody.cli.nouns.job import submit as submit_by_command
from custody.errors import BadInput
from custody.ingest.states import MACHINES
from custody.kernel.access.rights import ROLES
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.stores import Store, open_store
from custody.web.access.rate_limits import Rate
from custody.web.app import Options, build_app
from custody.web.operations.makers import MAKERS
from custody.web.server import Server

OPEN, UNKNOWN = "parcel", "nobody/knows"
SORTS = {OPEN: "open", UNKNOWN: "unknown"}
ABSENT = 987_654_321
COLLECTIONS = {"own": "maps", "foreign": "papers", "none": ""}
WAYS = ("submit", "schedule", "bulk", "command", "need", "key", "read", "list", "act")
TABLES = Machines(MACHINES)
SAYS = {
    # of the ways that make something: what an answer means
    (201, ""): "made",
    (200, ""): "made",
    (401, "token.missing"): "who are you",
    (403, "role.missing"): "no right",
    (400, "job.kind"): "closed",
    (400, "job.collection"): "not there",
    (400, "job.needs"): "not there",
    (400, "bulk.collection"): "not there",
    (404, "job.unknown"): "not there",
    (422, "key.conflict"): "taken",
}


def kinds() -> list[str]:
    """One of each entry; of a prefix, one below it."""
    return [
        OPEN,
        UNKNOWN,
        *sorted(f"{each.kind}fixity" if each.kind.endswith("/") else each.kind for each in MAKERS.entries),
    ]


def callers() -> list[Somebody]:
    everywhere = [Somebody(role, True) for role in ROLES if role != "hook"]
    within = [Somebody(role) for role in ROLES if role != "metrics"]
    return [Somebody("nobody"), *within, *everywhere]


@dataclass(frozen=True)
class Cell:
    who: Somebody
    way: str
    kind: str
    where: str

    @property
    def expected(self) -> str:
        return word(self.who, self.way, SORTS.get(self.kind, "application"), self.where)


def cells(of_kinds: Sequence[str] = ()) -> Iterator[Cell]:
    for kind in of_kinds or kinds():
        for where in COLLECTIONS:
            for way in WAYS:
                askers = [Somebody("owner", True)] if way == "command" else callers()
                yield from (Cell(who, way, kind, where) for who in askers)


@dataclass
class Served:
    """A served archive in which somebody else has a job of each kind in each collection."""

    url: str
    store: Store
    server: Server
    wire: http.client.HTTPConnection
    secrets: dict[Somebody, str] = field(default_factory=dict)
    there: dict[tuple[str, str], int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)  # answers that name what is foreign

    def ask(self, who: Somebody, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": "application/json"}
        if secret := self.secrets.get(who):
            headers["Authorization"] = f"Bearer {secret}"
        self.wire.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.wire.getresponse()
        return answer.status, json.loads(answer.read())

    def try_out(self, cell: Cell) -> str:
        if cell.way == "command":
            return self._command(cell)
        number = self.there[cell.kind, cell.where]
        status, answer = self.ask(cell.who, *self._asked(cell, number))
        found = SAYS.get((status, answer.get("code", "")), f"{status} {answer.get('code', '')}")
        if found == "made":
            return self._word(cell, answer, number)
        if found == "taken" and ("job" in answer or "job" in answer["detail"]):
            self.told.append(f"{cell}: {answer}")
        if found == "not there" and cell.way in ("need", "read", "act"):
            self._must_look_absent(cell, number, (status, answer))
        return found

    def _asked(self, cell: Cell, number: int) -> tuple[str, str, object]:
        collection = COLLECTIONS[cell.where]
        job = {"kind": cell.kind, "collection": collection}
        asked: dict[str, tuple[str, str, object]] = {
            "submit": ("POST", "/api/v1/jobs", job),
            "key": ("POST", "/api/v1/jobs", job | {"key": f"their-{cell.where}", "payload": {"n": 1}}),
            "need": ("POST", "/api/v1/jobs", {"kind": OPEN, "collection": "maps", "needs": [number]}),
            "schedule": ("PUT", "/api/v1/schedules/tried", {"spec": "@yearly", "kind": cell.kind}),
            "bulk": ("POST", "/api/v1/bulk", {"action": "cancel", "filter": job}),
            "read": ("GET", f"/api/v1/jobs/{number}", None),
            "list": ("GET", f"/api/v1/jobs?kind={cell.kind}&collection={collection}&limit=500", None),
            "act": ("POST", f"/api/v1/jobs/{number}/prioritise", {"priority": 40}),
        }
        return asked[cell.way]

    def _must_look_absent(self, cell: Cell, number: int, got: tuple[int, dict[str, Any]]) -> None:
        """What is foreign is answered like what is not there, but for the number that was asked for."""
        absent = self.ask(cell.who, *self._asked(cell, ABSENT))
        seen, missing = ({**answer, "request": ""} for _, answer in (got, absent))
        if got[0] != absent[0] or str(missing).replace(str(ABSENT), "N") != re.sub(rf"\b{number}\b", "N", str(seen)):
            self.told.append(f"{cell}: {seen} where an absent one gives {missing}")

    def _word(self, cell: Cell, answer: Mapping[str, Any], number: int) -> str:
        if cell.way == "list":
            return "shown" if any(job["id"] == number for job in answer["jobs"]) else "not there"
        if cell.way == "key":
            return "the same" if answer["job"] == number else "another"
        return {"read": "shown", "act": "done", "bulk": "may"}.get(cell.way, "made")

    def _command(self, cell: Cell) -> str:
        try:
            submit_by_command(cell.kind, store=self.url, json=True)
        except BadInput as error:
            return SAYS.get((400, error.code), error.code)
        return "made"


@contextmanager
def served(url: str) -> Iterator[Served]:
    with open_store(url) as store:
        options = Options(
            b"0" * 32, machines=TABLES, rate=Rate(1e6, 10**6), unknown_rate=Rate(1e6, 10**6), open_kinds=(OPEN,)
        )
        server = Server(build_app(store, options)).start()
        made = Served(url, store, server, http.client.HTTPConnection("127.0.0.1", server.port, timeout=60))
        try:
            fill(made)
            yield made
        finally:
            made.wire.close()
            server.stop()


def fill(served: Served) -> None:
    tokens = Tokens(served.store)
    for who in callers():
        if who.role != "nobody":
            where = ["*"] if who.everywhere else ["maps"]
            archives = ["maps"] if who.role == "hook" else []
            served.secrets[who] = tokens.create("somebody", [who.role], where, archives=archives)[1]
    for kind in kinds():
        for where, collection in COLLECTIONS.items():
            job = NewJob(kind, {"n": 1}, key=f"their-{where}", machine=TABLES.of(kind), collection=collection)
            served.there[kind, where] = served.store.queue.submit_one(job, system("another")).id


def differences(served: Served, wanted: Iterable[Cell]) -> list[str]:
    """Where the program does other than the rules say."""
    return [
        f"{cell.who.role}{' everywhere' if cell.who.everywhere else ''}, {cell.way} {cell.kind} ({cell.where}): "
        f"{got}, not {cell.expected}"
        for cell in wanted
        if (got := served.try_out(cell)) != cell.expected
    ]
