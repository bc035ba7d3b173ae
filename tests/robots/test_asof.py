"""The line as it stood: an item's history, and the robots' answers, at any moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from custody.cli import main
from custody.cli.times import moment_of
from custody.errors import BadInput, NotFound
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.stores import Store, open_store
from custody.robots.items.as_of import as_of
from custody.robots.items.restart import restart, undo
from custody.robots.runner import subscribe
from robots.conftest import Custody
from robots.lines import make

SECOND = make("second", "B", past={"A"}, absent={"B"})
AGAIN = make("again", "Again", old={"Again"})


def test_at_every_moment_the_answers_are_those_that_were_given_then(store: Store) -> None:
    subscribe(store, [SECOND, AGAIN])
    acts = [
        lambda: store.records.put([NewItem("x", frozenset({"map"}), fingerprint="f1", detail={"title": "Ærø"})]),
        lambda: store.records.append(NewEvent("x", "A", "failure")),
        lambda: store.records.append(NewEvent("x", "Again")),
        lambda: store.records.append(NewEvent("x", "A")),
        lambda: store.records.put([NewItem("x", frozenset({"print"}), fingerprint="f2")]),
        lambda: store.records.append(NewEvent("x", "Again", seen=1)),  # the change came while it worked
        lambda: store.records.append(NewEvent("x", "B")),
        lambda: restart(store, [SECOND], "x", "A", "ada", "again"),
        lambda: undo(store, "x", "ada", "no"),
    ]
    stood: list[tuple[int, object, object]] = []
    for act in acts:
        act()
        stood.append((store.now(), store.records.item("x"), store.records.latest("x")))
    for number, (at, item, latest) in enumerate(stood):
        if number + 1 < len(stood) and stood[number + 1][0] == at:
            continue  # the clock did not move: then the later one is what stood
        then = as_of(store, "x", at)
        assert (then.item, then.latest) == (item, latest), f"after {number + 1} acts"
        assert {name: each.seen for name, each in then.latest.items()} == {
            name: each.seen
            for name, each in latest.items()  # type: ignore[attr-defined]
        }
    ready = [as_of(store, "x", at).ready_for() for at, _, _ in stood]
    assert ready[1] == ["again"]
    assert ready[3] == ["second"]
    assert ready[5] == ["again", "second"], "what missed a change is old at once"
    assert ready[6] == ["again"]


def test_before_it_was_there_is_said_so(store: Store) -> None:
    store.records.put([NewItem("x")])
    with pytest.raises(NotFound, match="was not there yet"):
        as_of(store, "x", 1)


TIMES = [
    ("2026-03-01", 1772409599_999999),
    ("2026-03-01T00:00:00", 1772323200_000000),
    ("2026-03-01T01:00:00+01:00", 1772323200_000000),
    ("2026-03-01 00:00:00Z", 1772323200_000000),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_times_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert moment_of(text) == expected


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(BadInput, match="not a day or a time"):
        moment_of("yesterday")


def test_an_item_is_shown_as_it_stood(tmp_path: Path, custody: Custody, capfd: pytest.CaptureFixture[str]) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        subscribe(store, [SECOND])
        store.records.put([NewItem("x", fingerprint="f1")], [NewEvent("x", "A")])
        at = store.records.events("item/x")[-1].at
        while store.now() == at:
            pass
        store.records.append(NewEvent("x", "B"))

    def show(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["item", "show", "x", *words])
        assert ended.value.code == 0
        return capfd.readouterr().out

    assert "second: not ready: B has not happened" in show()
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).isoformat()
    assert "second: ready" in show("--as-of", moment)
    told = json.loads(show("--as-of", moment, "--json"))
    assert told["ready"] == {"second": True}
    assert [event["type"] for event in told["events"]] == ["changed", "A"]
    with pytest.raises(SystemExit) as ended:
        main(["item", "show", "x", "--as-of", "1999-12-31"])
    assert ended.value.code == 2
    assert "was not there yet" in capfd.readouterr().err


PREMIS = """<premis xmlns="http://www.loc.gov/premis/v3" version="3.0">
<object xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="representation"><objectIdentifier>
<objectIdentifierType>local</objectIdentifierType><objectIdentifierValue>x</objectIdentifierValue></objectIdentifier></object>
<event><eventIdentifier><eventIdentifierType>local</eventIdentifierType><eventIdentifierValue>1</eventIdentifierValue>
</eventIdentifier><eventType>A</eventType><eventDateTime>2020-01-01T00:00:00Z</eventDateTime>
<eventOutcomeInformation><eventOutcome>Bestanden</eventOutcome></eventOutcomeInformation>
<linkingObjectIdentifier><linkingObjectIdentifierType>local</linkingObjectIdentifierType>
<linkingObjectIdentifierValue>x</linkingObjectIdentifierValue></linkingObjectIdentifier></event></premis>"""


@pytest.mark.parametrize(("words", "outcome"), [([], "failure"), (["--outcome", "bestanden=success"], "success")])
def test_an_archives_own_words_for_success_open_its_gates(
    words: list[str], outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUSTODY_STORE", raising=False)
    Path("x.xml").write_text(PREMIS)
    with pytest.raises(SystemExit) as ended:
        main(["history", "import-premis", "x.xml", *words])
    assert ended.value.code == 0
    with open_store("sqlite:///custody.db") as store:
        subscribe(store, [SECOND])
        (item,) = store.records.items()
        assert store.records.latest(item.id)["A"].outcome == outcome
    with pytest.raises(SystemExit) as ended:
        main(["history", "import-premis", "x.xml", "--outcome", "bestanden=gut"])
    assert ended.value.code == 2
