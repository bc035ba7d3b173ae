"""Whatever comes, the parsers answer with a value or with an error of ours. Nothing else is raised."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custody.border.answers import marks, retry_after, told_size, whole_size
from custody.border.digests import read_digests
from custody.border.folder import Folder
from custody.border.members import UnpackLimits
from custody.border.names import Names, folded, safe_parts, shown
from custody.border.policy import Policy
from custody.border.text import read_json, read_xml, read_yaml
from custody.border.unpack import unpack
from custody.border.urls import Target, follow, read_url
from custody.border.wire import Head, parse_head
from custody.model.errors import BadInput, CustodyError, Refused
from prove.plugin import Tell

from .containers import Z, block, extra, file_in_tar, long_name, pax, tar_of, zip_of

INPUTS = {"test": 300, "quick": 84_000, "long": 8_400_000}[os.environ["CUSTODY_SCALE"]]
quick = settings(
    max_examples=INPUTS,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def counted(tell: Tell) -> None:
    tell("", inputs=INPUTS)


TARGET = Target("https", "good.example", 443, "/a/b?c")
POLICY = Policy(schemes=frozenset({"http", "https"}))
characters = st.characters()  # surrogates, too


def refusal_of(action: Callable[[], object], *kinds: type[CustodyError]) -> CustodyError | None:
    """How an action was refused, if it was; any other exception fails the test."""
    try:
        action()
    except CustodyError as error:
        assert isinstance(error, kinds or BadInput)  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
        return error
    return None


def pieces(*words: str) -> st.SearchStrategy[str]:
    """Text made of the words that matter to a parser, with anything in between."""
    return st.lists(st.one_of(st.sampled_from(words), st.text(characters, max_size=3)), max_size=12).map("".join)


@pytest.mark.proves("H2")
@quick
@given(pieces("/", ".", "..", "\\", "%2e", "%", "25", "~", "C:", "CON", " ", "\0", "．", "a", "é", "e\u0301", "\u202e"))
def test_names(name: str) -> None:
    refusal = refusal_of(lambda: safe_parts(name))
    if refusal is not None:
        assert refusal.code == "name.unsafe"
        return
    parts = safe_parts(name)
    names = Names()
    assert "/".join(parts) == name
    assert all(part not in ("", ".", "..") and "\0" not in part and "\\" not in part for part in parts)
    names.add(name)
    with pytest.raises(BadInput):
        names.add(folded(name))


@pytest.mark.proves("H2")
@quick
@given(st.text(characters, max_size=300))
def test_what_is_shown_is_printable_and_short(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text, 50)) <= 500


@pytest.mark.proves("H2")
@quick
@given(
    pieces("http", "https", "://", ":", "/", "@", "#", "?", "[", "]", "::1", "127.0.0.1", "0x7f", ".", "good.example",
           "%25", "\\", " ", ":80", ":443", "１", "。")
)  # fmt: skip
def test_urls(text: str) -> None:
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


@pytest.mark.proves("H2")
@quick
@given(
    pieces("a", ": ", "- ", "\n", "  ", "[", "]", "{", "}", ",", '"', "'", "|", ">", "&a ", "*a", "!!str ", "? ", "#",
           "---", "...", "%YAML 1.2\n", "<<", "~", "1", "0x", ".nan", "\\u00e9", "\\UFFFFFFFF", "\t", "\r", "\x85")
)  # fmt: skip
def test_yaml(text: str) -> None:
    refusal = refusal_of(lambda: read_yaml(text, where="x"))
    if refusal is not None:
        assert refusal.code.startswith("yaml.")
        return
    value = read_yaml(text, where="x")
    assert json.loads(json.dumps(value)) == value  # plain, with text keys


@pytest.mark.proves("H2")
@quick
@given(st.binary(max_size=200))
def test_bytes_as_texts(data: bytes) -> None:
    for read in (read_yaml, read_json, read_xml):
        refusal = refusal_of(lambda: read(data))  # noqa: B023
        assert refusal is None or refusal.code[:3] in ("yam", "jso", "xml")


@pytest.mark.proves("H2")
@quick
@given(
    pieces("{", "}", "[", "]", ",", ":", '"', "\\", "\\u00e9", "\\ud800", "1", "-", ".", "e9", "e999", "NaN", "true",
           "null", " ", '"a":', "\ufeff")
)  # fmt: skip
def test_json(text: str) -> None:
    refusal = refusal_of(lambda: read_json(text))
    if refusal is not None:
        assert refusal.code.startswith("json.")
        return
    value = read_json(text)
    assert json.loads(json.dumps(value)) == value


@pytest.mark.proves("H2")
@quick
@given(
    pieces("<", ">", "/", "a", "b", "=", '"', "'", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "<!DOCTYPE a [",
           "<!ENTITY x 'y'>", "]>", "&x;", "&amp;", "&#", "xmlns:a=", "xml", " ", "encoding", "utf-7", "<a>", "</a>")
)  # fmt: skip
def test_xml(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    refusal = refusal_of(lambda: read_xml(data))
    if refusal is not None:
        assert refusal.code.startswith("xml.")
        return
    assert read_xml(data).getroottree().docinfo.internalDTD is None


@pytest.mark.proves("H2")
@quick
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [b"HTTP/1.1 200 OK", b"HTTP/1.1 206 OK", b"HTTP/1.1 302", b"\r\n", b":", b" ", b"Content-Length: 5",
                 b"Content-Length: 6", b"Transfer-Encoding: chunked", b"Content-Range: bytes 0-4/5", b"ETag: W/x",
                 b"Retry-After: Wed, 99 Oct 2015", b"Date: x", b"\0"]
            ),
            st.binary(max_size=5),
        ),
        max_size=10,
    ).map(b"".join)
)  # fmt: skip
def test_headers_of_answers(data: bytes) -> None:
    def judge() -> None:
        head = parse_head(data, "GET", TARGET)
        retry_after(head)
        told_size(head, TARGET)
        assert all(value.isascii() for value in marks(head).values())
        whole_size(head, 5, TARGET, resuming=True)

    refusal = refusal_of(judge, CustodyError)
    assert refusal is None or refusal.code.startswith("http.")


@pytest.mark.proves("H2")
@quick
@given(st.text(max_size=60), st.text(max_size=60))
def test_dates_and_digests(one: str, other: str) -> None:
    retry_after(Head(429, {"retry-after": one, "date": other}, 0, False, True))
    refusal = refusal_of(lambda: read_digests({one: other}))
    assert refusal is not None
    assert refusal.code.startswith("digest.")


GOOD = [
    zip_of(Z(b"a.txt", b"hello" * 50), Z(b"d/", b"", method=0), Z(b"d/b", b"x" * 80, method=0)),
    zip_of(Z(b"a.txt", b"hello" * 50, flags=8), Z(b"b", b"", extra=extra(1, bytes(16))), zip64=True),
    tar_of(file_in_tar(b"a", b"hello" * 50), block(b"d/", kind=b"5"), file_in_tar(b"d/b", b"x")),
    tar_of(pax((b"path", b"x"), (b"size", b"5")), file_in_tar(b"a", b"hello"), long_name(b"b" * 120), block(b"b")),
]  # fmt: skip
GOOD += [gzip.compress(GOOD[2]), bz2.compress(GOOD[3])]
LIMITS = UnpackLimits(size=100_000, members=50)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    with Folder(tmp_path_factory.mktemp("shelf")) as folder:
        yield folder


def unpacks_or_refuses(shelf: Folder, data: bytes) -> None:
    try:
        refusal = refusal_of(lambda: unpack(io.BytesIO(data), shelf, LIMITS))
        assert refusal is None or (refusal.code.startswith("container.") and shelf.is_empty())
    finally:
        shelf.clear()


changes = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.one_of(st.binary(min_size=1, max_size=4), st.just(b"\xff" * 4))),
    min_size=1,
    max_size=4,
)


@pytest.mark.proves("H2")
@settings(quick, max_examples=600)
@given(st.sampled_from(GOOD), changes, st.integers(0, 3))
def test_damaged_containers(shelf: Folder, data: bytes, damage: list[tuple[int, bytes]], lost: int) -> None:
    mutated = bytearray(data)
    for at, value in damage:
        at %= len(mutated)
        mutated[at : at + len(value)] = value
    outside = sorted(Path(shelf.path).parent.iterdir())
    unpacks_or_refuses(shelf, bytes(mutated[: len(mutated) - lost]))
    assert sorted(Path(shelf.path).parent.iterdir()) == outside


@pytest.mark.proves("H2")
@quick
@given(
    st.lists(
        st.builds(
            block,
            name=st.binary(max_size=20),
            size=st.one_of(st.integers(0, 2000), st.binary(min_size=12, max_size=12)),
            kind=st.sampled_from([b"0", b"5", b"x", b"g", b"L", b"K", b"2", b"\0", b"7"]),
            prefix=st.binary(max_size=10),
        ),
        max_size=6,
    ),
    st.binary(max_size=700),
)
def test_invented_tars(shelf: Folder, blocks: list[bytes], rest: bytes) -> None:
    unpacks_or_refuses(shelf, b"".join(blocks) + rest + bytes(1024))


@pytest.mark.proves("H2")
@quick
@given(
    st.lists(
        st.builds(
            Z,
            name=st.one_of(st.sampled_from([b"a", b"A", b"a/", b"a/b", b"../x"]), st.binary(max_size=8)),
            data=st.binary(max_size=30),
            method=st.sampled_from([0, 8]),
            flags=st.sampled_from([0, 8, 1 << 11, 1]),
            local=st.dictionaries(st.sampled_from(["crc", "size", "packed"]), st.integers(0, 0xFFFFFFFF), max_size=1),
            central=st.dictionaries(st.sampled_from(["offset", "size", "packed"]), st.integers(0, 200), max_size=1),
            extra=st.one_of(st.just(b""), st.binary(max_size=9), st.binary(max_size=20).map(partial(extra, 1))),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_invented_zips(shelf: Folder, members: list[Z]) -> None:
    unpacks_or_refuses(shelf, zip_of(*members))
