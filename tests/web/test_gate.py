"""Every route, every role, own and foreign objects: decided in one table, enforced below the routes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from fastapi.routing import APIRoute
from starlette.websockets import WebSocketDisconnect

from custody.errors import Unsafe
from custody.kernel.access.granting import BY_NAME
from custody.kernel.access.rights import holders
from custody.kernel.access.rules import RULES, Rule
from custody.kernel.model.job import NewJob
from custody.web import formatting
from custody.web.access.gate import key_of, without_rule
from custody.web.app import Options, build_app, routers_of
from custody.web.pages.all_sections import SECTIONS
from custody.web.request_bodies import Router
from custody.web.sections import Section
from web.house import BEGAN, CHANNEL, EVERY_ROLE, SECRET, House, open_house

EVERY_RULE = {**RULES, **{key: rule for section in SECTIONS for key, rule in section.rules.items()}}


def routes() -> list[tuple[str, str]]:
    """Every method and path there is, from the routers themselves."""
    routers = routers_of(Options(SECRET, sections=SECTIONS))
    found = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return sorted({(method, route.path) for route in found for method in route.methods or ()})


STREAMS = {"/stream", "/api/v1/stream"}  # for those who are let in they never end: see test_changes
BODIES = {
    # enough to get past the reading of a body, to where the decision is made
    "POST /api/v1/batches": {"profile": "papers", "payload": "http://127.0.0.1/x"},
    "POST /api/v1/jobs": {"kind": "parcel"},
    "POST /api/v1/bulk": {"action": "resume", "filter": {"state": "nowhere"}},
    "PUT /api/v1/schedules/{name:path}": {"spec": "nonsense", "kind": "x"},
}


def address(path: str, house: House) -> str:
    """A route's path with something real in it."""
    names = {
        "batch": str(house.maps),
        "job": str(house.papers + 3),
        "item": "ark:/99999/nothing",
        "name": "nightly",
        "scope": "lane",
        "action": "nonsense",
        "number": "1",
        "signature": "0" * 40,
        "channel": str(CHANNEL),
        "message": str(BEGAN),
        "archive": "book",
        "robot": "fixity",
        "attempt": "1",
    }
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda match: names[match[1]], path)


def ask(house: House, who: str, method: str, path: str) -> int:
    client = house.client(who)
    sent = {"json": BODIES.get(key_of(method, path), {})} if method in ("POST", "PUT") else {}
    if method == "POST" and not path.startswith("/api/"):
        caller = house.site.tokens.caller(house.token(who)) if who else None
        sent = {"data": {"form_token": house.site.form_token(caller), "token": house.token("admin")}}
    return client.request(method, address(path, house), **sent).status_code  # type: ignore[arg-type]


@pytest.mark.proves("H7")
@pytest.mark.parametrize(("method", "path"), routes(), ids=lambda part: str(part))
def test_every_route_obeys_the_table_for_every_role(house: House, method: str, path: str) -> None:
    rule = EVERY_RULE[key_of(method, path)]
    scoped = [f"{role}{mark}papers" for role in EVERY_ROLE for mark in "/@" if role not in BY_NAME]
    for who in ("", *(() if path in STREAMS else (*EVERY_ROLE, *scoped))):
        role, _, scope = who.replace("@", "/").partition("/")
        status = ask(house, who, method, path)
        allowed = rule.right is None or (role in holders(rule.right) and not (rule.whole and scope))
        if allowed:
            assert status not in (401, 403, 500), f"{who} is kept from {method} {path}: {status}"
        else:
            assert status == (403 if who else 401), f"{who or 'nobody'} got {status} for {method} {path}"


MIXED = "reader+operator@maps"


