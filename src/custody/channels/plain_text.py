"""Words of others as text that can be written down, printed and kept by every database. Pure.

A message is kept as it came. But a channel's name, a file's, or what an answer said is also put into items and history,
lines of a terminal and tables: there half a character, a zero or a sign that turns lines round would stop a program or
deceive a reader. Each such sign becomes `\ufffd`.
"""

from __future__ import annotations

import unicodedata
from typing import Any

NEITHER = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, halves of characters, breaks of lines
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # of all that follows


def plainly(text: Any) -> str:
    """One line of text that can be shown anywhere; nothing for what is not text."""
    if not isinstance(text, str):
        return ""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if sign in TURNING or unicodedata.category(sign) in NEITHER else sign for sign in text)
