"""Loads named SQL: statements, and the fragments they share.

    -- name: claim            starts a statement; comments and text follow until the next heading
    -- fragment: ready        starts a piece of text that statements include as {ready}

A database's own file may override a statement by giving the same name again, with its reason; nobody may override
another's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from custody.errors import Unavailable, Unsafe
from custody.kernel.applications import Schema, installed, when_changed

_HEADING = re.compile(r"^-- (name|fragment): ([a-z_]+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
KERNEL = (
    "kernel/stores/sql/statements.sql",
    "kernel/operations/statements.sql",
    "kernel/stores/{dialect}/statements.sql",
)
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


def text_of(file: Traversable) -> str:
    """Read a file that must be there: one that was left out would be missed at the first call of a statement, by a
    KeyError in the middle of somebody's work."""
    if not file.is_file():
        raise Unavailable(
            f"this installation lacks {file}", code="store.statements", hint="install the program again, all of it"
        )
    return file.read_text()


@cache
def load(dialect: str) -> Mapping[str, str]:
    """Every statement for a dialect: the kernel's, then those of each application, and in each of them the dialect's
    overrides last."""
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for line, files in _lines(dialect):
        own: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for file in files:
            more, changed = parse(text_of(file))
            own = (own[0] | more, own[1] | changed)
        if twice := (own[0].keys() & statements.keys()) | (own[1].keys() & fragments.keys()):
            raise Unsafe(
                f"{line} gives the statement {min(twice)} anew, which is another's",
                code="store.statements",
                hint="an application's statements begin with its own name; only a database's file overrides",
            )
        statements, fragments = statements | own[0], fragments | own[1]
    return {name: _include(sql, fragments) for name, sql in statements.items()}


def _lines(dialect: str) -> Iterator[tuple[str, list[Traversable]]]:
    """Who has statements, and in which files."""
    program = resources.files("custody")
    yield "the kernel", [program.joinpath(*file.format(dialect=dialect).split("/")) for file in KERNEL]
    for part in installed():
        folder = folder_of(part.schema)
        files = [folder / "statements.sql"]
        if dialect in part.schema.overrides:
            files.append(folder / dialect / "statements.sql")
        yield part.name, files


def folder_of(schema: Schema) -> Traversable:
    return resources.files(schema.package).joinpath(*schema.folder.split("/"))


when_changed(load.cache_clear)
