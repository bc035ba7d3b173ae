"""Commands as they are told to somebody: pasted into a shell, each does what it says, whatever things are called."""

from __future__ import annotations

from shlex import quote
from typing import Final

BLANK: Final = "…"
"""What whoever pastes a command fills in."""


def command(verb: str, *names: str, **said: str) -> str:
    """The words of a command, such as `schedule adopt` of a name; one that begins with - is read as no option. An
    option without a value is a flag."""
    options = [word for option, value in said.items() for word in _option(option, value)]
    if any(name.startswith("-") for name in names):
        return _line(["custody", *verb.split(), *options, "--", *names])
    return _line(["custody", *verb.split(), *names, *options])


def _line(words: list[str]) -> str:
    return " ".join(word if word == BLANK else quote(word) for word in words)


def _option(option: str, value: str) -> list[str]:
    if not value:
        return [f"--{option}"]
    return [f"--{option}={value}"] if value.startswith("-") else [f"--{option}", value]
