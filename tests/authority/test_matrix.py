"""Authority: a word from outside is a wish, and what becomes of it is what the rules say, in every way in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authority.matrix import OPEN, UNKNOWN, Served, cells, differences, kinds, served
from custody.kernel.access.caller import Caller
from custody.kernel.access.rights import ROLES
from custody.kernel.access.rules import RULES, Rule
from custody.web.access import gate
from custody.web.operations import bulk, submission
from custody.web.site import Site
from prove.plugin import Scaled, Tell
from rig.postgres import Postgres

ROOT = Path(__file__).parents[2]
SOME = (OPEN, UNKNOWN, "bulk", "workflow/task")


@pytest.fixture(params=["sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    if request.param == "sqlite":
        with served(f"sqlite:///{tmp_path / 'custody.db'}") as made:
            yield made
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.fresh_database()
    with served(url) as made:
        yield made
    server.give_back(url)


@pytest.mark.proves("P4")
def test_what_is_wished_from_outside_becomes_what_the_rules_say(house: Served, tell: Tell, scaled: Scaled) -> None:
    wanted = list(cells(scaled(SOME, (), ())))
    found = differences(house, wanted)
    tell("", cells=len(wanted), differences=len(found), told=len(house.told))
    assert found == []
    assert house.told == [], "what is foreign is not named, whatever is asked"


def test_every_kind_that_anybody_makes_is_tried() -> None:
    assert {"bulk", "history/verify", "ingest/batch", "workflow/task", "channel/sync", "robot/fixity"} <= set(kinds())
    assert {cell.who.role for cell in cells()} == {"nobody", "owner", *ROLES}


# Is the matrix close enough? Take a guard away, and it must show.


def _anybody(key: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A rule that asks for no more than a token."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        real = gate._let_in

        def careless(site: Site, request: Any, rule: Rule, caller: Caller | None) -> Caller | None:
            if rule is RULES[key] and caller is not None:
                return replace(caller, right=rule.right or "")
            return real(site, request, rule, caller)

        patch.setattr(gate, "_let_in", careless)

    return mutate


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no rule for submitting": _anybody("POST /api/v1/jobs"),
    "no rule for schedules": _anybody("PUT /api/v1/schedules/{name:path}"),
    "no rule for bulk": _anybody("POST /api/v1/bulk"),
    "no rule for acting": _anybody("POST /api/v1/jobs/{job}/{action}"),
    "no rule for reading": _anybody("GET /api/v1/jobs/{job}"),
    "every kind is open": lambda patch: patch.setattr(Site, "must_be_open", lambda *_: None),
    "needs of anybody": lambda patch: patch.setattr(submission, "_unseen", lambda *_: []),
    "every job is one's own": lambda patch: patch.setattr(Caller, "made", lambda *_: True),
    "every collection is one's own": lambda patch: patch.setattr(Caller, "sees", lambda *_: True),
    "bulk anywhere": lambda patch: patch.setattr(bulk, "_check_scope", lambda *_: None),
}


@pytest.mark.proves("P4")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_guard_that_is_taken_away_is_missed(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Tell
) -> None:
    with served(f"sqlite:///{tmp_path / 'custody.db'}") as house, monkeypatch.context() as patch:
        MUTANTS[mutant](patch)
        found = differences(house, cells(SOME[:3]))
        caught = bool(found or house.told)
    tell(mutant, mutants=1, missed=int(not caught))
    assert caught


# The words


def test_no_page_tells_anybody_to_make_a_token_of_a_role_that_is_no_more() -> None:
    """And none gives a hook or a scraper more than it needs."""
    places = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*"),
        *(ROOT / "src").rglob("*"),
    ]
    for path in places:
        if path.is_file() and path.suffix not in (".pyc", ".png", ".svg", ".ico", ".woff2"):
            text = path.read_text(errors="replace")
            assert "--role worker" not in text, path
            assert not re.search(r"token of the role worker|role worker\b(?!,| @)", text) or "had the role" in text, (
                path
            )
            for name in re.findall(r"token create (?:hook|prometheus)\S* --role (\S+)", text):
                assert name.rstrip("`),;") in ("hook", "metrics"), path
