"""A stand-in for Discord on loopback, faithful in what an archive meets, for tests and the demonstration.

    with Standin(world, clock) as discord:
        client = Discord("token", api=discord.api, media_hosts=discord.media_hosts)

`discord_guild.py` has what there is to read, `discord_traffic.py` the limits and `Switches`: everything that can go
wrong.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from custody.channels.snowflake import HIGHEST
from custody.demo.standins.discord_guild import FORUM, PRIVATE_THREAD, Channel, Raw, World
from custody.demo.standins.discord_traffic import Reply, Switches, Traffic

AGENT = re.compile(r"DiscordBot \(.+, .+\)")
FILES = ("/attachments/", "/avatars/", "/emojis/", "/stickers/", "/external/")
MESSAGE_CONTENT_LIMITED = 1 << 19
EMPTIED = {"content": "", "embeds": [], "attachments": [], "components": []}


class Standin:
    def __init__(self, world: World, clock: Callable[[], datetime], switches: Switches | None = None) -> None:
        self.world = world
        self.clock = clock
        self.switches = switches or Switches()
        self.traffic = Traffic(self.switches, clock)
        self.asked: list[tuple[str, int]] = []  # path and status of every request
        self.times: list[float] = []  # when each came, on this machine's steady clock
        self.pages: dict[int, int] = {}
        self._guard = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def api(self) -> str:
        return f"http://{self.place}/api/v10"

    @property
    def media_hosts(self) -> frozenset[str]:
        return frozenset({self.place})

    def busiest_second(self) -> int:
        """The most requests that came within any one second."""
        most = first = 0
        for last, at in enumerate(self.times):
            while at - self.times[first] >= 1.0:
                first += 1
            most = max(most, last - first + 1)
        return most

    # --- One request ---

    def answer(self, target: str, headers: Any) -> Reply | None:
        """None means that the connection is dropped without a word."""
        url = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        with self._guard:
            self.times.append(time.monotonic())
            of_files = url.path.startswith(FILES)
            reply = self._file_or_trouble(url.path, query) if of_files else self._interface(url.path, query, headers)
            if reply:
                self.traffic.note(reply)
            self.asked.append((target, reply.status if reply else 0))
        return reply

    def _interface(self, path: str, query: dict[str, str], headers: Any) -> Reply | None:
        self.traffic.calls += 1
        trouble = self.switches.fail_at.get(self.traffic.calls)
        if trouble is None and self.switches.trouble:
            trouble = self.switches.trouble(self.traffic.calls)
        if trouble == "drop":
            return None
        if isinstance(trouble, str):
            return self.traffic.limited(trouble)
        if isinstance(trouble, int):
            return Reply(trouble, "<html>bad gateway</html>")
        if banned := self.traffic.banned():
            return banned
        if not AGENT.fullmatch(headers.get("User-Agent") or ""):
            return Reply(403, "<html>error code: 1010</html>")
        if headers.get("Authorization") != f"Bot {self.switches.token}":
            return Reply(401, {"message": "401: Unauthorized", "code": 0})
        path = path.removeprefix("/api/v10")
        reply = self._routed(path, query)
        return self.switches.odd(path, query, reply) if self.switches.odd else reply

    def _routed(self, path: str, query: dict[str, str]) -> Reply:
        for pattern, handle in ROUTES:
            if match := re.fullmatch(pattern, path):
                top = match[1] if match.groups() else ""
                if limited := self.traffic.over(pattern, top):
                    return limited
                reply = handle(self, query, *match.groups())
                return Reply(reply.status, reply.body, reply.headers | self.traffic.headers(pattern, top))
        return Reply(404, {"message": "404: Not Found", "code": 0})

    # --- Routes ---

    def me(self, _: dict[str, str]) -> Reply:
        return Reply(200, {"id": str(self.world.guild + 999), "username": "archivist", "bot": True})

    def application(self, _: dict[str, str]) -> Reply:
        flags = MESSAGE_CONTENT_LIMITED if self.switches.message_content else 0
        return Reply(200, {"id": str(self.world.guild + 998), "name": "archivist", "flags": flags})

    def channel(self, _: dict[str, str], channel: str) -> Reply:
        found = self._readable(channel)
        return found if isinstance(found, Reply) else Reply(200, self.world.about(found))

    def messages(self, query: dict[str, str], channel: str) -> Reply:
        found = self._readable(channel)
        if isinstance(found, Reply):
            return found
        if found.kind == FORUM:
            return _error(400, 50024, "Cannot execute action on this channel type")
        limit = query.get("limit", "50")
        bounds = [query[name] for name in ("before", "after", "around") if name in query]
        if not all(text.isdigit() for text in (limit, *bounds)) or not 1 <= int(limit) <= 100:
            return _error(400, 50035, "Invalid Form Body")
        self.pages[found.id] = self.pages.get(found.id, 0) + 1
        if self.switches.between_pages:
            self.switches.between_pages(found.id, self.pages[found.id])
        page = [] if found.no_history else self._page(found, query, int(limit))
        ascending = "after" in query and self.switches.after_ascends
        return Reply(200, sorted(page, key=lambda raw: int(raw["id"]), reverse=not ascending))

    def _page(self, channel: Channel, query: dict[str, str], limit: int) -> list[Raw]:
        if "around" in query:
            half, middle = max(1, limit // 2), int(query["around"])
            return self._some(channel, middle - 1, HIGHEST + 1, half, step=1) + self._some(
                channel, 0, middle, half, step=-1
            )
        low, high = int(query.get("after", -1)), int(query.get("before", HIGHEST + 1))
        return self._some(channel, low, high, limit, step=1 if "after" in query else -1)

    def _some(self, channel: Channel, low: int, high: int, limit: int, step: int) -> list[Raw]:
        """Up to so many that are still there, from one end."""
        page: list[Raw] = []
        for number in self.world.ids(channel, low, high)[::step]:
            if raw := self.world.message(channel, number):
                page.append(self._shown(raw))
            if len(page) == limit:
                break
        return page

    def message(self, _: dict[str, str], channel: str, message: str) -> Reply:
        found = self._readable(channel)
        if isinstance(found, Reply):
            return found
        numbers = self.world.ids(found, int(message) - 1, int(message) + 1)
        raw = self.world.message(found, numbers[0]) if numbers else None
        return Reply(200, self._shown(raw)) if raw else _error(404, 10008, "Unknown Message")

    def guild_channels(self, _: dict[str, str], guild: str) -> Reply:
        if int(guild) != self.world.guild:
            return _error(404, 10004, "Unknown Guild")
        return Reply(200, [self.world.about(one) for one in self.world.channels.values() if not one.parent])

    def active_threads(self, _: dict[str, str], guild: str) -> Reply:
        if int(guild) != self.world.guild:
            return _error(404, 10004, "Unknown Guild")
        active = [self.world.about(one) for one in self.world.threads() if not one.archived_at and not one.unlisted]
        return Reply(200, {"threads": active, "members": []})

    def archived_threads(self, query: dict[str, str], channel: str, kind: str) -> Reply:
        found = self._readable(channel)
        if isinstance(found, Reply):
            return found
        before, limit = query.get("before", "9999"), int(query.get("limit", "50"))
        if not re.match(r"\d{4}(-|$)", before):  # a date here, not an id
            return _error(400, 50035, "Invalid Form Body")
        private = kind == "private"
        if private and self.switches.no_private_threads:
            return _error(403, 50001, "Missing Access")
        threads = [one for one in self.world.threads(found.id) if (one.kind == PRIVATE_THREAD) == private]
        told = [self.world.about(one) for one in threads if one.archived_at and not one.unlisted]
        older = [one for one in told if one["thread_metadata"]["archive_timestamp"] < before]
        older.sort(key=lambda one: str(one["thread_metadata"]["archive_timestamp"]), reverse=True)
        return Reply(200, {"threads": older[:limit], "members": [], "has_more": len(older) > limit})

    def joined_threads(self, query: dict[str, str], channel: str) -> Reply:
        """Archived private threads that the bot is in: from an id on, and without the right to manage threads."""
        found = self._readable(channel)
        if isinstance(found, Reply):
            return found
        before, limit = int(query.get("before", HIGHEST)), int(query.get("limit", "50"))
        threads = [one for one in self.world.threads(found.id) if one.kind == PRIVATE_THREAD and one.joined]
        told = sorted((one for one in threads if one.archived_at and one.id < before), key=lambda one: -one.id)
        listed = [self.world.about(one) for one in told[:limit]]
        return Reply(200, {"threads": listed, "members": [], "has_more": len(told) > limit})

    def _readable(self, channel: str) -> Channel | Reply:
        found = self.world.channels.get(int(channel))
        if found is None:
            return _error(404, 10003, "Unknown Channel")
        return _error(403, 50001, "Missing Access") if found.unreadable else found

    # --- Files ---

    def _shown(self, raw: Raw) -> Raw:
        """With links that are fresh as of now; without content if the bot may not see it."""
        if not self.switches.message_content:
            return raw | EMPTIED
        return raw | {"attachments": [self._linked(one) for one in raw["attachments"]]}

    def _linked(self, attachment: Raw) -> Raw:
        path = f"/attachments/{attachment['channel']}/{attachment['id']}/{attachment['filename']}"
        begins = int(self.clock().timestamp())
        ends = int((self.clock() + timedelta(seconds=self.switches.link_seconds)).timestamp())
        query = f"ex={ends:x}&is={begins:x}&hm={self._signed(path, f'{ends:x}')}"
        shown = {name: value for name, value in attachment.items() if name != "channel"}
        return shown | {"url": f"http://{self.place}{path}?{query}"}

    def _signed(self, path: str, ends: str) -> str:
        return blake2b(f"{self.world.seed}{path}{ends}".encode(), digest_size=32).hexdigest()

    def _file_or_trouble(self, path: str, query: dict[str, str]) -> Reply | None:
        trouble = self.switches.file_trouble(path) if self.switches.file_trouble else None
        if trouble == "drop":
            return None
        if isinstance(trouble, int):
            return Reply(trouble, "<html>no</html>")
        if trouble and trouble != "short":
            return Reply(302, "", {"Location": trouble})
        reply = self._file(path, query) if path.startswith("/attachments/") else Reply(200, f"picture {path}".encode())
        return Reply(200, reply.body[:-1]) if trouble and reply.status == 200 else reply

    def _file(self, path: str, query: dict[str, str]) -> Reply:
        ends = query.get("ex", "0")
        good = query.get("hm") == self._signed(path, ends)
        if not good or int(ends, 16) <= self.clock().timestamp():
            return Reply(404, "This content is no longer available.")
        _, _, channel, attachment, _ = path.split("/")
        found = self.world.channels[int(channel)]
        one = int(attachment) - 4096
        raw = self.world.message(found, self.world.ids(found, one - 1, one + 1)[0])
        size = raw["attachments"][0]["size"] if raw else 0
        return Reply(200, self.world.file(int(attachment), size)) if raw else Reply(404, "gone")


ROUTES: list[tuple[str, Callable[..., Reply]]] = [
    (r"/users/@me", Standin.me),
    (r"/applications/@me", Standin.application),
    (r"/channels/(\d+)", Standin.channel),
    (r"/channels/(\d+)/messages", Standin.messages),
    (r"/channels/(\d+)/messages/(\d+)", Standin.message),
    (r"/guilds/(\d+)/channels", Standin.guild_channels),
    (r"/guilds/(\d+)/threads/active", Standin.active_threads),
    (r"/channels/(\d+)/threads/archived/(public|private)", Standin.archived_threads),
    (r"/channels/(\d+)/users/@me/threads/archived/private", Standin.joined_threads),
]


def _error(status: int, code: int, message: str) -> Reply:
    return Reply(status, {"message": message, "code": code})


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news here."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(standin: Standin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            reply = standin.answer(self.path, self.headers)
            if reply is None:
                self.close_connection = True
                return
            data, kind = reply.encoded()
            self.send_response(reply.status)
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(len(data)),
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self._write(data)

        def _write(self, data: bytes) -> None:
            if not standin.switches.slow_seconds:
                self.wfile.write(data)
                return
            for start in range(0, len(data), 1 + len(data) // 4):
                self.wfile.write(data[start : start + 1 + len(data) // 4])
                time.sleep(standin.switches.slow_seconds)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(standin.clock().timestamp() if timestamp is None else timestamp)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
