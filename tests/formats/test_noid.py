"""The promises of the local minter."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody.errors import BadInput, Refused
from custody.formats.identifiers import ark, naan
from custody.formats.noid import XDIGITS, Noid, check_digit, has_check_digit

# The example of the NOID manual, and ARKs in use.
KNOWN = [
    "13030/xf93gt2q",
    "77913/r7006t",
    "99999/fk4903mg7h",
    "87278/s63x8hrv",
    "13030/m5qz2bmh",
    "90135/q1w9573b",
]


def minter(template: str) -> Noid:
    return Noid("99999", "fk4", template, itertools.count().__next__)


@pytest.mark.parametrize("known", KNOWN)
def test_check_digits_agree_with_identifiers_minted_elsewhere(known):
    assert has_check_digit(f"ark:/{known}")


@given(st.text(XDIGITS, min_size=3, max_size=15), st.data())
def test_a_check_digit_catches_a_wrong_character_and_two_exchanged(name, data):
    whole = "99999/" + name
    whole += check_digit(whole)
    place = data.draw(st.integers(6, len(whole) - 2))
    other = data.draw(st.sampled_from([digit for digit in XDIGITS if digit != whole[place]]))
    assert not has_check_digit(f"ark:/{whole[:place]}{other}{whole[place + 1 :]}")
    if whole[place] != whole[place + 1]:
        exchanged = whole[:place] + whole[place + 1] + whole[place] + whole[place + 2 :]
        assert not has_check_digit(f"ark:/{exchanged}")


@pytest.mark.parametrize("template", ["dk", "ed", "sedk", "red", "eddk"])
def test_every_name_of_a_template_is_minted_once_and_then_no_more(template):
    mint = minter(template)
    names = [mint.mint() for _ in range(mint.capacity)]
    assert len(set(names)) == len(names)
    assert all(has_check_digit(name) for name in names if template.endswith("k"))
    with pytest.raises(Refused) as refused:
        mint.mint()
    assert refused.value.code == "noid.exhausted"


@pytest.mark.parametrize("mask", ["e" * e + "d" * d for e in range(9) for d in range(8) if e + d])
def test_no_template_is_so_large_that_its_order_repeats(mask):
    # If it did, it would be after a fifth, a half or a 29th of its names: the factors of its size.
    mint = minter(mask)
    starts = {mint.name(mint.capacity // part) for part in (2, 5, 29) if mint.capacity % part == 0}
    assert mint.name(0) not in starts


def test_an_endless_template_grows_and_never_repeats_itself():
    mint = minter("zdk")
    names = [mint.mint() for _ in range(2000)]
    assert len(set(names)) == 2000
    assert (len(names[0]), len(names[10]), len(names[100])) == (16, 17, 18)
    assert mint.capacity is None


def test_names_in_no_order_do_not_show_how_many_there_are():
    mint = minter("eedeeedk")
    names = [mint.mint() for _ in range(100)]
    assert mint.capacity == 29**5 * 10**2
    assert len({name[14:17] for name in names}) > 90
    assert minter("seedk").mint() == "ark:/99999/fk4000" + check_digit("99999/fk4000")


def test_the_same_number_is_the_same_name_in_any_process():
    assert minter("eedeeedk").name(12345) == minter("eedeeedk").name(12345)


@pytest.mark.parametrize(
    ("naan", "shoulder", "template"),
    [("9", "fk4", "eedk"), ("99999", "FK", "eedk"), ("99999", "fk4", "eek7"), ("99999", "fk4", "")],
)
def test_a_minter_that_could_not_work_is_not_made(naan, shoulder, template):
    with pytest.raises(BadInput):
        Noid(naan, shoulder, template, itertools.count().__next__)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("ark:/12345/x9", "ark:/12345/x9"),
        ("ark:12345/x9", "ark:/12345/x9"),
        ("ark:/b5072/fk2.v1", "ark:/b5072/fk2.v1"),
    ],
)
def test_both_spellings_of_an_ark_are_read(text, form):
    assert ark(text) == form
    assert naan(text) == form.split("/")[1]


NOT_ARKS = ["", "ark:/foo", "ark:/12345/", "doi:10.5072/x", "ark:/12345/a b", " ark:/12345/x"]


@pytest.mark.parametrize("text", NOT_ARKS)
def test_what_is_no_ark_is_refused(text):
    with pytest.raises(BadInput):
        ark(text)
