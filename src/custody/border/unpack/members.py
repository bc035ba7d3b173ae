"""What comes out of a container, how much may, and how a refusal is worded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from custody.errors import BadInput
from custody.formats.names import shown

PIECE = 256 << 10  # bytes in memory at once
_ALLOWANCE = 1 << 20  # a small container may be mostly zeros


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """How much may come out of a container."""

    size: int = 1 << 40  # bytes in all
    ratio: int = 200  # bytes out for one byte in
    members: int = 250_000
    encoding: str | None = None  # of names that do not say theirs; without it such names are refused

    def most(self, packed: int) -> int:
        """Bytes that may come out of a container of this size."""
        return min(self.size, packed * self.ratio + _ALLOWANCE)


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder of a container. The pieces of one must be read before the next is asked for."""

    name: str
    is_folder: bool
    pieces: Iterable[bytes] = ()


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What came out."""

    kind: str
    files: int
    size: int


def refusal(kind: str, message: str, member: str = "", hint: str = "") -> BadInput:
    """`container.unsafe`, `.corrupt`, `.too_large` or `.unsupported`, naming the member."""
    return BadInput(
        message,
        code=f"container.{kind}",
        where=shown(member),
        hint=hint,
        **({"member": shown(member)} if member else {}),
    )


def decode_name(raw: bytes, encoding: str | None, *, is_utf8: bool) -> str:
    """A member's name as text. What is not said to be anything must be ASCII or have an encoding given."""
    candidates = ("utf-8",) if is_utf8 else ("ascii", encoding or "ascii")
    for candidate in candidates:
        try:
            return raw.decode(candidate)
        except UnicodeDecodeError:
            continue
    raise refusal(
        "unsafe",
        "the name's encoding is not known",
        raw.decode("ascii", "backslashreplace"),
        "name the encoding in the collection's profile",
    )
