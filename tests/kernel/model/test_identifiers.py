"""Equal spellings of an identifier are one; of other identifiers the spelling is the identifier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody.errors import BadInput
from custody.formats.identifiers import ark, one_form

EQUAL = {
    "ark:/12345/ab1cd": [
        "ark:12345/ab1cd",
        "ARK:/12345/ab1cd",
        "Ark:12345/ab1cd",
        "ark:/12345/ab1-cd",
        "ark:/12345/-a-b-1-c-d-",
        "ark:/123-45/ab1cd",
        "ark:/12345/ab1\u2010cd",
        "ark:/12345/ab1cd/",
        "ark:/12345/ab1cd.",
        "ark:/12345/ab1cd./",
        "ark:/12345//ab1cd",
        "ark:/12345/.ab1cd",
        "ark:/12345/%61b1c%64",
        "ark:/12345/ab1cd?",
        "ark:/12345/ab1cd??info",
        "https://n2t.net/ark:/12345/ab1cd",
        "http://example.org/a/b/ark:12345/ab1-cd?x=y",
    ],
    "ark:/b5072/x": ["ark:/B5072/x", "ark:B5072/x"],
    "ark:/12345/a/b": ["ark:/12345/a//b", "ark:/12345/a/./b", "ark:/12345/a/-/b", "ark:12345/a/b/"],
    "ark:/12345/a/b.v1.v2": [
        "ark:/12345/a/b.v2.v1",
        "ark:/12345/a/b.v1.v2.v1",
        "ark:/12345/a.v1/b.v2",
        "ark:12345/a.v2/b.v1",
    ],
    "doi:10.5072/fk2/ab": [
        "DOI:10.5072/FK2/ab",
        "doi:10.5072/fk2/AB",
        "https://doi.org/10.5072/FK2/AB",
        "http://dx.doi.org/10.5072/fk2%2Fab",
    ],
    "hdl:2027/Mdp.1": ["HDL:2027/Mdp.1", "http://hdl.handle.net/2027/Mdp.1", "https://hdl.handle.net/2027/Mdp.1"],
    "hdl:abc.1/X": ["hdl:ABC.1/X"],
    "urn:nbn:de:101-20Ab": ["URN:NBN:DE:101-20Ab", "urn:NBN:de:101-20Ab", "urn:nbn:de:101-20Ab#page"],
    "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6": ["URN:UUID:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"],
    "urn:isbn:Xa%2F": ["URN:ISBN:Xa%2f", "urn:Isbn:Xa%2f?=q"],
}

DIFFERENT = [
    ("ark:/12345/abcd", "ark:/12345/ABCD"),
    ("ark:/12345/a/b", "ark:/12345/a.b"),
    ("ark:/12345/a/b", "ark:/12345/b/a"),
    ("ark:/12345/ab", "ark:/12346/ab"),
    ("hdl:2027/x", "hdl:2027/X"),
    ("urn:isbn:x", "urn:isbn:X"),
    ("urn:nbn:de:1-x", "urn:nbn:de:1-X"),
    ("http://a.org/x", "http://a.org/X"),
    ("lid-1", "lid1"),
    ("Lid", "lid"),
    ("10.5072/A", "10.5072/a"),
    ("https://doi.org/10.5072/a?x", "https://doi.org/10.5072/a"),
    ("doi:x", "DOI:x"),
    ("doi:10.5072/Ä", "doi:10.5072/ä"),
    ("ark:bad", "ARK:bad"),
]


@pytest.mark.parametrize(("form", "spelled"), [(form, each) for form, all_ in EQUAL.items() for each in [form, *all_]])
def test_equal_spellings_have_one_form(form: str, spelled: str) -> None:
    assert one_form(spelled) == form


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_no_scheme_calls_equal_stays_apart(one: str, other: str) -> None:
    assert one_form(one) != one_form(other)


@pytest.mark.parametrize(
    "text",
    [
        "ark:/12345/%2F",
        "ark:/12345/a%2Db",
        "ark:/12345/a%2Eb",
        "ark:/12345/a%zz",
        "ark:/12345/./",
        "ark:/12345/---",
        "ark:/12345/" + "a" * 201,
        "ark:/12345/a\u017f",
        "ark:/123\u212a5/a",
        "https://n2t.net/x",
        "ark:/12345/a#b",
    ],
)
def test_what_is_no_ark_or_conceals_something_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        ark(text)


@given(st.text(alphabet="ab1AB-./%2dD=", min_size=1, max_size=12))
def test_the_one_form_is_its_own_one_form(name: str) -> None:
    once = one_form(f"ark:/12345/{name}")
    assert one_form(once) == once


@given(st.text(max_size=40))
def test_any_text_has_a_form_and_it_does_not_change_again(text: str) -> None:
    for each in (text, f"doi:10.1/{text}", f"hdl:{text}", f"urn:nbn:{text}", f"https://doi.org/10.1/{text}"):
        assert one_form(one_form(each)) == one_form(each)
