"""The ready-made robots: each finds what is planted, and has nothing to say about what is sound."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import bagit
import ocfl
import pytest

from custody.border.roots import Root, roots
from custody.errors import BadInput, CustodyError, Unavailable
from custody.kernel.model.item import Item
from custody.robots import Report, Robot
from custody.robots.lint import lint
from custody.robots.programs.input import located
from custody.robots.programs.program import Program
from custody.robots.programs.sandboxed import Turn, Yard
from custody.robots.ready import bags, fixity, formats, ocfl_objects
from custody.robots.ready.text import text
from custody.robots.ready.virus import VARIABLE, virus
from rig.need import need


def stored(folder: Path, files: dict[str, bytes]) -> Path:
    """An OCFL object of one version."""
    (folder / "v1" / "content").mkdir(parents=True)
    manifest: dict[str, list[str]] = {}
    state: dict[str, list[str]] = {}
    for name, data in files.items():
        path = folder / "v1" / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = hashlib.sha512(data).hexdigest()
        manifest.setdefault(digest, []).append(f"v1/content/{name}")
        state.setdefault(digest, []).append(name)
    user = {"name": "ada", "address": "mailto:ada@example.org"}
    version = {"created": "2026-03-01T12:00:00Z", "state": state, "message": "first", "user": user}
    inventory = {
        "id": "ark:/99999/fk4x",
        "type": "https://ocfl.io/1.1/spec/#inventory",
        "digestAlgorithm": "sha512",
        "head": "v1",
        "manifest": manifest,
        "versions": {"v1": version},
    }
    (folder / "0=ocfl_object_1.1").write_text("ocfl_object_1.1\n")
    write_inventory(folder, inventory)
    return folder


def write_inventory(folder: Path, inventory: dict[str, object]) -> None:
    data = json.dumps(inventory).encode()
    for place in (folder, folder / "v1"):
        (place / "inventory.json").write_bytes(data)
        (place / "inventory.json.sha512").write_text(f"{hashlib.sha512(data).hexdigest()} inventory.json\n")


def tried(robot: Robot, folder: Path) -> Report:
    report = Report()
    here = roots([Root("here", folder.parent)])
    item = located(Item("x", frozenset({"object"}), 1, 1, place=f"here:{folder.name}"), here)
    if isinstance(robot.work, Program):
        with closing(Yard(folder.parent / "yard", here)) as yard:
            robot.work.run(item, report, Turn(yard=yard))
    else:
        robot(item, report)
    return report


FILES = {
    "notes.txt": b"four score and seven",
    "page.html": b"<p>hello <b>you</b><script>no</script>",
    "scan.png": b"\x89PNG\r\n\x1a\n\0",
}


def change(folder: Path, **new: object) -> None:
    inventory = json.loads((folder / "inventory.json").read_bytes())
    write_inventory(folder, inventory | new)


def _first(folder: Path) -> str:
    return next(iter(json.loads((folder / "inventory.json").read_bytes())["manifest"]))


def _without_digest(folder: Path) -> None:
    inventory = json.loads((folder / "inventory.json").read_bytes())
    state = inventory["versions"]["v1"]["state"]
    state["f" * 128] = state.pop(_first(folder))
    write_inventory(folder, inventory)


OCFL_FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no declaration": (lambda folder: (folder / "0=ocfl_object_1.1").unlink(), "ocfl.declaration"),
    "a declaration that lies": (lambda folder: (folder / "0=ocfl_object_1.1").write_text("no"), "ocfl.declaration"),
    "no JSON": (lambda folder: (folder / "inventory.json").write_text("{"), "ocfl.inventory"),
    "no head": (lambda folder: change(folder, head=""), "ocfl.inventory"),
    "the wrong head": (lambda folder: change(folder, head="v2"), "ocfl.head"),
    "an inventory that was changed": (
        lambda folder: (folder / "inventory.json").write_bytes((folder / "inventory.json").read_bytes() + b" "),
        "ocfl.sidecar",
    ),
    "no sidecar": (lambda folder: (folder / "inventory.json.sha512").unlink(), "ocfl.sidecar"),
    "a file that is gone": (lambda folder: (folder / "v1/content/notes.txt").unlink(), "ocfl.missing"),
    "a file too many": (lambda folder: (folder / "v1/content/more.txt").write_text("x"), "ocfl.extra"),
    "a stranger in the folder": (lambda folder: (folder / "README").write_text("x"), "ocfl.extra"),
    "a digest nobody knows": (_without_digest, "ocfl.state"),
    "another object's inventory in a version": (
        lambda folder: (folder / "v1/inventory.json").write_text('{"id": "other", "head": "v1"}'),
        "ocfl.copy",
    ),
}


def is_valid(folder: Path) -> bool:
    """What an independent validator says."""
    passed, _ = ocfl.Object().validate(objdir=str(folder), log_warnings=False)
    return bool(passed)


def test_a_sound_object_is_valid_for_everyone(tmp_path: Path) -> None:
    folder = stored(tmp_path / "object", FILES)
    assert is_valid(folder)
    for robot in (ocfl_objects, fixity, bags, formats):
        assert tried(robot, folder).outcome == "success", robot.name


@pytest.mark.parametrize("case", OCFL_FAULTS)
def test_the_validation_finds_each_planted_fault_as_others_do(case: str, tmp_path: Path) -> None:
    plant, code = OCFL_FAULTS[case]
    folder = stored(tmp_path / "object", FILES)
    plant(folder)
    assert not is_valid(folder)
    assert code in {finding["code"] for finding in tried(ocfl_objects, folder).findings}


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    folder = tmp_path / "bag"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "inner" / "b%0a.txt").write_text("b")
    bagit.make_bag(str(folder), {"Source-Organization": "Archive"}, checksums=["sha256", "sha512"])
    return folder


def as_object(bag: Path, place: Path) -> Path:
    files = {f"deposit/{path.relative_to(bag)}": path.read_bytes() for path in bag.rglob("*") if path.is_file()}
    return stored(place, files)


def test_a_bag_that_others_made_is_valid(bag: Path, tmp_path: Path) -> None:
    report = tried(bags, as_object(bag, tmp_path / "object"))
    assert (report.findings, report.facts) == ([], {"bags": 1})


BAG_FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file that is not what was said": (lambda bag: (bag / "data/a.txt").write_text("x"), "bag.digest"),
    "a file that is gone": (lambda bag: (bag / "data/a.txt").unlink(), "bag.missing"),
    "a file too many": (lambda bag: (bag / "data/c.txt").write_text("c"), "bag.unlisted"),
    "a tag file that was changed": (lambda bag: (bag / "bag-info.txt").write_text("Payload-Oxum: 9.9"), "bag.digest"),
    "the wrong sum": (
        lambda bag: [(bag / "bag-info.txt").write_text("Payload-Oxum: 9.9"), *(p.unlink() for p in bag.glob("tagm*"))],
        "bag.oxum",
    ),
    "no manifest": (lambda bag: [path.unlink() for path in bag.glob("manifest-*")], "bag.manifest"),
}


@pytest.mark.parametrize("case", BAG_FAULTS)
def test_the_validation_of_bags_finds_each_planted_fault_as_others_do(case: str, bag: Path, tmp_path: Path) -> None:
    plant, code = BAG_FAULTS[case]
    plant(bag)
    with pytest.raises(bagit.BagError):
        bagit.Bag(str(bag)).validate()
    assert code in {finding["code"] for finding in tried(bags, as_object(bag, tmp_path / "object")).findings}


# A stand-in for clamd that speaks its protocol: INSTREAM, with the usual test file as its only virus

TEST_VIRUS = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
LIMIT = 1 << 20


def _serve(server: socket.socket) -> None:
    while True:
        try:
            wire, _ = server.accept()
        except OSError:
            return
        with wire, wire.makefile("rb") as heard:
            assert heard.read(10) == b"zINSTREAM\0"
            said, size = b"", 0
            while length := struct.unpack(">I", heard.read(4))[0]:
                said += heard.read(length)
                size += length
                if size > LIMIT:
                    break
            if size > LIMIT:
                wire.sendall(b"INSTREAM size limit exceeded. ERROR\0")
            elif b"broken" in said:
                wire.sendall(b"")
            else:
                wire.sendall(b"stream: Eicar-Test-Signature FOUND\0" if TEST_VIRUS in said else b"stream: OK\0")


@contextmanager
def clamd(server: socket.socket) -> Iterator[None]:
    thread = threading.Thread(target=_serve, args=(server,), daemon=True)
    server.listen()
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


@pytest.fixture(params=["unix", "tcp"])
def scanner(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = socket.socket(socket.AF_UNIX if request.param == "unix" else socket.AF_INET)
    if request.param == "unix":
        server.bind(str(tmp_path / "clamd"))
        monkeypatch.setenv(VARIABLE, f"unix:{tmp_path / 'clamd'}")
    else:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setenv(VARIABLE, f"127.0.0.1:{server.getsockname()[1]}")
    with clamd(server):
        yield


@pytest.mark.usefixtures("scanner")
def test_a_virus_is_found_and_named_and_what_was_not_scanned_is_a_warning(tmp_path: Path) -> None:
    assert tried(virus, stored(tmp_path / "sound", FILES)).facts == {"files": 3}
    ill = tried(virus, stored(tmp_path / "ill", {"letter.doc": b"dear " + TEST_VIRUS, "fine.txt": b"fine"}))
    (finding,) = ill.findings
    assert (finding["code"], finding["file"], finding["virus"]) == ("virus.found", "letter.doc", "Eicar-Test-Signature")
    large = tried(virus, stored(tmp_path / "large", {"film.mp4": bytes(3 * LIMIT)}))
    assert [warning["code"] for warning in large.warnings] == ["virus.size"]
    assert large.outcome == "warning"
    with pytest.raises(Unavailable, match="clamd said"):
        tried(virus, stored(tmp_path / "broken", {"x": b"broken"}))


def test_a_clamd_that_is_away_is_tried_again_and_one_that_was_not_named_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored(tmp_path / "object", FILES)
    monkeypatch.setenv(VARIABLE, f"unix:{tmp_path / 'nobody'}")
    with pytest.raises(Unavailable, match="does not answer"):
        tried(virus, folder)
    monkeypatch.setenv(VARIABLE, "somewhere")
    with pytest.raises(BadInput, match="no address"):
        tried(virus, folder)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(BadInput, match="nobody said where clamd is"):
        tried(virus, folder)


@pytest.mark.parametrize(("variables", "expected"), [({}, False), ({VARIABLE: "unix:/x"}, True)])
def test_the_virus_scan_is_on_the_line_where_it_is_configured(variables: dict[str, str], expected: bool) -> None:
    code = "from custody.robots.discovery import find_robots; print([r.name for r in find_robots(['custody.robots.ready'])])"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE} | variables
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ("virus" in said.stdout) is expected


def test_the_ready_made_line_has_no_faults() -> None:
    assert lint([bags, fixity, formats, ocfl_objects, virus, text]) == []


@pytest.mark.parametrize("confined", [True, False], ids=["in the sandbox", "in the open"])
def test_text_is_extracted_by_a_program_of_its_own(tmp_path: Path, confined: bool) -> None:
    assert isinstance(text.work, Program)
    if confined:
        need("bubblewrap")
    held = text.work.confined if confined else None
    extract = replace(text, work=replace(text.work, keep=tmp_path / "texts", confined=held))
    report = tried(extract, stored(tmp_path / "object", FILES | {"fake.txt": b"\xff\xfe\0"}))
    kept = tmp_path / "texts" / "x"
    assert report.facts == {"words": 6, "files": 2, "passed_over": 2}
    assert report.ours == {"kept": str(kept), "made": ["text.txt"]}
    assert [warning["code"] for warning in report.warnings] == ["text.unreadable"]
    assert (kept / "text.txt").read_text() == "four score and seven\nhello you"
    with pytest.raises(Unavailable, match="no OCFL object here"):
        tried(extract, tmp_path / "nowhere")


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "v1/content/link", "v1/../../secret"])
def test_an_inventory_that_leads_out_of_its_object_is_not_followed(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("not of this object")
    folder = stored(tmp_path / "object", FILES)
    (folder / "v1" / "content" / "link").symlink_to(tmp_path / "secret")
    inventory = json.loads((folder / "inventory.json").read_bytes())
    digest = hashlib.sha512(b"not of this object").hexdigest()
    inventory["manifest"][digest] = [path]
    inventory["versions"]["v1"]["state"][digest] = ["secret"]
    write_inventory(folder, inventory)
    for robot in (fixity, formats, bags):
        with pytest.raises(CustodyError) as caught:
            tried(robot, folder)
        assert caught.value.code in ("place.path", "place.link")
