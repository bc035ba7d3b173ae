"""Loads named SQL: statements, and the fragments they share.

    -- name: claim            starts a statement; comments and text follow until the next heading
    -- fragment: ready        starts a piece of text that statements include as {ready}

A database's own file may override a statement by giving the same name again, with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from custody.errors import Unavailable

_HEADING = re.compile(r"^-- (name|fragment): ([a-z_]+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
COMMON = (
    "kernel/stores/sql/statements.sql",
    "ingest/schema/statements.sql",
    "workflows/schema/statements.sql",
    "channels/schema/statements.sql",
    "robots/schema/statements.sql",
    "kernel/operations/statements.sql",
)
OWN = {"sqlite": "kernel/stores/sqlite/statements.sql", "postgres": "kernel/stores/postgres/statements.sql"}
_PLACE = re.compile(r"\{([a-z_]+)\}")


def parse(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The statements and the fragments of one file."""
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    parts = _HEADING.split(text)[1:]
    for sort, name, body in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        sql = _COMMENT.sub("", body).strip().rstrip(";")
        (statements if sort == "name" else fragments)[name] = re.sub(r"\s+", " ", sql)
    return statements, fragments


def _include(sql: str, fragments: Mapping[str, str]) -> str:
    while _PLACE.search(sql):
        sql = _PLACE.sub(lambda match: fragments[match[1]], sql)
    return sql


def _text(file: Traversable) -> str:
    """Read a file that must be there: one that was left out would be missed at the first call of a statement, by a
    KeyError in the middle of somebody's work."""
    if not file.is_file():
        raise Unavailable(
            f"this installation lacks {file}", code="store.statements", hint="install the program again, all of it"
        )
    return file.read_text()


@cache
def load(dialect: str) -> Mapping[str, str]:
    """Every statement for a dialect: the store's, those of applications with tables, then the dialect's overrides."""
    program = resources.files("custody")
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for file in (*COMMON, OWN[dialect]):
        more, changed = parse(_text(program.joinpath(*file.split("/"))))
        statements, fragments = statements | more, fragments | changed
    return {name: _include(sql, fragments) for name, sql in statements.items()}
