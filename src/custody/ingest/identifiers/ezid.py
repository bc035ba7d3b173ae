"""Asks EZID for ARKs, in such a way that a crash never takes two.

EZID's own minting (`POST /shoulder/…`) cannot be asked again: it has no idempotency key, its answer may be
lost, and there is no way to search for what was minted. But creating an identifier of one's own choice
(`PUT /id/…`) needs the same permission and fails if the identifier exists. So the name is computed from
the caller's request id: after a crash the same name is asked for again, EZID says that it exists, and the
mark we left in its metadata says whose it is.

    PUT  → created                             it is ours
         → exists, and its mark is ours        it is ours: the first answer was lost
         → exists, with another mark           somebody has that name: the next one
         → no answer, 5xx, 429                 wait, and the same again

The mark is the element `custody.request`: names that begin with an underscore are EZID's. Chosen names are
twelve characters after the shoulder; those EZID mints are 4, 7, 10, 13 …, so the two never meet.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import httpx2

from custody.errors import BadInput, CustodyError, Refused, Unavailable
from custody.formats import anvl
from custody.formats.identifiers import ark
from custody.formats.noid import XDIGITS, check_digit
from custody.ingest.description.metadata import UNKNOWN, Description

MARK = "custody.request"
_CANDIDATES = 8
_EXISTS = "identifier already exists"


class Ezid:
    """One account at one EZID, for one shoulder such as `ark:/99999/fk4`."""

    goes_on = False

    def __init__(
        self,
        url: str,
        user: str,
        password: str,
        shoulder: str,
        *,
        tries: int = 4,
        pause: float = 0.5,
        timeout: float = 30,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.shoulder = ark(shoulder)
        self._tries, self._pause, self._sleep = tries, pause, sleep
        self._http = httpx2.Client(
            base_url=url,
            auth=httpx2.BasicAuth(user, password),
            headers={"Accept": "text/plain", "Content-Type": "text/plain; charset=UTF-8"},
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Ezid:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def mint(self, request: str, description: Description | None = None, target: str = "") -> str:
        """An identifier for this request: the same one however often it is asked. `{ark}` in the target
        stands for it."""
        mark = hashlib.sha256(request.encode()).hexdigest()[:32]
        for attempt in range(_CANDIDATES):
            chosen = candidate(self.shoulder, request, attempt)
            elements = {MARK: mark, **_elements(description), **_target(target, chosen)}
            try:
                self._ask("PUT", f"/id/{chosen}", elements)
                return chosen
            except BadInput as error:
                if _EXISTS not in error.message:
                    raise
            known = self.read(chosen)
            if known is not None and known.get(MARK) == mark:
                return chosen
        raise Refused(
            f"{_CANDIDATES} names on {self.shoulder} are all taken",
            code="ezid.taken",
            hint="is the shoulder ours?",
        )

    def read(self, identifier: str) -> dict[str, str] | None:
        """What EZID has under an identifier; None if nothing, or nothing it will show us."""
        try:
            return self._ask("GET", f"/id/{ark(identifier)}", None)
        except BadInput as error:
            if "no such identifier" in error.message:
                return None
            raise
        except Refused as error:
            if error.code == "ezid.forbidden":
                return None
            raise

    def update(self, identifier: str, description: Description, target: str = "") -> None:
        """Say what the identifier stands for; asking again changes nothing."""
        identifier = ark(identifier)
        self._ask("POST", f"/id/{identifier}", {**_elements(description), **_target(target, identifier)})

    def _ask(self, method: str, path: str, elements: Mapping[str, str] | None) -> dict[str, str]:
        body = None if elements is None else anvl.write(elements.items(), escaped=True).encode()
        trouble = ""
        for attempt in range(self._tries):
            if attempt:
                self._sleep(self._pause * 2 ** (attempt - 1))
            try:
                answer = self._http.request(method, path, content=body)
            except httpx2.TransportError as error:
                trouble = type(error).__name__
                continue
            if answer.status_code < 500 and answer.status_code != 429:
                return _understood(answer)
            trouble = f"HTTP {answer.status_code}"
        raise Unavailable(
            f"EZID did not answer {method} {path} after {self._tries} tries: {trouble}",
            code="ezid.unavailable",
        )


def candidate(shoulder: str, request: str, attempt: int) -> str:
    """The name this request asks for; other attempts are for the day two requests meet."""
    digest = hashlib.sha256(f"{shoulder}\n{request}\n{attempt}".encode()).digest()
    number = int.from_bytes(digest)
    digits = []
    for _ in range(11):
        number, value = divmod(number, len(XDIGITS))
        digits.append(XDIGITS[value])
    name = f"{shoulder}{''.join(digits)}"
    return name + check_digit(name.removeprefix("ark:/"))


def _elements(description: Description | None) -> dict[str, str]:
    if description is None:
        return {}
    return {
        "_profile": "erc",
        "erc.who": description.creator or UNKNOWN,
        "erc.what": description.title or UNKNOWN,
        "erc.when": description.date or UNKNOWN,
    }


def _target(target: str, identifier: str) -> dict[str, str]:
    return {"_target": target.replace("{ark}", identifier)} if target else {}


_REFUSALS: dict[int, Callable[[str], CustodyError]] = {
    401: lambda reason: Refused(
        f"EZID: {reason}",
        code="ezid.unauthorized",
        hint="check ezid_user and ezid_password_file of the profile; workers read them when they start",
    ),
    403: lambda reason: Refused(f"EZID: {reason}", code="ezid.forbidden", hint="may this account use the shoulder?"),
}


def _understood(answer: httpx2.Response) -> dict[str, str]:
    """The elements of a successful answer; its first line is its status."""
    try:
        (status, reason), *elements = anvl.read(answer.content.decode(), escaped=True, where="EZID's answer")
    except (ValueError, BadInput) as error:
        raise Unavailable(f"EZID's answer cannot be read: {error}", code="ezid.answer") from error
    if status == "success" and answer.is_success:
        return dict(elements)
    if answer.status_code in _REFUSALS:
        raise _REFUSALS[answer.status_code](reason)
    raise BadInput(f"EZID: {reason}", code="ezid.bad-request", status=answer.status_code)
