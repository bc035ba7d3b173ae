"""Writes a revision of a Subversion repository on this machine into a folder, file by file, as we do with git.

So every answer has its time, what is too much is told before it is written, and nothing lands anywhere else. Keywords
are left as they are, externals are not fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from custody.workflows.archives.port import Entry
from custody.workflows.archives.processes.vcs_process import Seconds, ToolFailed
from custody.workflows.archives.svn.svn_wire import Questions, Wire, text
from custody.workflows.archives.svn.svn_words import told
from custody.workflows.archives.working_copy.committed_names import must_be_one_part
from custody.workflows.archives.working_copy.size_limits import LISTED, Limits, Measure
from custody.workflows.archives.working_copy.write_out import LONGEST_LINK, Into

ON_THE_WAY = 24_000  # bytes of questions that are not answered yet: they fit into a pipe, so that nobody waits
ANSWER_WITHIN = 600.0
_LINK = b"link "
Found = tuple[bytes, str, int]  # path, kind, size


def tree(questions: Questions, path: str, revision: int) -> list[Entry]:
    """All that is below a folder, sorted."""
    found: list[Entry] = []

    def work(wire: Wire) -> None:
        measure = Measure(LISTED, wire.where)
        level = [path.encode("utf-8", "surrogateescape")]
        try:
            while level:
                deeper = []
                for inside in _folders(wire, level, revision, ANSWER_WITHIN):
                    measure.paths(len(inside))
                    deeper += [name for name, kind, _ in inside if kind == "dir"]
                    found.extend(
                        Entry(name.decode("utf-8", "surrogateescape"), kind == "dir") for name, kind, _ in inside
                    )
                level = deeper
        except ToolFailed as error:
            raise told(error.said, wire.where) from None

    questions.with_wire(work)
    return sorted(found, key=lambda entry: entry.path)


def export(questions: Questions, revision: int, into: Path, seconds: Seconds, limits: Limits) -> None:
    into.mkdir(parents=True, exist_ok=True)

    def work(wire: Wire) -> None:
        try:
            with Into(into, wire.where, limits) as place:
                _write(wire, revision, place, seconds)
        except ToolFailed as error:
            raise told(error.said, wire.where) from None  # more answers follow: this one is not asked again

    questions.with_wire(work)


def _write(wire: Wire, revision: int, place: Into, seconds: Seconds) -> None:
    files: list[Found] = []
    level = [b""]
    while level:
        deeper = []
        for inside in _folders(wire, level, revision, seconds):
            place.measure.paths(len(inside))
            for path, kind, size in inside:
                if kind == "dir":
                    place.measure.path(path)
                    deeper.append(path)
                else:
                    place.expect(size)
                    files.append((path, kind, size))
        for path in deeper:
            place.folder(path)
        level = deeper
    for (path, _, size), properties, pieces in _contents(wire, files, revision, seconds):
        if "svn:special" in properties and 0 < size <= len(_LINK) + LONGEST_LINK:
            content = b"".join(pieces)
            if content.startswith(_LINK):
                place.link(path, content.removeprefix(_LINK))
            else:
                place.file(path, [content], False)
        else:
            place.file(path, pieces, "svn:executable" in properties)


def _folders(wire: Wire, paths: Sequence[bytes], revision: int, seconds: Seconds) -> Iterator[list[Found]]:
    words = [b"%s ( %d ) false true ( kind size ) " % (_text(path), revision) for path in paths]
    for path, _ in zip(paths, wire.ask_all("get-dir", words, seconds, ON_THE_WAY), strict=True):
        base = path + b"/" if path else b""
        inside = []
        for entry in sorted(wire.answer()[2]):
            must_be_one_part(entry[0], wire.where)
            inside.append((base + entry[0], str(entry[1]), int(entry[2])))
        yield inside


def _contents(
    wire: Wire, files: Sequence[Found], revision: int, seconds: Seconds
) -> Iterator[tuple[Found, Mapping[str, bytes], Iterator[bytes]]]:
    words = [b"%s ( %d ) true true " % (_text(path), revision) for path, _, _ in files]
    for file, _ in zip(files, wire.ask_all("get-file", words, seconds, ON_THE_WAY), strict=True):
        properties = {name.decode("utf-8", "replace"): value for name, value in wire.answer()[2]}
        yield file, properties, wire.pieces()
        wire.answer()


def _text(path: bytes) -> bytes:
    return text(path.decode("utf-8", "surrogateescape"))
