"""How an installation keeps its history: the key that seals, the keys that verify, and the witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.kernel.history.config import HistoryConfig
from custody.kernel.history.head import Head
from custody.kernel.history.keys import PublicKey, Signer, load_key, read_public_key
from custody.kernel.history.ledger import Ledger, seal_once
from custody.kernel.history.witness import read_heads


@dataclass(frozen=True, slots=True)
class Sealer:
    keys: tuple[PublicKey, ...] = ()
    witnesses: tuple[Path, ...] = ()
    signer: Signer | None = None
    every: float = 10.0

    def heads(self) -> list[Head]:
        """What the witnesses have been told so far."""
        return [head for path in self.witnesses if path.is_file() for head in read_heads(path)]

    def seal(self, ledger: Ledger, now: int) -> None:
        """Everything that is not sealed yet, block by block."""
        while self.signer and (block := seal_once(ledger, self.signer, now, self.witnesses)):
            if block.complete:
                return


def open_keeping(config: HistoryConfig, home: Path) -> Sealer:
    public, key = home / config.public, home / config.key
    signer = load_key(key, config.name) if key.is_file() else None
    keys = _keys(public.read_text().splitlines()) if public.is_file() else (signer.public,) if signer else ()
    return Sealer(keys, tuple(home / path for path in config.witnesses), signer, config.every)


def _keys(lines: Sequence[str]) -> tuple[PublicKey, ...]:
    return tuple(read_public_key(line.strip()) for line in lines if line.strip())
