"""Values made quickly are the same values."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from custody.kernel.model.job import Answer, Change
from custody.kernel.model.quick import quick

SAID = (1, "queued", "done", "passed", "success", "ann", False, "passed", 2, "move")


def test_a_value_made_quickly_is_the_value_itself() -> None:
    made, usual = quick(Change)(*SAID, detail={"n": 1}), Change(*SAID, detail={"n": 1})  # type: ignore[arg-type]
    assert type(made) is Change
    assert made == usual
    assert repr(made) == repr(usual)
    assert pickle.loads(pickle.dumps(made)) == usual
    assert replace(made, code="x") == replace(usual, code="x")


def test_it_is_as_frozen_as_any() -> None:
    made = quick(Answer)(1, True)
    with pytest.raises(FrozenInstanceError):
        made.done = False  # type: ignore[misc]


def test_defaults_are_made_anew_for_each() -> None:
    make = quick(Change)
    one, other = make(*SAID), make(*SAID)
    assert one.detail == {}
    assert one.detail is not other.detail


def test_a_field_that_is_missing_is_missed() -> None:
    with pytest.raises(TypeError, match="missing"):
        quick(Answer)(1)
