"""Logging in at an OpenID Connect issuer: the code flow with PKCE, and a session of ours at its end.

Optional: needs the extra `oidc`. The issuer says who somebody is and to which groups they belong; which
groups have which roles here is this installation's to say. Whoever has none gets no session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2

from custody.errors import BadInput, Refused, Unavailable
from custody.formats.text.readers import TextLimits, read_json
from custody.kernel.access.granting import check_role

PATIENCE_SECONDS: Final = 10.0
FLOW_SECONDS: Final = 600  # between leaving for the issuer and coming back
SKEW_SECONDS: Final = 60
ALGORITHMS: Final = ["RS256", "PS256", "ES256", "EdDSA"]  # never none, never one with a shared secret
BACK: Final = "/login/oidc/back"
SAID: Final = TextLimits(size=1 << 20, depth=20)


@dataclass(frozen=True, slots=True)
class LoginConfig:
    """The [login] part of custody.toml. Paths are relative to the file."""

    issuer: str = ""  # such as https://login.example.org/realms/archive; empty: tokens only
    client: str = "custody"
    secret_file: Path = Path("oidc.secret")  # what the issuer gave us to prove that we are that client
    address: str = "http://127.0.0.1:7337"  # of this dashboard, as browsers reach it
    name: str = "preferred_username"  # the claim that names somebody
    claim: str = "groups"  # the claim with their groups
    roles: Mapping[str, str | Sequence[str]] = field(default_factory=dict)  # of each group: "reader", ["operator@maps"]


class Unbelieved(Refused):
    """What an issuer's word says cannot be so, or is not for us."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="login.token", hint="begin again")


