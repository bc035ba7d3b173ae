"""Whatever comes, the parsers answer with a value or with an error of ours. Nothing else is raised.

What each parser must make of any input is in `parsers.py`. Here are the inputs: some invented by Hypothesis, which makes
what it finds small; and in a proof a hundred times as many by chance (`chance.py`).
"""

from __future__ import annotations

import bz2
import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custody.border.folder import Folder
from prove.plugin import Scaled, Tell

from . import parsers
from .chance import Chance, slowest_of
from .containers import Z, block, extra, file_in_tar, long_name, pax, tar_of, zip_of

quick = settings(
    max_examples={"test": 250, "quick": 1_000, "long": 100_000}[os.environ["CUSTODY_SCALE"]],
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
characters = st.characters()  # surrogates, too

NAMES = ["/", ".", "..", "\\", "%2e", "%", "25", "~", "C:", "CON", " ", "\0", "．", "a", "é", "e\u0301", "\u202e"]
URLS = [
    "http",
    "https",
    "://",
    ":",
    "/",
    "@",
    "#",
    "?",
    "[",
    "]",
    "::1",
    "127.0.0.1",
    "0x7f",
    ".",
    "good.example",
    "%25",
    "\\",
    " ",
    ":80",
    ":443",
    "１",
    "。",
]
YAML = [
    "a",
    ": ",
    "- ",
    "\n",
    "  ",
    "[",
    "]",
    "{",
    "}",
    ",",
    '"',
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "#",
    "---",
    "...",
    "%YAML 1.2\n",
    "<<",
    "~",
    "1",
    "0x",
    ".nan",
    "\\u00e9",
    "\\UFFFFFFFF",
    "\t",
    "\r",
    "\x85",
]
JSON = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u00e9",
    "\\ud800",
    "1",
    "-",
    ".",
    "e9",
    "e999",
    "NaN",
    "true",
    "null",
    " ",
    '"a":',
    "\ufeff",
]
XML = [
    "<",
    ">",
    "/",
    "a",
    "b",
    "=",
    '"',
    "'",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?",
    "?>",
    "<!DOCTYPE a [",
    "<!ENTITY x 'y'>",
    "]>",
    "&x;",
    "&amp;",
    "&#",
    "xmlns:a=",
    "xml",
    " ",
    "encoding",
    "utf-7",
    "<a>",
    "</a>",
]
HEADS = [
    b"HTTP/1.1 200 OK",
    b"HTTP/1.1 206 OK",
    b"HTTP/1.1 302",
    b"\r\n",
    b":",
    b" ",
    b"Content-Length: 5",
    b"Content-Length: 6",
    b"Transfer-Encoding: chunked",
    b"Content-Range: bytes 0-4/5",
    b"ETag: W/x",
    b"Retry-After: Wed, 99 Oct 2015",
    b"Date: x",
    b"\0",
]
DATES = ["Wed", ",", " ", "21", "Oct", "2015", "07:28:00", "GMT", "120", "-1", "+0000", ":", "99999999999"]
DIGESTS = ["sha", "md5", "256", "-", "512", "crc32", "SHA-256", "a", "0", "F", "g", "٣"]
CONTAINERS = [
    zip_of(Z(b"a.txt", b"hello" * 50), Z(b"d/", b"", method=0), Z(b"d/b", b"x" * 80, method=0)),
    zip_of(Z(b"a.txt", b"hello" * 50, flags=8), Z(b"b", b"", extra=extra(1, bytes(16))), zip64=True),
    tar_of(file_in_tar(b"a", b"hello" * 50), block(b"d/", kind=b"5"), file_in_tar(b"d/b", b"x")),
    tar_of(pax((b"path", b"x"), (b"size", b"5")), file_in_tar(b"a", b"hello"), long_name(b"b" * 120), block(b"b")),
]
CONTAINERS += [gzip.compress(CONTAINERS[2]), bz2.compress(CONTAINERS[3])]
KINDS_IN_TAR = [b"0", b"5", b"x", b"g", b"L", b"K", b"2", b"\0", b"7"]


