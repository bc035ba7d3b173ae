"""Numbered migrations, each applied and recorded in one transaction: killed anywhere, it is there or it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import resources

from custody.errors import NotFound, Unsafe

Script = tuple[int, str, str]  # number, name, SQL


def migrations(dialect: str) -> list[Script]:
    folder = resources.files("custody.kernel.stores") / dialect / "migrations"
    found = []
    for file in folder.iterdir():
        match = re.fullmatch(r"(\d{4})_(.+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text()))
    return sorted(found)


def missing(what: str) -> NotFound:
    return NotFound(
        what,
        code="store.missing",
        hint="is the address right? A store is made by whatever first uses it, or by custody store migrate",
    )


def statements_of(script: str) -> Iterator[str]:
    """The statements of a script, one by one (no statement of ours contains a semicolon inside)."""
    for part in re.sub(r"--[^\n]*", "", script).split(";"):
        if part.strip():
            yield part.strip()


def pending(dialect: str, version: int, step: Callable[[str], None] = lambda _: None) -> Iterator[Script]:
    """The migrations that a store at `version` still needs; refuses a store from the future."""
    known = migrations(dialect)
    newest = known[-1][0]
    if version > newest:
        raise Unsafe(
            f"this store has schema {version}, newer than this program knows ({newest})",
            code="store.newer",
            hint="upgrade this program; an older one must not write to a newer store",
        )
    for script in known:
        if script[0] > version:
            step(f"migration {script[0]:04}")
            yield script
