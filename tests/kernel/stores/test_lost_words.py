"""The words by which a store tells of what it has lost are spelled in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import custody
from custody.kernel.stores.recovery import losses as lost

SOURCES = Path(custody.__file__).parent


@pytest.mark.parametrize("word", [lost.WENT_BACK, lost.RESTORED])
def test_the_types_of_its_events_are_spelled_in_one_module(word: str) -> None:
    """Another spelling would be an event that one side writes and the other never finds."""
    spelled = re.compile(rf"""(type\s*[!=]=?\s*|[A-Z_]+\s*=\s*)["']{word}["']""")
    found = [
        str(file.relative_to(SOURCES))
        for end in ("py", "sql")
        for file in sorted(SOURCES.rglob(f"*.{end}"))
        if file != SOURCES / "kernel/stores/recovery/losses.py" and spelled.search(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_what_they_are_about_is_named_in_one_module() -> None:
    spelled = re.compile(r"""(STORE\s*=\s*|subject\s*=\s*|events\(|write_note\(tx, )["']store["']""")
    found = [
        str(file.relative_to(SOURCES))
        for part in ("stores", "web", "cli")
        for end in ("py", "sql")
        for file in sorted((SOURCES / part).rglob(f"*.{end}"))
        if file != SOURCES / "kernel/stores/recovery/losses.py" and spelled.search(file.read_text(encoding="utf-8"))
    ]
    assert found == []
