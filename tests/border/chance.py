"""Inputs by chance, a hundred thousand in the time in which a careful inventor makes a thousand.

Hypothesis invents inputs that can be made smaller and told; that costs more than most parsers do. For the great number
there is this: what matters to a parser in any order, or a good input that was damaged. The same seed, the same inputs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

ODD = [
    (0, 0x20),
    (0x20, 0x7F),
    (0x20, 0x7F),
    (0x80, 0x100),
    (0x100, 0x3000),
    (0xD800, 0xE000),
    (0xFE00, 0x10000),
    (0x1F000, 0x20000),
    (0, 0x110000),
]
"""Where characters come from: mostly those that somebody has forgotten, surrogates, too."""


class Chance(random.Random):
    """Chooses."""

    def letters(self, most: int) -> str:
        return "".join([chr(self.randrange(*self.choice(ODD))) for _ in range(self.randrange(most + 1))])

    def some_bytes(self, most: int) -> bytes:
        return self.randbytes(self.randrange(most + 1))

    def pieces(self, words: Sequence[str], most: int = 12) -> str:
        """The words that matter to a parser, with anything in between."""
        count = self.randrange(most + 1)
        return "".join([self.choice(words) if self.random() < 0.7 else self.letters(3) for _ in range(count)])

    def text(self, words: Sequence[str], good: Sequence[str]) -> str:
        return self.pieces(words) if self.random() < 0.5 else self.damaged_text(self.choice(good), words)

    def damaged_text(self, text: str, words: Sequence[str]) -> str:
        """With pieces put in, left out, doubled or replaced."""
        for _ in range(self.randint(1, 4)):
            at, length = self.randrange(len(text) + 1), self.randrange(6)
            word = self.choice(words) if self.random() < 0.6 else self.letters(3)
            keep = self.choice((0, length, -length))
            text = text[:at] + word + text[max(0, at + keep) :]
        return text

    def damaged(self, data: bytes) -> bytes:
        """With some bytes overwritten and perhaps the end lost."""
        changed = bytearray(data)
        for _ in range(self.randint(1, 4)):
            at = self.randrange(len(changed))
            value = b"\xff" * 4 if self.random() < 0.2 else self.randbytes(self.randint(1, 4))
            changed[at : at + len(value)] = value
        return bytes(changed[: len(changed) - self.randrange(4)])


def slowest_of(count: int, what: str, seed: int, judge: Callable[[Chance], object]) -> float:
    """Let so many inputs be judged; how many seconds the slowest took. One that fails is told by its number."""
    slowest = 0.0
    for number in range(count):
        began = time.thread_time()
        try:
            judge(Chance(f"{what} {seed} {number}"))
        except BaseException as error:
            error.add_note(f"input {number} of {what}, with the seed {seed}")
            raise
        slowest = max(slowest, time.thread_time() - began)
    return slowest
