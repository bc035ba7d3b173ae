"""Takes secrets out of output before it is kept.

A task prints what it likes, and what it was given it can print in disguise. `patterns` lists the disguises
that happen by accident (encodings that tools apply on the way to a log); `Masker` replaces them in a stream
whose pieces may cut a secret in two. This is best effort against mistakes, not against a task that wants to
leak: that one is stopped by not giving it the secret.
"""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse

MASK = b"***"
SHORTEST = 4  # a shorter value would turn half of the output into stars


def patterns(secret: bytes) -> set[bytes]:
    """Every spelling of one secret that is worth hiding."""
    values = {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}
    spellings = {spelling for value in values if len(value) >= SHORTEST for spelling in _spellings(value)}
    return {spelling for spelling in spellings if len(spelling) >= SHORTEST}


def _spellings(value: bytes) -> set[bytes]:
    found = {value, value.hex().encode(), value.hex().upper().encode()}
    found |= _in_base64(value)
    quoted = urllib.parse.quote_from_bytes(value, safe="")
    found |= {
        quoted.encode(),
        _small_escapes(quoted),
        urllib.parse.quote_from_bytes(value, safe="/").encode(),
    }
    found.add(quoted.replace("%20", "+").encode())
    text = value.decode("utf-8", "surrogateescape")
    for written in (
        _json_text(text, True),
        _json_text(text, False),
        html.escape(text),
        text.replace("'", "'\\''"),
    ):
        found.add(written.encode("utf-8", "surrogateescape"))
    return found


def _in_base64(value: bytes) -> set[bytes]:
    """The part of each alignment that does not depend on the bytes around the secret."""
    found = set()
    for before in range(3):
        plain = base64.b64encode(b"\0" * before + value).rstrip(b"=")
        unsure = (before + len(value)) % 3  # the last character still mixes with what follows
        piece = plain[(0, 2, 3)[before] : len(plain) - (1 if unsure else 0)]
        found |= {piece, piece.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def _json_text(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _small_escapes(quoted: str) -> bytes:
    return re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), quoted).encode()


class Masker:
    """Masks one stream. `feed` gives what can be shown already, `flush` the rest."""

    def __init__(self, hidden: set[bytes]) -> None:
        longest_first = sorted(hidden, key=lambda pattern: (-len(pattern), pattern))
        self._hidden = longest_first
        self._match = re.compile(b"|".join(re.escape(pattern) for pattern in longest_first)) if hidden else None
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if self._match is None:
            return data
        data = self._held + data
        shown, done, keep = [], 0, self._unfinished(data)
        for match in self._match.finditer(data):
            if match.start() >= keep:
                break
            shown += [data[done : match.start()], MASK]
            done = match.end()
        keep = max(keep, done)
        self._held = data[keep:]
        return b"".join((*shown, data[done:keep]))

    def flush(self) -> bytes:
        held, self._held = self._held, b""
        return self._match.sub(MASK, held) if self._match else held

    def _unfinished(self, data: bytes) -> int:
        """Where the tail begins that could still grow into a secret."""
        earliest = len(data)
        for pattern in self._hidden:
            start = data.find(pattern[:1], max(0, len(data) - len(pattern) + 1))
            while -1 < start < earliest:
                if pattern.startswith(data[start:]):
                    earliest = start
                    break
                start = data.find(pattern[:1], start + 1)
        return earliest
