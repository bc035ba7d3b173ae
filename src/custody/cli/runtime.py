"""Running a noun's commands: options that all share, errors in words, exit codes."""

from __future__ import annotations

import errno
import getpass
import io
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from custody.border import modes
from custody.cli.process import output
from custody.cli.times import ago
from custody.cli.told_commands import aimed, asked, option
from custody.config import absolute
from custody.errors import BadInput, CustodyError, Refused, Unavailable
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.why import Reason
from custody.kernel.stores.sqlite.file_address import must_stay

DEFAULT_STORE = "sqlite:///custody.db"
LARGEST = 1 << 20
"""Bytes of what is given as JSON."""
AN_OBJECT = """'{"name": "value"}'"""

StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="where things are kept")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="leave this application out, and its work waiting; may be repeated"),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="at most so many")]


def reason(context: typer.Context, parameter: typer.CallbackParam, told: str) -> str:
    """Refuse a reason that says nothing: the history is read by people who were not there."""
    source = context.get_parameter_source(parameter.name or "")
    if source is not None and source.name == "COMMANDLINE" and not told.strip():
        raise BadInput("the reason says nothing", code="why.empty", where="--why", hint="say why, in a few words")
    return told


Why = Annotated[str, typer.Option("--why", help="the reason, for the history", callback=reason)]


def noun(help_: str) -> typer.Typer:
    app = typer.Typer(help=help_, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback(help=help_)(_several_verbs)
    return app


def _several_verbs() -> None:
    """Keeps a noun with a single verb a noun."""


_built = cache(typer.main.get_command)  # who gives many commands in one process reads their options once


def run(app: typer.Typer, arguments: list[str]) -> NoReturn:
    """Run `app`, tell errors in words, and end the process."""
    _write_anything()
    try:
        code = output.end(_run(app, arguments), arguments)
    except output.Unsaid as lost:
        code = output.could_not_tell(lost, arguments)
    sys.exit(code)


def _run(app: typer.Typer, arguments: list[str]) -> object:
    try:
        with asked(arguments), modes.decided(_group_reads(arguments)), _store_of_configuration(arguments):
            must_stay(option(arguments, "--store") or os.environ.get("CUSTODY_STORE", ""))
            _built(app)(arguments[1:], prog_name=f"custody {arguments[0]}")
    except SystemExit as end:
        return end.code
    except CustodyError as error:
        with asked(arguments):
            tell_error(error, "--json" in arguments)
        return 3 if isinstance(error, Refused) else 2
    except OSError as error:
        if error.filename is None and error.errno not in FULL:
            raise  # not about a file that somebody has named
        tell_error(_about_file(error), "--json" in arguments)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _write_anything() -> None:
    """What others have named may hold half a character, or signs that a terminal cannot write: escaped, not refused."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # a stream that wants to know its place, and has none
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")


ABOUT = {
    errno.EROFS: "that disk can only be read: choose another folder",
    errno.EACCES: "somebody else owns it: choose another folder, or ask them",
    errno.EPERM: "somebody else owns it: choose another folder, or ask them",
    errno.ENOSPC: "the disk is full: make room and repeat it; what was acknowledged is safe",
    errno.EDQUOT: "your share of the disk is used up: make room and repeat it; what was acknowledged is safe",
    errno.ENOENT: "is the name right?",
    errno.EEXIST: "there is a file of that name: choose another",
    errno.ENOTDIR: "there is a file where a folder is needed: choose another name",
    errno.EISDIR: "there is a folder where a file is needed: choose another name",
}


FULL = (errno.ENOSPC, errno.EDQUOT)
UNSAID = "there was no room for what it wrote: make room; what it acknowledged is done: look before you repeat it"


def _about_file(error: OSError) -> CustodyError:
    """What the system says about a file, in words."""
    said = str(error.strerror or error)
    hint = ABOUT.get(error.errno or 0, "") if error.filename else UNSAID
    return Unavailable(said[:1].lower() + said[1:], code="file", where=str(error.filename or ""), hint=hint)


def counted(number: int, noun_: str) -> str:
    return f"{number} {noun_}{'' if number == 1 else 's'}"


@contextmanager
def _store_of_configuration(arguments: list[str]) -> Iterator[None]:
    """Where a custody.toml lies, or one is named, a command means its store, unless it is told another."""
    told = bool(os.environ.get("CUSTODY_STORE") or option(arguments, "--store"))
    if told or not (store := configured_store(_configuration(arguments))):
        yield
        return
    os.environ["CUSTODY_STORE"] = store
    try:
        yield
    finally:
        del os.environ["CUSTODY_STORE"]  # whoever calls us as a function may call again, elsewhere


def _configuration(arguments: list[str]) -> str:
    return option(arguments, "--config") or os.environ.get("CUSTODY_CONFIG", "")


def _group_reads(arguments: list[str]) -> bool:
    """Does the configuration say that a group may read what we make?"""
    try:
        files = tomllib.loads(Path(_configuration(arguments) or "custody.toml").read_text(encoding="utf-8"))["files"]
        return files["group_readable"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return False  # or whoever reads all of it says what is wrong with it


def configured_store(named: str) -> str:
    """The store of the configuration that is named, or of the one in this folder."""
    path = Path(named or "custody.toml")
    try:
        store = tomllib.loads(path.read_text(encoding="utf-8")).get("store", "")
    except (OSError, ValueError):
        return ""  # there is none, or whoever reads all of it says what is wrong with it
    if not isinstance(store, str):
        return ""
    return absolute(store, path.resolve().parent) if named else store


def tell(text: str) -> None:
    """A sentence for people; its commands mean the store that was asked about."""
    print(aimed(text))


def tell_error(error: CustodyError, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
        return
    where = f"{error.where}: " if error.where else ""
    print(f"custody: {where}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {aimed(error.hint)}", file=sys.stderr)


def me() -> str:
    """Who is asking, for the history."""
    return os.environ.get("CUSTODY_WHO") or _login()


def acting(agent: str = "") -> Acting:
    """Who asks: the user of this system, whatever they call themselves; whoever can open the store is its owner."""
    return Acting(f"cli:{os.getuid()}/{_login()}", agent or me())


def _login() -> str:
    """The user's name. Containers and services run under numbers that have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def read_json(text: str, where: str) -> dict[str, Any]:
    """A JSON object from an option, or from a file (@name), or standard input (-); as strictly as the API."""
    from custody.formats.text.readers import TextLimits
    from custody.formats.text.readers import read_json as read

    if text == "-" or text.startswith("@"):
        text = _read_text(text, where)
    try:
        value = read(text, where, TextLimits(size=LARGEST, depth=20))
    except BadInput as error:
        raise BadInput(
            f"this is not JSON: {error.message}", code=error.code, where=error.where, hint=AN_OBJECT
        ) from error
    if not isinstance(value, dict):
        raise BadInput("a JSON object is needed", where=where, hint=AN_OBJECT)
    return value


def _read_text(named: str, where: str) -> str:
    """At most what is taken, and a little more: a device has no end."""
    try:
        if named == "-":
            raw = sys.stdin.buffer.read(LARGEST + 1) if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()
        else:
            with open(named[1:], "rb") as file:
                raw = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"cannot read {named[1:]}: {error.strerror}", where=where) from error
    if len(raw) > LARGEST:
        raise BadInput(
            f"this is longer than {LARGEST} bytes", where=where, hint="give it a file's name, not its content"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"this is not UTF-8: byte {error.start + 1} of it", where=where, hint="write the file anew as UTF-8 (iconv)"
        ) from error


