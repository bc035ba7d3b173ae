"""Property files of the old framework: read as they are written, turned into labels, and looked over."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.errors import BadInput
from custody.robots.programs.label import read_label
from custody.robots.programs.properties import converted, labels_of, pairs
from robots.conftest import Custody

SAMPLE = """\
# the checksum checker
autonomous.lockserver.url = localhost:2181
autonomous.sboi.url: http://localhost:58608/sbsolr
autonomous.pastSuccessfulEvents=Data_Received , Metadata_Archived,\\
    Structure_Checked
autonomous.futureEvents=Checksums_Verified,Manually_stopped
autonomous.itemTypes=doms:ContentModel_RoundTrip
autonomous.maxThreads=4
autonomous.workQueueSize = 10
autonomous.maxRuntimeForWorkers=86400000
"""

PAIRS = [
    ("a=b", [("a", "b")]),
    ("a : b", [("a", "b")]),
    ("a b c", [("a", "b c")]),
    ("  a  =  b  ", [("a", "b  ")]),
    ("# a=b\n! c=d\n\n", []),
    ("a=b\\\n  c", [("a", "bc")]),
    ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
    ("a\\=b=c", [("a=b", "c")]),
    ("a=\\u00c6r\\u00f8", [("a", "Ærø")]),
    ("a=x\\ty", [("a", "x\ty")]),
    ("a", [("a", "")]),
    ("a=b\r\nc=d", [("a", "b"), ("c", "d")]),
    ("a=b\\", [("a", "b")]),
    ("a=#b", [("a", "#b")]),
]


@pytest.mark.parametrize(("text", "expected"), PAIRS)
def test_property_files_are_read_as_java_reads_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(pairs(text)) == expected


def write(folder: Path, text: str, name: str = "checksum-checker") -> Path:
    path = folder / f"{name}.properties"
    path.write_text(text)
    return path


def test_a_property_file_becomes_a_label_that_can_be_run(tmp_path: Path) -> None:
    read = labels_of(write(tmp_path, SAMPLE), command="./check.sh --all")
    label = tmp_path / "checksum-checker.robot.toml"
    label.write_text(converted(read))
    robot = read_label(label)
    assert (robot.name, robot.event, robot.at_once, robot.at_most, robot.timeout) == (
        "checksum-checker",
        "Checksums_Verified",
        4,
        10,
        86400.0,
    )
    assert robot.when.as_dict() == {
        "past": ["Data_Received", "Metadata_Archived", "Structure_Checked"],
        "absent": ["Checksums_Verified", "Manually_stopped"],
        "types": ["doms:ContentModel_RoundTrip"],
    }
    assert {remark.code for remark in read.remarks} == {"no-place"}
    assert any("lockserver" in remark.text for remark in read.remarks)


FAULTS = {
    "no-brake": "autonomous.pastSuccessfulEvents=Data_Received",
    "no-event": "autonomous.futureEvents=A,B",
    "unknown-key": "autonomous.futureEvents=A\nautonomous.pastsuccessfulevents=B",
    "twice": "autonomous.oldEvents=A\nautonomous.futureEvents=B,B",
    "no-keys": "doms.username=fedoraAdmin",
}


@pytest.mark.parametrize("code", FAULTS)
def test_what_is_wrong_with_a_property_file_is_remarked_on(code: str, tmp_path: Path) -> None:
    assert code in {remark.code for remark in labels_of(write(tmp_path, FAULTS[code])).remarks}


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="maxThreads"):
        labels_of(write(tmp_path, "autonomous.futureEvents=A\nautonomous.maxThreads=many"))


def test_a_line_of_property_files_is_looked_over_together(tmp_path: Path, custody: Custody) -> None:
    first = write(tmp_path, "autonomous.futureEvents=A,Manually_stopped", "first")
    second = write(tmp_path, "autonomous.pastSuccessfulEvents=a\nautonomous.futureEvents=B,Manually_stopped", "second")
    third = write(tmp_path, "autonomous.pastSuccessfulEvents=B\nautonomous.futureEvents=C", "third")
    said = custody("lint", str(first), str(second), str(third), code=1)
    assert "A and a differ only by case" in said
    assert "third: Manually_stopped stops the others of this line, but not this one" in said
    assert "nobody records" in said


def test_the_converter_prints_a_label_and_its_remarks(tmp_path: Path, custody: Custody) -> None:
    path = write(tmp_path, SAMPLE)
    said = custody("convert", str(path), "--command", "./check.sh")
    assert 'event = "Checksums_Verified"' in said
    assert 'command = ["./check.sh"]' in said
    assert "[no-place]" in said
    assert "cannot read it" in custody("convert", "nobody.properties", code=2)