def test_a_role_in_one_collection_counts_there_and_nowhere_else(house: House) -> None:
    client, page = house.client(MIXED), house.client(MIXED, Accept="text/html")
    queue = house.archive.store.queue
    maps, papers = (queue.submit_one(NewJob("parcel", collection=name)).id for name in ("maps", "papers"))
    assert "What you can do" in page.get(f"/jobs/{maps}").text
    seen = page.get(f"/jobs/{papers}")
    assert seen.status_code == 200, "a reader of all collections sees both"
    assert "What you can do" not in seen.text
    move = {"why": "to see", "priority": 7}
    assert client.post(f"/api/v1/jobs/{maps}/prioritise", json=move).status_code == 200
    assert client.post(f"/api/v1/jobs/{papers}/prioritise", json=move).status_code == 404
    dry = {"action": "resume", "filter": {"ended": "failed", "collection": "papers"}}
    assert client.post("/api/v1/bulk", json=dry).status_code == 400
    assert client.post("/api/v1/bulk", json=dry | {"filter": {"collection": "maps"}}).status_code == 200
    assert client.put("/api/v1/holds/lane/x", json={"why": "x"}).status_code == 403, "holds belong to no collection"
    assert client.get("/api/v1/events").status_code == 200, "a reader of all"


def test_a_session_has_the_roles_of_its_token(house: House) -> None:
    session = house.site.tokens.open_session(house.token(MIXED))
    assert session is not None
    caller = house.site.tokens.caller(session, session=True)
    assert caller is not None
    assert caller.granted == ("operator@maps", "reader")
    assert caller.where("job:act") == {"maps"}
    assert caller.sees_all


def test_a_route_without_a_rule_stops_the_program_from_starting(house: House) -> None:
    router = Router()
    router.add_api_route("/secret", lambda: None, methods=["GET"])
    assert without_rule([router], RULES) == ["GET /secret"]
    section = Section("Secret", "/secret", "x", routers=(router,))
    with pytest.raises(Unsafe, match="GET /secret"):
        build_app(house.archive.store, Options(SECRET, sections=(section,)))
    decided = Section("Secret", "/secret", "x", routers=(router,), rules={"GET /secret": Rule("lease:break")})
    assert build_app(house.archive.store, Options(SECRET, sections=(decided,)))


def test_what_the_gate_does_not_see_stops_the_program_from_starting(house: House) -> None:
    """A mount, a plain route of the framework below and a websocket would be reached by anybody."""
    for add in (
        lambda router: router.mount("/secret", lambda *_: None),
        lambda router: router.add_route("/secret", lambda _: None),
        lambda router: router.add_websocket_route("/secret", lambda _: None),
        lambda router: router.add_api_websocket_route("/secret", lambda _: None),
    ):
        router = Router()
        add(router)
        section = Section("Secret", "/secret", "x", routers=(router,), rules={"GET /secret": Rule("lease:break")})
        with pytest.raises(Unsafe, match="/secret"):
            build_app(house.archive.store, Options(SECRET, sections=(section,)))


ODD: dict[str, Callable[[str], str]] = {
    "a slash behind": lambda path: f"{path}/",
    "two slashes": lambda path: f"/{path}",
    "two slashes within": lambda path: path.replace("/", "//", 2),
    "an escaped slash": lambda path: path[0] + path[1:].replace("/", "%2f"),
    "an escaped letter": lambda path: f"{path[0]}%{ord(path[1]):x}{path[2:]}" if len(path) > 1 else path,
    "capitals": lambda path: path.upper(),
    "a dot": lambda path: f"/.{path}",
    "two dots": lambda path: f"/x/..{path}",
    "a semicolon": lambda path: f"{path};.json",
    "a static prefix": lambda path: f"{formatting.static_address()}/..{path}",
}


@pytest.mark.parametrize("role", ["", "metrics", "hook", "submitter/papers", "depositor/papers", "reader/papers"])
def test_no_other_way_to_write_an_address_leads_past_its_rule(house: House, role: str) -> None:
    """Whatever is written, it is the rule of the route that answers, or nothing is there."""
    client, name = house.client(role), role.partition("/")[0]
    tried = 0
    for method, path in routes():
        rule = EVERY_RULE[key_of(method, path)]
        if rule.right is None or path in STREAMS or (name in holders(rule.right) and not (rule.whole and "/" in role)):
            continue
        where = address(path, house)
        for odd, write in ODD.items():
            status = client.request(method, write(where), json={}).status_code
            assert status in (400, 401, 403, 404, 405), f"{odd}: {method} {write(where)} was {status} for {role}"
            tried += 1
        if method == "GET":
            assert client.head(where).status_code in (401, 403, 405), where
        assert client.options(where).status_code in (401, 403, 404, 405), where
        for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
            status = client.post(f"{where}?_method={method}", headers={header: method}, json={}).status_code
            assert status in (400, 401, 403, 404, 405), f"{header}: {where} was {status} for {role}"
    assert tried > 500


