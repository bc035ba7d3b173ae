"""A small OpenID Connect issuer on loopback, which lies in whatever way a test wants."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey


class StandIn:
    """Lets everybody in as `person`; `lies` are claims that its tokens have instead of the true ones."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": "1"})
        self.published = self.key
        self.person: dict[str, Any] = {"sub": "7", "preferred_username": "ada", "groups": ["keepers"]}
        self.lies: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def authorize(self, asked: dict[str, str]) -> str:
        """The person agrees: back to where they came from, with a code."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, given: dict[str, str], client: str) -> dict[str, Any] | None:
        """The code once, for the client it was made for, who shows the verifier."""
        asked = self.codes.pop(given.get("code", ""), None)
        if asked is None or client != "custody:hush":
            return None
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).rstrip(b"=")
        if challenge.decode() != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
            return None
        now = _now()
        claims = {"iss": self.url, "aud": asked["client_id"], "nonce": asked["nonce"], "iat": now, "exp": now + 300}
        text = jwt.encode({"alg": "ES256", "kid": "1"}, {**claims, **self.person, **self.lies}, self.key)
        return {"access_token": "x", "token_type": "Bearer", "id_token": text}


def _now() -> int:
    """Seconds since 1970, as an issuer has them: of a file made just now."""
    with tempfile.TemporaryFile() as file:
        return int(os.fstat(file.fileno()).st_mtime)


def _handler(issuer: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/.well-known/openid-configuration":
                ends = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
                self._json({"issuer": issuer.url, **{name: issuer.url + path for name, path in ends.items()}})
            elif parts.path == "/keys":
                self._json({"keys": [issuer.published.as_dict(private=False)]})
            elif parts.path == "/authorize":
                self.send_response(303)
                self.send_header("Location", issuer.authorize({k: v[0] for k, v in parse_qs(parts.query).items()}))
                self.send_header("Content-Length", "0")
                self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            client = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
            told = issuer.token({k: v[0] for k, v in parse_qs(body).items()}, client)
            self._json(told or {"error": "invalid_grant"}, 200 if told else 400)

        def _json(self, value: object, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler
