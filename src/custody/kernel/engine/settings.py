"""How a worker is set up, and which settings are refused."""

from __future__ import annotations

from dataclasses import dataclass

from custody.errors import BadInput

A_YEAR = 366 * 24 * 3600  # seconds
LEAST = {"threads": 1, "lease": 0.1, "poll": 0.001, "grace": 0}


@dataclass(frozen=True, slots=True)
class Settings:
    threads: int = 4
    lease: float = 30.0  # seconds
    poll: float = 1.0  # seconds between looks when nothing wakes us
    grace: float = 20.0  # seconds for work to finish at shutdown
    place: str = ""  # jobs pinned to other places are left alone
    wake: bool = True  # wake-ups are a hint: with False everything still completes
    schedules: bool = True  # also turn due schedules into jobs

    def checked(self) -> Settings:
        """Itself, or a typed error: a worker that could do nothing must not look as if it ran."""
        for name, least in LEAST.items():
            value = getattr(self, name)
            if not least <= value <= A_YEAR:
                raise BadInput(
                    f"{name} {value:g} is too little or too much",
                    code="worker.settings",
                    where=f"worker {name}",
                    hint=f"{least:g} or more",
                )
        return self
