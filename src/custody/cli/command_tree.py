"""The command line as data, read from the commands themselves: for the reference and for shells that complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from custody.cli import NOUNS, app_of, available


@dataclass(frozen=True, slots=True)
class Parameter:
    names: tuple[str, ...]  # --option, or the argument's own name
    is_option: bool
    takes_value: bool
    required: bool
    repeated: bool
    help: str
    default: str
    variable: str  # of the environment

    @property
    def shown(self) -> str:
        if not self.is_option:
            name = self.names[0].upper()
            return name if self.required else f"[{name}]"
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class Verb:
    noun: str
    name: str  # empty for a noun that is a command itself
    help: str
    parameters: tuple[Parameter, ...]

    @property
    def command(self) -> str:
        return f"custody {self.noun} {self.name}".rstrip()

    @property
    def usage(self) -> str:
        arguments = [parameter.shown for parameter in self.parameters if not parameter.is_option]
        options = "[OPTIONS]" if any(parameter.is_option for parameter in self.parameters) else ""
        return " ".join(filter(None, (self.command, *arguments, options)))


def verbs() -> Iterator[Verb]:
    """Every command there is, in the order of the help."""
    for noun in available():
        command: Any = typer.main.get_command(app_of(noun))
        if hasattr(command, "commands"):
            for name, verb in command.commands.items():
                yield _verb(noun, name, verb)
        else:
            yield _verb(noun, "", command)


def _verb(noun: str, name: str, command: Any) -> Verb:
    text = (command.help or NOUNS[noun]).replace("\x0c", "").strip()
    return Verb(noun, name, text, tuple(_parameter(each) for each in command.params if not getattr(each, "hidden", 0)))


def _parameter(given: Any) -> Parameter:
    is_option = given.param_type_name == "option"
    names = (*given.opts, *given.secondary_opts)
    flag = bool(getattr(given, "is_flag", False))
    default = "" if flag or given.required else _text(given.default)
    variable = given.envvar or ""
    return Parameter(
        names=tuple(names),
        is_option=is_option,
        takes_value=not flag,
        required=bool(given.required),
        repeated=bool(getattr(given, "multiple", False)),
        help=(getattr(given, "help", "") or "").strip(),
        default=default,
        variable=variable if isinstance(variable, str) else variable[0],
    )


def _text(default: object) -> str:
    return "" if default is None or default == "" or callable(default) else str(default)


# As pages


def reference() -> str:
    """The reference of the command line, as Markdown."""
    parts = [HEAD]
    noun = ""
    for verb in verbs():
        if verb.noun != noun:
            noun = verb.noun
            parts.append(f"\n## custody {noun}\n\n{NOUNS[noun][:1].upper()}{NOUNS[noun][1:]}.\n")
        parts.append(_section(verb))
    return "".join(parts)


HEAD = """\
# The command line

Made from the program itself by `python docs/make_reference.py`; a test fails when this page is out of date.

Every command ends with 0 (done, or nothing to do), 1 (the thing asked about failed), 2 (could not do it) or 3
(refused). `--json` gives the same for programs. Without `--store` the store is the one of `custody.toml` in this
folder, else `sqlite:///custody.db`.
"""


def _section(verb: Verb) -> str:
    lines = [f"\n### `{verb.usage}`\n\n{verb.help}\n"] if verb.name else [f"\n`{verb.usage}`\n\n{verb.help}\n"]
    if verb.parameters:
        lines.append("\n| | | |\n|---|---|---|\n")
        lines += [_row(parameter) for parameter in verb.parameters]
    return "".join(lines)


def _row(parameter: Parameter) -> str:
    names = " ".join(f"`{name}`" for name in parameter.names) if parameter.is_option else f"`{parameter.shown}`"
    facts = [
        "needed" if parameter.required and parameter.is_option else "",
        f"`{parameter.default}`" if parameter.default else "",
        f"`${parameter.variable}`" if parameter.variable else "",
    ]
    text = parameter.help.replace("|", "\\|")
    return f"| {names} | {text} | {', '.join(filter(None, facts))} |\n"


# For shells


def completions() -> dict[str, Sequence[str]]:
    """What may follow: by the words so far ("", "job", "job list"), the words that fit."""
    found: dict[str, list[str]] = {"": available()}
    for verb in verbs():
        options = [name for parameter in verb.parameters if parameter.is_option for name in parameter.names]
        if verb.name:
            found.setdefault(verb.noun, []).append(verb.name)
            found[f"{verb.noun} {verb.name}"] = [*options, "--help"]
        else:
            found[verb.noun] = [*options, "--help"]
    return {words: sorted(fits) if words else fits for words, fits in found.items()}
