"""What a message names that can be fetched: its attachments, and everything else that is shown with it. Pure.

Attachments, also those of forwarded messages, have ids of their own. The rest has none (pictures in previews and
components, stickers, custom emoji, portraits): the number of such a thing is made from its link. Messages are kept as
they came, so nothing is taken for granted here. A place that is neither the service's own nor configured is never
asked; what is there is named all the same, so that it can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from custody.channels.discord.answers import host_of
from custody.channels.snowflake import HIGHEST

EMOJI = re.compile(r"<(a?):(\w{1,64}):(\d{1,19})>")
STICKERS = {1: "png", 2: "png", 3: "json", 4: "gif"}  # by format_type
DEPTH = 12  # of components inside components

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    message: str
    name: str
    url: str
    id: int = 0  # 0: it has none
    size: int = -1  # as told; -1: nobody said

    @property
    def key(self) -> int:
        return self.id or int.from_bytes(sha256(self.plain.encode(errors="surrogatepass")).digest()[:8]) >> 1

    @property
    def plain(self) -> str:
        """Without the signature, which is another with every look."""
        return self.url.partition("?")[0]

    @property
    def host(self) -> str:
        """With its port; empty if the link cannot be read."""
        return host_of(self.url)


@dataclass(frozen=True, slots=True)
class Finder:
    hosts: frozenset[str]  # where the service keeps files
    cdn: str  # where it keeps what a message names without a link

    def of(self, raw: Raw) -> Iterator[Link]:
        return self._of(raw, str(raw.get("id", "")))

    def may_ask(self, link: Link) -> bool:
        return link.host in self.hosts

    def _of(self, raw: Raw, message: str) -> Iterator[Link]:
        yield from self._shown(raw, message)
        for one in _mappings(raw.get("message_snapshots")):
            if isinstance(one.get("message"), Mapping):
                yield from self._shown(one["message"], message)
        yield from self._portraits(raw, message)
        for reaction in _mappings(raw.get("reactions")):
            emoji = reaction.get("emoji")
            if isinstance(emoji, Mapping):
                yield from self._emoji(message, emoji.get("id"), emoji.get("name"), bool(emoji.get("animated")))

    def _shown(self, raw: Raw, message: str) -> Iterator[Link]:
        """What a message, or one that was forwarded, shows."""
        for one in _mappings(raw.get("attachments")):
            number = str(one.get("id", ""))
            if _text(one.get("url")) and _is_number(number) and 0 < int(number) <= HIGHEST:
                size = one.get("size")
                told = size if isinstance(size, int) and not isinstance(size, bool) else -1
                yield Link(
                    message=message,
                    name=_text(one.get("filename")) or "file",
                    url=str(one["url"]),
                    id=int(number),
                    size=told,
                )
        for embed in _mappings(raw.get("embeds")):
            yield from _pictures(embed, message, "embed")
        yield from _pictures(raw.get("components"), message, "component")
        for sticker in _mappings(raw.get("sticker_items")):
            number, kind = str(sticker.get("id", "")), sticker.get("format_type")
            if _is_number(number):
                name = f"{number}.{STICKERS.get(kind, 'png') if isinstance(kind, int) else 'png'}"
                yield Link(message, f"sticker-{name}", f"{self.cdn}/stickers/{name}")
        for animated, name, number in EMOJI.findall(_text(raw.get("content"))):
            yield from self._emoji(message, number, name, bool(animated))

    def _emoji(self, message: str, number: Any, name: Any, animated: bool) -> Iterator[Link]:
        if _is_number(str(number or "")):
            file = f"{number}.{'gif' if animated else 'png'}"
            yield Link(message, f"emoji-{_text(name) or number}-{file}", f"{self.cdn}/emojis/{file}")

    def _portraits(self, raw: Raw, message: str) -> Iterator[Link]:
        for person in (raw.get("author"), *_mappings(raw.get("mentions"))):
            if not isinstance(person, Mapping):
                continue
            number, picture = str(person.get("id", "")), _text(person.get("avatar"))
            if _is_number(number) and re.fullmatch(r"\w{1,64}", picture):
                yield Link(message, f"avatar-{number}.png", f"{self.cdn}/avatars/{number}/{picture}.png")


def _pictures(value: Any, message: str, name: str, depth: int = 0) -> Iterator[Link]:
    """Whatever has a link of its own, however deep: the service's copy of it where there is one."""
    if depth > DEPTH:
        return
    if isinstance(value, Mapping):
        copies = [value.get(one) for one in ("proxy_url", "proxy_icon_url") if _text(value.get(one))]
        link = copies[0] if copies else value.get("url") if "width" in value or "content_type" in value else None
        if link and _text(link):
            last = str(link).partition("?")[0].rpartition("/")[2]
            yield Link(message, f"{name}-{last or 'file'}", str(link))
        for one in value.values():
            yield from _pictures(one, message, name, depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _pictures(one, message, name, depth + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _mappings(value: Any) -> list[Raw]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
