"""custody completion: what a shell needs to complete our commands. Made from the commands, so it is never behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from custody.errors import BadInput

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Words = Mapping[str, Sequence[str]]


@app.command()
def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish")]) -> None:
    """A script for your shell: custody completion bash > ~/.local/share/bash-completion/completions/custody"""
    from custody.cli.command_tree import completions

    if shell not in SHELLS:
        raise BadInput(f"{shell!r} is not a shell known here", code="completion.shell", hint=", ".join(SHELLS))
    print(SHELLS[shell](completions()), end="")


def _bash(words: Words) -> str:
    cases = "\n".join(f'    "{so_far}") fits="{" ".join(fits)}" ;;' for so_far, fits in words.items())
    return f"""\
# Completion for custody. Nouns, then verbs, then options; file names otherwise.
_custody() {{
  local here="${{COMP_WORDS[COMP_CWORD]}}" before="" fits=""
  if [ "$COMP_CWORD" -eq 2 ]; then before="${{COMP_WORDS[1]}}"
  elif [ "$COMP_CWORD" -gt 2 ]; then before="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}"; fi
  case "$before" in
{cases}
  esac
  if [ -z "$fits" ] && [ "$COMP_CWORD" -gt 2 ]; then
    case "${{COMP_WORDS[1]}}" in
{_alone(words)}
    esac
  fi
  COMPREPLY=($(compgen -W "$fits" -- "$here"))
}}
complete -o default -F _custody custody
"""


def _alone(words: Words) -> str:
    """Nouns that are commands themselves keep their options however many words follow."""
    verbs = {so_far.split()[0] for so_far in words if " " in so_far}
    alone = {so_far: fits for so_far, fits in words.items() if so_far and " " not in so_far and so_far not in verbs}
    return "\n".join(f'      "{so_far}") fits="{" ".join(fits)}" ;;' for so_far, fits in alone.items())


def _zsh(words: Words) -> str:
    return "#compdef custody\nautoload -U +X bashcompinit && bashcompinit\n" + _bash(words)


def _fish(words: Words) -> str:
    lines = ["# Completion for custody."]
    for so_far, fits in words.items():
        before = so_far.split()
        if not before:
            test = "__fish_use_subcommand"
        elif len(before) == 1:
            test = f"__fish_seen_subcommand_from {before[0]}; and test (count (commandline -opc)) -eq 2"
        else:
            test = f"__fish_seen_subcommand_from {before[0]}; and __fish_seen_subcommand_from {before[1]}"
        plain = [fit for fit in fits if not fit.startswith("-")]
        if plain:
            lines.append(f"complete -c custody -f -n '{test}' -a '{' '.join(plain)}'")
        lines += [f"complete -c custody -n '{test}' -l {fit[2:]}" for fit in fits if fit.startswith("--")]
    return "\n".join(lines) + "\n"


SHELLS: Mapping[str, Callable[[Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
