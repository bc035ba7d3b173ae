"""Subversion repositories whose owner is hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.workflows.svn import SvnArchive
from prove.plugin import Tell
from rig.svn import Subversion


@pytest.mark.proves("P5")
def test_an_external_brings_nothing_into_a_working_copy(svn: Subversion, tmp_path: Path, tell: Tell) -> None:
    private, hostile = svn.fresh_repository(), svn.fresh_repository()
    private.commit("ours", {"secret": "not for them"})
    hostile.commit("theirs", {"trunk/file": "1"})
    asked = [
        "-U",
        hostile.url,
        "-m",
        "an external",
        "propset",
        "svn:externals",
        f"file://{private.path} taken",
        "trunk",
    ]
    hostile.svn(*asked, client="svnmucc")
    SvnArchive(str(hostile.path)).export(2, tmp_path / "out")
    assert (tmp_path / "out/trunk/file").read_text() == "1"
    assert not (tmp_path / "out/trunk/taken").exists()
    tell("", tries=1, got_through=0)
