"""What the name of an event's type may be made of, whoever records it.

People decide by what they read in the history, and robots wait for exact names: a type that reads as another's passes
for it. There are too many letters that look like others to list; so the form is narrow instead. Words of letters and
figures, each word of one alphabet; blanks and a few signs between them. Archives that speak another language than
English have their own words: every alphabet that Unicode recommends for names is open. Cherokee, Lisu, small capitals
and the like, whose letters have the shapes of ours, are not.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from custody.kernel.model.names.names import LONGEST, is_unseen

SIGNS: Final = " -_.:/'’·"
"""What may stand between two words."""
_EAST_ASIAN: Final = "East Asian"
_ALPHABETS: Final = {
    **{
        each: each.capitalize()
        for each in (
            "ARABIC",
            "ARMENIAN",
            "BENGALI",
            "CYRILLIC",
            "DEVANAGARI",
            "ETHIOPIC",
            "GEORGIAN",
            "GREEK",
            "GUJARATI",
            "GURMUKHI",
            "HEBREW",
            "KANNADA",
            "KHMER",
            "LAO",
            "LATIN",
            "MALAYALAM",
            "MYANMAR",
            "ORIYA",
            "SINHALA",
            "TAMIL",
            "TELUGU",
            "THAANA",
            "THAI",
            "TIBETAN",
        )
    },
    **dict.fromkeys(("ARABIC-INDIC", "EXTENDED"), "Arabic"),
    **dict.fromkeys(
        ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL"), _EAST_ASIAN
    ),
}
"""The first word of a letter's name in Unicode, and which alphabet that is. Those of East Asia are written together."""
_LATIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzæœøßđðþłħŋıəɛɔɓɗɖƙƴɣŧƒɨʉʋʊ")
"""The letters of languages, without their marks; not those of phonetics, nor small capitals."""
_PARTS: Final = frozenset({"Lu", "Ll", "Lo", "Lm", "Nd", "Mn", "Mc"})
_MOST_MARKS: Final = 3


@lru_cache(1024)
def fault_of(type_: str) -> str:
    """What is wrong with the name of a type of event; empty when nothing is."""
    if not type_ or len(type_) > LONGEST:
        return f"has 1 to {LONGEST} characters"
    if any(map(is_unseen, type_)):
        return "has no characters that are not shown"
    if not unicodedata.is_normalized("NFKC", type_):
        return "is written in plain letters (the form NFKC)"
    words = re.split(f"[{re.escape(SIGNS)}]", type_)
    if not words[0] or not words[-1] or "  " in type_:
        return "begins and ends with a letter or a figure, with single blanks between its words"
    return next(filter(None, map(_fault_of_word, words)), "")


def plain(type_: str) -> str:
    """The nearest name that may be one, of what another system calls it; empty when there is none."""
    kept = (letter if unicodedata.category(letter) in _PARTS or letter in SIGNS else " " for letter in _told(type_))
    words = " ".join("".join(kept).split())[: LONGEST // 2].strip(SIGNS)
    return "" if fault_of(words) else words


def _told(type_: str) -> str:
    return unicodedata.normalize("NFKC", "".join(each for each in type_ if each.isspace() or not is_unseen(each)))


def _fault_of_word(word: str) -> str:
    alphabets, marks = set(), 0
    for letter in word:
        kind = unicodedata.category(letter)
        if kind not in _PARTS:
            return f"has letters, figures and {SIGNS.strip()} only: not {letter!r}"
        marks = marks + 1 if kind[0] == "M" else 0
        name = unicodedata.name(letter, "")
        first = name.partition(" ")[0]
        if marks > _MOST_MARKS or (marks and letter == word[0]):
            return "has marks on its letters only, and few"
        if (letter.isdecimal() and letter.isascii()) or (marks and first == "COMBINING" and " LETTER " not in name):
            continue
        alphabet = _ALPHABETS.get(first, "")
        if not alphabet or (alphabet == "Latin" and not _is_common(letter)):
            return f"has no letters that are taken for others: not {letter!r} ({name or 'unnamed'})"
        alphabets.add(alphabet)
    if len(alphabets) > 1:
        return f"has words of one alphabet each: {word!r} is of {' and '.join(sorted(alphabets))}"
    return ""


def _is_common(letter: str) -> bool:
    return unicodedata.normalize("NFD", letter).casefold()[0] in _LATIN
