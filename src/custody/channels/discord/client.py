"""Discord's REST interface, as far as an archive needs it.

Every field is handed on as it came, and so is every page: what it is worth, others judge (`trust`). Rate limits are
obeyed and waited for up to `patience`; a longer wait is raised as `RateLimited` with the seconds, so that a worker can
do something else meanwhile. What is worth trying again is tried again by what went wrong, not by what the message said;
what is not is raised at once under a name of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from custody import __version__
from custody.channels.config import API
from custody.channels.discord.answers import (
    BAN_WITHOUT_A_TIME,
    OTHER_IDS,
    Answer,
    fault,
    host_of,
    is_id,
    is_thread,
    parsed,
    seconds,
)
from custody.channels.discord.rate_limits import Buckets, Budget, Route, Slots, Spaced
from custody.channels.plain_text import plainly
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable, Unsafe

AGENT = f"DiscordBot (custody, {__version__})"  # without this form Discord's front door stays shut
CDN = "https://cdn.discordapp.com"
MEDIA_HOSTS = frozenset(
    {"cdn.discordapp.com", "media.discordapp.net", "images-ext-1.discordapp.net", "images-ext-2.discordapp.net"}
)
MOST_BYTES = 32 * 2**20  # of one answer; a page of 100 messages has at most a few
MOST_SECONDS = 120.0  # for one answer: a body that comes a byte at a time is none
FILE_SECONDS = 1_800.0  # and for one file
TRIES = 6
TRIES_WHEN_DOWN = 2  # after a question that got no answer at all, until one does
PATIENCE = 60.0
OVERSLEPT = 0.1
LEAST_LIMIT = 1.0  # seconds that each limit counts against our patience, also one that is over at once
TOKEN_SECONDS = 3_600.0  # before a token that was refused is tried once more

Raw = dict[str, Any]


class RateLimited(Unavailable):
    """Asked to wait for longer than we will: try again after `facts["retry_after"]` seconds."""

    code = "discord.rate-limited"


class Unreadable(Refused):
    """We may not read this. Asking again would not help, and asking often would get us banned."""

    code = "discord.unreadable"


class WrongKind(Refused):
    """This kind of channel does not have what was asked for."""

    code = "discord.wrong-kind"


class Gone(NotFound):
    """No such channel, guild or message, or no longer."""

    code = "discord.gone"


class Withheld(Refused):
    """The file server will not give this, to anybody: asking again would not help."""

    code = "discord.withheld"


class NoFile(Unavailable):
    """The file server gave nothing, or not all of it; later it may."""

    code = "discord.file"


class BadToken(Unsafe):
    """The bot's token is not accepted. No further request is sent with it."""

    code = "discord.token"


