"""The promises of the manifest reader. The first table is the checklist of the depositors' manifest tool:
each line one of its 43 cases, with what we say to it."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody.errors import BadInput
from custody.formats.checkm import check, form, read
from custody.formats.checkm.form import Limits, Row
from custody.formats.checkm.writer import from_csv, from_urls, write, write_storage
from custody.formats.names import safe_parts
from formats.checkm.checkm_samples import JPG, MD5, SHA256, SHOP, TXT, manifest
from rig.memory import in_own_process

REORDERED = "#%fields | nfo:fileSize | nfo:fileLastModified | nfo:hashAlgorithm | nfo:fileUrl\n"
ZIP = f"{SHOP}/chicken.zip |  |  |  |  | chicken.zip |  |  | Tracy | Husky Chicken | 2009-09-01"
CHECKM = f"{SHOP}/hunt.checkm |  |  |  |  | hunt.checkm |  |  | Tracy |  | 2009-09-01"
SIGN = f"{SHOP}/dragon.jpg | md5 | {MD5} |  |  | dragon.jpg |  |  | Tracy | Golden Dragon | 2009-09-01"

CASES = [
    # accepted without a word
    ("as it should be", manifest(JPG, TXT), []),
    ("no newline at the end", manifest(JPG, TXT, end="#%eof"), []),
    ("a blank line before the rows", manifest("", JPG, TXT), []),
    ("a blank line between rows", manifest(JPG, "", TXT), []),
    ("a blank line after the rows", manifest(JPG, TXT, ""), []),
    ("Windows line ends", io.BytesIO(manifest(JPG, TXT).getvalue().replace(b"\n", b"\r\n")), []),
    ("algorithm in capitals", manifest(JPG.replace("md5", "MD5"), TXT.replace("sha", "SHA")), []),
    ("same name, other folder", manifest(JPG, f"{SHOP}/a | | | | | x/a", f"{SHOP}/b | | | | | y/a"), []),
    ("with a modification date", manifest(f"{SHOP}/a | | | | 2019-12-31T00:00.000Z | a"), []),
    ("with a date", manifest(f"{SHOP}/a | | | | 2020-01-01 | a"), []),
    # accepted, and worth telling
    ("no declaration", manifest(JPG, declaration=""), ["~manifest.declaration"]),
    ("no prefixes", manifest(JPG, prefixes=""), ["~manifest.prefix"] * 2),
    ("another prefix", manifest(JPG, prefixes="#%prefix | mrtfoo: | http://x/\n"), ["~manifest.prefix"] * 2),
    (
        "another address for a prefix",
        manifest(JPG, prefixes=f"#%prefix | mrt: | http://x/\n#%prefix | nfo: | {form.PREFIXES['nfo']}\n"),
        ["~manifest.prefix"],
    ),
    ("no field list", manifest(JPG, fields=""), ["~manifest.fields"]),
    ("a bar too many", manifest(f"{JPG} | |"), ["~manifest.columns"]),
    ("no file name", manifest(f"{SHOP}/blocks.jpg | md5 | {MD5} |  |  | "), ["~manifest.name.missing"]),
    ("a host without a dot", manifest("https://raw/x/a.jpg | | | | | a.jpg"), ["~manifest.url.host"]),
    (
        "a container among single files",
        manifest(ZIP, SIGN, kind=form.BATCH_OF_FILES),
        ["~manifest.name.container"],
    ),
    (
        "a manifest among single files",
        manifest(CHECKM, SIGN, kind=form.BATCH_OF_FILES),
        ["~manifest.name.manifest"],
    ),
    (
        "the same name but for case",
        manifest(TXT, TXT.replace("blocks.txt", "blocks.TXT")),
        ["~manifest.name.case"],
    ),
    # refused
    ("two newlines at the end", manifest(JPG, end="#%eof\n\n"), ["manifest.after-eof"]),
    ("fields in another order", manifest(JPG, fields=REORDERED), ["manifest.fields"]),
    ("no profile", manifest(JPG, profile=""), ["manifest.profile"]),
    ("no end", manifest(JPG, end=""), ["manifest.eof"]),
    (
        "not UTF-8",
        io.BytesIO(manifest(TXT, JPG).getvalue().replace(b"blocks", b"bl\xff\xfd", 1)),
        ["manifest.charset"],
    ),
    ("the same name twice", manifest(JPG, TXT, TXT), ["manifest.duplicate"]),
    ("an unknown algorithm", manifest(JPG.replace("md5", "md5xxx")), ["digest.unknown"]),
    ("a size that is no number", manifest(f"{SHOP}/a | | | 111xxx | | a"), ["manifest.size"]),
    ("another protocol", manifest(JPG.replace("https", "hzzttps")), ["manifest.url.scheme"]),
    ("no URL", manifest(f" | md5 | {MD5} |  |  | blocks.jpg"), ["manifest.url"]),
    ("an md5 of the wrong length", manifest(JPG.replace(MD5, MD5[1:])), ["digest.form"]),
    ("an md5 called sha-256", manifest(JPG.replace("md5", "sha-256")), ["digest.form"]),
    ("a modification date that is none", manifest(f"{SHOP}/a | | | | foo | a"), ["manifest.date"]),
    ("a date that is none", manifest(f"{SHOP}/a | | | | yesterday | a"), ["manifest.date"]),
    (
        "a container that is none",
        manifest(ZIP, f"{SHOP}/store.zip | | | | | store.zip.txt", kind=form.BATCH_OF_CONTAINERS),
        ["manifest.name.kind"],
    ),
    (
        "a manifest that is none",
        manifest(CHECKM, f"{SHOP}/b.checkm | | | | | b.checkm.txt", kind=form.BATCH_OF_MANIFESTS),
        ["manifest.name.kind"],
    ),
    (
        "a bad ARK",
        manifest(ZIP.replace("zip |  |  | T", "zip | ark:/foo |  | T"), kind=form.BATCH_OF_CONTAINERS),
        ["identifier.bad"],
    ),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("source", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_case_of_the_manifest_tool_is_answered(source, said):
    source.seek(0)
    checked = check(source, check_name=safe_parts)
    assert ["~" * fault.warning + fault.code for fault in checked.faults] == said
    assert checked.ok == all(code.startswith("~") for code in said)


HEAD = "nfo:fileUrl,nfo:hashAlgorithm,nfo:hashValue,nfo:fileSize,nfo:fileLastModified,nfo:fileName,"
BATCH = HEAD + "mrt:primaryIdentifier,mrt:localIdentifier,mrt:creator,mrt:title,mrt:date\n"


@pytest.mark.parametrize(
    ("text", "kind", "warnings"),
    [
        (HEAD + f"mrt:mimeType\n{SHOP}/a.jpg,md5,{MD5},,,a.jpg\n{SHOP}/a.txt,,,,,a.txt", form.OBJECT, 0),
        (BATCH + f'{SHOP}/a.zip,,,,,a.zip,,,T,"A | store, Portland",2009\n', form.BATCH_OF_CONTAINERS, 0),
        (BATCH + f"{SHOP}/a.jpg,md5,{MD5},,,a.jpg,,x;y,T,Sign,2009\n", form.BATCH_OF_FILES, 0),
        (BATCH + f"{SHOP}/a.checkm,,,,,a.checkm,,,T,,2009-09-01\n", form.BATCH_OF_MANIFESTS, 0),
        (BATCH + f"{SHOP}/a.jpg,,,,,a.jpg\n{SHOP}/b.zip,,,,,b.zip\n", form.BATCH_OF_FILES, 1),
    ],
    ids=["files", "containers", "single files", "manifests", "a container among files"],
)
def test_a_csv_becomes_a_manifest_that_reads_back_the_same(text, kind, warnings):
    found, rows, faults = from_csv(text.splitlines())
    assert (found, len(faults)) == (kind, warnings)

    made = io.BytesIO("".join(write(found, rows)).encode())
    again = list(read(made, check_name=safe_parts))
    assert [_unnumbered(row) for row in again] == [_unnumbered(row) for row in rows]


def test_a_csv_that_mixes_manifests_with_other_files_is_refused():
    text = BATCH + f"{SHOP}/a.jpg,,,,,a.jpg\n{SHOP}/b.checkm,,,,,b.checkm\n"
    with pytest.raises(BadInput) as refused:
        from_csv(text.splitlines())
    assert (refused.value.code, refused.value.where) == ("csv.mixed", "line 3")


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "csv.columns"),
        ("name,size\na,1", "csv.columns"),
        (HEAD.rstrip(",") + ",shoe size\n", "csv.columns"),
        (HEAD + f"mrt:mimeType\n{SHOP}/a,,,big,,a", "csv.size"),
        (HEAD + f"mrt:mimeType\n{SHOP}/a,md6,00,,,a", "csv.algorithm"),
    ],
)
def test_a_csv_that_cannot_be_understood_is_refused_with_its_line(text, code):
    with pytest.raises(BadInput) as refused:
        from_csv(text.splitlines())
    assert refused.value.code == code
    assert refused.value.where.startswith("line ")


@pytest.mark.parametrize(("folders", "name"), [(0, "a b.jpg"), (1, "y/a b.jpg"), (9, "x/y/a b.jpg")])
def test_a_list_of_urls_becomes_rows_named_after_their_paths(folders, name):
    rows = from_urls(["https://h.example/x/y/a%20b.jpg?z=1", "", " "], folders=folders)
    assert rows == [Row(1, "https://h.example/x/y/a%20b.jpg?z=1", name)]


# -- what a row says ---------------------------------------------------------------------------------


def test_a_row_carries_everything_its_columns_say_and_its_line():
    digest = f"SHA-256 | {SHA256.upper()}"
    line = f"{SHOP}/a.zip | {digest} | 12 | 2020 | a.zip | ark:12345/x9 | l1; l2;l1 | C | T | D"
    (row,) = read(manifest("", line, kind=form.BATCH_OF_CONTAINERS), check_name=safe_parts)
    assert row == Row(
        7,
        f"{SHOP}/a.zip",
        "a.zip",
        "sha256",
        SHA256,
        12,
        "2020",
        "",
        "ark:/12345/x9",
        ("l1", "l2"),
        "C",
        "T",
        "D",
    )


def test_escaped_spaces_and_bars_are_undone_in_values_but_never_in_urls():
    line = "https://h.example/a%20%7cb | | | | | %20a%7cb c%20 | image/png"
    (row,) = read(manifest(line), check_name=lambda name: None)
    assert (row.url, row.name, row.mime) == ("https://h.example/a%20%7cb", " a|b c ", "image/png")


ROWS = [
    ("a path in disguise", f"{SHOP}/a | | | | | %2e%2e/a", "name.unsafe", 45),
    ("an absolute path", f"{SHOP}/a | | | | | /etc/passwd", "name.unsafe", 45),
    ("a device", f"{SHOP}/a | | | | | CON", "name.unsafe", 45),
    ("credentials in the URL", "https://ann:secret@h.example/a | | | | | a", "manifest.url.credentials", 1),
    ("a fragment", "https://h.example/a#b | | | | | a", "manifest.url", 1),
    ("a space in the URL", "https://h.example/a b | | | | | a", "manifest.url", 1),
    ("a file URL", "file:///etc/passwd | | | | | a", "manifest.url.scheme", 1),
    ("no scheme", "//h.example/a | | | | | a", "manifest.url.scheme", 1),
    ("tabs for bars", f"{SHOP}/a\tmd5\t{MD5}", "manifest.url", 1),
    ("a digest without algorithm", f"{SHOP}/a | | {MD5} | | | a", "manifest.digest", 39),
    ("a size past 63 bits", f"{SHOP}/a | | | 9223372036854775808 | | a", "manifest.size", 41),
    ("a size past 53 bits", f"{SHOP}/a | | | 9007199254740992 | | a", "manifest.size", 41),
    ("a negative size", f"{SHOP}/a | | | -1 | | a", "manifest.size", 41),
    ("a path out of the folder", f"{SHOP}/a | | | | | ../a", "name.unsafe", 45),
    ("a name of ours", f"{SHOP}/a | | | | | mrt-owner.txt", "manifest.name.reserved", 45),
    ("a folder of ours", f"{SHOP}/a | | | | | system/a", "manifest.name.reserved", 45),
    ("no name anywhere", "https://h.example/ | | | | |", "manifest.name", 29),
    ("a tab in a name", f"{SHOP}/a | | | | | a\tb", "manifest.charset", 46),
    ("a control character", f"{SHOP}/a | | | | | a\x01", "manifest.charset", 46),
    ("text turned around", f"{SHOP}/a | | | | | a\u202etxt.exe", "manifest.charset", 46),
    ("old Mac line ends", f"{SHOP}/a | | | | | a\r{SHOP}/b", "manifest.charset", 46),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("line", "code", "column"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_bad_row_is_refused_with_line_and_column(line, code, column):
    with pytest.raises(BadInput) as refused:
        list(read(manifest(JPG, line), check_name=safe_parts))
    assert (refused.value.code, refused.value.facts) == (code, {"line": 7, "column": column})
    assert "secret" not in str(refused.value)


HEADERS = [
    ("nothing at all", b"", "manifest.profile"),
    ("a byte order mark", b"\xef\xbb\xbf" + manifest(JPG).getvalue(), "manifest.charset"),
    ("no rows", manifest().getvalue(), "manifest.empty"),
    (
        "another registry",
        manifest(JPG, profile="#%profile | http://elsewhere/x\n").getvalue(),
        "manifest.profile",
    ),
    ("a storage manifest", manifest(JPG, kind=form.STORAGE).getvalue(), "manifest.kind"),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("text", "code"), [case[1:] for case in HEADERS], ids=[case[0] for case in HEADERS])
def test_a_file_that_is_no_manifest_is_refused(text, code):
    with pytest.raises(BadInput) as refused:
        list(read(io.BytesIO(text), check_name=safe_parts))
    assert refused.value.code == code


def test_a_manifest_of_manifests_inside_a_batch_is_refused():
    inner = manifest(CHECKM, kind=form.BATCH_OF_MANIFESTS)
    with pytest.raises(BadInput) as refused:
        list(read(inner, check_name=safe_parts, kinds=(form.OBJECT,), where="hunt.checkm"))
    assert refused.value.code == "manifest.kind"
    assert refused.value.where.startswith("hunt.checkm, line 2")


def test_the_check_lists_every_fault_and_the_reader_stops_at_the_first():
    bad = f"ftp://h.example/a | md9 | {MD5} | many | never | ../a"
    source = manifest(bad, JPG, bad)
    checked = check(source, check_name=safe_parts)
    assert [fault.line for fault in checked.faults] == [6] * 5 + [8] * 5
    assert checked.rows == 1
    assert not checked.ok

    source.seek(0)
    with pytest.raises(BadInput) as refused:
        list(read(source, check_name=safe_parts))
    assert refused.value.facts["line"] == 6


def test_the_check_counts_the_faults_it_has_no_room_for():
    checked = check(manifest(*["x"] * 9), check_name=safe_parts, at_most=4)
    assert (len(checked.faults), checked.unlisted, checked.ok) == (4, 5, False)


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("caf\u00e9", "cafe\u0301"),  # the same accent, composed and not
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b/c", "A/B"),
    ],
)
def test_names_that_would_fall_on_one_place_are_refused_with_both_lines(first, second):
    rows = [f"{SHOP}/{place} | | | | | {name}" for place, name in enumerate([first, "other/name", second])]
    checked = check(manifest(*rows), check_name=safe_parts)
    (fault,) = checked.faults
    assert (fault.code, fault.line) == ("manifest.duplicate", 8)
    assert "line 6" in fault.message


def test_names_that_differ_in_case_are_told_and_each_of_them_comes_but_once():
    names = ["README", "readme", "ReadMe", "Straße", "STRASSE", "readme", "README"]
    rows = [f"{SHOP}/{place} | | | | | {name}" for place, name in enumerate(names)]
    checked = check(manifest(*rows), check_name=safe_parts)
    told = [(fault.line, fault.code, fault.message[-6:]) for fault in checked.faults if fault.warning]
    assert [(line, code) for line, code, _ in told] == [(line, "manifest.name.case") for line in (7, 8, 10)]
    twice = [(fault.line, fault.code, fault.message) for fault in checked.faults if not fault.warning]
    assert twice == [
        (11, "manifest.duplicate", "'readme' is also the name on line 7"),
        (12, "manifest.duplicate", "'README' is also the name on line 6"),
    ]
    assert checked.rows == 5


def test_every_file_below_a_file_is_told_not_only_the_first():
    names = ["a", "a/b/c", "a/b/d", "a/b/e"]
    rows = [f"{SHOP}/{place} | | | | | {name}" for place, name in enumerate(names)]
    checked = check(manifest(*rows), check_name=safe_parts)
    assert [fault.line for fault in checked.faults] == [7, 8, 9]


def test_objects_of_a_batch_may_share_a_name_but_it_is_told():
    rows = [f"{SHOP}/{place}/bag.zip | | | | | bag.zip" for place in "ab"]
    checked = check(manifest(*rows, kind=form.BATCH_OF_CONTAINERS), check_name=safe_parts)
    assert (checked.ok, checked.rows, [fault.code for fault in checked.faults]) == (
        True,
        2,
        ["manifest.duplicate"],
    )


# -- limits ------------------------------------------------------------------------------------------


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("limits", "row"),
    [(Limits(size=500), TXT), (Limits(lines=6), TXT), (Limits(line=300), "x" * 301), (Limits(names=2), TXT)],
    ids=["bytes", "lines", "one line", "names"],
)
def test_past_a_limit_the_manifest_is_refused(limits, row):
    with pytest.raises(BadInput) as refused:
        list(read(manifest(JPG, row), check_name=safe_parts, limits=limits))
    assert refused.value.code == "manifest.limit"


class Endless(io.RawIOBase):
    """Rows for ever, made as they are asked for."""

    def __init__(self) -> None:
        self.line = -1
        self.head = manifest(end="").getvalue().splitlines(keepends=True)

    def readline(self, size: int | None = -1) -> bytes:
        self.line += 1
        if self.line < len(self.head):
            return self.head[self.line]
        name = f"folder-{self.line // 100}/a file with a name {self.line}"
        return f"{SHOP}/{self.line} | | | | | {name}\n".encode()


def rows_and_peak() -> tuple[int, int]:
    tracemalloc.start()
    checked = check(Endless(), check_name=safe_parts, limits=Limits(lines=30_000))
    return checked.rows, tracemalloc.get_traced_memory()[1]


def test_a_long_manifest_is_read_in_bounded_memory():
    rows, peak = in_own_process(rows_and_peak)
    assert rows == 29_995
    assert peak < 1_900_000  # 64 MiB at the limit of a million lines


# -- writing -----------------------------------------------------------------------------------------


def test_a_storage_manifest_lists_what_we_computed():
    row = Row(1, "file:/work/producer/a", "producer/a", "sha256", SHA256, 3, mime="text/plain")
    ours = Row(2, "file:/work/system/mrt-mom.txt", "system/mrt-mom.txt", "sha256", SHA256, 0)
    text = "".join(write_storage([row, ours]))
    assert f"\nfile:/work/producer/a | sha-256 | {SHA256} | 3 |  | producer/a | text/plain\n" in text

    again = list(read(io.BytesIO(text.encode()), check_name=safe_parts, kinds=(form.STORAGE,)))
    assert [_unnumbered(each) for each in again] == [_unnumbered(each) for each in (row, ours)]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (form.OBJECT, Row(1, f"{SHOP}/a", "a%20b")),
        (form.OBJECT, Row(1, f"{SHOP}/a b", "a")),
        (form.STORAGE, Row(1, f"{SHOP}/a", "a\nb")),
        (form.STORAGE, Row(1, f"{SHOP}/a", "a\u00a0")),
    ],
)
def test_what_checkm_cannot_say_is_refused_rather_than_changed(kind, row):
    with pytest.raises(BadInput) as refused:
        "".join(write(kind, [row]))
    assert refused.value.code == "manifest.unwritable"


names = st.text(st.sampled_from("aA %|25720cC/é"), min_size=1, max_size=9).filter(
    lambda name: not name.startswith("system/")
)


@given(names)
def test_any_name_we_write_is_read_back_as_it_was(name):
    if name.isspace() and name != " ":
        return  # only single spaces at either end can be told from the padding
    row = Row(1, f"{SHOP}/a", name, "sha256", SHA256, 0)
    try:
        text = "".join(write_storage([row]))
    except BadInput:
        return
    (again,) = read(io.BytesIO(text.encode()), check_name=lambda name: None, kinds=(form.STORAGE,))
    assert again.name == name


@given(st.binary(max_size=400), st.integers(0, 500))
def test_no_input_makes_the_reader_do_anything_but_accept_or_refuse(junk, place):
    whole = manifest(JPG, TXT, SIGN).getvalue()
    text = whole[:place] + junk + whole[place:]
    checked = check(io.BytesIO(text), check_name=safe_parts)
    errors = [fault.code for fault in checked.faults if not fault.warning]
    assert checked.ok == (not errors)
    # What is found first need not be the first in the file: the header is judged when a row comes.
    assert _answer(text) in (errors or [checked.rows])


def _answer(text):
    try:
        return len(list(read(io.BytesIO(text), check_name=safe_parts)))
    except BadInput as refused:
        return refused.code


def _unnumbered(row):
    return {name: getattr(row, name) for name in Row.__slots__ if name != "line"}
