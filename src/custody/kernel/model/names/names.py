"""Names that people choose: one form for each name, so that no two look alike and are different.

A name with a blank at its end, with a sign that is not shown, or with a letter of another alphabet that looks like one
of ours reads as another's name in a list, in the history and in an operator's head.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

LONGEST: Final = 200
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS: Final = frozenset({"Mn", "Me"})
_IGNORED: Final = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""What Unicode calls default-ignorable, and the blank of Braille: some are letters or marks by their category."""
_CAPITALS: Final = str.maketrans({"Η": "h", "Ν": "n", "Μ": "m", "Υ": "y", "Տ": "s", "Լ": "l", "Ո": "n", "Ѕ": "s"})
"""Capitals that are read as another letter than their small ones are."""
_LOOKS_LIKE: Final = str.maketrans(
    {
        "а": "a",
        "в": "b",
        "с": "c",
        "ԁ": "d",
        "е": "e",
        "ё": "e",
        "ԍ": "g",
        "һ": "h",
        "н": "h",
        "і": "i",
        "ї": "i",
        "ј": "j",
        "к": "k",
        "ӏ": "l",
        "м": "m",
        "п": "n",
        "о": "o",
        "р": "p",
        "ԛ": "q",
        "г": "r",
        "ѕ": "s",
        "т": "t",
        "ц": "u",
        "ѵ": "v",
        "ѡ": "w",
        "ԝ": "w",
        "ш": "w",
        "х": "x",
        "у": "y",
        "ү": "y",
        "α": "a",
        "β": "b",
        "ϲ": "c",
        "ε": "e",
        "η": "n",
        "ι": "i",
        "κ": "k",
        "ν": "v",
        "ο": "o",
        "ρ": "p",
        "σ": "o",
        "τ": "t",
        "υ": "u",
        "χ": "x",
        "ω": "w",
        "γ": "y",
        "ϳ": "j",
        "օ": "o",
        "ս": "u",
        "հ": "h",
        "ց": "g",
        "ո": "n",
        "ɑ": "a",
        "ɡ": "g",
        "ı": "i",
        "ɩ": "i",
        "ʟ": "l",
        "ɴ": "n",
        "ᴏ": "o",
        "ʀ": "r",
        "ꜱ": "s",
        "ᴛ": "t",
        "ʏ": "y",
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ь": "b",
        "ъ": "b",
        "ғ": "f",
        "д": "d",
        "ђ": "h",
        "ћ": "h",
        "є": "e",
        "ҽ": "e",
        "ҿ": "e",
        "и": "u",
        "й": "u",
        "џ": "u",
        "л": "n",
        "ӆ": "n",
        "я": "r",
        "ґ": "r",
        "ѳ": "o",
        "ө": "o",
        "ѻ": "o",
        "қ": "k",
        "ҝ": "k",
        "ҟ": "k",
        "ҡ": "k",
        "ӄ": "k",
        "ң": "h",
        "ҥ": "h",
        "ӈ": "h",
        "ҳ": "x",
        "ҫ": "c",
        "ұ": "y",
        "щ": "w",
        "ԥ": "n",
        "ҷ": "y",
        "ч": "y",
        "ԃ": "d",
        "ԑ": "e",
        "ҭ": "t",
        "ӎ": "m",
        "ԏ": "t",
        "δ": "d",
        "ζ": "z",
        "θ": "o",
        "λ": "l",
        "μ": "u",
        "π": "n",
        "ϸ": "p",
        "ϝ": "f",
        "ա": "w",
        "գ": "q",
        "զ": "q",
        "ե": "t",
        "է": "t",
        "լ": "l",
        "ղ": "n",
        "յ": "j",
        "ռ": "n",
        "ր": "p",
        "ւ": "i",
        "ք": "p",
        "տ": "u",
        "ð": "d",
        "þ": "p",
        "ħ": "h",
        "ŋ": "n",
        "ĸ": "k",
        "ə": "e",
        "ɛ": "e",
        "ɔ": "o",
        "ɓ": "b",
        "ɗ": "d",
        "ɖ": "d",
        "ƙ": "k",
        "ƴ": "y",
        "ɣ": "y",
        "ŧ": "t",
        "ƒ": "f",
        "ɨ": "i",
        "ʉ": "u",
        "ʋ": "v",
        "ʊ": "u",
        "0": "o",
        "1": "l",
        "|": "l",
        "∕": "/",
        "⁄": "/",
        "／": "/",
        "╱": "/",
        "‐": "-",
        "‑": "-",
        "‒": "-",
        "–": "-",
        "—": "-",
        "−": "-",
        "․": ".",
    }
)
"""Letters that are read as another: small ones, since capitals are made small first."""
_FIGURES: Final = str.maketrans("3456789", "easbtbg")
"""Figures that are read as letters where the rest is a word; 0 and 1 are so everywhere."""


def is_unseen(letter: str) -> bool:
    """Is nothing shown where it stands? By its category, or since Unicode says that readers may leave it out."""
    return unicodedata.category(letter) in _UNSEEN or any(first <= ord(letter) <= last for first, last in _IGNORED)


def fault(name: str, longest: int = LONGEST) -> str:
    """What is wrong with a name that somebody chooses; empty when nothing is."""
    if not name or len(name) > longest:
        return f"has 1 to {longest} characters"
    if "\0" in name or any(unicodedata.category(letter) == "Cs" for letter in name):
        return "has no character that cannot be stored"
    if any(map(is_unseen, name)):
        return "has no characters that are not shown"
    if name != name.strip() or any(letter.isspace() and letter != " " for letter in name):
        return "has no blanks at its ends, and no tabs or odd blanks"
    return "" if unicodedata.is_normalized("NFC", name) else "is written in the form NFC"


def skeleton(name: str) -> str:
    """What a name looks like: two names with the same are taken for one another."""
    plain = unicodedata.normalize("NFKD", name)
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in _MARKS and not is_unseen(letter))
    shown = shown.translate(_CAPITALS).casefold()
    return _together("".join(shown.translate(_LOOKS_LIKE).split())).replace("i", "l")


def _together(letters: str) -> str:
    """With two that look like one as that one."""
    return letters.replace("rn", "m").replace("vv", "w")


def spelled(name: str) -> str:
    """What a name looks like with its figures read as letters: for words that nobody else may have. Among names that
    people choose it would be too much: `batch5` and `batchs` are two."""
    return skeleton(name).translate(_FIGURES)


@lru_cache(4096)
def reading(name: str) -> str:
    """What is read of a name: its letters, without what stands between them, and figures as the letters that they look
    like. A number by itself at the end is a number: `file 5` is not `files`."""
    parts = [each for each in re.split(r"[\W_]+", unicodedata.normalize("NFKC", name)) if each]
    is_counted = len(parts) > 1 and len(parts[-2]) > 1 and parts[-1].isdecimal()
    word, number = (" ".join(parts[:-1]), parts[-1]) if is_counted else (name, "")
    return _together("".join(filter(str.isalnum, spelled(word)))).replace("cl", "d") + number


def alike(name: str, others: Iterable[str]) -> str:
    """One of the others that a new name would be taken for; empty when there is none, or the name is one of them."""
    known, looks = set(others), skeleton(name)
    return "" if name in known else min((each for each in known if skeleton(each) == looks), default="")


def clashes(names: Iterable[str]) -> Sequence[Sequence[str]]:
    """Those among them that look alike, together."""
    by_looks: dict[str, set[str]] = {}
    for name in names:
        by_looks.setdefault(skeleton(name), set()).add(name)
    return [sorted(each) for each in by_looks.values() if len(each) > 1]