@dataclass(slots=True)
class Discord:
    token: str
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=30.0))
    slots: Slots = field(default_factory=Spaced)
    buckets: Buckets = field(default_factory=Buckets)
    budget: Budget = field(default_factory=Budget)
    api: str = API
    media_hosts: frozenset[str] = MEDIA_HOSTS
    patience: float = PATIENCE
    sleep: Callable[[float], None] = time.sleep
    fresh_token: Callable[[], str] | None = None  # reads it again where it is kept; raises if there is none
    _dead: bool = False
    _died: float = 0.0
    _said: str = ""  # why there is no other token
    _down: bool = False  # the last question that was asked to the end had no answer

    @property
    def dead(self) -> bool:
        """The token was refused. That ends when there is another one; and after an hour it is tried once more."""
        if self._dead and not self._renewed(self.token):
            self._dead = time.monotonic() - self._died < TOKEN_SECONDS
        return self._dead or (not self.token and not self._renewed(self.token))

    @property
    def token_mark(self) -> str:
        """Tells one token from another and nothing else of it."""
        return sha256(f"token {self.token}".encode()).hexdigest()[:8]

    @property
    def spoilt(self) -> str:
        """Why no token can be read where it is kept; empty if one can, or if nobody had to look."""
        return self._said if self.dead else ""

    def _renewed(self, used: str) -> bool:
        """Is there another token than the one that was used? Then that is taken. Where the file has none that can be
        used, the old one stays: it may only be on its way."""
        if self.token == used:
            try:
                found, self._said = self.fresh_token() if self.fresh_token else "", ""
            except CustodyError as error:
                found, self._said = "", str(error)
            if not found or found == used:
                return False
            self.token = found
        self._dead = False
        return True

    # --- What can be asked ---

    def me(self) -> Raw:
        return self._object(Route("/users/@me", 0))

    def application(self) -> Raw:
        return self._object(Route("/applications/@me", 0))

    def channel(self, channel: int) -> Raw:
        """What is said of a channel; of another one, or in a form that nobody can read, it is no answer."""
        route = Route("/channels/{top}", channel)
        found = self._object(route)
        thread = found.get("thread_metadata")
        named = found.get("id") == str(channel) and type(found.get("type")) is int
        if not named or not isinstance(thread, dict | None) or not all(is_id(found.get(one)) for one in OTHER_IDS):
            raise Unavailable("not the answer that was expected", code="discord.answer", where=route.path())
        return found

    def messages(self, channel: int, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Any:
        """A page as it came, for others to judge: of the oldest after an id, or of the newest before one."""
        bounds = {"after": after, "before": before}
        asked = {name: str(value) for name, value in bounds.items() if value is not None}
        return self._ask(Route("/channels/{top}/messages", channel), limit=str(limit), **asked)

    def message(self, channel: int, message: int) -> Raw:
        return self._object(Route("/channels/{top}/messages/{message}", channel), message=message)

    def channels(self, guild: int) -> list[Raw]:
        return self._list(Route("/guilds/{top}/channels", guild))

    def active_threads(self, guild: int) -> list[Raw]:
        """Those that can be read as threads. Something that is no list of threads is no answer."""
        route = Route("/guilds/{top}/threads/active", guild)
        found = self._object(route).get("threads")
        if not isinstance(found, list):
            raise Unavailable("not the answer that was expected", code="discord.answer", where=route.path())
        return [one for one in found if is_thread(one)]

    def archived_threads(self, channel: int, before: str = "", kind: str = "public") -> Raw:
        """A page of archived threads, the last archived first. Here a page begins below a date, not an id."""
        route = Route(f"/channels/{{top}}/threads/archived/{kind}", channel)
        return self._object(route, limit="100", **({"before": before} if before else {}))

    def joined_threads(self, channel: int, before: str = "") -> Raw:
        """A page of archived private threads that the bot is in, the newest first; this one begins below an id."""
        route = Route("/channels/{top}/users/@me/threads/archived/private", channel)
        return self._object(route, limit="100", **({"before": before} if before else {}))

    def attachment(self, url: str) -> Iterator[bytes]:
        """The bytes behind an attachment's link. The token is not shown there; to another place we are sent once.

        A connection that breaks before anything came, as one does that was kept open for too long, is tried once more.
        """
        moves, tries, came = 2, 2, False
        while moves:
            if host_of(url) not in self.media_hosts:
                raise Unsafe("not a place where Discord keeps files", code="discord.host", where=url)
            self._stand_in_line(url)
            began = time.monotonic()
            try:
                with self.http.stream("GET", url, headers={"User-Agent": AGENT}) as answer:
                    if answer.status_code == 200:
                        for piece in answer.iter_bytes(2**20):
                            came = True
                            if time.monotonic() - began > FILE_SECONDS:
                                raise NoFile("the file server takes too long", where=url)
                            yield piece
                        return
                    if not answer.is_redirect:
                        raise _file_refusal(url, answer.status_code, answer.headers.get("retry-after", ""))
                    url, moves = urljoin(url, answer.headers.get("location", "")), moves - 1
            except httpx2.RequestError as error:
                tries -= 1
                if tries and not came:
                    continue
                raise NoFile(f"the file server does not answer: {error}", where=url) from error
            except (httpx2.InvalidURL, ValueError) as error:
                raise Withheld(f"the file server names a place that is none: {error}", where=url) from error
        raise Withheld("the file server sends us from place to place", where=url)

    @property
    def cdn(self) -> str:
        """Where pictures are that have no link in a message: a server that is not Discord keeps them itself."""
        own = urlsplit(self.api)
        return CDN if self.api == API else f"{own.scheme}://{own.netloc}"

    # --- Asking ---

    def _object(self, route: Route, **parts: Any) -> Raw:
        found = self._ask(route, **parts)
        if not isinstance(found, dict):
            raise Unavailable("not the answer that was expected", code="discord.answer", where=route.template)
        return found

    def _list(self, route: Route, **parts: Any) -> list[Raw]:
        found = self._ask(route, **parts)
        if not isinstance(found, list) or not all(isinstance(raw, dict) and "id" in raw for raw in found):
            raise Unavailable("not the answer that was expected", code="discord.answer", where=route.template)
        return found

    def _ask(self, route: Route, **parts: Any) -> Any:
        path = route.path(**parts)
        query = {name: value for name, value in parts.items() if f"{{{name}}}" not in route.template}
        failures, left, renewals = 0, self.patience, 2
        while True:
            self._take_turn(route, path)
            token = self.token
            answer = self._send(path, query, token)
            self.buckets.learn(route, answer.headers)
            if answer.status == 200 and answer.body is not None:
                self._down = False
                return answer.body
            if answer.status == 429:
                left -= max(LEAST_LIMIT, self._limited(route, answer))
                if left < 0:
                    raise RateLimited("Discord asks us to wait", where=path, retry_after=answer.retry_after)
            elif answer.status == 401 and renewals and self._renewed(token):
                self.budget.spend()
                renewals -= 1  # the token was changed since: who was asked with the old one is asked again
            elif answer.status in (0, 200) or answer.status >= 500:
                failures += 1
                if failures >= (TRIES_WHEN_DOWN if self._down else TRIES):
                    self._down = True
                    raise Unavailable(answer.trouble, code="discord.down", where=path, hint="try again later")
                self.sleep(2 ** (failures - 1) * random.uniform(0.5, 1.0))
            else:
                raise self._refusal(path, answer)

    def _take_turn(self, route: Route, path: str) -> None:
        if self.dead:
            raise BadToken(self._said or "the token was refused before", where=path)
        self.budget.check()
        while (wait := self.buckets.wait(route)) > 0:
            self._wait(wait, path)
        self._stand_in_line(path)

    def _stand_in_line(self, path: str) -> None:
        """Who oversleeps his turn takes another: late ones would come all at once."""
        for _ in range(3):  # where it is always late, the machine is slower than the limit
            asked = time.monotonic()
            wait = self.slots.take()
            self._wait(wait, path)
            if time.monotonic() - asked - wait < OVERSLEPT:
                return

    def _wait(self, seconds: float, path: str) -> None:
        if seconds > self.patience:
            raise RateLimited("it is not our turn for a while", where=path, retry_after=seconds)
        if seconds > 0:
            self.sleep(seconds)

    def _send(self, path: str, query: dict[str, str], token: str) -> Answer:
        headers = {"Authorization": f"Bot {token}", "User-Agent": AGENT}
        data, began = bytearray(), time.monotonic()
        try:
            with self.http.stream("GET", self.api + path, params=query, headers=headers) as answer:
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > MOST_BYTES or time.monotonic() - began > MOST_SECONDS:
                        raise Unavailable("an answer without end", code="discord.answer", where=path)
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            return Answer(0, {}, None, f"no answer: {type(error).__name__} {error}")
        body, said = parsed(data), f"Discord says {answer.status_code}"
        if body is None and answer.status_code == 200:
            said += f", and its answer is none: {fault(data)}"
        return Answer(answer.status_code, dict(answer.headers), body, said)

    def _limited(self, route: Route, answer: Answer) -> float:
        """Remember whom a 429 is for; answers the seconds it asks for."""
        wait = answer.retry_after
        everybody = answer.body is None or answer.told("global") or answer.headers.get("x-ratelimit-global")
        if answer.headers.get("x-ratelimit-scope") != "shared":
            self.budget.spend()
        if everybody:  # also a page of HTML: that is not the interface but the front door, for our whole address
            self.slots.pause(wait)
        else:
            self.buckets.close(route, wait)
        return wait

    def _refusal(self, path: str, answer: Answer) -> Exception:
        code, said = answer.told("code"), plainly(answer.told("message"))[:300] or answer.trouble
        if answer.status in (401, 403):
            self.budget.spend()
        if answer.status == 401:
            self._dead, self._died = True, time.monotonic()
            return BadToken(said, where=path, hint="give the bot's token again")
        if code == 50024:
            return WrongKind(said, where=path, discord=code)
        if answer.status == 403 and answer.body is None:
            return Unavailable("Discord's front door refuses us", code="discord.blocked", where=path)
        kind = {400: BadInput, 403: Unreadable, 404: Gone}.get(answer.status, Unavailable)
        return kind(said, where=path, discord=code)


def _file_refusal(url: str, status: int, retry_after: str) -> Exception:
    said = f"the file server says {status}"
    if status == 429:
        wait = seconds(retry_after)
        return RateLimited(said, where=url, retry_after=BAN_WITHOUT_A_TIME if wait is None else wait)
    if status == 451:
        return Withheld(said, where=url)
    if 400 <= status < 500:
        return Gone(said, where=url, hint="fetch the message again for a fresh link")
    return NoFile(said, where=url)
