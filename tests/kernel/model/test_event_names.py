"""Names of events: what may be one, and that no disguise of a reserved word is."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest

from custody.errors import BadInput
from custody.kernel.model.names.event_names import fault_of, plain
from custody.kernel.model.names.names import fault, skeleton
from custody.kernel.model.names.reserved import RECORDED, RECORDED_WITH, check_event

RESERVED = [*RECORDED, *(f"{word} build" for word in RECORDED_WITH)]
ASSIGNED = [chr(code) for code in range(0x80, 0xE1000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
LETTERS = [each for each in ASSIGNED if not unicodedata.name(each, "").startswith(("CJK", "HANGUL SYLLABLE", "TANGUT"))]
NOT_SHOWN = [
    *"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u180f\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c",
    *"\u202d\u202e\u2060\u2063\u2065\u2066\u2067\u2068\u2069\u206f\u2800\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\ufffb\x00\x07\x1b\x7f\x85",
    *"\U0001d173\U000e0001\U000e0061\U000e0100\U000e0fff\ue000\U00100000",
]
CYRILLIC = dict(zip("abcdefghijklmnopqrstuvwxyz", "аьсԁеғԍһіјкӏмпорԛгѕтцѵԝхуз", strict=True))
GREEK = dict(zip("abdeiknoptuvwxyz", "αβδεικηορτυνωχγζ", strict=True))
GREEK_CAPITALS = dict(zip("abehikmnoptxyz", "ΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
ARMENIAN = dict(zip("ghijlnoqutp", "ցհւյլոօզսեր", strict=True))


def is_refused(type_: str) -> bool:
    try:
        check_event(type_, "a test")
    except BadInput:
        return True
    return False


def named_after(form: str) -> dict[str, str]:
    """The letters a to z of a style, by their names in Unicode."""
    found = {}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        for case in (form.format(letter.upper()), form.format(letter)):
            try:
                found[letter] = unicodedata.lookup(case)
            except KeyError:
                continue
    return found


STYLES = [
    named_after(form)
    for form in (
        "FULLWIDTH LATIN SMALL LETTER {}",
        "MATHEMATICAL BOLD SMALL {}",
        "MATHEMATICAL SCRIPT CAPITAL {}",
        "CIRCLED LATIN SMALL LETTER {}",
        "PARENTHESIZED LATIN SMALL LETTER {}",
        "MODIFIER LETTER SMALL {}",
        "LATIN SMALL LETTER {} WITH DOT BELOW",
    )
]
ODD_STYLES = [
    named_after(form)
    for form in (
        "LATIN LETTER SMALL CAPITAL {}",
        "REGIONAL INDICATOR SYMBOL LETTER {}",
        "LATIN SMALL LETTER {} WITH HOOK",
        "NEGATIVE SQUARED LATIN CAPITAL LETTER {}",
        "COMBINING LATIN SMALL LETTER {}",
        "LATIN SMALL LETTER TURNED {}",
        "LISU LETTER {}A",
        "TAG LATIN SMALL LETTER {}",
    )
]
"""Which no name of an event may have at all."""


def spelled(word: str, letters: dict[str, str]) -> str:
    return "".join(letters.get(each, each) for each in word)


FIGURES = {"o": "0", "l": "1", "i": "1", "e": "3", "a": "4", "s": "5", "b": "68", "t": "7", "g": "9"}


def figured(word: str) -> Iterator[str]:
    """The word with figures that look like letters: one of them, all of one sort, and all there are."""
    for letter, figures in FIGURES.items():
        for figure in figures if letter in word else "":
            yield word.replace(letter, figure)
            yield from (f"{word[:n]}{figure}{word[n + 1 :]}" for n, each in enumerate(word) if each == letter)
    for whole in (
        word.translate(str.maketrans({letter: figures[-1] for letter, figures in FIGURES.items()})),
        word.upper().translate(str.maketrans({letter.upper(): figures[0] for letter, figures in FIGURES.items()})),
    ):
        if not whole.split()[-1].isdecimal():  # that is a number: `files 1057`
            yield whole


def likenesses(word: str) -> Iterator[str]:
    """What reads as the word: as a whole in other letters, and with something between its letters."""
    yield from (word, word.upper(), word.title(), f" {word}", f"{word} ")
    yield from (word.replace(" ", "  "), word.replace(" ", "\xa0"), word.replace(" ", "_"), word.replace("_", " "))
    for letters in (*STYLES, CYRILLIC, GREEK, GREEK_CAPITALS, ARMENIAN):
        yield from in_letters(word, letters)
    yield spelled(word, CYRILLIC).upper()
    yield from (word.replace(was, like) for was, like in (("l", "I"), ("d", "cl"), ("m", "rn"), ("w", "vv")))
    yield from figured(word)
    for between in (*NOT_SHOWN, "\u0336", "\u20e3", "\u0308"):
        yield from (f"{word[:2]}{between}{word[2:]}", f"{between}{word}", f"{word}{between}")
    for sign in "-_.:/'’·‐–—‧":
        yield from (f"{word[:2]}{sign}{word[2:]}", sign.join(word), f"{word}{sign}", f"{sign}{word}")


def disguises(word: str) -> Iterator[str]:
    yield from likenesses(word)
    for letters in ODD_STYLES:
        yield from in_letters(word, letters)
    yield word[::-1].join(("\u202e", "\u202c"))


def in_letters(word: str, letters: dict[str, str]) -> tuple[str, str, str]:
    return (
        spelled(word, letters),
        spelled(word[:1], letters) + word[1:],
        spelled(word[-1:], letters).join((word[:-1], "")),
    )


@pytest.mark.parametrize("word", RESERVED)
def test_no_disguise_of_a_reserved_word_is_an_event(word: str) -> None:
    taken = [type_ for type_ in disguises(word) if not is_refused(type_)]
    assert taken == []


@pytest.mark.parametrize("word", ["approved", "synced"])
def test_no_letter_of_unicode_makes_another_event_of_a_reserved_one(word: str) -> None:
    """Whatever it looks like: in the place of a letter, or beside one. But for letters of Latin that are others."""
    accepted = {
        each for each in LETTERS for type_ in (each + word[1:], word[:3] + each + word[3:]) if not is_refused(type_)
    }
    assert {unicodedata.name(each).split()[0] for each in accepted} == {"LATIN"}
    assert all(unicodedata.name(each).startswith(("LATIN SMALL", "LATIN CAPITAL")) for each in accepted)
    assert not any(" SMALL CAPITAL " in unicodedata.name(each) for each in accepted)
    replaced = [each for each in LETTERS if skeleton(each) == word[0] and not is_refused(each + word[1:])]
    assert replaced == []


@pytest.mark.parametrize(
    "type_",
    [
        "5tored",
        "9one",
        "gon3",
        "4pproved",
        "7ask build",
        "5et asid3",
        "8elieved",
        "6elieved",
        "5-tored",
        "s-7-o-r-e-d",
        "g-o-n-3",
        "run 5",
        "approved",
        "app-roved",
        "imported approved",
        "imported: approved",
        "imported-approved",
        "task:build",
        "ta-sk build",
        "run_nightly",
        "Imported  x",
        "ｒｕｎ nightly",
        "арргоѵеԁ",
        "арр roved",
    ],
)
def test_what_is_reserved_is_reserved_however_it_is_parted(type_: str) -> None:
    with pytest.raises(BadInput, match="is recorded by the system itself"):
        check_event(type_, "a test")


@pytest.mark.parametrize(
    "type_",
    [
        "accession",
        "message digest calculation",
        "de-accession",
        "Checksums_Verified",
        "Ingest_Start",
        "v1.2 migrated",
        "http://id.loc.gov/vocabulary/preservation/eventType/fix",
        "S",
        "2nd look",
        "approved by two",
        "imported",
        "task",
        "contrôle d’intégrité",
        "vérification d'empreinte",
        "prüfsumme geprüft",
        "col·lecció revisada",
        "þýtt",
        "łączenie",
        "контроль целостности",
        "έλεγχος ακεραιότητας",
        "ստուգում",
        "בדיקת שלמות",
        "فحص السلامة",
        "शुद्धता जाँच",
        "ตรวจสอบ",
        "mp3 made",
        "1st checked",
        "3d scan made",
        "sha256 computed",
        "7z unpacked",
        "pass 5",
        "9 pages gone",
        "scan 0",
        "stored 5",
        "stored 2",
        "0",
        "5",
        "2026",
        "md5",
        "h264 encoded",
        "完全性確認",
        "ウイルスチェック",
        "무결성 검사",
        "PDF 検証",
        "kiểm tra",
        "ɗan kwafi",
    ],
)
def test_archives_name_events_in_their_own_language(type_: str) -> None:
    check_event(type_, "a test")
    assert plain(type_) == type_


@pytest.mark.parametrize(
    ("type_", "wrong"),
    [
        ("", "has 1 to 200"),
        ("x" * 201, "has 1 to 200"),
        ("pages\u3164", "not shown"),
        ("ﬁxed", "NFKC"),
        ("pages ", "begins and ends"),
        ("pages  counted", "single blanks"),
        ("pages|counted", "not '|'"),
        ("pages\ncounted", "not shown"),
        ("pаges", "one alphabet each"),
        ("ᴘages", "taken for others"),
        ("ᏢᎪᎨᎬ", "taken for others"),
        ("PDF検証", "one alphabet each"),
        ("q\u0323\u0300\u0301\u0302b", "few"),
        ("\u0301a", "on its letters"),
        ("counted!", "not '!'"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(type_: str, wrong: str) -> None:
    assert wrong in fault_of(type_)


@pytest.mark.parametrize("letter", NOT_SHOWN)
def test_names_that_people_choose_have_nothing_that_is_not_shown(letter: str) -> None:
    assert fault(f"la{letter}den")
    assert skeleton(f"la{letter}den") == skeleton("laden")