@pytest.mark.parametrize("role", ["", "admin"])
def test_there_is_nothing_at_a_websocket(house: House, role: str) -> None:
    for path in ("/", "/stream", "/api/v1/stream", "/api/v1/jobs", f"{formatting.static_address()}/x"):
        with pytest.raises((WebSocketDisconnect, AssertionError)), house.client(role).websocket_connect(path):
            pass


def test_the_table_has_no_rule_for_a_route_that_is_gone() -> None:
    there = {key_of(method, path) for method, path in routes()}
    assert set(EVERY_RULE) - there == set()


FOREIGN = [
    ("GET", "/api/v1/batches/{maps}"),
    ("GET", "/api/v1/batches/{maps}/report"),
    ("GET", "/api/v1/batches/{maps}/link"),
    ("POST", "/api/v1/batches/{maps}/release"),
    ("POST", "/api/v1/batches/{maps}/update-report"),
    ("DELETE", "/api/v1/batches/{maps}?why=x"),
    ("GET", "/api/v1/jobs/{maps}"),
    ("GET", "/api/v1/jobs/{maps}/why"),
    ("GET", "/api/v1/jobs/{maps}/events"),
    ("POST", "/api/v1/jobs/{maps}/release"),
    ("DELETE", "/api/v1/jobs/{maps}?why=x"),
    ("GET", "/api/v1/bulk/{maps}"),
    ("GET", "/batches/{maps}"),
    ("GET", "/batches/{maps}.json"),
    ("GET", "/jobs/{maps}"),
    ("GET", "/jobs/{maps}.json"),
    ("GET", "/batches/{maps}/told/0"),
    ("GET", "/jobs/{maps}/log"),
    ("GET", "/jobs/{maps}/log/1"),
    ("GET", "/jobs/{maps}/files"),
    ("GET", "/jobs/{maps}/file/index.txt"),
    ("GET", "/jobs/{maps}/events.json"),
    ("GET", "/jobs/{maps}/raw.json"),
]


@pytest.mark.proves("H7")
@pytest.mark.parametrize(("method", "path"), FOREIGN)
def test_what_is_foreign_looks_as_if_it_were_not_there(house: House, method: str, path: str) -> None:
    client = house.client("operator/papers", Accept="application/json")
    body = {"json": {}} if method == "POST" else {}
    status = client.request(method, path.format(maps=house.maps), **body).status_code  # type: ignore[arg-type]
    assert status == client.request(method, path.format(maps=987654), **body).status_code == 404  # type: ignore[arg-type]
    assert house.archive.batch(house.maps).state == "held"


def test_lists_show_only_the_callers_collections(house: House) -> None:
    for path, key in (("/api/v1/jobs", "jobs"), ("/api/v1/batches", "batches"), ("/api/v1/items", "items")):
        mine = house.client("operator/maps").get(path).json()[key]
        others = house.client("operator/papers").get(path).json()[key]
        assert {row["collection"] for row in mine} <= {"maps"}
        assert {row["collection"] for row in others} == {"papers"}
    found = house.client("reader/maps").get("/api/v1/search", params={"q": str(house.papers)}).json()["found"]
    assert found == []


def test_a_depositor_cannot_hand_in_to_a_foreign_collection(house: House) -> None:
    given = {"profile": "maps", "payload": "http://127.0.0.1/x"}
    answer = house.client("depositor/papers").post("/api/v1/batches", json=given)
    assert answer.status_code == 400
    assert answer.json()["code"] == "profile.unknown"


def test_a_depositor_signs_with_their_own_name(house: House) -> None:
    given = {"profile": "papers", "payload": "http://127.0.0.1/x", "submitter": "the king", "type": "file"}
    made = house.client("depositor/papers").post("/api/v1/batches", json=given).json()["batch"]
    assert house.archive.batch(made).payload["submitter"] == "depositor-papers"
    for_her = house.client("operator").post("/api/v1/batches", json=given).json()["batch"]
    assert house.archive.batch(for_her).payload["submitter"] == "the king"


# Browsers