@pytest.fixture(scope="module")
def shelf() -> Iterator[Folder]:
    """Where a write costs nothing, if there is such a place: what is asked is where things go, not whether they stay."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        (Path(path) / "shelf").mkdir()
        with Folder(Path(path) / "shelf") as folder:
            yield folder


def pieces(words: list[str]) -> st.SearchStrategy[str]:
    """Text made of the words that matter to a parser, with anything in between."""
    return st.lists(st.one_of(st.sampled_from(words), st.text(characters, max_size=3)), max_size=12).map("".join)


TEXTS: dict[str, tuple[st.SearchStrategy[str], Callable[[str], None]]] = {
    "names": (pieces(NAMES), parsers.name),
    "what is shown": (st.text(characters, max_size=300), parsers.what_is_shown),
    "urls": (pieces(URLS), parsers.url),
    "yaml": (pieces(YAML), parsers.yaml),
    "json": (pieces(JSON), parsers.json_text),
    "xml": (pieces(XML), parsers.xml),
}


@pytest.mark.proves("H2")
@pytest.mark.parametrize("what", TEXTS)
def test_texts(what: str) -> None:
    strategy, judge = TEXTS[what]
    quick(given(strategy)(judge))()


@pytest.mark.proves("H2")
@quick
@given(st.binary(max_size=200))
def test_bytes_as_texts(data: bytes) -> None:
    parsers.bytes_as_texts(data)


@pytest.mark.proves("H2")
@quick
@given(st.lists(st.one_of(st.sampled_from(HEADS), st.binary(max_size=5)), max_size=10).map(b"".join))
def test_headers_of_answers(data: bytes) -> None:
    parsers.head_of_answer(data)


@pytest.mark.proves("H2")
@quick
@given(st.text(max_size=60), st.text(max_size=60))
def test_dates_and_digests(one: str, other: str) -> None:
    parsers.date_and_digest(one, other)


changes = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.one_of(st.binary(min_size=1, max_size=4), st.just(b"\xff" * 4))),
    min_size=1,
    max_size=4,
)


@pytest.mark.proves("H2")
@quick
@given(st.sampled_from(CONTAINERS), changes, st.integers(0, 3))
def test_damaged_containers(shelf: Folder, data: bytes, damage: list[tuple[int, bytes]], lost: int) -> None:
    mutated = bytearray(data)
    for at, value in damage:
        at %= len(mutated)
        mutated[at : at + len(value)] = value
    parsers.container(shelf, bytes(mutated[: len(mutated) - lost]))


@pytest.mark.proves("H2")
@quick
@given(
    st.lists(
        st.builds(
            block,
            name=st.binary(max_size=20),
            size=st.one_of(st.integers(0, 2000), st.binary(min_size=12, max_size=12)),
            kind=st.sampled_from(KINDS_IN_TAR),
            prefix=st.binary(max_size=10),
        ),
        max_size=6,
    ),
    st.binary(max_size=700),
)
def test_invented_tars(shelf: Folder, blocks: list[bytes], rest: bytes) -> None:
    parsers.container(shelf, b"".join(blocks) + rest + bytes(1024))


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
)
def test_invented_zips(shelf: Folder, members: list[Z]) -> None:
    parsers.container(shelf, zip_of(*members))


# The great number: each draws an input by chance and gives it to its parser.


def tar_by_chance(chance: Chance) -> bytes:
    blocks = [
        block(
            chance.some_bytes(20),
            chance.randrange(2000) if chance.random() < 0.7 else chance.randbytes(12),
            chance.choice(KINDS_IN_TAR),
            prefix=chance.some_bytes(10),
        )
        for _ in range(chance.randrange(7))
    ]
    return b"".join(blocks) + chance.some_bytes(700) + bytes(1024)


def member_by_chance(chance: Chance) -> Z:
    return Z(
        name=chance.choice([b"a", b"A", b"a/", b"a/b", b"../x"]) if chance.random() < 0.6 else chance.some_bytes(8),
        data=chance.some_bytes(30),
        method=chance.choice([0, 8]),
        flags=chance.choice([0, 8, 1 << 11, 1]),
        local={chance.choice(["crc", "size", "packed"]): chance.getrandbits(32)} if chance.random() < 0.4 else {},
        central={chance.choice(["offset", "size", "packed"]): chance.randrange(201)} if chance.random() < 0.4 else {},
        extra=chance.choice([b"", chance.some_bytes(9), extra(1, chance.some_bytes(20))]),
    )


GOOD: dict[str, list[str]] = {
    "names": ["a/b/c.txt", "é/ü/Ω.tif", "data/2024/file (1).jpg"],
    "urls": ["https://good.example/a/b?c=d&e=%20", "http://[2001:db8::1]:80/x", "//good.example/x", "../a/./b?c#d"],
    "yaml": ["a: 1\nb:\n  - c\n  - {d: e, f: [g, 'h']}\ni: |\n  text\n  more\n", '- "a": !!str 1\n- ? b\n  : c\n'],
    "json": ['{"a": [1, -2.5e3, true, null, "b\\u00e9\\n"], "c": {"d": {}}}', '[[[["a"]]], {"b": 0.1}]'],
    "xml": [
        '<?xml version="1.0" encoding="utf-8"?><a xmlns:x="urn:x" b="c"><x:d>e &amp; &#233;</x:d><!-- f --></a>',
        "<a><![CDATA[b]]><?c d?><e f='g'/></a>",
    ],
}
HEAD = (
    b'HTTP/1.1 206 Partial\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/5\r\nETag: "x"\r\nRetry-After: 120\r\n\r\n'
)
BYTES = [text.encode() for name in ("yaml", "json", "xml") for text in GOOD[name]]
BYTES += [text.decode().encode("utf-16") for text in BYTES]
DATE, SUM = "Wed, 21 Oct 2015 07:28:00 GMT", "0123456789abcdef"

BY_CHANCE: dict[str, Callable[[Chance, Folder], None]] = {
    "names": lambda chance, shelf: parsers.name(chance.text(NAMES, GOOD["names"])),
    "what is shown": lambda chance, shelf: parsers.what_is_shown(chance.letters(60)),
    "urls": lambda chance, shelf: parsers.url(chance.text(URLS, GOOD["urls"])),
    "yaml": lambda chance, shelf: parsers.yaml(chance.text(YAML, GOOD["yaml"])),
    "bytes as texts": lambda chance, shelf: parsers.bytes_as_texts(
        chance.some_bytes(200) if chance.random() < 0.5 else chance.damaged(chance.choice(BYTES))
    ),
    "json": lambda chance, shelf: parsers.json_text(chance.text(JSON, GOOD["json"])),
    "xml": lambda chance, shelf: parsers.xml(chance.text(XML, GOOD["xml"])),
    "headers": lambda chance, shelf: parsers.head_of_answer(
        chance.damaged(HEAD)
        if chance.random() < 0.5
        else b"".join([chance.choice(HEADS) if chance.random() < 0.8 else chance.some_bytes(5) for _ in range(8)])
    ),
    "dates and digests": lambda chance, shelf: parsers.date_and_digest(
        chance.text([*DATES, *DIGESTS], [DATE, "sha-256", "md5"]),
        chance.text([*DATES, *DIGESTS], [DATE, SUM * 4, SUM * 2]),
    ),
    "damaged containers": lambda chance, shelf: parsers.container(shelf, chance.damaged(chance.choice(CONTAINERS))),
    "tars": lambda chance, shelf: parsers.container(shelf, tar_by_chance(chance)),
    "zips": lambda chance, shelf: parsers.container(
        shelf, zip_of(*[member_by_chance(chance) for _ in range(chance.randrange(5))])
    ),
}


@pytest.mark.proves("H2")
@pytest.mark.parametrize("what", BY_CHANCE)
def test_inputs_by_chance(what: str, shelf: Folder, scaled: Scaled[int], seed: int, tell: Tell) -> None:
    count = scaled(100, 64_000, 8_400_000)
    slowest = slowest_of(count, what, seed, lambda chance: BY_CHANCE[what](chance, shelf))
    tell("", inputs=count)
    assert slowest < 1, "no input keeps a parser busy for a second"