@dataclass(frozen=True, slots=True)
class Person:
    name: str  # for people; no token can be called so
    roles: tuple[str, ...]
    identity: str  # of this subject of this issuer, and of nobody else, whatever they call themselves
    subject: str


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a browser takes along to the issuer and brings back, signed."""

    state: str
    nonce: str
    verifier: str
    next: str
    until: int  # seconds

    def signed(self, secret: bytes) -> str:
        text = base64.urlsafe_b64encode(json.dumps([getattr(self, name) for name in self.__slots__]).encode())
        return f"{text.decode()}.{_seal(secret, text)}"

    @classmethod
    def read(cls, secret: bytes, given: str, now: int) -> Leaving:
        text, _, seal = given.partition(".")
        if not given.isascii() or not hmac.compare_digest(_seal(secret, text.encode()), seal):
            raise Refused("this login was not begun here", code="login.state", hint="begin again")
        made = cls(*json.loads(base64.urlsafe_b64decode(text)))
        if made.until < now:
            raise Refused("this login took too long", code="login.late", hint="begin again")
        return made


def _seal(secret: bytes, text: bytes) -> str:
    return hmac.new(secret, b"login " + text, hashlib.sha256).hexdigest()


class Issuer:
    """One issuer, asked as seldom as possible."""

    def __init__(self, config: LoginConfig, client_secret: str, http: httpx2.Client | None = None) -> None:
        _check(config)
        self.config, self._secret = config, client_secret
        self._http = http or httpx2.Client(timeout=PATIENCE_SECONDS, follow_redirects=False)
        self._facts: Mapping[str, Any] | None = None
        self._lock = threading.Lock()

    def leave(self, next_: str, now: int) -> tuple[str, Leaving]:
        """Where to send a browser, and what it must bring back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        made = Leaving(state=state, nonce=nonce, verifier=verifier, next=next_, until=now + FLOW_SECONDS)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(made.verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.config.client,
            "redirect_uri": self._back,
            "state": made.state,
            "scope": "openid profile email groups",
            "nonce": made.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self._endpoint('authorization_endpoint')}?{urlencode(asked)}", made

    def arrive(self, code: str, state: str, left: Leaving, now: int) -> Person:
        """Whom the issuer has let in, with their roles here."""
        if not code or not hmac.compare_digest(state.encode(), left.state.encode()):
            raise Refused("the issuer's answer belongs to another login", code="login.state", hint="begin again")
        told = self._ask(
            "POST",
            self._endpoint("token_endpoint"),
            data={
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._back,
                "code_verifier": left.verifier,
            },
            auth=(self.config.client, self._secret),
        )
        return self._person(self._claims(str(told.get("id_token", "")), left.nonce, now))

    @property
    def _back(self) -> str:
        return self.config.address.rstrip("/") + BACK

    def _claims(self, token: str, nonce: str, now: int) -> Mapping[str, Any]:
        """What the identity token says, if it is genuine, for us, of this login and not over."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            keys = KeySet.import_key_set(dict(self._ask("GET", self._endpoint("jwks_uri"))))  # type: ignore[arg-type]
            claims = dict(jwt.decode(token, keys, algorithms=ALGORITHMS).claims)
            wanted = jwt.JWTClaimsRegistry(
                now=lambda: now,
                leeway=SKEW_SECONDS,
                iss={"essential": True, "value": self.config.issuer},
                aud={"essential": True, "value": self.config.client},
                exp={"essential": True},
                nonce={"essential": True, "value": nonce},
                sub={"essential": True},
            )
            wanted.validate(claims)
        except (JoseError, ValueError) as error:
            raise Unbelieved(f"the issuer's word cannot be believed: {type(error).__name__}") from error
        return claims

    def _person(self, claims: Mapping[str, Any]) -> Person:
        """Names are the issuer's to give, and may be anybody's: what counts is the subject. So that a person is never
        taken for a token of the same name, theirs begins with the way they came and ends with whom it stands for."""
        self._must_be_for_us(claims)
        groups = claims.get(self.config.claim, [])
        if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
            raise Unbelieved(f"the issuer's {self.config.claim} are no list of text")
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise Unbelieved("the issuer does not say who it is")
        roles = tuple(sorted({role for group in groups for role in _roles_of(self.config, group)}))
        called = str(claims.get(self.config.name) or subject)
        if not roles:
            raise Refused("you have no role here", code="login.roles", hint="an administrator gives one")
        mark = hashlib.sha256(f"{self.config.issuer}\0{subject}".encode(errors="replace")).hexdigest()
        short = re.sub(r"[^A-Za-z0-9._@-]", "-", called)[:64].strip("._@-")
        return Person(f"oidc:{short or 'somebody'}~{mark[:8]}", roles, f"oidc:{mark[:32]}", subject[:200])

    def _must_be_for_us(self, claims: Mapping[str, Any]) -> None:
        """A word to several is a word to us only if it was we who asked for it."""
        party, audience = claims.get("azp"), claims.get("aud")
        asked_by_us = party == self.config.client or (
            party is None and not (isinstance(audience, list) and audience[1:])
        )
        if not asked_by_us:
            raise Unbelieved("the issuer's word was asked for by somebody else")

    def _endpoint(self, name: str) -> str:
        with self._lock:
            if self._facts is None:
                found = self._ask("GET", f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != self.config.issuer:
                    raise Unavailable("the issuer calls itself something else", code="login.issuer")
                self._facts = found
        address = str(self._facts.get(name, ""))
        if not _is_safe(address):
            raise Unavailable(f"the issuer has no safe {name}", code="login.issuer")
        return address

    def _ask(self, method: str, address: str, **more: Any) -> Mapping[str, Any]:
        try:
            answer = self._http.request(method, address, headers={"Accept": "application/json"}, **more)
            if answer.status_code >= 400 and method == "POST":
                raise Refused("the issuer does not know this login", code="login.code", hint="begin again")
            answer.raise_for_status()
            found = read_json(answer.content, "the issuer's answer", SAID)
        except (httpx2.HTTPError, BadInput) as error:
            raise Unavailable(f"the issuer does not answer: {type(error).__name__}", code="login.issuer") from error
        if not isinstance(found, dict):
            raise Unavailable("the issuer answers with something else", code="login.issuer")
        return found


def open_issuer(config: LoginConfig, home: Path) -> Issuer | None:
    """The issuer that is configured, if one is."""
    if not config.issuer:
        return None
    path = home / config.secret_file
    if not path.is_file():
        raise BadInput("the client's secret is missing", code="login.secret", where=str(path), hint="the issuer has it")
    return Issuer(config, path.read_text().strip())


def _check(config: LoginConfig) -> None:
    try:
        import joserfc  # noqa: F401
    except ImportError as error:
        raise BadInput(
            "logging in elsewhere needs more",
            code="login.extra",
            hint="pip install '.[oidc]' in a checkout of this project",
        ) from error
    if not _is_safe(config.issuer):
        raise BadInput("an issuer is asked over https", code="login.issuer", where="login.issuer")
    for group in config.roles:
        for role in _roles_of(config, group):
            try:
                check_role(role)
            except BadInput as error:
                raise BadInput(
                    error.message, code="login.roles", where=f"login.roles.{group}", hint=error.hint
                ) from error


def _roles_of(config: LoginConfig, group: str) -> Sequence[str]:
    given = config.roles.get(group, ())
    return [given] if isinstance(given, str) else [str(each) for each in given]


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))
