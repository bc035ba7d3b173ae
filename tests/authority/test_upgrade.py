"""A store of before the names, opened by this version: nothing acknowledged is lost, nobody gets rights, all is told."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from json import loads
from pathlib import Path
from typing import Any

import httpx2
import pytest

from custody.cli.composition import machines
from custody.cli.doctor.finding import Finding
from custody.cli.doctor.ownership import whose_findings
from custody.errors import BadInput, StateConflict
from custody.ingest.states import BATCH, BATCH_KIND, JOB, JOB_KIND
from custody.kernel.access.granting import Token
from custody.kernel.access.rights import ROLES
from custody.kernel.access.secret import hashed, new_secret
from custody.kernel.access.tokens import Tokens
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.judge import FORGED
from custody.kernel.engine.kinds import Kind
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.outcome import Passed
from custody.kernel.model.schedule import Schedule
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rows import event_text
from custody.kernel.stores.rules.submit import first_detail
from custody.kernel.stores.sql import migrations
from custody.web.app import Options, build_app
from custody.web.operations import bulk
from custody.web.operations.makers import MAKERS
from custody.web.operations.reasons import why
from custody.web.operations.setters import Setters
from custody.web.server import Server
from custody.workflows.makers import RUN_KIND
from kernel.stores.acts import execute
from kernel.stores.clock import HandClock
from rig.commands import Run

BEFORE = 14
"""The last schema that knew no names."""
ADA = Acting("cli:1000/ada", "ada")


class Old:
    """Writes as a program of then did."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _run(self, sql: str) -> list[Any]:
        return list(self._store.db.write(lambda tx: execute(tx, sql.replace(":now", str(tx.now)))))

    def token(self, name: str, roles: str, collections: str = "*") -> str:
        secret = new_secret()
        self._run(
            "insert into token (hash, name, roles, collections, created, expires) values "
            f"('{hashed(secret)}', '{name}', '{roles}', '{collections}', :now, :now + 8000000000000)"
        )
        return secret

    def job(self, kind: str, agent: str, key: str = "", payload: str = "{}", collection: str = "") -> int:
        told = event_text(first_detail(NewJob(kind)))
        named = f"'{key}'" if key else "null"
        ((job,),) = self._run(
            "insert into job (kind, key, state, runnable, lane, place, collection, priority, unmet, payload, facts, "
            f"token, seq, move, created, changed) values ('{kind}', {named}, 'queued', 1, '', '', '{collection}', 50, "
            f"0, '{payload}', '{{}}', 1, 1, 'old', :now, :now) returning id"
        )
        self._run(
            "insert into event (subject, seq, type, outcome, agent, at, detail, token, move) "
            f"values ('job/{job}', 1, 'submitted', 'none', '{agent}', :now, '{told}', 1, 'old')"
        )
        return int(job)

    def schedule(self, name: str, kind: str, payload: str = "{}") -> None:
        self._run(
            "insert into schedule (name, spec, zone, kind, payload, lane, overlap, missed, last_slot, next_slot) values "
            f"('{name}', 'every 1h', 'UTC', '{kind}', '{payload}', '', 'allow', 'once', 0, :now + 3600000000)"
        )


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["sqlite", "postgres"])
def upgraded(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Old], Any]], Store]]:
    """A store that an old program wrote to, opened by this one."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'custody.db'}" if sqlite else request.getfixturevalue("postgres_url")
    opened: list[Store] = []

    def open_it(fill: Callable[[Old], Any]) -> Store:
        with monkeypatch.context() as older:
            known = migrations.migrations
            older.setattr(migrations, "migrations", lambda dialect: known(dialect)[:BEFORE])
            with open_store(url, clock) as store:
                fill(Old(store))
        clock.advance(seconds=1)
        opened.append(open_store(url, clock))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def told(store: Store) -> list[Finding]:
    return list(whose_findings(store))


def job_of(store: Store, kind: str) -> Job:
    (found,) = [job for job in store.queue.list() if job.kind == kind]
    return found


# A program of before that is still open


def test_a_program_of_before_that_is_still_open_acknowledges_nothing_any_more(upgraded: Callable[..., Store]) -> None:
    """It would be refused later, for good: nobody is known to have made it."""
    store = upgraded(lambda old: old.job("greet", "ada"))
    insert = (
        "insert into job (kind, key, state, runnable, lane, place, collection, priority, unmet, payload, facts, token, "
        "seq, move, created, changed) values ('bulk', 'k', 'queued', 1, '', '', '', 50, 0, '{}', '{}', 1, 1, 'old', 1, 1) "
        "on conflict (kind, key) where key is not null do nothing returning id"
    )
    with pytest.raises(Exception, match=r"ON CONFLICT|null value in column \"by\""):
        store.db.write(lambda tx: execute(tx, insert))
    if store.db.dialect == "postgres":
        for act in (lambda: Old(store).job("bulk", "ada"), lambda: Old(store).schedule("late", "greet")):
            with pytest.raises(Exception, match='null value in column "by"'):
                act()
    assert [job.kind for job in store.queue.list()] == ["greet"]


# Schedules


def test_a_schedule_of_before_goes_on_in_nobodys_name_and_is_told_until_somebody_adopts_it(
    upgraded: Callable[..., Store], clock: HandClock
) -> None:
    store = upgraded(lambda old: old.schedule("night ly", "greet"))
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w", Setters(store).ended) == 1, "it was promised, and goes on"
    assert job_of(store, "greet").by == "schedule:night%20ly", "and is neither the program's nor anybody's"
    (finding,) = [each for each in told(store) if "night ly" in each.what]
    assert "nobody stands for it" in finding.what
    assert finding.do == "custody schedule adopt 'night ly'"
    store.schedules.adopt("night ly", ADA)
    assert [each for each in told(store) if "night ly" in each.what] == []


@pytest.mark.parametrize("kind", ["bulk", "ingest/clean", "workflow/task", "history/verify", "robot/fixity"])
def test_a_schedule_that_would_make_an_applications_jobs_is_paused_once_and_makes_none(
    upgraded: Callable[..., Store], clock: HandClock, kind: str
) -> None:
    store = upgraded(lambda old: (old.schedule("evil", kind), old.schedule("good", "greet")))
    (before,) = [each for each in told(store) if "evil" in each.what]
    assert "will stand still" in before.what
    for _ in range(3):
        clock.advance(seconds=3600)
        store.schedules.run_due("w", Setters(store).ended)
    assert [job.kind for job in store.queue.list()] == ["greet"] * 3
    held = store.schedules.get("evil")
    assert held.paused
    assert "made by their application alone" in held.why
    assert [event.type for event in store.records.events("schedule/evil")] == ["paused"], "once"
    (finding,) = [each for each in told(store) if "evil" in each.what]
    assert finding.do == "custody schedule drop evil"


def test_an_archives_own_schedule_of_before_goes_on(upgraded: Callable[..., Store], clock: HandClock) -> None:
    payload = '{"archive": "book", "wanted": "nightly"}'
    store = upgraded(
        lambda old: (old.schedule("book/nightly", RUN_KIND, payload), old.schedule("x", RUN_KIND, payload))
    )
    clock.advance(seconds=3600)
    assert store.schedules.run_due("w", Setters(store).ended) == 1
    assert job_of(store, RUN_KIND).payload["schedule"] == "book/nightly"
    assert store.schedules.get("x").paused, "one of another name is nobody's"


def test_the_list_of_schedules_says_who_set_each_and_how_one_is_adopted(
    upgraded: Callable[..., Store], custody: Run
) -> None:
    store = upgraded(lambda old: (old.schedule("nightly", "greet"), old.schedule("evil", "bulk")))
    said = custody("schedule", "list", "--store", store.url)
    assert "nobody" in said.out
    adopt = (
        f"`custody schedule adopt --store {shlex.quote(store.url) if store.db.dialect == 'sqlite' else '…'} nightly`"
    )
    assert adopt in said.out
    refused = custody("schedule", "adopt", "evil", "--store", store.url)
    assert (refused.code, "made by their application" in refused.err) == (2, True)
    assert custody("schedule", "adopt", "nightly", "--store", store.url).code == 0
    assert adopt not in custody("schedule", "list", "--store", store.url).out


# Tokens


OLD_TOKENS = [
    ("worker", "*"),
    ("worker", "book"),
    ("worker", "maps"),
    ("worker@book", "*"),
    ("worker@maps", "*"),
    ("worker operator@maps", "*"),
    ("worker operator@maps", "book"),
    ("reader worker@book worker@maps", "*"),
    ("worker@book", "maps"),
    ("worker depositor", "book maps"),
    ("worker reader", "*"),
    ("worker admin", "*"),
]


def rights(token: Token) -> set[tuple[str, str]]:
    """Every right that a token gives, and where; written here a second time, from the table of roles."""
    found = set()
    for role, _, single in (each.partition("@") for each in token.roles):
        has = ROLES[role]
        places = token.archives if role == "hook" else [single] if single else token.collections
        found |= {(right, place) for right in has.rights | has.own for place in places}
    return found


def narrowings(store: Store, token: int) -> list[str]:
    (finding,) = [each for each in whose_findings(store) if each.what.startswith(f"token {token} ")]
    return re.findall(r"`custody ([^`]+)`", finding.do)


@pytest.mark.parametrize(("roles", "collections"), OLD_TOKENS)
def test_every_narrowing_that_is_told_works_when_pasted_widens_nothing_and_drops_nothing_unsaid(
    upgraded: Callable[..., Store], custody: Run, roles: str, collections: str
) -> None:
    most = 4  # as many tokens as there are ways, so that each is narrowed in one of them
    insert = "insert into archive (name, system, location, uuid, last, frozen, added) values "
    store = upgraded(
        lambda old: (
            [old.token(f"t{number}", roles, collections) for number in range(most)],
            old._run(f"{insert} ('book', 'git', '/nowhere/book', 'u', 0, '', :now)"),
        )
    )
    before = {token.id: token for token in Tokens(store).list()}
    count = len(narrowings(store, 1))
    assert 1 <= count <= most
    told_uses = []
    for number, token in zip(range(count), before.values(), strict=False):
        command = narrowings(store, token.id)[number]
        said = custody(*shlex.split(command), "--store", store.url)
        assert said.code == 0, (command, said)
        after = Tokens(store).get(token.id)
        worker = {("archive:notify", place) for place in ("book", "maps", "*")} | {("metrics:read", "*")}
        extra = rights(after) - rights(token)
        assert extra <= worker, extra
        if ("archive:notify", "book") in extra:
            assert "*" in collections or "book" in f"{collections} {roles}"
        if ("metrics:read", "*") in extra:
            assert "*" in collections
            assert "worker" in roles.split()
        others = {role for role in token.roles if not role.startswith("submitter")}
        assert others <= set(after.roles), "what else it gives stays"
        assert after.was == ""
        told_uses.append(after.roles)
    assert any(any(role.startswith("submitter") for role in each) for each in told_uses)
    reaches = "book" in f"{collections} {roles}" or (collections == "*" and "worker" in roles.split())
    assert any("hook" in each for each in told_uses) == reaches
    assert all("ARCHIVE" not in command for command in narrowings(store, most)) if count < most else True


def test_what_a_narrowed_token_gave_up_is_said(upgraded: Callable[..., Store], custody: Run) -> None:
    store = upgraded(lambda old: old.token("t", "worker operator@maps"))
    said = custody("token", "narrow", "1", "--to", "submitter", "--store", store.url)
    assert "it was operator@maps, and is that no more" in said.out
    assert "collections" not in said.out, "it counts where it did"


def test_what_a_narrowed_token_gave_up_is_said_where_only_its_places_shrink(custody: Run) -> None:
    custody("token", "create", "ada", "--role", "reader", "--role", "hook", "--archive", "a", "--archive", "b")
    to = ("--to", "reader", "--to", "hook", "--archive", "a")
    said = custody("token", "narrow", "1", *to, "--collection", "maps", "--collection", "books")
    assert "it counted in all collections, and counts in maps books alone" in said.out
    assert "it told of b, and does so no more" in said.out
    said = custody("token", "narrow", "1", *to, "--collection", "maps")
    assert "it counted in books, and does so no more" in said.out
    assert "no more" not in custody("token", "narrow", "1", *to, "--collection", "maps").out


def test_a_second_token_of_one_name_renews_the_first_and_says_so(custody: Run) -> None:
    said = custody("token", "create", "ada", "--role", "reader")
    assert "another good token" not in said.err
    said = custody("token", "create", "ada", "--role", "reader")
    assert "there is another good token of this name (token 1)" in said.err
    assert custody(*re.findall(r"custody (token revoke \d+)", said.err)[0].split()).code == 0
    custody("token", "revoke", "2")
    assert "another good token" not in custody("token", "create", "ada", "--role", "reader").err


# Jobs


def test_a_job_of_a_kind_that_is_no_more_says_so_and_is_told_with_what_ends_it(
    upgraded: Callable[..., Store], custody: Run
) -> None:
    store = upgraded(lambda old: [old.job("ingest/clean", "wk") for _ in range(7)])
    job = store.queue.list()[0]
    (reason,) = why(store, job)
    assert reason.code == "no-kind"
    assert "nothing works on ingest/clean any more" in reason.text
    findings = [each for each in told(store) if "ingest/clean" in each.what]
    assert len(findings) == 6
    assert "2 more jobs" in findings[-1].what
    for finding in findings[:-1]:
        assert custody(*shlex.split(finding.do)[1:], "--store", store.url).code == 0
    assert len([each for each in store.queue.list() if each.state == "cancelled"]) == 5


def test_work_of_a_kind_that_a_later_version_makes_is_not_called_gone() -> None:
    assert MAKERS.is_gone("ingest/clean")
    assert not any(MAKERS.is_gone(kind) for kind in ("greet", "robot/anything", "ingest/batch", "bulk"))


def test_who_submitted_before_sees_that_still_and_nobody_sees_more(upgraded: Callable[..., Store]) -> None:
    def fill(old: Old) -> None:
        old.token("wk", "worker")
        old.token("twin", "worker")
        old.token("twin", "worker")
        for agent in ("wk", "twin", "stranger"):
            old.job("greet", agent)
        old.job("bulk", "wk")

    store = upgraded(fill)
    assert [job.by for job in store.queue.list()] == ["token:1/wk", "", "", ""]


def test_nobody_comes_into_a_name_that_a_younger_token_has(upgraded: Callable[..., Store], clock: HandClock) -> None:
    def fill(old: Old) -> None:
        old.job("greet", "wk")
        clock.advance(seconds=1)
        old.token("wk", "worker")

    assert [job.by for job in upgraded(fill).queue.list()] == [""]


@pytest.fixture
def at_door(upgraded: Callable[..., Store]) -> Iterator[Callable[..., tuple[Store, Callable[[str], httpx2.Client]]]]:
    """An old store with a token, served by this version."""
    closing: list[Callable[[], object]] = []

    def open_door(fill: Callable[[Old], Any]) -> tuple[Store, Callable[[str], httpx2.Client]]:
        store = upgraded(fill)
        options = Options(b"a secret of thirty-two bytes, no less", machines=machines(), open_kinds=["greet"])
        server = Server(build_app(store, options)).start()
        closing.append(server.stop)

        def client(secret: str) -> httpx2.Client:
            made = httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {secret}"}, timeout=30)
            closing.append(made.close)
            return made

        return store, client

    yield open_door
    for close in reversed(closing):
        close()


@pytest.mark.parametrize("names", [1, 2])
def test_an_idempotency_key_of_before_makes_no_second_job(
    at_door: Callable[..., tuple[Store, Callable[[str], httpx2.Client]]], names: int
) -> None:
    """Also where two tokens had one name, and nobody knows whose it was: then it is taken."""
    secrets: list[str] = []

    def fill(old: Old) -> None:
        secrets.extend(old.token("wk", "worker") for _ in range(names))
        old.job("greet", "wk", key="wk/IDEM", payload='{"m": 1}')

    store, client = at_door(fill)
    answer = client(secrets[0]).post(
        "/api/v1/jobs", json={"kind": "greet", "payload": {"m": 1}}, headers={"Idempotency-Key": "IDEM"}
    )
    if names == 1:
        assert (answer.status_code, answer.json()["job"]) == (201, store.queue.list()[0].id)
        assert "idempotent-replayed" in answer.headers
        assert client(secrets[0]).get(f"/api/v1/jobs/{store.queue.list()[0].id}").status_code == 200
    else:
        assert (answer.status_code, answer.json()["code"]) == (422, "key.conflict")
    other = client(secrets[0]).post(
        "/api/v1/jobs", json={"kind": "greet", "payload": {"m": 2}}, headers={"Idempotency-Key": "IDEM"}
    )
    assert (other.status_code, other.json()["code"]) == (422, "key.conflict")
    assert len(store.queue.list()) == 1


def test_a_key_given_since_the_upgrade_in_the_old_form_stands_for_nothing_of_the_callers(
    at_door: Callable[..., tuple[Store, Callable[[str], httpx2.Client]]],
) -> None:
    secrets: list[str] = []
    _, client = at_door(lambda old: secrets.extend([old.token("wk", "worker"), old.token("eve", "worker")]))
    wish = {"kind": "greet", "payload": {"m": 1}}
    first = client(secrets[1]).post("/api/v1/jobs", json={**wish, "key": "wk/IDEM"})
    again = client(secrets[0]).post("/api/v1/jobs", json=wish, headers={"Idempotency-Key": "IDEM"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() != again.json(), "eve has not swallowed it"


def test_a_bulk_action_of_before_answers_to_its_key(
    at_door: Callable[..., tuple[Store, Callable[[str], httpx2.Client]]],
) -> None:
    secrets: list[str] = []

    def fill(old: Old) -> None:
        secrets.append(old.token("op", "operator"))
        old.job("bulk", "op", key="op/B", payload='{"action": "hold", "filter": {"kind": "greet"}, "who": "op"}')

    store, client = at_door(fill)
    wish = {"action": "hold", "filter": {"kind": "greet"}, "dry_run": False, "count": 4, "why": "x"}
    answer = client(secrets[0]).post("/api/v1/bulk", json=wish, headers={"Idempotency-Key": "B"})
    assert (answer.status_code, answer.json()["job"]) == (202, store.queue.list()[0].id)
    other = client(secrets[0]).post("/api/v1/bulk", json={**wish, "action": "cancel"}, headers={"Idempotency-Key": "B"})
    assert other.json()["code"] == "key.conflict"


# What was refused can be tried again


def refuse(store: Store, kind: str, machine: Any, **more: Any) -> Job:
    """A job in a shape that its application does not make, worked on."""
    job = store.queue.submit_one(NewJob(kind, {"odd": 1}, machine=machine, **more), ADA).id
    maker = MAKERS.of(kind)
    serving = Serving((Kind(kind, lambda work: Passed(), state="pending", machine=machine, maker=maker),))
    Worker(store, serving, Settings(threads=1, schedules=False)).run_until_idle()
    return store.queue.get(job)


@pytest.mark.parametrize(("kind", "machine"), [(JOB_KIND, JOB), (BATCH_KIND, BATCH)])
def test_what_was_refused_at_first_can_be_resumed_by_an_operator(
    upgraded: Callable[..., Store], kind: str, machine: Any, custody: Run
) -> None:
    store = upgraded(lambda old: None)
    job = refuse(store, kind, machine)
    assert (job.code, job.state, job.ended) == (FORGED, "failed", "failed")
    (finding,) = [each for each in told(store) if "refused" in each.what]
    assert f"job {job.id} of {kind} was refused" in finding.what
    assert f"custody job resume {job.id}" in finding.do
    (reason,) = why(store, job)
    assert "which nobody asked for" in reason.text
    assert f"custody job resume {job.id}" in reason.clears
    assert custody("job", "resume", str(job.id), "--store", store.url).code == 0
    again = store.queue.get(job.id)
    assert (again.state, again.ended, again.runnable, again.retries) == ("pending", None, True, 1)


def test_what_an_earlier_version_refused_as_rejected_can_be_resumed_too(upgraded: Callable[..., Store]) -> None:
    store = upgraded(lambda old: None)
    job = refuse(store, JOB_KIND, JOB)
    sql = f"update job set state = 'rejected' where id = {job.id}"
    store.db.write(lambda tx: execute(tx, sql))
    Operator(store, machines(), "olga").resume(job.id, "mended")
    assert store.queue.get(job.id).state == "pending"


def test_what_was_rejected_for_what_it_is_stays_so(upgraded: Callable[..., Store]) -> None:
    store = upgraded(lambda old: None)
    job = refuse(store, JOB_KIND, JOB)
    store.db.write(lambda tx: execute(tx, f"update job set state = 'rejected', code = 'bag' where id = {job.id}"))
    with pytest.raises(StateConflict):
        Operator(store, machines(), "olga").resume(job.id, "please")


# Repositories


def test_an_archive_that_waits_for_a_grant_is_told_with_the_words_that_grant_it(
    upgraded: Callable[..., Store], tmp_path: Path, custody: Run
) -> None:
    repository = tmp_path / "book.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repository)], check=True)
    (repository / "config").chmod(0o666)
    store = upgraded(
        lambda old: old._run(
            "insert into archive (name, system, location, uuid, last, frozen, added) "
            f"values ('book', 'git', '{repository}', 'u', 0, '', :now)"
        )
    )
    (finding,) = [each for each in told(store) if "archive book" in each.what]
    assert "its repository is not ours" in finding.what
    words = shlex.split(finding.do)[1:]
    assert custody(*words, "--store", store.url).code == 0
    assert [each for each in told(store) if "archive book" in each.what] == []


def test_a_look_alike_of_an_applications_kind_is_refused_at_every_door(custody: Run) -> None:
    for kind in (
        "bulk ",
        "Bulk",
        "bu\u200blk",
        "ingest∕job",
        "іngest/job",
        "INGEST/job",
        "parcel ",
        "1nge57/job",
        "8ulk",
    ):
        said = custody("job", "submit", kind)
        assert said.code == 2, (kind, said)
        assert custody("schedule", "set", "n", "every 1h", kind).code == 2
        with pytest.raises(BadInput):
            MAKERS.must_be_free(kind)
    assert custody("job", "submit", "größe").code == 0


def test_schedules_have_names_of_one_form(upgraded: Callable[..., Store]) -> None:
    store = upgraded(lambda old: old.schedule("sch-a/", "greet"))
    for name in ("a/", "/a", "a//b", "..", "a/../b", " a", "a ", "a\u200b", "e\u0301", "~a", "", "x" * 201):
        with pytest.raises(BadInput):
            store.schedules.put(Schedule(name, "every 1h", "greet"), ADA)
    store.schedules.put(Schedule("sch-a/", "every 2h", "greet"), ADA)
    assert [each.name for each in store.schedules.list()] == ["sch-a/"], "one that is there can be changed"


def test_tokens_of_names_that_mean_others_are_refused_and_old_ones_told(upgraded: Callable[..., Store]) -> None:
    store = upgraded(lambda old: (old.token("system", "reader"), old.token("ada", "reader")))
    tokens = Tokens(store)
    for name in (
        "system",
        "System",
        "5ystem",
        "3ngine",
        "wa7ch",
        "engine",
        "r00t",
        "ADA",
        "Ada",
        "ada ",
        "аda",
        "ada\n",
    ):
        with pytest.raises(BadInput) as refused:
            tokens.create(name, ["reader"])
        assert refused.value.code == "token.name"
    for name in ("ada", "ada5", "scanner-3", "scanner-e", "4da"):
        tokens.create(name, ["reader"])
    assert any("token 1 is called system" in each.what for each in told(store))


OLD_BULK = '{"action": "hold", "filter": {"kind": "x"}, "why": "", "last": 1, "total": 1, "eligible": 1, "priority": 50, "who": "op"}'


def carry_out_bulk(store: Store) -> None:
    Worker(store, Serving(bulk.kinds(store, machines())), Settings(threads=1, schedules=False)).run_until_idle()


def test_a_bulk_action_of_before_is_asked_for_again_as_no_resuming_helps(
    upgraded: Callable[..., Store], custody: Run
) -> None:
    store = upgraded(lambda old: [old.job("bulk", "op", payload=OLD_BULK) for _ in range(7)])
    carry_out_bulk(store)
    jobs = store.queue.list()
    assert {job.code for job in jobs} == {FORGED}
    (reason,) = why(store, jobs[0])
    assert "ask for it again, with another key" in reason.clears
    findings = [each for each in told(store) if "refused" in each.what]
    assert len(findings) == 6, "each of the first few, and how many more"
    assert "2 other jobs were refused" in findings[-1].what
    for job, finding in zip(jobs, findings[:-1], strict=False):
        assert f"job {job.id} of bulk was refused: nobody" in finding.what
        assert "resume" not in finding.do
        assert custody(*shlex.split(finding.do.partition("custody ")[2]), "--store", store.url).code == 0
    assert len([each for each in told(store) if "refused" in each.what]) == 2, "those are settled"


@pytest.mark.parametrize(("by", "helps"), [("token:1/op", False), ("oidc:op~1/op", True)])
def test_a_bulk_action_whose_asker_lost_the_right_is_resumed_only_where_it_may_come_back(
    upgraded: Callable[..., Store], by: str, helps: bool
) -> None:
    store = upgraded(lambda old: (old.token("op", "operator"), old.job("x", "op")))
    Tokens(store).revoke(1, "ada")
    payload = {**loads(OLD_BULK), "last": 99}
    store.queue.submit_one(NewJob("bulk", payload), Acting(by, "op"))
    carry_out_bulk(store)
    (reason,) = why(store, job_of(store, "bulk"))
    assert job_of(store, "bulk").code == "bulk.right"
    assert ("an operator resumes it" in reason.clears, "ask for it again" in reason.clears) == (helps, not helps)


def test_a_refused_job_is_told_with_a_command_that_settles_it(upgraded: Callable[..., Store], custody: Run) -> None:
    store = upgraded(lambda old: None)
    refuse(store, JOB_KIND, JOB)
    (finding,) = [each for each in told(store) if "refused" in each.what]
    delete = re.findall(r"custody (job delete .*)", finding.do)[0]
    assert custody(*shlex.split(delete), "--store", store.url).code == 0
    assert [each for each in told(store) if "refused" in each.what] == []


def test_a_schedule_whose_setter_lost_the_right_is_told_with_its_name(
    upgraded: Callable[..., Store], clock: HandClock, custody: Run
) -> None:
    store = upgraded(lambda old: old.token("op", "operator"))
    store.schedules.put(Schedule("nightly", "every 1h", "greet"), Acting("token:1/op", "op"))
    Tokens(store).revoke(1, "ada")
    clock.advance(seconds=7200)
    store.schedules.run_due("w", Setters(store).ended)
    said = custody("schedule", "list", "--store", store.url).out
    assert re.search(r"nightly was paused by itself: .* has ended; `custody schedule adopt --store \S+ nightly`", said)
    (finding,) = [each for each in told(store) if "nightly" in each.what]
    assert "custody" not in finding.what
    assert finding.do == "custody schedule adopt nightly"
