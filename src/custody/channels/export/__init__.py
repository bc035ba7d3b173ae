"""Archived messages in forms that other tools read: JSON Lines, SQLite with full text, pages for a browser.

Every export takes what `Reader.between` gives, in order, and needs no more memory for a million messages than
for a thousand. Each writes beside its target and swings it into place when it is whole.
"""

from __future__ import annotations

from custody.channels.export.html import write_html
from custody.channels.export.jsonl import write_jsonl
from custody.channels.export.sqlite import write_sqlite

__all__ = ["write_html", "write_jsonl", "write_sqlite"]
