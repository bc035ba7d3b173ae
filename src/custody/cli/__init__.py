"""`custody NOUN VERB`: one file per noun, imported only when it is used, so that help is instant."""

from __future__ import annotations

import sys
from importlib import import_module

from custody.cli import output

TYPE_CHECKING = False  # `typing` alone takes longer than help
if TYPE_CHECKING:
    from typing import Any

NOUNS = {
    "demo": "the main jobs of this program on this machine, with nothing else installed",
    "init": "a commented configuration to start from",
    "batch": "deposits: submit, check, list, show, report, hold, resume",
    "job": "pieces of work: submit, list, show, why, hold, release, resume, cancel, delete",
    "kind": "what sorts of work may be asked for from outside: list, forget",
    "hold": "pause a collection, a batch, a kind or a lane, and say why",
    "archive": "versioned archives whose commits run their own workflow files",
    "robot": "functions that wake when an item has had the right events",
    "channel": "chat channels mirrored, searchable and incremental",
    "item": "the things the archive keeps, and their whole history",
    "event": "what happened, to whom, when",
    "history": "seal, prove and verify what was recorded",
    "schedule": "what becomes due, and when",
    "lease": "who may act, and until when",
    "worker": "run the work; see who runs it",
    "store": "where it is all kept: info, migrate, backup",
    "serve": "API, dashboard and workers in one process",
    "token": "who may use the API and the dashboard: create, list, narrow, revoke",
    "doctor": "is everything as safe as it must be?",
    "top": "a live view of the work, in the terminal",
    "completion": "a script that lets your shell complete these commands",
}

MODULES = {
    "demo": "custody.demo.command",
    "init": "custody.cli.nouns.init",
    "batch": "custody.ingest.commands.batch",
    "job": "custody.cli.nouns.job",
    "kind": "custody.cli.nouns.kind",
    "hold": "custody.cli.nouns.hold",
    "archive": "custody.workflows.commands.archive",
    "robot": "custody.robots.commands.robot",
    "channel": "custody.channels.commands.channel",
    "item": "custody.cli.nouns.item",
    "event": "custody.cli.nouns.event",
    "history": "custody.cli.nouns.history",
    "schedule": "custody.cli.nouns.schedule",
    "lease": "custody.cli.nouns.lease",
    "worker": "custody.cli.nouns.worker",
    "store": "custody.cli.nouns.store",
    "serve": "custody.cli.nouns.serve",
    "token": "custody.cli.nouns.token",
    "doctor": "custody.cli.doctor.report",
    "top": "custody.cli.nouns.top",
    "completion": "custody.cli.completion",
}
"""Where each noun's commands are: read when one is used, not before."""


def main(arguments: list[str] | None = None) -> None:
    """The program's entry point; ends the process with 0, 1, 2 or 3."""
    given = sys.argv[1:] if arguments is None else arguments
    output.open_streams()
    if not given or given[0] in ("-h", "--help", "help"):
        print(help_text())
        raise SystemExit(output.end(0, given))
    if given[0] in ("-V", "--version"):
        from custody import __version__

        print(f"custody {__version__}")
        raise SystemExit(output.end(0, given))
    if given[0] not in available():
        print(f"custody: there is no noun {given[0]!r}{_perhaps(given[0])}\n\n{help_text()}", file=sys.stderr)
        raise SystemExit(2)
    from custody.cli.runtime import run

    run(app_of(given[0]), given)


def _perhaps(word: str) -> str:
    from difflib import get_close_matches

    meant = get_close_matches(word, available(), 1)
    return f": did you mean `custody {meant[0]}`?" if meant else ""


def available() -> list[str]:
    return list(NOUNS)


def app_of(noun: str) -> Any:
    """The commands of a noun, which is imported for it."""
    return import_module(MODULES[noun]).app


def help_text() -> str:
    rows = "\n".join(f"  {noun:<11}{NOUNS[noun]}" for noun in available())
    return (
        "usage: custody NOUN VERB …\n\n"
        "A durable work engine for archives: what has happened to everything you keep,\n"
        "and what remains to be done.\n\n"
        f"{rows}\n\n"
        "`custody NOUN --help` shows its verbs. Everything takes --json and --store URL\n"
        "(or CUSTODY_STORE; sqlite:///custody.db unless told).\n"
        "Exit codes: 0 done, or nothing to do · 1 the thing asked about failed · 2 could not · 3 refused"
    )
