"""Commands that are told mean the store that was asked about: whoever pastes one must not change another store.

What `--store` and `--config` said is put into every command that takes them. What the environment or the folder says
holds for a pasted command by itself. An address that may hold a password is not shown: such a command says `--store …`,
which no command takes for a store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from shlex import quote
from typing import Any

from custody.cli import all_nouns, app_of

HIDDEN = "…"
_COMMAND = re.compile(r"\bcustody ([a-z]+)(?: ([a-z][a-z-]*))?(?![\w-])")
_given: ContextVar[Sequence[str]] = ContextVar("given", default=())


@contextmanager
def asked(arguments: Sequence[str]) -> Iterator[None]:
    """What is told meanwhile is about the store that these words name."""
    before = _given.set(arguments)
    try:
        yield
    finally:
        _given.reset(before)


def option(arguments: Sequence[str], name: str) -> str:
    """What an option is given, before anything else looks at it."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if word == name or word.startswith(f"{name}="):
            return following if word == name else word.removeprefix(f"{name}=")
    return ""


def aimed(text: str) -> str:
    """The same words, and in each command the store that was asked about."""
    said = {name: value for name in ("--store", "--config") if (value := option(_given.get(), name))}
    return _COMMAND.sub(lambda found: _aim(found, said), text) if said else text


def is_hidden() -> bool:
    """Is the store's address one that is not shown?"""
    store = option(_given.get(), "--store")
    return bool(store) and not store.startswith("sqlite:")


def _aim(found: re.Match[str], said: dict[str, str]) -> str:
    """The command's words, then its store, then whatever follows: names may, even after --."""
    command = _command(found[1])
    words, rest = found[0], ""
    if isinstance(verbs := getattr(command, "commands", None), dict):
        command = verbs.get(found[2])
    elif found[2]:
        words, rest = f"custody {found[1]}", f" {found[2]}"
    takes = {name for parameter in command.params for name in parameter.opts} if command else set()
    more = {} if "--store" in said or "--config" in takes else {"--store": _configured(said["--config"])}
    shown = [f" {name} {_shown(name, value)}" for name, value in (said | more).items() if value and name in takes]
    return "".join([words, *shown, rest])


def _configured(config: str) -> str:
    """The store that is meant, for commands that take no configuration: what the environment says goes before it."""
    from custody.cli.runtime import configured_store

    return os.environ.get("CUSTODY_STORE") or configured_store(config)


def _shown(name: str, value: str) -> str:
    return quote(value) if name == "--config" or value.startswith("sqlite:") else HIDDEN


def _command(noun: str) -> Any:
    """What the words stand for; nothing, where there is no such noun."""
    from typer.main import get_command

    return get_command(app_of(noun)) if noun in all_nouns() else None
