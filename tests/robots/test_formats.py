"""Formats: Siegfried where it is installed, the table elsewhere, and the event says which."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custody.kernel.model.item import Item
from custody.robots import Report
from custody.robots.ready import formats
from custody.robots.ready.formats import TABLE, Identifier, identifier, look_at, siegfried
from robots.test_ready import stored

PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer<<>>\n%%EOF\n"
FILES = {"a.pdf": PDF, "notes.txt": b"four score\n", "odd": b"\x00\x01\x02\xff" * 10}


def looked(folder: Path, by: Identifier) -> Report:
    report = Report()
    look_at(Item("x", frozenset({"object"}), 1, 1, "", "", {"folder": str(folder)}), report, by)
    return report


def answer(path: str, detailed: bool) -> dict[str, Any]:
    """As pygfried answers, for three files."""
    assert detailed
    found = {
        "a.pdf": {"id": "fmt/18", "format": "Acrobat PDF 1.4", "mime": "application/pdf", "warning": ""},
        "notes.txt": {"id": "x-fmt/111", "format": "Plain Text File", "mime": "", "warning": "match on extension only"},
        "odd": {"id": "UNKNOWN", "format": "", "mime": "", "warning": "no match"},
    }
    return {"files": [{"filename": path, "errors": "", "matches": [found[Path(path).name]]}]}


LIBRARY = SimpleNamespace(identify=answer, version=lambda: "1.11.9")


def test_siegfried_names_formats_by_the_registry(tmp_path: Path) -> None:
    report = looked(stored(tmp_path / "object", FILES), siegfried(LIBRARY))
    assert report.facts == {
        "formats": {"application/pdf": 1, "Plain Text File": 1, "application/octet-stream": 1},
        "pronom": {"fmt/18": 1, "x-fmt/111": 1},
        "identified_by": "siegfried 1.11.9",
    }
    assert {(warning["code"], warning["file"]) for warning in report.warnings} == {
        ("format.unknown", "odd"),
        ("format.doubt", "notes.txt"),
    }
    assert report.outcome == "warning", "the line moves on"


def test_the_table_knows_what_comes_most_often(tmp_path: Path) -> None:
    report = looked(stored(tmp_path / "object", FILES), TABLE)
    assert report.facts == {
        "formats": {"application/pdf": 1, "text/plain": 1, "application/octet-stream": 1},
        "identified_by": "table of signatures",
    }
    assert [warning["file"] for warning in report.warnings] == ["odd"]


def test_whoever_is_installed_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stored(tmp_path / "object", FILES)
    for library, name in ((LIBRARY, "siegfried 1.11.9"), (None, "table of signatures")):
        monkeypatch.setitem(sys.modules, "pygfried", library)  # None: as if it were not installed
        identifier.cache_clear()
        report = Report()
        formats(Item("x", frozenset({"object"}), 1, 1, "", "", {"folder": str(folder)}), report)
        assert report.facts["identified_by"] == name
    identifier.cache_clear()


@pytest.mark.skipif(
    importlib.util.find_spec("pygfried") is None,
    reason="pygfried is not installed (identifies formats by PRONOM): pip install '.[formats]'",
)
def test_the_real_siegfried_answers_as_we_read_it(tmp_path: Path) -> None:
    report = looked(
        stored(tmp_path / "object", FILES | {"empty.dat": b""}), siegfried(importlib.import_module("pygfried"))
    )
    assert report.facts["formats"]["application/pdf"] == 1
    assert report.facts["pronom"]["fmt/18"] == 1
    assert report.facts["identified_by"].startswith("siegfried 1.")
    assert {"odd", "empty.dat"} <= {warning["file"] for warning in report.warnings}
