"""The bot's token, as it stands in its file: one word, however an editor has wrapped it."""

from __future__ import annotations

import codecs
from pathlib import Path

from custody.errors import BadInput

MOST_BYTES = 4_096  # a token has about 70


def read(path: Path) -> str:
    """The token; without a byte order mark, blanks and line ends around it. What is no token is refused in words."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _odd(path, f"the bot's token cannot be read: {error.strerror or error}") from error
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as some shells write
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise _odd(path, "the file of the bot's token is no text") from error
    if not text:
        raise _odd(path, "the file of the bot's token is empty")
    if len(data) > MOST_BYTES or not all("!" <= sign <= "~" for sign in text):
        raise _odd(path, "the file of the bot's token has more than one word, or signs that no token has")
    return text


def _odd(path: Path, said: str) -> BadInput:
    return BadInput(said, code="discord.token", where=str(path), hint="the token alone, on one line")
