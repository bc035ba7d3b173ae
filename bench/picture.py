"""The rows of a run as a table and as a picture, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.rounds import Row

WIDTH, LEFT, LINE = 900, 330, 20
LEAST, MOST = 0.1, 100.0


def table(rows: Sequence[Row]) -> str:
    lines = ["| row | ours | theirs | ratio | target | |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        ratio = "" if row.limit or not row.peer else f"{row.ratio:.2f}"
        target = f"{'≤ ' if row.limit else '≥ '}{row.target:.4g}" if row.target else ""
        grade = ("ok" if row.good else "**short**") if row.target else "told"
        lines.append(
            f"| {row.name} | {_number(row.ours)} {row.unit} | {_number(row.peer)} | {ratio} | {target} | {grade} |"
        )
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value else ""


def picture(rows: Sequence[Row]) -> str:
    """One bar per row that is judged by its ratio; the tick is its target; the scale is logarithmic."""
    shown = [row for row in rows if row.ratio and not row.limit]
    height = LINE * (len(shown) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for mark in (0.1, 1, 10, 100):
        at = _at(mark)
        parts.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{LINE}" y2="{height}" stroke="#ccc"/>')
        parts.append(f'<text x="{at:.0f}" y="14" text-anchor="middle" fill="#666">{mark:g} ×</text>')
    for place, row in enumerate(shown):
        parts += _bar(row, LINE * (place + 1) + 4)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(row: Row, top: int) -> list[str]:
    one, end = _at(1), _at(row.ratio)
    colour = "#888" if not row.target else "#2a7" if row.good else "#c52"
    parts = [
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{escape(row.name)}</text>',
        f'<rect x="{min(one, end):.1f}" y="{top}" width="{max(1.0, abs(end - one)):.1f}" height="12" fill="{colour}"/>',
        f'<text x="{max(one, end) + 4:.1f}" y="{top + 10}" fill="#444">{row.ratio:.2f}</text>',
    ]
    if row.target:
        at = _at(row.target)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top - 2}" y2="{top + 14}" stroke="black" stroke-width="2"/>'
        )
    return parts


def _at(ratio: float) -> float:
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - 60)


def write(rows: Sequence[Row], folder: Path) -> None:
    heading = "# Measured\n\nWritten by `python -m bench.engine --write`; what it means is in [speed](speed.md).\n\n"
    (folder / "speed-measured.md").write_text(heading + "![ratios](speed.svg)\n\n" + table(rows))
    (folder / "speed.svg").write_text(picture(rows))
