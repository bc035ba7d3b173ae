"""Azure Storage queues as transport, instead of the engine's jobs; needs the extra `azure`.

One letter is one page of work. Its consumer does the page, sends the letter for the next one, and only then deletes
the one it has: a killed consumer's letter is seen again when its time is over, and doing a page twice does no harm.
What is not obvious, and tested against Azurite:

- There is no dead-letter queue. How often a letter was handed out is all that is told, so after five times the
  consumer moves it to `NAME-poison`, with the reason.
- Waiting is no failure: a letter that must wait is sent anew with a delay, so that its count begins again.
- Bodies are Base64. A control character in plain text is accepted and then breaks every later look at the queue.
  They are decoded here, not by the SDK, which would refuse a whole batch for one bad letter.
- One writer per channel: while a page is worked on, the store's lease on the channel is held.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import QueueMessage, QueueServiceClient

from custody.channels.condition import refusals
from custody.channels.condition.refusals import REFUSALS
from custody.channels.config import ChannelConfig
from custody.channels.context import Context, Request, Told, item_id
from custody.channels.coordinators.letters import (
    MOST_TOLD,
    Body,
    Letter,
    body_of,
    channel_of,
    cut,
    letter_of,
    told_of,
)
from custody.channels.crawl import crawler
from custody.channels.crawl.crawler import Progress
from custody.channels.discord.client import RateLimited
from custody.channels.files import fetch
from custody.channels.kinds import connection
from custody.channels.plain_text import plainly
from custody.channels.removal import orders, removal
from custody.channels.snowflake import parse
from custody.errors import CustodyError, Unavailable

MOST_TRIES = 5
VISIBLE_SECONDS = 300  # how long a consumer has for a page before the letter is given to another
NEVER = -1  # letters do not expire
POLL_SECONDS = 0.1
AGAIN_SECONDS = 30.0


class Later(Exception):
    """Not now: the letter is sent anew, to be seen after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


# --- The queues: what each carries, and what is done with it ---


def add_channel(mirror: Context, body: Body) -> list[Letter]:
    try:
        return _written(mirror, crawler.add(mirror, channel_of(body), bool(body.get("newest_first"))))
    except refusals.NotMirrored as refusal:
        return _ignored(mirror, "add-channel", body, str(refusal))


def add_messages(mirror: Context, body: Body) -> list[Letter]:
    """One page; the next one is the next letter's."""
    channel = channel_of(body)
    table = mirror.table(channel)
    progress = Progress.read(body, bool(body.get("newest_first")))
    try:
        progress = crawler.page(mirror, channel, table, progress)
        if progress.done:
            return _written(mirror, crawler.ended(mirror, channel, table, progress))
    except REFUSALS as refusal:
        return _written(mirror, refusals.set_aside(mirror, channel, refusal))
    except RateLimited:
        raise
    except Unavailable as trouble:
        refusals.stumbled(mirror, channel, trouble)
        raise
    more = {"newest_first": True} if progress.newest_first else {}
    return [Letter("add-messages", {"channel": str(channel), **progress.counted(), **more})]


def review_message(mirror: Context, body: Body) -> list[Letter]:
    channel, message = channel_of(body), parse(str(body["message"]))
    try:
        return _written(mirror, crawler.review(mirror, channel, message))
    except REFUSALS as refusal:
        return _written(mirror, refusals.set_aside(mirror, channel, refusal))


def fetch_files(mirror: Context, body: Body) -> list[Letter]:
    """Some files; the next ones are the next letter's."""
    channel = channel_of(body)
    try:
        crawler.still_mirrored(mirror, channel)
    except refusals.NotMirrored:
        return []
    done, told = fetch.batch(mirror, channel)
    return _written(mirror, told) if done else [*_written(mirror, told), Letter("fetch-files", body)]


def remove_channel(mirror: Context, body: Body) -> list[Letter]:
    """Begin the removal that the store has ordered under the id in the letter; why, and what goes along, it says."""
    channel, order = channel_of(body), str(body.get("order", ""))
    if why := orders.objection(mirror.item(channel), order):
        return _ignored(mirror, "remove-channel", body, why)
    begun = _written(mirror, removal.begin_ordered(mirror, channel))
    return [*begun, Letter("delete-messages", {"channel": str(channel), "order": order})]


def delete_messages(mirror: Context, body: Body) -> list[Letter]:
    """One page of our own blobs, so it works after a kick as well; only while the removal that it names is going on."""
    channel, order = channel_of(body), str(body.get("order", ""))
    item = mirror.item(channel)
    begun = item is not None and item.detail.get("mirrored") == "removing"
    if why := orders.objection(item, order) or ("" if begun else "this removal has not begun"):
        return _ignored(mirror, "delete-messages", body, why)
    if removal.remove_page(mirror, channel):
        return [Letter("delete-messages", {"channel": str(channel), "order": order})]
    return _written(mirror, removal.removed(mirror, channel))


def _ignored(mirror: Context, queue: str, body: Body, why: str) -> list[Letter]:
    """A letter for which the store knows no reason: it came twice, late, or from nobody. Nothing is done but told."""
    mirror.store.records.note(f"queue/{queue}", "ignored", "channels", letter=told_of(body), why=why)
    return []


Consumer = Callable[[Context, Body], list[Letter]]
CONSUMERS: dict[str, Consumer] = {
    "add-channel": add_channel,
    "add-messages": add_messages,
    "review-message": review_message,
    "fetch-files": fetch_files,
    "remove-channel": remove_channel,
    "delete-messages": delete_messages,
}


def _written(mirror: Context, told: Told) -> list[Letter]:
    if told.items or told.events:
        mirror.store.records.put(told.items, told.events, "channels")
    return [letter_of(request) for request in told.requests]


