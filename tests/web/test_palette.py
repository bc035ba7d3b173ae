"""The colours as the sheet has them: readable on their ground, and told apart by every eye."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import pytest

SHEET = (resources.files("custody.web") / "static" / "custody.css").read_text()
LOOKS = ("waiting", "running", "done", "failed", "held", "retrying", "cancelled")
TOKENS = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", SHEET)}


def channels(colour: str) -> list[float]:
    values = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def contrast(one: str, other: str) -> float:
    light, dark = sorted(
        (sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), channels(each), strict=True)) for each in (one, other)),
        reverse=True,
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_text_can_be_read_and_icons_can_be_seen(theme: int, ground: str) -> None:
    under = TOKENS[ground][theme]
    for name in ("ink", "muted", "link"):
        assert contrast(TOKENS[name][theme], under) >= 4.5, name
    for name in (*LOOKS, "field"):
        assert contrast(TOKENS[name][theme], under) >= 3, name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_no_two_looks_have_nearly_the_same_colour(theme: int) -> None:
    def lab(colour: str) -> tuple[float, float, float]:
        red, green, blue = channels(colour)
        rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
        x, y, z = (sum(a * b for a, b in zip(row, (red, green, blue), strict=True)) for row in rows)
        fx, fy, fz = (
            value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x / 0.9505, y, z / 1.089)
        )
        return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)

    for one, other in combinations(LOOKS, 2):
        away = sum((a - b) ** 2 for a, b in zip(lab(TOKENS[one][theme]), lab(TOKENS[other][theme]), strict=True)) ** 0.5
        assert away > 15, f"{one} and {other}"


def test_every_look_has_a_shape_of_its_own() -> None:
    parts = (resources.files("custody.web") / "templates" / "parts.html").read_text()
    drawn = parts[parts.index("macro icon") : parts.index("endmacro")]
    shapes = re.findall(r"-%\}\n(<(?:circle|path).*>)\n", drawn)
    assert len(shapes) == len(set(shapes)) == len(LOOKS)
