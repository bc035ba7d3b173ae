"""What every benchmark prints and how it is judged: rounds in turns, medians, spread, one RESULT line per row.

Machines are shared and noisy, so ours and the peer are measured in turns in the same run and the *ratio* is judged.
A row whose figure has a fixed limit (milliseconds, megabytes) is judged by itself: `limit=True`. A row without a
target is told, not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 3
Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    ours: float
    peer: float
    target: float  # ours / peer at least; with `limit`, ours at most; 0: told only
    unit: str = "/s"
    limit: bool = False
    spread: float = 0.0  # of ours: (most − least) / median
    chance: float = 0.0  # two that are equal by construction differ by so much, by chance alone

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else 0.0

    @property
    def good(self) -> bool:
        if not self.target:
            return True
        return self.ours <= self.target if self.limit else self.ratio + self.chance >= self.target

    def __str__(self) -> str:
        grade = ("ok" if self.good else "short") if self.target else "told"
        chance = f" chance={self.chance:.2f}" if self.chance else ""
        return (
            f"RESULT name={self.name} ours={self.ours:.4g} peer={self.peer:.4g} unit={self.unit} "
            f"ratio={self.ratio:.2f} target={'≤' if self.limit else ''}{self.target:g} "
            f"spread={self.spread:.2f}{chance} {grade}"
        )


@dataclass(slots=True)
class Figures:
    """Everything that was measured under one name, round by round."""

    by_name: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.by_name[name]) if self.by_name.get(name) else 0.0

    def spread(self, name: str) -> float:
        values = self.by_name.get(name, [])
        return (max(values) - min(values)) / statistics.median(values) if len(values) > 1 else 0.0

    def against(self, name: str, ours: str, peer: str, target: float) -> Row:
        return Row(name, self.median(ours), self.median(peer), target, spread=self.spread(ours))

    def even(self, name: str, ours: str, peer: str) -> Row:
        """Ours does as many of the same moves as the peer and may cost no more: equal is good. Of two that are equal
        one is behind in every second run, so what is judged is whether ours is behind by more than chance explains: two
        standard errors of the mean of the rounds' own ratios, and never more than a twentieth."""
        ratios = [mine / theirs for mine, theirs in zip(self.by_name[ours], self.by_name[peer], strict=True)]
        chance = min(0.05, 2 * statistics.stdev(ratios) / len(ratios) ** 0.5)
        return Row(name, self.median(ours), self.median(peer), 1.0, spread=self.spread(ours), chance=chance)

    def within(self, name: str, ours: str, target: float, unit: str, peer: str = "") -> Row:
        return Row(name, self.median(ours), self.median(peer), target, unit, limit=True, spread=self.spread(ours))


def in_turns(contest: Mapping[str, Measure], rounds: int = ROUNDS) -> Figures:
    """Each of them once per round, the order turned round every time, so that nobody always goes first."""
    found: dict[str, list[float]] = {name: [] for name in contest}
    for turn in range(rounds):
        names = list(contest) if turn % 2 == 0 else list(contest)[::-1]
        for name in names:
            found[name].append(contest[name]())
            print(f"  round {turn + 1}  {name:<34}{found[name][-1]:>12,.4g}", flush=True)
    return Figures(found)


@dataclass(frozen=True, slots=True)
class Options:
    quick: bool
    long: bool = False
    write: bool = False


def main(doc: str | None, measure: Callable[[Options], Sequence[Row]]) -> int:
    """The command line of a benchmark; 1 when a row falls short."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer jobs")
    parser.add_argument("--long", action="store_true", help="up to a million of each")
    parser.add_argument("--write", action="store_true", help="where a subject has a picture in the documentation")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    asked = parser.parse_args()
    rows = list(measure(Options(asked.quick, asked.long, asked.write)))
    for row in rows:
        print(row)
    if asked.json:
        asked.json.write_text(json.dumps(as_json(rows), indent=1) + "\n")
    return 0 if all(row.good for row in rows) else 1


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    told = [
        {
            "name": row.name,
            "ours": row.ours,
            "peer": row.peer,
            "unit": row.unit,
            "ratio": row.ratio,
            "target": row.target,
            "limit": row.limit,
            "spread": row.spread,
            "good": row.good,
        }
        for row in rows
    ]
    return {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg(), "rows": told}


def timed(count: int, act: Callable[[], object]) -> float:
    """So many a second."""
    started = time.perf_counter()
    act()
    return count / (time.perf_counter() - started)


def skipped(what: str, why: str) -> None:
    """Loudly: a row that is missing must not look like one that is fine."""
    print(f"SKIPPED {what}: {why}", file=sys.stderr, flush=True)
