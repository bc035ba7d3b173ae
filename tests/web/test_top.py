"""The terminal's view shows what the dashboard's overview shows."""

from __future__ import annotations

import io

from rich.console import Console

from custody.cli.nouns.top import picture
from web.house import House


def test_the_picture_has_the_line_the_failures_and_the_holds(house: House) -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(picture(house.archive.store, house.site.glance))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Deposits: 0 on the line" in text
    assert "3 done today" in text
    assert "Downloading" in text
    assert "http.404" in text
    assert "k.lee" in text
