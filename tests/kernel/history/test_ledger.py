"""The history of a real store: sealed, witnessed, verified, proved, erased; on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from custody.errors import Refused
from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.keys import Signer, make_key
from custody.kernel.history.ledger import erasure, prove, seal_once, verify_all
from custody.kernel.history.witness import read_heads
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'custody.db'}" if sqlite else request.getfixturevalue("postgres_url")
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return make_key(tmp_path / "key", "archive.example")


def live(store: Store, jobs: int = 5) -> None:
    store.queue.submit([NewJob("parcel", {"n": n}) for n in range(jobs)])
    store.records.put([NewItem("ark:/1/x")], [NewEvent("ark:/1/x", "ingested", agent="ada", detail={"mail": "a@b.c"})])


def test_what_was_recorded_is_sealed_once_and_verifies(store: Store, signer: Signer, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    live(store)
    first = seal_once(store.ledger, signer, store.now(), [witness])
    assert first is not None
    assert (first.number, first.count) == (1, 7)
    assert seal_once(store.ledger, signer, store.now(), [witness]) is None, "nothing is sealed twice"
    live(store, 3)
    second = seal_once(store.ledger, signer, store.now(), [witness])
    assert second is not None
    assert second.number == 2
    report = verify_all(store.ledger, [signer.public], read_heads(witness))
    assert report.sound, report.faults
    assert len(read_heads(witness)) == 2


def test_of_two_sealers_one_wins_and_no_event_is_in_two_blocks(store: Store, signer: Signer) -> None:
    live(store)
    events = store.ledger.unsealed(100)
    assert seal_once(store.ledger, signer, store.now()) is not None

    class Late:
        """A second sealer that looked before the first one wrote."""

        def __getattr__(self, name: str) -> object:
            return {"unsealed": lambda limit: events, "last_block": lambda: None, "tips": lambda subjects: {}}.get(
                name, getattr(store.ledger, name)
            )

    seal_once(Late(), signer, store.now())  # type: ignore[arg-type]
    assert len(list(store.ledger.blocks())) == 1
    assert verify_all(store.ledger, [signer.public], []).sound


def test_a_changed_event_is_found(tmp_path: Path, signer: Signer) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        live(store)
        seal_once(store.ledger, signer, store.now())
    with apsw.Connection(str(tmp_path / "custody.db")) as db:
        db.execute("update event set agent = 'mallory' where id = 3")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        report = verify_all(store.ledger, [signer.public], [])
        assert not report.sound
        assert "job/3" in str(report.faults[0])


@pytest.mark.proves("H11")
def test_a_history_put_back_to_an_older_backup_is_found_by_its_witness(
    store: Store, signer: Signer, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    live(store)
    seal_once(store.ledger, signer, store.now(), [witness])
    with open_store("sqlite://:memory:") as older:
        live(older, 1)
        seal_once(older.ledger, signer, older.now())
        assert not verify_all(older.ledger, [signer.public], read_heads(witness)).sound


def test_a_history_that_went_back_is_not_sealed_any_further(store: Store, signer: Signer, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    for _ in range(2):
        live(store)
        seal_once(store.ledger, signer, store.now(), [witness])
    with open_store("sqlite://:memory:") as older:
        live(older, 1)
        with pytest.raises(Refused, match="has seen blocks"):
            seal_once(older.ledger, signer, older.now(), [witness])
        seal_once(older.ledger, signer, older.now())
        live(older, 1)
        with pytest.raises(Refused):
            seal_once(older.ledger, signer, older.now(), [witness])
        assert len(list(older.ledger.blocks())) == 1, "no second branch was begun"


def test_a_head_that_a_crash_kept_from_being_told_is_told_the_next_time(
    store: Store, signer: Signer, tmp_path: Path
) -> None:
    live(store)
    seal_once(store.ledger, signer, store.now())
    seal_once(store.ledger, signer, store.now(), [tmp_path / "witness"])
    assert [head.blocks for head in read_heads(tmp_path / "witness")] == [1]


def test_a_lawful_erasure_still_verifies_and_says_who_erased_it(store: Store, signer: Signer) -> None:
    live(store)
    seal_once(store.ledger, signer, store.now())
    type_, detail = erasure("item/ark:/1/x", 2, "asked by the depositor")
    store.ledger.erase("item/ark:/1/x", 2, "ada", detail, type_)
    assert store.records.events("item/ark:/1/x")[1].detail == {}
    seal_once(store.ledger, signer, store.now())
    report = verify_all(store.ledger, [signer.public], [])
    assert report.sound, report.faults


def test_a_proof_is_checked_by_a_program_that_has_none_of_our_code(
    store: Store, signer: Signer, tmp_path: Path
) -> None:
    for _ in range(3):
        live(store)
        seal_once(store.ledger, signer, store.now())
    event = store.records.events("item/ark:/1/x")[1]
    bundle = tmp_path / "proof.json"
    bundle.write_text(json.dumps(prove(store.ledger, event)))
    script = standalone_verifier.__file__
    command = [sys.executable, "-I", script, str(bundle), "--key", str(signer.public)]
    good = subprocess.run(command, capture_output=True, text=True)
    assert good.returncode == 0, good.stdout + good.stderr
    bundle.write_text(bundle.read_text().replace("ingested", "injested"))
    assert subprocess.run(command, capture_output=True, text=True).returncode != 0
