"""Proofs of single events, exports of everything, and the verifier that needs none of our code."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from custody.kernel.history.chain import START, Place
from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.exchange.export import export_history
from custody.kernel.history.head import Head
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.proofs import check_proof, prove
from custody.kernel.history.witness import read_heads
from kernel.history.archive import INTRUDER, NAME, SIGNER, Archive, grown_archive
from kernel.history.attacks import ATTACKS, Attack, some_place

SCRIPT = Path(standalone_verifier.__file__)
KEYS = [SIGNER.public]


def proof_of(archive: Archive, place: Place, last: int = 0, since: Head | None = None) -> dict[str, Any]:
    leaf = archive.leaves[place]
    before = archive.leaves.get((place[0], place[1] - 1))
    block = sorted((each for each in archive.leaves.values() if each.block == leaf.block), key=lambda x: x.position)
    bundle = prove(
        archive.events[place],
        leaf,
        before.hash if before else START,
        [each.hash for each in block],
        archive.blocks.__getitem__,
        last or archive.last.number,
        since=since,
    )
    return json.loads(json.dumps(bundle))  # type: ignore[no-any-return]


def export_of(archive: Archive, heads: Iterable[Head] = ()) -> str:
    return "".join(export_history(NAME, archive.rows(), archive.in_order(), keys=KEYS, heads=heads))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """As an auditor would, on a Python that knows nothing of custody."""
    return subprocess.run([sys.executable, "-I", SCRIPT, *words], capture_output=True, text=True, timeout=60)


def alone(path: Path, *words: str, key: PublicKey = SIGNER.public) -> subprocess.CompletedProcess[str]:
    return run(path, "--key", str(key), *words)


@pytest.fixture
def archive() -> Archive:
    return grown_archive(Random(1), blocks=11)


# --- one event ---


def test_every_event_is_proved_under_every_later_head() -> None:
    archive = grown_archive(Random(2), blocks=9, most=12)
    for place, leaf in archive.leaves.items():
        for last in range(leaf.block, 10):
            assert check_proof(proof_of(archive, place, last), KEYS) == []


@pytest.mark.parametrize("since", [1, 4, 8, 11])
def test_a_proof_can_start_from_a_head_that_somebody_kept(archive: Archive, since: int) -> None:
    bundle = proof_of(archive, some_place(archive, Random(1)), since=archive.blocks[since].head)
    assert check_proof(bundle, KEYS) == []
    forked = grown_archive(Random(99), blocks=11).blocks[since].head
    bundle["since"]["head"] = str(forked)
    assert check_proof(bundle, KEYS) == ["the head does not continue the earlier one"]


def test_a_proof_is_small(archive: Archive) -> None:
    bundle = proof_of(archive, some_place(archive, Random(1)))
    assert len(bundle["path"]) <= 5
    assert len(bundle["tree_path"]) <= 4


BROKEN: dict[str, Any] = {
    "event.type": "praised",
    "event.seq": 99,
    "event.subject": "job/99",
    "event.agent": "somebody else",
    "event.detail": {"quietly": "changed"},
    "event.at": 0,
    "event.outcome": "none?",
    "previous": "11" * 32,
    "body": "11" * 32,
    "salt": "11" * 16,
    "position": 0,
    "path": ["11" * 32] * 4,
    "block.number": 2,
    "block.root": "11" * 32,
    "block.count": 1000,
    "block.at": 0,
    "block.previous": "11" * 32,
    "tree_path": [],
    "head": "no head",
    "event": {},
    "block": None,
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_proof_with_anything_changed_convinces_nobody(archive: Archive, tmp_path: Path, field: str) -> None:
    places = [place for place, leaf in archive.leaves.items() if leaf.position > 1 and leaf.block > 2]
    bundle = proof_of(archive, places[7])
    *outer, name = field.split(".")
    changed = bundle[outer[0]] if outer else bundle
    assert changed[name] != BROKEN[field]
    changed[name] = BROKEN[field]
    assert check_proof(bundle, KEYS)
    assert alone_in_process(tmp_path, json.dumps(bundle)) != 0


@pytest.mark.parametrize("field", ["event", "salt", "head", "path", "block"])
def test_a_proof_without_something_convinces_nobody(archive: Archive, tmp_path: Path, field: str) -> None:
    bundle = proof_of(archive, some_place(archive, Random(1)))
    del bundle[field]
    assert check_proof(bundle, KEYS)
    assert alone_in_process(tmp_path, json.dumps(bundle)) == 2


def test_a_proof_under_a_head_signed_by_a_stranger_convinces_nobody(archive: Archive, tmp_path: Path) -> None:
    bundle = proof_of(archive, some_place(archive, Random(1)))
    assert check_proof(bundle, [INTRUDER.public]) == ["the head is not signed by a known key"]
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(bundle))
    assert alone(path, key=INTRUDER.public).returncode == 1


def test_an_erased_event_is_still_proved_to_have_been_there(archive: Archive, tmp_path: Path) -> None:
    place = some_place(archive, Random(3))
    archive.erase(place)
    bundle = proof_of(archive, place)
    assert bundle["event"]["detail"] == {}
    assert check_proof(bundle, KEYS) == []
    assert alone_in_process(tmp_path, json.dumps(bundle)) == 0
    bundle["event"]["detail"] = {"it was": "all in order"}
    assert check_proof(bundle, KEYS) == ["the event's agent or detail is not what was sealed"]
    assert alone_in_process(tmp_path, json.dumps(bundle)) == 1


def alone_in_process(folder: Path, text: str, *words: str) -> int:
    """The same program without the cost of a process, for the many cases."""
    path = folder / "given.json"
    path.write_text(text)
    return standalone_verifier.main([str(path), "--key", str(SIGNER.public), *words])


# --- the stand-alone verifier ---


def test_the_stand_alone_verifier_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(SCRIPT.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_stand_alone_verifier_checks_a_proof(archive: Archive, tmp_path: Path) -> None:
    path, place = tmp_path / "proof.json", some_place(archive, Random(4))
    bundle = proof_of(archive, place, since=archive.blocks[2].head)
    path.write_text(json.dumps(bundle, indent=2))
    (tmp_path / "heads").write_text(str(archive.blocks[2].head))
    sound = alone(path, "--witness", str(tmp_path / "heads"))
    assert (sound.returncode, sound.stdout, sound.stderr) == (0, f"event {place[0]}#{place[1]}: sound\n", "")
    assert "No witness's head could be compared" in alone(path).stdout
    bundle["event"]["agent"] = "somebody else"
    path.write_text(json.dumps(bundle))
    broken = alone(path)
    assert broken.returncode == 1
    assert "its agent or detail is not what was sealed" in broken.stdout


def test_a_proof_under_another_head_than_the_one_kept_is_found(archive: Archive, tmp_path: Path) -> None:
    forked = grown_archive(Random(99), blocks=11)
    (tmp_path / "heads").write_text(str(forked.last.head))
    text = json.dumps(proof_of(archive, some_place(archive, Random(4))))
    assert alone_in_process(tmp_path, text, "--witness", str(tmp_path / "heads")) == 1


def test_the_stand_alone_verifier_checks_a_whole_history(archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(export_of(archive))
    (tmp_path / "heads").write_text("".join(map(str, archive.heads())))
    sound = alone(path, "--witness", str(tmp_path / "heads"), "--every-signature")
    told = f"{len(archive.events)} events in 11 blocks: sound\n"
    assert (sound.returncode, sound.stdout, sound.stderr) == (0, told, "")
    assert "No witness's head" in alone(path).stdout
    stranger = alone(path, key=INTRUDER.public)
    assert stranger.returncode == 1
    assert "block 11: not signed by a known key" in stranger.stdout


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_the_stand_alone_verifier_finds_what_ours_finds(
    attack: Attack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = grown_archive(Random(3), blocks=4, most=12)
    (tmp_path / "heads").write_text("\n".join(map(str, archive.heads())))
    attack(archive, Random(5))
    faults = archive.verify(read_heads(tmp_path / "heads")).faults
    words = ("--witness", str(tmp_path / "heads"), "--every-signature", "--json")
    assert alone_in_process(tmp_path, export_of(archive), *words) == 1
    found = json.loads(capsys.readouterr().out)
    assert sorted((fault["kind"], fault["where"]) for fault in found) == sorted(
        (fault.kind, fault.where) for fault in faults
    )


def test_the_last_signature_vouches_for_all_blocks_before_it(archive: Archive, tmp_path: Path) -> None:
    """So the slow check of each one is not needed to find a rewritten history."""
    for number in (1, 5, 11):
        rewritten = deepcopy(archive)
        place = next(place for place, leaf in archive.leaves.items() if leaf.block == number)
        del rewritten.events[place]
        assert alone_in_process(tmp_path, export_of(rewritten)) == 1
    archive.reseal(INTRUDER)
    assert alone_in_process(tmp_path, export_of(archive)) == 1


def test_heads_inside_an_export_are_compared_too(archive: Archive, tmp_path: Path) -> None:
    kept = archive.heads()
    assert alone_in_process(tmp_path, export_of(archive, kept)) == 0
    forked = grown_archive(Random(99), blocks=11)
    assert alone_in_process(tmp_path, export_of(archive, [*kept, forked.blocks[3].head])) == 1


def test_a_lawful_erasure_is_sound_for_the_stand_alone_verifier_too(archive: Archive, tmp_path: Path) -> None:
    archive.erase(some_place(archive, Random(6)))
    archive.seal()
    assert alone_in_process(tmp_path, export_of(archive)) == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: "nothing",
        lambda text: "{}",
        lambda text: text[: len(text) // 2],
        lambda text: text.rsplit("\n", 2)[0],
        lambda text: "\n".join(line for line in text.split("\n") if '"is":"event"' not in line),
        lambda text: text.replace('"seq":1,', '"seq":1,"seq":1,'),
        lambda text: text.replace('"seq":1,', '"seq":"1",'),
        lambda text: text.replace('"seq":1,', ""),
        lambda text: text.replace('"previous":"', '"previous":"x'),
        lambda text: "[" * 100_000,
    ],
)
def test_a_spoilt_export_is_never_called_sound(archive: Archive, tmp_path: Path, spoil: Any) -> None:
    assert alone_in_process(tmp_path, spoil(export_of(archive))) != 0


def test_a_missing_file_or_key_says_so(tmp_path: Path) -> None:
    missing = alone(tmp_path / "none.jsonl")
    assert missing.returncode == 2
    assert "cannot read" in missing.stderr
    assert run(tmp_path).returncode == 2
    assert run(tmp_path, "--key", "nonsense").returncode == 2


def test_an_export_is_one_object_a_line_with_the_parts_in_order(archive: Archive) -> None:
    lines = [json.loads(line) for line in export_of(archive, archive.heads()[:1]).splitlines()]
    assert [line["is"] for line in lines[:3]] == ["history", "head", "block"]
    assert lines[0]["keys"] == [str(SIGNER.public)]
    assert lines[-1] == {"is": "end", "blocks": 11, "events": len(archive.events)}
    events = [(line["block"], line["subject"], line["seq"]) for line in lines if line["is"] == "event"]
    assert len(events) == len(archive.events)
    assert [block for block, _, _ in events[-3:]] == [None] * 3
