"""Whether a git repository is of a format that we read: what its configuration says of that, and nothing else of it.

git refuses a repository whose version or extensions it does not know, since what is in it may mean something else. So
do we, also where the git of this machine would not mind. Its configuration is read by ourselves: git would believe all
of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NEWEST = 1
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_NUMBER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|\d+)([kKmMgG]?)\Z")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_GAP = re.compile(r"[ \t]*")
_PIECE = re.compile(r'([^"\\\n#;]+)|"((?:[^"\\\n]|\\(?:\r?\n|[ntb\\"]))*)"|(\\(?:\r?\n|[ntb\\"]))')
_ESCAPE = re.compile(r"\\(\r?\n|.)")
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}
ANY_VERSION = frozenset(("noop", "preciousobjects", "partialclone", "worktreeconfig"))
"""Extensions that hold in version 0 too; what they say changes nothing of what is read (`partialclone` is refused)."""
LATER = frozenset(("noop-v1", "objectformat", "refstorage", "relativeworktrees", "compatobjectformat"))
HASHES = ("sha1", "sha256")
Wrong = tuple[str, str]  # what is wrong, and what to do


class Unreadable(Exception):
    """The line that git would not understand."""


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Names (`section.key`, in small letters) and values, in order; of sections with a part of their own, none."""
    return ((name, value) for name, part, value in all_settings(text) if part is None)


def all_settings(text: str) -> Iterator[tuple[str, str | None, str]]:
    """The same of all sections, each with the part that it names (`[includeIf "part"]`), or None."""
    at, section, part = 1 if text.startswith("\ufeff") else 0, "", None
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] in "#;":
            at = _line_end(text, at)
        elif found := _SECTION.match(text, at):
            section, part, at = found[1].lower(), found[2], found.end()
        elif found := _KEY.match(text, at):
            value, at = _value(text, found.end())
            yield f"{section}.{found[0].lower()}".removeprefix("."), part, value
        else:
            raise Unreadable(str(text.count("\n", 0, at) + 1))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _value(text: str, at: int) -> tuple[str, int]:
    """A value goes on to the end of its line, or of the next where that ends with a backslash. None at all: true."""
    begun = _GAP.match(text, at)
    at = begun.end() if begun else at
    if at >= len(text) or text[at] in "\r\n#;":
        return "true", _line_end(text, at)
    if text[at] != "=":
        raise Unreadable(str(text.count("\n", 0, at) + 1))
    kept, at = "", at + 1
    while at < len(text) and text[at] not in "\n#;":
        piece = _PIECE.match(text, at)
        if piece is None:
            raise Unreadable(str(text.count("\n", 0, at) + 1))
        plain, quoted, escaped = piece.groups()
        kept += (plain if kept else plain.lstrip()) if plain else _ESCAPE.sub(_meant, quoted or escaped or "")
        at = piece.end()
    return kept.rstrip(), _line_end(text, at)  # spaces at the end, in quotes: of no value that is asked for


def _meant(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], "")


def wrong_format(config: bytes) -> Wrong | None:
    """Why a repository with this configuration is not read; None: its format is known."""
    hint = "a newer version of this program may know it; or `git clone --bare` it with a git that does"
    try:
        said = list(settings(config.decode("utf-8", "surrogateescape")))
    except Unreadable as error:
        return f"its config cannot be read: line {error}", "`git config --list` in the repository tells"
    version, extensions = 0, dict[str, str]()
    for name, value in said:
        if name == "core.repositoryformatversion":
            number = _NUMBER.match(value)
            if number is None:
                return f"its format version is {value[:40]!r}, which is no number", hint
            version = int(f"{number[1]}{_whole(number[2])}") * _UNITS[number[3].lower()]
        elif name.startswith("extensions."):
            extensions[name.removeprefix("extensions.")] = value
    if version > NEWEST:
        return f"its format version is {version}, and {NEWEST} is the newest that we know", hint
    return _wrong_extension(version, extensions, hint)


def _wrong_extension(version: int, extensions: dict[str, str], hint: str) -> Wrong | None:
    for name, value in extensions.items():
        if name in LATER and version < 1:
            mend = "`git config core.repositoryformatversion 1` in it, if that is what it is"
            return f"its format version is {version}, which has no extension {name}", mend
        if version >= 1 and name not in ANY_VERSION | LATER:
            return f"it has an extension that we do not know: {name[:40]!r}", hint
        if name == "objectformat" and value.lower() not in HASHES:
            return f"its objects are named by {value[:40]!r}, and we know {' and '.join(HASHES)}", hint
        if name == "refstorage" and value.lower() not in ("files", "reftable"):
            return f"its branches are stored as {value[:40]!r}, and we know files", hint
        if name == "compatobjectformat":
            return "its objects have two names each (compatobjectformat), which is not read", hint
    return None


def _whole(digits: str) -> int:
    if digits[:2].lower() == "0x":
        return int(digits, 16)
    return int(digits, 8) if digits[0] == "0" and set(digits) <= set("01234567") else int(digits)


def is_head(data: bytes) -> bool:
    """Whether git takes this for a HEAD: a branch, there or not, or a commit."""
    said = data.decode("utf-8", "surrogateescape").strip()
    if said.startswith("ref:"):
        return said.removeprefix("ref:").strip().startswith("refs/")
    return bool(re.match(r"(?:[0-9a-f]{40}|[0-9a-f]{64})(?:\s|\Z)", said))
