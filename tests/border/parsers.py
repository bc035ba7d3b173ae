"""What must be true of every parser, whatever it is given: an answer of the right shape, or an error of ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.border.http.answers import marks, retry_after, told_size, whole_size
from custody.border.http.http11 import Head, parse_head
from custody.border.http.policy import Policy
from custody.border.http.urls import Target, follow, read_url
from custody.border.unpack.members import UnpackLimits
from custody.border.unpack.unpacker import unpack
from custody.errors import BadInput, CustodyError, Refused
from custody.formats.digests import read_digests
from custody.formats.names import Names, folded, safe_parts, shown
from custody.formats.text.readers import read_json, read_xml, read_yaml

TARGET = Target("https", "good.example", 443, "/a/b?c")
POLICY = Policy(schemes=frozenset({"http", "https"}))
LIMITS = UnpackLimits(size=100_000, members=50)


def refusal_of(action: Callable[[], object], *kinds: type[CustodyError]) -> CustodyError | None:
    """How an action was refused, if it was; any other exception fails the test."""
    try:
        action()
    except CustodyError as error:
        assert isinstance(error, kinds or BadInput)  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
        return error
    return None


def name(text: str) -> None:
    refusal = refusal_of(lambda: safe_parts(text))
    if refusal is not None:
        assert refusal.code == "name.unsafe"
        return
    parts = safe_parts(text)
    names = Names()
    assert "/".join(parts) == text
    assert all(part not in ("", ".", "..") and "\0" not in part and "\\" not in part for part in parts)
    names.add(text)
    with pytest.raises(BadInput):
        names.add(folded(text))


def what_is_shown(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text, 50)) <= 500


def url(text: str) -> None:
    for read in (lambda: read_url(text, POLICY), lambda: follow(TARGET, text, POLICY)):
        refusal = refusal_of(read, BadInput, Refused)
        if refusal is not None:
            assert refusal.code.startswith("url.")
            continue
        target = read()
        assert target.port in (80, 443)
        assert target.path.startswith("/")
        request = f"{target.path}{target.authority}"
        assert request.isascii()
        assert request.isprintable()
        assert " " not in request
        assert "@" not in target.authority
        assert read_url(target.url, POLICY) == target  # one reading, however often


def yaml(text: str) -> None:
    refusal = refusal_of(lambda: read_yaml(text, where="x"))
    if refusal is not None:
        assert refusal.code.startswith("yaml.")
        return
    value = read_yaml(text, where="x")
    assert json.loads(json.dumps(value)) == value  # plain, with text keys


def bytes_as_texts(data: bytes) -> None:
    for read in (read_yaml, read_json, read_xml):
        refusal = refusal_of(lambda: read(data))  # noqa: B023
        assert refusal is None or refusal.code[:3] in ("yam", "jso", "xml")


def json_text(text: str) -> None:
    refusal = refusal_of(lambda: read_json(text))
    if refusal is not None:
        assert refusal.code.startswith("json.")
        return
    value = read_json(text)
    assert json.loads(json.dumps(value)) == value


def xml(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    refusal = refusal_of(lambda: read_xml(data))
    if refusal is not None:
        assert refusal.code.startswith("xml.")
        return
    assert read_xml(data).getroottree().docinfo.internalDTD is None


def head_of_answer(data: bytes) -> None:
    def judge() -> None:
        head = parse_head(data, "GET", TARGET)
        retry_after(head)
        told_size(head, TARGET)
        assert all(value.isascii() for value in marks(head).values())
        whole_size(head, 5, TARGET, resuming=True)

    refusal = refusal_of(judge, CustodyError)
    assert refusal is None or refusal.code.startswith("http.")


def date_and_digest(one: str, other: str) -> None:
    retry_after(Head(429, {"retry-after": one, "date": other}, 0, False, True))
    refusal = refusal_of(lambda: read_digests({one: other}))
    assert refusal.code.startswith("digest.") if refusal else len(bytes.fromhex(other)) >= 16


def container(shelf: Folder, data: bytes) -> None:
    outside = sorted(Path(shelf.path).parent.iterdir())
    try:
        refusal = refusal_of(lambda: unpack(io.BytesIO(data), shelf, LIMITS))
        assert refusal is None or (refusal.code.startswith("container.") and shelf.is_empty())
        assert sorted(Path(shelf.path).parent.iterdir()) == outside
    finally:
        shelf.clear()
