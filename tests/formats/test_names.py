"""Which names may cross the border."""

from __future__ import annotations

import unicodedata

import pytest

from custody.errors import BadInput
from custody.formats.names import Names, safe_parts, shown

SAFE = [
    "a",
    "a.txt",
    ".htaccess",
    "a/b/c.tif",
    "images/page 001.tif",
    " leading space",
    "..a",
    "a..b",
    "...a",
    "été.txt",
    unicodedata.normalize("NFD", "été.txt"),
    "日本語/文書.pdf",
    "می‌خواهم.txt",  # with a zero-width non-joiner, as Persian needs it
    "👩‍👩‍👧.png",
    "100%.txt",
    "50%20off.txt",
    "~$report.docx",
    "backup~",
    "a/~b",
    "-rf",
    "CONSOLE",
    "con-fig/nul-set.txt",
    "COM10",
    "aux1.txt",
    "time 12:30.txt",
    "ark:",
    "what?.txt",
    'a"b',
    "a|b",
    "a…b",
    "½.txt",
    "\uf022",  # what a Mac writes for a character another system forbids
    "x" * 255,
    "é" * 127,
    "/".join(["d"] * 64),
    "/".join(["x" * 203] * 20),
]

UNSAFE = [
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "//host/share",
    "../x",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "a/.",
    "a//b",
    "a/",
    "a\0b",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\x1bb",
    "a\x7fb",
    "a\x85b",
    "a\u2028b",
    "a\u2029b",
    "a\u202eb",
    "a\u202ab",
    "a\u2066b",
    "a\u2069b",
    "a\u200eb",
    "a\u200fb",
    "a\u061cb",
    "a\u200bb",
    "a\u2060b",
    "\ufeffa",
    "a\ufffe",
    "a\ufdd0",
    "a\ud800b",
    "a\udcffb",
    "a\\b",
    "..\\x",
    "C:\\x",
    "\\\\?\\C:\\x",
    "\\\\server\\share",
    "C:x",
    "c:/x",
    "a/D:/x",
    "~",
    "~/.bashrc",
    "~root/x",
    "~+",
    "%2e%2e/x",
    "%2E%2E",
    "%2e",
    ".%2e/x",
    "%252e%252e/x",
    "%25252e%25252e",
    "a%2fb",
    "a%2F..%2Fb",
    "a%5cb",
    "a%00b",
    "%43:x",
    "．．/x",
    "．",
    "․․/x",
    "‥/x",
    "a／b",
    "a＼b",
    "a﹨b",
    "Ｃ：x",
    "…",
    "a.",
    "a ",
    "a/b./c",
    "a /b",
    "...",
    "CON",
    "con",
    "Nul.txt",
    "a/PRN.tar.gz",
    "AUX ",
    "aux .txt",
    "COM1",
    "com9.log",
    "LPT0",
    "COM¹",
    "ＣＯＮ",
    "CONIN$",
    "conout$.txt",
    "CLOCK$",
    "x" * 256,
    "é" * 128,
    "/".join(["d"] * 65),
    "/".join(["x" * 240] * 18),
    "x" * 5000,
]


@pytest.mark.parametrize("name", SAFE, ids=ascii)
def test_an_ordinary_name_is_kept_as_it_is(name: str) -> None:
    assert "/".join(safe_parts(name)) == name


@pytest.mark.proves("H1")
@pytest.mark.parametrize("name", UNSAFE, ids=lambda name: ascii(name)[:40])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        safe_parts(name, where="manifest.checkm:7")

    assert caught.value.code == "name.unsafe"
    assert str(caught.value).startswith("manifest.checkm:7: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_the_tables_are_as_long_as_promised() -> None:
    assert len(SAFE) + len(UNSAFE) >= 80


SAME = [
    ("a", "a"),
    ("a", "A"),
    ("Straße", "STRASSE"),
    ("é", unicodedata.normalize("NFD", "é")),
    ("É", unicodedata.normalize("NFD", "é")),
    ("ﬁle", "FILE"),
    ("a", "a/b"),
    ("a/b", "a"),
    ("A", "a/b/c"),
    ("a/b/c", "A/B"),
    ("a/É", unicodedata.normalize("NFD", "A/é") + "/x"),
    ("ς", "Σ"),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("one", "other"), SAME, ids=ascii)
def test_two_names_that_some_disk_takes_for_one_are_refused(one: str, other: str) -> None:
    names = Names(code="manifest.duplicate")
    names.add(one, place="line 3")

    with pytest.raises(BadInput) as caught:
        names.add(other, place="line 9")

    assert caught.value.code == "manifest.duplicate"
    assert caught.value.facts["places"] == ["line 9", "line 3"]


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("a/b", "a/c"), ("a/b", "A/c"), ("ab", "a/b"), ("é", "e")])
def test_names_with_a_place_of_their_own_are_accepted(one: str, other: str) -> None:
    names = Names()
    names.add(one)
    names.add(other)

    with pytest.raises(BadInput):  # and both are known from now on
        names.add(other)


def test_whoever_writes_to_a_disk_that_knows_case_may_have_names_that_differ_in_it() -> None:
    names = Names(by_case=True)
    for name in ("README", "readme", "caf\u00e9", "CAF\u00c9"):
        names.add(name)
    for again in ("readme", "README", "cafe\u0301", "README/x"):
        with pytest.raises(BadInput):
            names.add(again)


def test_a_folder_may_come_twice_but_not_where_a_file_is() -> None:
    names = Names()
    names.add_folder("a/b")
    names.add_folder("A/b")
    names.add("a/b/c")

    with pytest.raises(BadInput):
        names.add_folder("a/b/C")
    with pytest.raises(BadInput):
        names.add("a/B")


def test_foreign_text_is_shown_without_moving_the_cursor() -> None:
    assert shown("a\x1b[31m\u202e\n") == "a\\x1b[31m\\u202e\\x0a"
    assert shown("x" * 200, 10) == "x" * 9 + "…"