def session(house: House, who: str = "operator") -> tuple[object, str]:
    """A browser that has logged in, and its form token."""
    client = house.client()
    page = client.get("/login").text
    token = re.search(r'name="form_token" value="(\w+)"', page)
    assert token
    answer = client.post("/login", data={"form_token": token[1], "token": house.token(who), "next": "/holds"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/holds")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    own = re.search(r'name="form_token" value="(\w+)"', client.get("/holds").text)
    assert own
    return client, own[1]


def test_a_session_needs_the_form_token_of_its_own_pages(house: House) -> None:
    client, token = session(house)
    given = {"scope": "lane", "name": "csrf", "why": "to see"}
    post = client.post  # type: ignore[attr-defined]
    assert post("/holds", data=given).status_code == 403
    assert post("/holds", data=given | {"form_token": "0" * 64}).status_code == 403
    assert post("/holds", data=given | {"form_token": house.site.form_token(None)}).status_code == 403
    assert post("/holds", json=given).status_code == 400
    assert "csrf" not in str(house.archive.store.queue.holds())
    assert post("/holds", data=given | {"form_token": token}).status_code == 303
    assert "csrf" in str(house.archive.store.queue.holds())


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9"},
    ],
)
def test_a_form_on_another_sites_page_is_refused_even_with_its_token(house: House, headers: dict[str, str]) -> None:
    client, token = session(house)
    given = {"scope": "lane", "name": "foreign", "why": "x", "form_token": token}
    assert client.post("/holds", data=given, headers=headers).status_code == 403  # type: ignore[attr-defined]
    assert "foreign" not in str(house.archive.store.queue.holds())


def test_the_api_takes_no_cookie(house: House) -> None:
    client, _ = session(house)
    assert client.get("/api/v1/jobs").status_code == 401  # type: ignore[attr-defined]


def test_logging_out_ends_the_session(house: House) -> None:
    client, token = session(house)
    cookies = dict(client.cookies)  # type: ignore[attr-defined]
    assert client.post("/logout", data={"form_token": token}).status_code == 303  # type: ignore[attr-defined]
    again = house.client()
    again.cookies.update(cookies)
    assert again.get("/jobs").status_code == 401


def test_a_wrong_token_does_not_log_in_and_a_login_leads_nowhere_else(house: House) -> None:
    client, form = house.client(), {"form_token": house.site.form_token(None)}
    wrong = client.post("/login", data=form | {"token": "custody_" + "a" * 51})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example", "\r\nX: y"):
        right = house.client().post("/login", data=form | {"token": house.token("admin"), "next": elsewhere})
        assert right.headers["location"] == "/"


def test_people_are_led_to_the_login_and_programs_are_told(house: House) -> None:
    page = house.client(Accept="text/html").get("/jobs")
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/jobs")
    program = house.client().get("/api/v1/jobs")
    assert program.status_code == 401
    assert program.headers["www-authenticate"] == "Bearer"
    assert program.headers["content-type"] == "application/problem+json"


# Demo mode


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("demo"), demo=True, filled=False) as made:
        yield made


def test_demo_mode_serves_this_machine_without_login(demo: House) -> None:
    for host in ("127.0.0.1", "127.0.0.1:7337", "localhost:7337", "[::1]:7337"):
        assert demo.client(Host=host).get("/jobs.json").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"X-Real-Ip": "127.0.0.1"},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
    ],
)
def test_demo_mode_is_not_fooled_by_names_proxies_or_wrong_tokens(demo: House, headers: dict[str, str]) -> None:
    assert demo.client(**headers).get("/api/v1/jobs").status_code == 401


def test_demo_mode_does_not_serve_other_machines(demo: House) -> None:
    from starlette.testclient import TestClient

    elsewhere = TestClient(demo.app, base_url="http://127.0.0.1", client=("10.0.0.7", 50000))
    assert elsewhere.get("/api/v1/jobs").status_code == 401


def test_a_page_elsewhere_cannot_use_the_demos_api(demo: House) -> None:
    answer = demo.client(Origin="http://evil.example").post("/api/v1/jobs", json={"kind": "parcel"})
    assert answer.status_code == 403
    assert demo.client().post("/api/v1/jobs", json={"kind": "parcel"}).status_code == 201


def test_a_server_without_login_refuses_an_address_that_others_can_reach(demo: House) -> None:
    from custody.web.server import Server

    with pytest.raises(Unsafe):
        Server(demo.app, "0.0.0.0")