# --- Carrying letters ---


class Queues:
    def __init__(self, service: QueueServiceClient, prefix: str = "") -> None:
        names = [name + end for name in CONSUMERS for end in ("", "-poison")]
        with _refusals("queues"):
            self._clients = {name: service.get_queue_client(prefix + name) for name in names}
            for client in self._clients.values():
                try:
                    client.create_queue()
                except ResourceExistsError:
                    continue

    def send(self, request: Request) -> None:
        self.post(letter_of(request))

    def post(self, letter: Letter, delay: float = 0.0) -> None:
        self._post(letter.queue, json.dumps(letter.body, sort_keys=True).encode(), delay)

    def _post(self, queue: str, body: bytes, delay: float = 0.0) -> None:
        text = base64.b64encode(body).decode()
        with _refusals(queue):
            self._clients[queue].send_message(text, visibility_timeout=round(delay), time_to_live=NEVER)

    def take(self, queue: str, seconds: int) -> QueueMessage | None:
        with _refusals(queue):
            return self._clients[queue].receive_message(visibility_timeout=seconds)

    def drop(self, queue: str, message: QueueMessage) -> None:
        with _refusals(queue), _if_still_ours():
            self._clients[queue].delete_message(message)

    def put_off(self, queue: str, message: QueueMessage, seconds: float) -> None:
        """Seen again after so long, with its count."""
        with _refusals(queue), _if_still_ours():
            self._clients[queue].update_message(message, visibility_timeout=round(seconds))

    def poison(self, queue: str, message: QueueMessage, why: str) -> None:
        """Aside, where a person may look, with the reason."""
        told = {**cut(str(message.content)), "tries": message.dequeue_count, "why": why}
        self._post(f"{queue}-poison", json.dumps(told).encode())
        self.drop(queue, message)

    def waiting(self) -> dict[str, int]:
        """How many letters there are in each queue, those that somebody works on included. Azure says: about."""
        with _refusals("queues"):
            return {
                name: int(client.get_queue_properties().approximate_message_count or 0)
                for name, client in self._clients.items()
            }

    def poisoned(self, queue: str) -> list[dict[str, Any]]:
        with _refusals(queue):
            found = self._clients[f"{queue}-poison"].peek_messages(max_messages=32)
        return [dict(json.loads(base64.b64decode(one.content))) for one in found]


def open_queues(config: ChannelConfig, home: Path) -> Queues:
    return Queues(QueueServiceClient.from_connection_string(connection(config, home)))


@dataclass(frozen=True, slots=True)
class Post:
    """A consumer of all queues."""

    queues: Queues
    mirror: Context
    holder: str
    visible: int = VISIBLE_SECONDS
    again: float = AGAIN_SECONDS  # after something went wrong

    def run(self, stop: Callable[[], bool], until_idle: bool = False) -> int:
        """Until told to stop or, if wanted, until every queue is empty; answers how many letters were dealt with."""
        dealt = 0
        while not stop():
            done = sum(self.one(queue) for queue in CONSUMERS)
            dealt += done
            if done:
                continue
            if until_idle and not any(self.queues.waiting()[queue] for queue in CONSUMERS):
                break
            time.sleep(POLL_SECONDS)
        return dealt

    def one(self, queue: str) -> int:
        message = self.queues.take(queue, self.visible)
        if message is None:
            return 0
        body = body_of(str(message.content))
        if body is None:
            self._set_aside(queue, message, "not a letter: Base64 of a JSON object with a channel's number is wanted")
        elif (message.dequeue_count or 0) > MOST_TRIES:
            self._set_aside(queue, message, f"tried {MOST_TRIES} times")
        else:
            self._deal(queue, message, body)
        return 1

    def _deal(self, queue: str, message: QueueMessage, body: Body) -> None:
        try:
            with self._writing(channel_of(body)):
                letters = CONSUMERS[queue](self.mirror, body)
        except Later as later:
            letters, wait = [Letter(queue, body)], later.seconds
        except RateLimited as limit:
            letters, wait = [Letter(queue, body)], float(limit.facts.get("retry_after", 1.0))
        except Unavailable:
            letters, wait = [Letter(queue, body)], self.again
        except Exception as error:  # it is tried again, and put aside after a few times
            why = str(error) if isinstance(error, CustodyError) else repr(error)
            told = {"letter": told_of(body), "why": plainly(why)[:MOST_TOLD]}
            self.mirror.store.records.note(f"queue/{queue}", "stumbled", self.holder, **told)
            self.queues.put_off(queue, message, self.again)
            return
        else:
            wait = 0.0
        for letter in letters:
            self.queues.post(letter, wait)
        self.queues.drop(queue, message)

    @contextmanager
    def _writing(self, channel: int) -> Iterator[None]:
        lease = self.mirror.store.leases.claim(item_id(channel), self.holder, self.visible)
        if lease is None:
            raise Later(1.0)
        try:
            yield
        finally:
            self.mirror.store.leases.settle(lease)

    def _set_aside(self, queue: str, message: QueueMessage, why: str) -> None:
        self.queues.poison(queue, message, why)
        told = plainly(str(message.content)[:MOST_TOLD])
        self.mirror.store.records.note(f"queue/{queue}", "poisoned", self.holder, letter=told, why=why)


@contextmanager
def _if_still_ours() -> Iterator[None]:
    """When our time was over another has the letter, or has dealt with it."""
    try:
        yield
    except ResourceNotFoundError:
        return
    except AzureError as error:
        if getattr(error, "error_code", "") != "PopReceiptMismatch":
            raise


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    try:
        yield
    except AzureError as error:
        told = str(error.message).splitlines()[0] if error.message else type(error).__name__
        raise Unavailable(told, code="queue.unavailable", where=where) from error