def plain(value: Any) -> Any:
    """Values as JSON has them."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def emit(value: Any) -> None:
    print(json.dumps(plain(value), ensure_ascii=False, indent=2))


def table(columns: Mapping[str, Callable[[Any], Any]], rows: Iterable[Any], empty: str) -> None:
    """A table for people; what they see when there is nothing is a sentence."""
    texts = [[_cell(get(row)) for get in columns.values()] for row in rows]
    if not texts:
        tell(empty)
        return
    heads = list(columns)
    widths = [max(len(head), *(len(row[i]) for row in texts)) for i, head in enumerate(heads)]
    for row in [heads, *texts]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return harmless(str(value).replace("\n", " "))


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MORE = re.compile(r"[\u2028-\u202e\u2066-\u2069\ud800-\udfff]")  # breaks, signs that turn a line round, halves


def harmless(text: str) -> str:
    """What strangers wrote must not type, rename or recolour anything on the terminal where it is read."""
    escaped = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return escaped if escaped.isascii() else _MORE.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)


def tell_reason(what: str, reason: Reason, now: int) -> None:
    """Why something waits, and what would clear it."""
    since = f" (for {ago(reason.since, now)})" if reason.since else ""
    print(harmless(f"{what}: {reason.text}{since}\n  until: {aimed(reason.clears)}"))


def show(pairs: Sequence[tuple[str, Any]]) -> None:
    """One thing, a line per fact."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if value not in (None, "", {}, ()):
            print(f"{name.ljust(width)}  {_cell(value)}")
