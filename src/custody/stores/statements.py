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

_HEADING = re.compile(r"^-- (name|fragment): ([a-z_]+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
FILE = "statements.sql"
APPLICATIONS = ("ingest", "workflows", "channels", "robots", "web")
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


@cache
def load(dialect: str) -> Mapping[str, str]:
    """Every statement for a dialect: the store's, those of applications with tables, then the dialect's overrides."""
    program = resources.files("custody")
    common = [program / "stores" / FILE, *(program / name / FILE for name in APPLICATIONS)]
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for file in [*common, program / "stores" / dialect / FILE]:
        if file.is_file():
            more, changed = parse(file.read_text())
            statements, fragments = statements | more, fragments | changed
    return {name: _include(sql, fragments) for name, sql in statements.items()}
