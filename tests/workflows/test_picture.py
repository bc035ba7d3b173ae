"""The picture of an archive as its jobs have it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.errors import BadInput
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.plan.archive_graph import drawn, picture
from custody.workflows.plan.graph import as_text
from workflows.desk import Desk


def test_the_edges_of_the_worked_example_are_those_in_the_queue(desk: Desk, seed_workflow: bytes) -> None:
    """Tasks without a command only join others, so the example can be run word for word."""
    desk.commit({"_workflows/book.yaml": seed_workflow.decode()})
    for text in ("two", "three"):
        desk.commit({"notes.txt": text})
    desk.notify(3)
    desk.worker(
        threads=1
    ).run_until_quiet()  # with more, the third build may meet the second under way, and wait for it
    whole = picture(desk.store, "proj", 1, 3)
    told = {" ".join(line.split()) for line in as_text(whole.arrows).splitlines()}
    eight = {
        "rev-1:COMMIT <-- rev-2:COMMIT",
        "rev-2:COMMIT <-- rev-2:indexing",
        "rev-2:indexing <-- rev-2:build-PDF",
        "rev-2:COMMIT <-- rev-3:COMMIT",
        "rev-3:COMMIT <-- rev-3:indexing",
        "rev-2:indexing <-- rev-3:indexing",
        "rev-2:build-PDF <!= rev-3:build-PDF",
        "rev-3:indexing <-- rev-3:build-PDF",
    }
    of_the_first = {
        "rev-1:COMMIT <-- rev-1:indexing",
        "rev-1:indexing <-- rev-1:build-PDF",
        "rev-1:indexing <-- rev-2:indexing",
        "rev-1:build-PDF <!= rev-2:build-PDF",
    }
    assert told == eight | of_the_first
    assert set(whole.states.values()) <= {"succeeded", "superseded"}


def test_every_format_can_be_printed_and_an_unknown_one_is_refused(one_desk: Desk, seed_workflow: bytes) -> None:
    one_desk.commit({"_workflows/book.yaml": seed_workflow.decode()})
    one_desk.notify(1)
    one_desk.run()
    shown = {
        format_: CliRunner().invoke(app, ["graph", "proj", "--format", format_, "--store", one_desk.store.url]).output
        for format_ in ("grid", "text", "dot", "svg")
    }
    assert "build-PDF" in shown["grid"]
    assert "rev-1:COMMIT   <-- rev-1:indexing" in shown["text"]
    assert shown["dot"].startswith("digraph")
    assert 'class="succeeded"' in shown["svg"]
    assert ET.fromstring(shown["svg"]).tag.endswith("svg")
    with pytest.raises(BadInput, match="not a format"):
        drawn(picture(one_desk.store, "proj", 1, 1), "gif")


def test_an_archive_without_revisions_has_an_empty_picture(one_desk: Desk) -> None:
    nothing = picture(one_desk.store, "proj", 1, 0)
    assert drawn(nothing, "text") == ""
    assert "No revisions" in drawn(nothing, "svg")


def test_a_working_copy_shows_what_committing_it_would_add(one_desk: Desk, tmp_path: Path) -> None:
    one_desk.commit({"_workflows/book.yaml": "- name: a\n  script: echo a\n"})
    one_desk.notify(1)
    one_desk.run()
    (tmp_path / "copy" / "_workflows").mkdir(parents=True)
    (tmp_path / "copy/_workflows/book.yaml").write_text("- name: a\n  depends: [PREV]\n  script: echo a\n")
    words = ["plan", "proj", "--folder", str(tmp_path / "copy"), "--store", one_desk.store.url]
    shown = CliRunner().invoke(app, words)
    assert "rev-1:a <-- rev-2:a" in shown.output
    assert Archives(one_desk.store).get("proj").last == 1, "nothing was added"
