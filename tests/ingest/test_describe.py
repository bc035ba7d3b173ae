"""The promises of the descriptions: what is written is what was known, and can be read back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from custody.errors import BadInput
from custody.formats import anvl
from custody.ingest.description.metadata import (
    DC,
    Deposit,
    Description,
    dublin_core,
    erc,
    merged,
    read_deletes,
    read_dublin_core,
    read_erc,
    system_files,
)

BOOK = Description("ark:/99999/fk4x", ("l1", "l2"), "Proust, Marcel", "Time & <Lost>", "1922")
DEPOSIT = Deposit(
    batch="bid-1",
    job="jid-1",
    submitted=datetime(2024, 5, 31, 12, tzinfo=UTC),
    file="book.zip",
    type="container",
    profile="demo_content",
    collections=("ark:/99999/c1", "ark:/99999/c2"),
    storage_service="ocfl",
    storage_node="7777",
    owner="ark:/99999/o1",
    notification=("a@x.example", "b@x.example"),
)


def test_an_erc_says_who_what_when_where():
    assert erc(BOOK) == (
        "erc:\nwho: Proust, Marcel\nwhat: Time & <Lost>\nwhen: 1922\nwhere: ark:/99999/fk4x\nwhere: l1; l2\n"
    )
    assert erc(Description()) == "erc:\n" + "".join(
        f"{name}: (:unas)\n" for name in ["who", "what", "when", "where", "where"]
    )


def test_an_erc_is_read_back():
    assert read_erc(erc(BOOK)) == BOOK
    assert read_erc(erc(Description())) == Description()


def test_a_depositors_erc_may_continue_lines_and_repeat_where():
    text = "# mine\nerc:\nwho: Proust,\n  Marcel\nwhat: T\nwhere: local 1; x\nwhere: ark:/1/a\nwhere: ark:/1/b\n"
    assert read_erc(text) == Description("ark:/1/a", ("local 1", "x", "ark:/1/b"), "Proust, Marcel", "T")


def test_dublin_core_is_xml_with_every_value_once():
    tree = etree.fromstring(dublin_core(Description("ark:/1/a", ("l1",), "P", "T & <L>\x01", "1922")).encode())
    assert tree.tag == "DublinCore"
    assert [(each.tag, each.text) for each in tree] == [
        (f"{{{DC}}}creator", "P"),
        (f"{{{DC}}}date", "1922"),
        (f"{{{DC}}}identifier", "ark:/1/a"),
        (f"{{{DC}}}identifier", "l1"),
        (f"{{{DC}}}title", "T & <L> "),
    ]


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.split())
values = st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1, unique=True)


@given(st.dictionaries(st.sampled_from(["subject", "rights", "title"]), values))
def test_any_dublin_core_is_read_back(more):
    more = {name: tuple(each) for name, each in more.items()}
    assert read_dublin_core(dublin_core(Description(more=more)).encode()) == more


def test_dublin_core_is_found_in_any_wrapping():
    inner = "<dc:title>A\n  b</dc:title><x>no</x><dc:nope>n</dc:nope><dc:title/>"
    text = f'<oai_dc:dc xmlns:oai_dc="u:x" xmlns:dc="{DC}">{inner}</oai_dc:dc>'
    assert read_dublin_core(text.encode()) == {"title": ("A b",)}


XML = {
    "a document type": (b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "xml.dtd"),
    "a file from outside": (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "xml.dtd"),
    "not XML": (b"<x><y></x>", "xml.syntax"),
    "nothing": (b"", "xml.syntax"),
    "too deep": (b"<x>" * 300 + b"</x>" * 300, "xml.depth"),
    "too long": (b"<x>" + b" " * (16 << 20) + b"</x>", "xml.size"),
}


@pytest.mark.parametrize(("data", "code"), XML.values(), ids=XML.keys())
def test_unsafe_xml_is_refused(data, code):
    with pytest.raises(BadInput) as refused:
        read_dublin_core(data)
    assert refused.value.code == code


def test_the_depositors_own_files_go_before_the_form():
    form = Description("ark:/1/a", ("l1",), "form", "form", "form", {"rights": ("mine",)})
    dc = {"title": ("dc",), "date": ("dc",), "rights": ("ours",)}
    record = Description(local_ids=("l2",), date="erc")
    more = {"rights": ("mine", "ours"), "title": ("dc",), "date": ("dc",)}
    assert merged(form, dc, record) == Description("ark:/1/a", ("l1", "l2"), "form", "dc", "erc", more)


def test_the_system_files_are_those_of_the_deployed_services():
    files = system_files(BOOK, DEPOSIT)
    assert sorted(files) == [
        "mrt-dc.xml",
        "mrt-erc.txt",
        "mrt-ingest.txt",
        "mrt-membership.txt",
        "mrt-mom.txt",
        "mrt-owner.txt",
    ]
    assert files["mrt-owner.txt"] == "ark:/99999/o1"
    assert files["mrt-membership.txt"] == "ark:/99999/c1\nark:/99999/c2\n"
    assert files["mrt-mom.txt"] == (
        "primaryIdentifier:\tark:/99999/fk4x\ntype:\tMRT-curatorial\nrole:\tMRT-content\naggregate:\n"
        "localIdentifier:\tl1; l2\n"
    )
    told = dict(anvl.read(files["mrt-ingest.txt"]))
    assert told["submissionDate"] == "2024-05-31T12:00:00+00:00"
    assert (told["batch"], told["storageNode"]) == ("bid-1", "7777")
    assert (told["notification"], told["digestType"]) == ("a@x.example;b@x.example", "(:unas)")


def test_without_owner_or_collections_those_files_are_not_written():
    bare = Deposit("b", "j", DEPOSIT.submitted, "f", "file", "p", (), "s", "n")
    assert {"mrt-owner.txt", "mrt-membership.txt"}.isdisjoint(system_files(BOOK, bare))


def test_deletes_are_names_below_producer():
    assert read_deletes("a.txt\r\n\nproducer/b.txt\na.txt\n") == ("producer/a.txt", "producer/b.txt")


# -- ANVL --------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(words, words), max_size=4))
def test_escaped_anvl_carries_any_text(pairs):
    pairs = [(name.strip(), value.strip()) for name, value in pairs]
    text = anvl.write([("x" + name, value) for name, value in pairs], escaped=True)
    assert anvl.read(text, escaped=True) == [("x" + name, value) for name, value in pairs]


@pytest.mark.parametrize(("text", "line"), [("  more", 1), ("a: 1\n\n more", 3), ("no colon", 1), (": v", 1)])
def test_bad_anvl_is_refused_with_its_line(text, line):
    with pytest.raises(BadInput) as refused:
        anvl.read(text, where="x.txt")
    assert refused.value.where == f"x.txt, line {line}"
