"""The [history] part of custody.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """The [history] part of custody.toml. Paths are relative to the file."""

    key: Path = Path("history.key")  # workers that find it seal what was recorded
    public: Path = Path("history.public")  # public keys, one in a line: whoever verifies believes these
    name: str = "custody"
    witnesses: tuple[str, ...] = ()  # files elsewhere that keep the heads
    every: float = 10.0  # seconds between two blocks
