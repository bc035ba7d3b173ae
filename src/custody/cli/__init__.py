"""`custody NOUN VERB`: one file per noun, imported only when it is used, so that help is instant."""

from __future__ import annotations

import sys

from custody.application import Noun, conflict, installed, load
from custody.cli.process import output

TYPE_CHECKING = False  # `typing` alone takes longer than help
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OWN = {
    "demo": Noun(
        "the main jobs of this program on this machine, with nothing else installed", "custody.demo.command:app"
    ),
    "init": Noun("a commented configuration to start from", "custody.cli.nouns.init:app"),
    "job": Noun(
        "pieces of work: submit, list, show, why, hold, release, resume, cancel, delete", "custody.cli.nouns.job:app"
    ),
    "kind": Noun("what sorts of work may be asked for from outside: list, forget", "custody.cli.nouns.kind:app"),
    "hold": Noun("pause a collection, a batch, a kind or a lane, and say why", "custody.cli.nouns.hold:app"),
    "item": Noun("the things the archive keeps, and their whole history", "custody.cli.nouns.item:app"),
    "event": Noun("what happened, to whom, when", "custody.cli.nouns.event:app"),
    "history": Noun("seal, prove and verify what was recorded", "custody.cli.nouns.history:app"),
    "schedule": Noun("what becomes due, and when", "custody.cli.nouns.schedule:app"),
    "lease": Noun("who may act, and until when", "custody.cli.nouns.lease:app"),
    "worker": Noun("run the work; see who runs it", "custody.cli.nouns.worker:app"),
    "store": Noun("where it is all kept: info, migrate, backup", "custody.cli.nouns.store:app"),
    "serve": Noun("API, dashboard and workers in one process", "custody.cli.nouns.serve:app"),
    "token": Noun("who may use the API and the dashboard: create, list, narrow, revoke", "custody.cli.nouns.token:app"),
    "doctor": Noun("is everything as safe as it must be?", "custody.cli.doctor.report:app"),
    "top": Noun("a live view of the work, in the terminal", "custody.cli.nouns.top:app"),
    "completion": Noun("a script that lets your shell complete these commands", "custody.cli.completion:app"),
}
"""Those of no application; where the commands of each are is read when it is used, not before."""


def all_nouns() -> Mapping[str, Noun]:
    """All of them, in the order of the help: an application's stand after the noun that it says."""
    order, last = list(OWN), "hold"
    known = dict(OWN)
    for application in installed():
        for name, noun in application.nouns.items():
            if name in OWN:
                raise conflict(f"the noun {name}", application.name, "the program itself")
            order.insert(order.index(noun.after if noun.after in order else last) + 1, name)
            known[name], last = noun, name
    return {name: known[name] for name in order}


def main(arguments: list[str] | None = None) -> None:
    """The program's entry point; ends the process with 0, 1, 2 or 3."""
    given = sys.argv[1:] if arguments is None else arguments
    output.open_streams()
    if given and given[0] in ("-V", "--version"):
        from custody import __version__

        print(f"custody {__version__}")
        raise SystemExit(output.end(0, given))
    known = _nouns_or_end("--json" in given)
    if not given or given[0] in ("-h", "--help", "help"):
        print(help_text())
        raise SystemExit(output.end(0, given))
    if given[0] not in known:
        print(f"custody: there is no noun {given[0]!r}{_perhaps(given[0])}\n\n{help_text()}", file=sys.stderr)
        raise SystemExit(2)
    from custody.cli.runtime import run

    run(app_of(given[0]), given)


def _nouns_or_end(as_json: bool) -> Mapping[str, Noun]:
    """Applications that cannot stand side by side are told of before anything is begun."""
    try:
        return all_nouns()
    except Exception as error:
        from custody.cli.runtime import tell_error
        from custody.errors import CustodyError

        if not isinstance(error, CustodyError):
            raise
        tell_error(error, as_json)
        raise SystemExit(2) from None


def _perhaps(word: str) -> str:
    from difflib import get_close_matches

    meant = get_close_matches(word, all_nouns(), 1)
    return f": did you mean `custody {meant[0]}`?" if meant else ""


def app_of(noun: str) -> Any:
    """The commands of a noun, which is imported for it."""
    return load(all_nouns()[noun].commands)


def help_text() -> str:
    rows = "\n".join(f"  {name:<11}{noun.line}" for name, noun in all_nouns().items())
    return (
        "usage: custody NOUN VERB …\n\n"
        "A durable work engine for archives: what has happened to everything you keep,\n"
        "and what remains to be done.\n\n"
        f"{rows}\n\n"
        "`custody NOUN --help` shows its verbs. Everything takes --json and --store URL\n"
        "(or CUSTODY_STORE; sqlite:///custody.db unless told).\n"
        "Exit codes: 0 done, or nothing to do · 1 the thing asked about failed · 2 could not · 3 refused"
    )
