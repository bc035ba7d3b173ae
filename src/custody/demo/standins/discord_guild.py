"""A guild that never was: channels, threads, messages and files, all computed from a seed.

Nothing is stored but what was changed by hand, so a channel of a million messages costs nothing until it is
read. The n-th message of a channel is always the same one. Several share a millisecond, ids go up to 2^63,
some messages have types and fields that no documentation mentions, and some begin a thread that has their id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from custody.channels.snowflake import EPOCH, SHIFT, time_of

TEXT, VOICE, NEWS, PUBLIC_THREAD, PRIVATE_THREAD, FORUM = 0, 2, 5, 11, 12, 15

# fmt: off
WORDS = (
    "archive", "box", "carbon", "date", "edge", "fold", "gilt", "hinge", "index",
    "joint", "key", "leaf", "margin", "note", "opaque", "page", "quire", "recto",
    "shelf", "trace", "upper", "verso", "ward", "xylograph", "yard", "zine",
)
# fmt: on

Raw = dict[str, Any]


@dataclass(slots=True)
class Channel:
    id: int
    kind: int
    name: str
    count: int = 0  # messages
    parent: int = 0
    begins: int = 150_000_000_000  # milliseconds after the first id's epoch
    step: int = 1_000  # milliseconds for one burst
    burst: int = 3  # messages in one millisecond
    archived_at: datetime | None = None  # threads
    joined: bool = False  # private threads: the bot is in it
    unlisted: bool = False  # threads: no list shows it, as when lists lag
    starter: bool = False  # its first message has its own id, as in a forum
    unreadable: bool = False  # without VIEW_CHANNEL
    no_history: bool = False  # without READ_MESSAGE_HISTORY
    deleted: set[int] = field(default_factory=set)
    edited: dict[int, Raw] = field(default_factory=dict)


class World:
    def __init__(self, seed: int = 1, guild: int = 90_000_000_000_000) -> None:
        self.seed = seed
        self.guild = guild
        self.channels: dict[int, Channel] = {}

    # --- Making channels ---

    def add(self, kind: int, name: str, count: int = 0, **more: Any) -> Channel:
        channel = Channel(more.pop("id", self.guild + 1 + len(self.channels)), kind, name, count, **more)
        self.channels[channel.id] = channel
        return channel

    def add_thread(self, parent: Channel, number: int, count: int, **more: Any) -> Channel:
        """A thread that begins at the n-th message of a channel, or is the n-th post of a forum."""
        one, forum = self.message_id(parent, number), parent.kind == FORUM
        begins = (one >> SHIFT) + 1
        return self.add(
            more.pop("kind", PUBLIC_THREAD),
            f"{parent.name}-{number}",
            count,
            id=one,
            parent=parent.id,
            begins=begins,
            starter=forum,
            **more,
        )

    # --- Messages by their number ---

    def message_id(self, channel: Channel, number: int) -> int:
        if channel.starter:
            if number == 0:
                return channel.id
            number -= 1
        group, place = divmod(number, channel.burst)
        late = self._number(channel.id, "late", group) % channel.step
        process = self._number(channel.id, "process", group) % 1024
        return (channel.begins + group * channel.step + late) << SHIFT | process << 12 | place

    def ids(self, channel: Channel, low: int, high: int) -> range:
        """The numbers of messages with low < id < high, deleted ones included."""
        key = lambda number: self.message_id(channel, number)  # noqa: E731
        numbers = range(channel.count)
        return numbers[bisect_left(numbers, low + 1, key=key) : bisect_left(numbers, high, key=key)]

    def message(self, channel: Channel, number: int) -> Raw | None:
        """The message as it is now; None when it was deleted."""
        one = self.message_id(channel, number)
        if one in channel.deleted:
            return None
        dice = self._number(channel.id, "message", number)
        author = dice % 23
        raw: Raw = {
            "id": str(one),
            "channel_id": str(channel.id),
            "type": 0,
            "author": {
                "id": str(self.guild + 1000 + author),
                "username": f"user{author}",
                "global_name": None,
            },
            "content": self._text(channel, number),
            "timestamp": stamp(time_of(one)),
            "edited_timestamp": None,
            "attachments": [],
            "embeds": [],
            "mentions": [],
            "pinned": dice % 500 == 0,
        }
        raw |= self._odd_things(channel, number, dice)
        return raw | channel.edited.get(one, {})

    def _odd_things(self, channel: Channel, number: int, dice: int) -> Raw:
        odd: Raw = {}
        if dice % 97 == 0:
            odd["attachments"] = [self._attachment(channel, number)]
        if dice % 61 == 0 and number:
            reference = {
                "message_id": str(self.message_id(channel, number - 1)),
                "channel_id": str(channel.id),
            }
            odd |= {"type": 19, "message_reference": reference}
        if dice % 211 == 0:
            odd |= {
                "type": 46 + dice % 50,
                "not_documented": {"n": number, "π": [None, 1.5, {"deep": "yes"}]},
            }
        if dice % 53 == 0:
            odd["edited_timestamp"] = stamp(time_of(self.message_id(channel, number)) + timedelta(minutes=5))
        if number == 0 and channel.parent and not channel.starter:
            reference = {"message_id": str(channel.id), "channel_id": str(channel.parent)}
            odd |= {"type": 21, "content": "", "message_reference": reference}
        return odd

    def _text(self, channel: Channel, number: int) -> str:
        dice = self._number(channel.id, "text", number)
        return " ".join(WORDS[(dice >> 5 * n) % len(WORDS)] for n in range(3 + dice % 9)) + f" {number}"

    def _attachment(self, channel: Channel, number: int) -> Raw:
        one = self.message_id(channel, number) + 4096
        size = 100 + self._number(channel.id, "size", number) % 5000
        kind = {"content_type": "application/octet-stream", "size": size}
        return {"id": str(one), "filename": f"scan-{number}.bin", "channel": channel.id} | kind

    def file(self, attachment: int, size: int) -> bytes:
        """The bytes of an attachment."""
        piece = blake2b(f"{self.seed}/{attachment}".encode()).digest()
        return (piece * (size // len(piece) + 1))[:size]

    # --- Changing things ---

    def post(self, channel: Channel, more: int = 1) -> list[int]:
        numbers = range(channel.count, channel.count + more)
        channel.count += more
        return [self.message_id(channel, number) for number in numbers]

    def edit(self, channel: Channel, message: int, at: datetime, content: str) -> None:
        channel.edited[message] = {"content": content, "edited_timestamp": stamp(at)}

    def delete(self, channel: Channel, message: int) -> None:
        channel.deleted.add(message)

    # --- Asking ---

    def threads(self, parent: int | None = None) -> Iterator[Channel]:
        for channel in self.channels.values():
            if channel.parent and parent in (None, channel.parent):
                yield channel

    def about(self, channel: Channel) -> Raw:
        """As Discord describes it. The last message may have been deleted since; a forum's is a thread."""
        last = max((thread.id for thread in self.threads(channel.id)), default=None)
        if channel.kind != FORUM:
            last = self.message_id(channel, channel.count - 1) if channel.count else None
        raw: Raw = {
            "id": str(channel.id),
            "type": channel.kind,
            "name": channel.name,
            "guild_id": str(self.guild),
            "parent_id": str(channel.parent) if channel.parent else None,
            "last_message_id": str(last) if last else None,
        }
        if channel.parent:
            archived = channel.archived_at or time_of(channel.id)
            raw["thread_metadata"] = {
                "archived": channel.archived_at is not None,
                "archive_timestamp": stamp(archived),
                "locked": False,
            }
            raw["message_count"] = channel.count
        return raw

    def _number(self, *what: object) -> int:
        key = "/".join(map(str, (self.seed, *what))).encode()
        return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


def stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def since(moment: datetime) -> int:
    """Milliseconds after the first id's epoch, for a channel that begins at a date."""
    return (moment - EPOCH) // timedelta(milliseconds=1)
