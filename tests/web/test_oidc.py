"""Logging in at an issuer: who is let in, as whom, and every way in which an answer is not believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.testclient import TestClient

joserfc = pytest.importorskip("joserfc")

from custody import config as configuration  # noqa: E402
from custody.errors import BadInput, Refused  # noqa: E402
from custody.kernel.model.job import NewJob  # noqa: E402
from custody.web.access.oidc import FLOW_SECONDS, Issuer, Leaving, LoginConfig, open_issuer  # noqa: E402
from custody.web.server import Server  # noqa: E402
from web.house import SECRET, House, open_house  # noqa: E402
from web.issuer import StandIn  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HTML = {"Accept": "text/html"}
ROLES = {"keepers": "operator", "readers": "reader"}


@pytest.fixture
def issuer() -> Iterator[StandIn]:
    with StandIn() as made:
        yield made


def login(issuer: StandIn, address: str = "http://127.0.0.1", **more: Any) -> Issuer:
    settings = LoginConfig(issuer.url, address=address, roles=ROLES, **more)
    return Issuer(settings, "hush")


@pytest.fixture
def house(issuer: StandIn, tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, filled=False, login=login(issuer)) as made:
        yield made


def walk(house: House, next_: str = "/jobs") -> tuple[TestClient, Any]:
    """A browser that goes to the issuer and comes back; what it sees then."""
    client = house.client()
    left = client.get("/login/oidc", params={"next": next_}, headers=HTML)
    assert left.status_code == 303, left.text
    back = urlsplit(httpx2.get(left.headers["location"]).headers["location"])
    return client, client.get(f"{back.path}?{back.query}", headers=HTML)


def test_whoever_the_issuer_lets_in_has_the_roles_of_their_groups(house: House, issuer: StandIn) -> None:
    client, arrived = walk(house)
    assert arrived.status_code == 200
    assert 'content="0;url=/jobs"' in arrived.text
    assert "logged in as oidc:ada~" in arrived.text
    cookie = arrived.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = client.get("/jobs", headers=HTML)
    assert page.status_code == 200
    assert "Log out oidc:ada~" in page.text
    token = next(each for each in house.site.tokens.list() if each.name.startswith("oidc:ada~"))
    assert token.roles == ("operator",)
    assert house.archive.store.records.events(f"token/{token.id}")[0].agent == "oidc"
    issuer.person |= {"groups": ["readers"], "preferred_username": "Grace <script>"}
    client, arrived = walk(house)
    assert "oidc:Grace--script~" in arrived.text
    assert client.post("/holds", data={}, headers=HTML).status_code == 403, "a reader"


def test_a_group_may_have_roles_in_all_collections_and_others_in_single_ones(issuer: StandIn, tmp_path: Path) -> None:
    roles = {"keepers": "reader", "map-room": ["operator@maps", "depositor@maps"], "papers-room": "operator@papers"}
    settings = LoginConfig(issuer.url, address="http://127.0.0.1", roles=roles)
    issuer.person["groups"] = ["keepers", "map-room", "strangers"]
    with open_house(tmp_path, filled=False, login=Issuer(settings, "hush")) as house:
        queue = house.archive.store.queue
        maps, papers = (queue.submit_one(NewJob("parcel", collection=name)).id for name in ("maps", "papers"))
        client, arrived = walk(house)
        assert arrived.status_code == 200
        token = next(each for each in house.site.tokens.list() if each.name.startswith("oidc:ada~"))
        assert token.roles == ("depositor@maps", "operator@maps", "reader")
        assert "What you can do" in client.get(f"/jobs/{maps}", headers=HTML).text
        seen = client.get(f"/jobs/{papers}", headers=HTML)
        assert seen.status_code == 200
        assert "What you can do" not in seen.text
        form = re.search(r'name="form_token" value="(\w+)"', seen.text)
        assert form
        given = {"form_token": form[1], "why": "to see"}
        assert client.post(f"/jobs/{maps}/hold", data=given).status_code == 303
        assert client.post(f"/jobs/{papers}/hold", data=given).status_code == 404
        assert queue.get(papers).state == "queued"
        issuer.person["groups"] = ["map-room"]
        client, _ = walk(house)
        assert client.get(f"/jobs/{maps}", headers=HTML).status_code == 200
        assert client.get(f"/jobs/{papers}", headers=HTML).status_code == 404, "another's"
        assert client.get("/", headers=HTML).status_code == 403, "the overview shows all"
        assert client.get("/batches", headers=HTML).status_code == 200
    issuer.person["groups"] = ["keepers"]


def test_the_login_page_shows_the_way_and_only_where_there_is_one(house: House, empty: House) -> None:
    assert 'href="/login/oidc?next=/' in house.client().get("/login", headers=HTML).text
    assert "/login/oidc" not in empty.client().get("/login", headers=HTML).text
    assert empty.client().get("/login/oidc").status_code == 404
    assert empty.client().get("/login/oidc/back?code=x&state=y").status_code in (404, 409)


def test_a_login_leads_only_to_pages_of_this_site(house: House) -> None:
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
        assert 'content="0;url=/"' in walk(house, elsewhere)[1].text


LIES = [
    ("another audience", {"aud": "others"}, 401),
    ("another issuer", {"iss": "https://evil.example"}, 401),
    ("another login's nonce", {"nonce": "old"}, 401),
    ("it is over", {"exp": 1_000_000}, 401),
    ("no group that counts", {"groups": ["visitors"]}, 409),
    ("no group at all", {"groups": []}, 409),
    ("from the future", {"nbf": 9_999_999_999}, 401),
    ("asked for by another", {"aud": ["others", "custody"], "azp": "others"}, 401),
    ("to several, and nobody says who asked", {"aud": ["others", "custody"]}, 401),
    ("to us, asked for by another", {"azp": "others"}, 401),
    ("groups that are nothing", {"groups": None}, 401),
    ("groups that are one text", {"groups": "keepers"}, 401),
    ("groups that are a number", {"groups": 7}, 401),
    ("groups that are no texts", {"groups": ["keepers", 7]}, 401),
    ("groups by name", {"groups": {"keepers": True}}, 401),
    ("nobody", {"sub": ""}, 401),
    ("a number", {"sub": 7}, 401),
]


@pytest.mark.parametrize(("what", "lies", "status"), LIES, ids=[case[0] for case in LIES])
def test_an_issuers_word_that_does_not_fit_opens_no_session(
    house: House, issuer: StandIn, what: str, lies: dict[str, Any], status: int
) -> None:
    issuer.lies = lies
    _, arrived = walk(house)
    assert arrived.status_code == status
    assert "set-cookie" not in arrived.headers or "custody_session" not in arrived.headers["set-cookie"]
    assert [token.name for token in house.site.tokens.list()] == []


def test_a_word_to_several_is_believed_when_we_asked_for_it(house: House, issuer: StandIn) -> None:
    issuer.lies = {"aud": ["others", "custody"], "azp": "custody"}
    assert walk(house)[1].status_code == 200


def test_a_person_is_never_taken_for_a_token_or_for_another_person(house: House, issuer: StandIn) -> None:
    """Whatever the issuer calls them: names are theirs to choose, the subject is not."""
    tokens = house.site.tokens
    mine = tokens.caller(tokens.create("ada", ["operator"])[1])
    assert mine is not None
    seen = {(mine.name, mine.identity)}
    for subject, name in (("1", "ada"), ("2", "ada"), ("3", "a/da"), ("4", "\u0430da"), ("5", "token:1"), ("6", "")):
        issuer.lies = {"sub": subject, "preferred_username": name}
        client, arrived = walk(house)
        assert arrived.status_code == 200
        caller = tokens.caller(client.cookies["custody_session"], session=True)
        assert caller is not None
        assert "/" not in caller.name + caller.identity
        seen.add((caller.name, caller.identity))
    assert len(seen) == len({name for name, _ in seen}) == len({identity for _, identity in seen}) == 7
    issuer.lies = {"sub": "1", "preferred_username": "ada-lovelace"}
    client, _ = walk(house)
    again = tokens.caller(client.cookies["custody_session"], session=True)
    assert again is not None
    assert again.identity in {identity for _, identity in seen}, "the same subject by another name is the same person"


def test_a_word_signed_with_another_key_is_not_believed(house: House, issuer: StandIn) -> None:
    from joserfc.jwk import ECKey

    issuer.published = ECKey.generate_key("P-256", {"kid": "1"})
    assert walk(house)[1].status_code == 401


def test_a_code_is_good_once_and_for_the_browser_that_began(house: House, issuer: StandIn) -> None:
    client = house.client()
    left = client.get("/login/oidc")
    location = left.headers["location"]
    asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    assert asked["code_challenge_method"] == "S256"
    back = urlsplit(httpx2.get(location).headers["location"])
    here = f"{back.path}?{back.query}"
    assert house.client().get(here).status_code == 409, "another browser brings no cookie"
    assert client.get(f"{back.path}?code=code-0&state=wrong").status_code == 409
    assert client.get(here).status_code == 200
    client.cookies.set("custody_left", left.cookies["custody_left"], path="/login/oidc/back")
    assert client.get(here).status_code == 409, "the issuer honours a code once"


def test_what_a_browser_brings_back_must_be_ours_and_in_time() -> None:
    made = Leaving("state", "nonce", "verifier", "/jobs", 1000)
    kept = made.signed(SECRET)
    assert Leaving.read(SECRET, kept, 1000) == made
    for wrong in ("", "x", kept[:-1], "é", made.signed(b"another secret of thirty-two bytes!!")):
        with pytest.raises(Refused):
            Leaving.read(SECRET, wrong, 1000)
    with pytest.raises(Refused, match="too long"):
        Leaving.read(SECRET, kept, 1001)
    assert FLOW_SECONDS <= 3600


def test_an_issuer_that_is_away_is_told_and_tokens_still_work(house: House, issuer: StandIn) -> None:
    issuer.__exit__()
    answer = house.client().get("/login/oidc")
    assert answer.status_code == 503
    assert answer.json()["code"] == "login.issuer"
    assert house.client("reader").get("/api/v1/jobs").status_code == 200
    issuer.__init__()  # type: ignore[misc]
    issuer.__enter__()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (LoginConfig("http://login.example.org"), "login.issuer"),
        (LoginConfig("ftp://login.example.org"), "login.issuer"),
        (LoginConfig("https://login.example.org", roles={"x": "king"}), "login.roles"),
        (LoginConfig("https://login.example.org", roles={"x": ["reader", "king@maps"]}), "login.roles"),
        (LoginConfig("https://login.example.org", roles={"x": "reader@"}), "login.roles"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_at_once(settings: LoginConfig, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        Issuer(settings, "hush")
    assert refused.value.code == code


def test_the_configuration_names_the_issuer_and_where_the_secret_is(tmp_path: Path) -> None:
    path = tmp_path / "custody.toml"
    path.write_text(
        '[login]\nissuer = "https://login.example.org"\n[login.roles]\nkeepers = "operator"\nmaps = ["reader@maps"]\n'
    )
    found = configuration.read(path)
    with pytest.raises(BadInput, match="secret is missing"):
        open_issuer(found.login, tmp_path)
    (tmp_path / "oidc.secret").write_text("hush\n")
    made = open_issuer(found.login, tmp_path)
    assert made is not None
    assert made.config.roles == {"keepers": "operator", "maps": ["reader@maps"]}
    assert open_issuer(LoginConfig(), tmp_path) is None


def test_a_real_browser_goes_there_and_comes_back_logged_in(issuer: StandIn, tmp_path: Path, browser: Browser) -> None:
    with open_house(tmp_path, filled=False) as house:
        server = Server(house.app).start()
        object.__setattr__(house.site.options, "login", login(issuer, server.url))
        context = browser.new_context()
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.goto(f"{server.url}/holds")
        page.get_by_role("link", name="Log in at").click()
        page.wait_for_url("**/holds")
        assert page.get_by_role("button", name="Log out oidc:ada~").count() == 1
        page.reload()
        assert page.locator("h1").inner_text() == "Holds"
        context.close()
        server.stop()
