"""The promises of the bag checker, on bags made by the Library of Congress's own program."""

from __future__ import annotations

import hashlib
import os

import bagit
import pytest

from custody.formats.bagit import check_bag, find_bag, find_bags


@pytest.fixture
def bag(tmp_path):
    folder = tmp_path / "bag"
    (folder / "letters").mkdir(parents=True)
    (folder / "a.txt").write_text("alpha")
    (folder / "letters" / "100% b.txt").write_text("beta")
    bagit.make_bag(str(folder), {"Source-Organization": "An archive"}, checksums=["md5", "sha256"])
    declaration = folder / "bagit.txt"
    declaration.write_text(declaration.read_text().replace("0.97", "1.0"))
    for manifest in folder.glob("*manifest-*.txt"):  # 1.0 escapes the percent sign, 0.97 did not
        manifest.write_text(manifest.read_text().replace("100%", "100%25"))
    _retag(folder)
    return folder


def _retag(folder):
    """Make the tag manifests right again after a change to a tag file."""
    for name in ("md5", "sha256"):
        lines = []
        for path in sorted(folder.glob("*.txt")):
            if not path.name.startswith("tagmanifest-"):
                lines.append(f"{hashlib.new(name, path.read_bytes()).hexdigest()} {path.name}\n")
        (folder / f"tagmanifest-{name}.txt").write_text("".join(lines))


def test_a_sound_bag_is_valid_and_says_what_is_in_it(bag):
    checked = check_bag(bag)
    assert (checked.faults, checked.ok, checked.version, checked.size) == ((), True, "1.0", 9)
    assert sorted(checked.payload) == ["data/a.txt", "data/letters/100% b.txt"]
    assert checked.payload["data/a.txt"]["md5"] == hashlib.md5(b"alpha").hexdigest()
    assert checked.info["Source-Organization"] == ("An archive",)
    assert checked.info["Payload-Oxum"] == ("9.2",)


def test_a_bag_of_the_older_form_is_valid(tmp_path):
    folder = tmp_path / "bag"
    folder.mkdir()
    (folder / "100%25.txt").write_text("x")
    bagit.make_bag(str(folder))
    checked = check_bag(folder)
    assert (checked.version, checked.faults) == ("0.97", ())


def test_a_bag_is_found_as_the_folder_or_as_the_only_thing_in_it(bag):
    assert find_bag(bag) == bag
    assert find_bag(bag.parent) == bag
    (bag.parent / "other").mkdir()
    assert find_bag(bag.parent) is None
    assert find_bag(bag / "data") is None


def _append(path, text):
    path.write_text(path.read_text() + text)


BREAKS = {
    "a changed byte": (lambda bag: (bag / "data/a.txt").write_text("alphA"), {"bag.digest"}),
    "a lost file": (lambda bag: (bag / "data/a.txt").unlink(), {"bag.missing", "bag.oxum"}),
    "a stray file": (lambda bag: (bag / "data/c.txt").write_text(""), {"bag.unlisted", "bag.oxum"}),
    "a changed tag file": (lambda bag: _append(bag / "bag-info.txt", "Note: x\n"), {"bag.digest"}),
    "a lost tag file": (lambda bag: (bag / "bag-info.txt").unlink(), {"bag.missing"}),
    "a link": (lambda bag: os.symlink("/etc/hostname", bag / "data/link"), {"bag.special"}),
    "a linked folder": (lambda bag: os.symlink("/etc", bag / "data/etc"), {"bag.special"}),
    "a pipe": (lambda bag: os.mkfifo(bag / "data/pipe"), {"bag.special"}),
    "no data": (lambda bag: (bag / "data").rename(bag / "dater"), {"bag.data", "bag.missing", "bag.oxum"}),
}
REWRITES = {
    "no payload manifest": ("manifest-*.txt", None, {"bag.manifest", "bag.unlisted"}),
    "a path out of the bag": ("manifest-md5.txt", f"{'0' * 32}  ../../etc/passwd\n", {"bag.path"}),
    "an absolute path": ("manifest-md5.txt", f"{'0' * 32}  /etc/passwd\n", {"bag.path"}),
    "a home folder": ("manifest-md5.txt", f"{'0' * 32}  ~/x\n", {"bag.path"}),
    "a tag file as payload": ("manifest-md5.txt", f"{'0' * 32}  bagit.txt\n", {"bag.path"}),
    "a file listed twice": ("manifest-md5.txt", f"{'0' * 32}  data/a.txt\n", {"bag.duplicate"}),
    "a line that says nothing": ("manifest-md5.txt", "hello\n", {"bag.manifest"}),
    "not UTF-8": ("manifest-md5.txt", b"\xff\xfe\n", {"bag.unreadable"}),
    "an endless line": ("manifest-md5.txt", "0" * (65 << 10), {"bag.unreadable"}),
    "an algorithm nobody knows": ("manifest-md7.txt", "0 data/a.txt\n", {"bag.algorithm"}),
    "a file that one manifest lacks": ("manifest-sha512.txt", "", {"bag.unlisted"}),
    "parts elsewhere": ("fetch.txt", "http://x.example/a 5 data/c.txt\n", {"bag.fetch"}),
    "no address in fetch.txt": ("fetch.txt", "a 5 data/a.txt\n", {"bag.fetch"}),
    "a way out in fetch.txt": ("fetch.txt", "http://x.example/a 5 ../a.txt\n", {"bag.path"}),
    "other totals": ("bag-info.txt", "Payload-Oxum: 8.2\n", {"bag.oxum"}),
    "a byte order mark": ("bagit.txt", "\ufeffBagIt-Version: 1.0\n", {"bag.declaration"}),
    "no such version": (
        "bagit.txt",
        "BagIt-Version: 7.0\nTag-File-Character-Encoding: UTF-8\n",
        {"bag.version"},
    ),
    "another encoding": (
        "bagit.txt",
        "BagIt-Version: 1.0\nTag-File-Character-Encoding: X\n",
        {"bag.encoding"},
    ),
    "no labels": ("bag-info.txt", "hello\n", {"bag.info"}),
}


@pytest.mark.parametrize(("spoil", "codes"), BREAKS.values(), ids=BREAKS.keys())
def test_a_spoiled_bag_is_told_from_a_sound_one(bag, spoil, codes):
    spoil(bag)
    assert {fault.code for fault in check_bag(bag).faults} == codes


APPENDED = {"manifest-md5.txt", "manifest-md7.txt"}


@pytest.mark.parametrize(("name", "text", "codes"), REWRITES.values(), ids=REWRITES.keys())
def test_a_bag_that_says_something_wrong_is_told_what(bag, name, text, codes):
    for path in list(bag.glob(name)) if "*" in name else [bag / name]:
        if text is None:
            path.unlink()
            continue
        data = text if isinstance(text, bytes) else text.encode()
        before = path.read_bytes() if name in APPENDED and path.exists() else b""
        path.write_bytes(before + data)
    _retag(bag)
    found = {fault.code for fault in check_bag(bag).faults}
    assert codes <= found <= codes | {"bag.missing", "bag.unlisted"}


def test_what_is_only_elsewhere_is_missing_and_its_address_is_told(bag):
    (bag / "data/a.txt").unlink()
    (bag / "fetch.txt").write_text(
        "https://x.example/a - data/a.txt\nhttps://x.example/b 4 data/letters/100%25 b.txt\n"
    )
    _retag(bag)
    faults = {fault.code: str(fault) for fault in check_bag(bag).faults}
    assert set(faults) == {"bag.fetch", "bag.oxum"}
    assert faults["bag.fetch"].startswith("data/a.txt: not in the bag, only at https://x.example/a")


@pytest.mark.parametrize("encoding", ["idna", "rot13", "base64", "unicode_escape", "undefined", "../utf_8", "x" * 99])
def test_what_is_no_charset_is_read_by_nobody(bag, encoding):
    (bag / "bagit.txt").write_text(f"BagIt-Version: 1.0\nTag-File-Character-Encoding: {encoding}\n")
    _retag(bag)
    assert {fault.code for fault in check_bag(bag).faults} == {"bag.encoding"}


def test_folders_with_the_marks_of_a_bag_are_found_also_where_the_declaration_is_lost_or_misspelt():
    names = [
        "bagit.txt",
        "data/x",
        "a/BagIt.txt",
        "b/manifest-md5.txt",
        "b/data/deep/y",
        "b/data/c/manifest-md5.txt",
        "b/data/c/data/z",
        "d/manifest-md5.txt",
        "d/date/x",
        "e/data/x",
        "f/tagmanifest-md5.txt",
        "f/data/x",
    ]
    assert find_bags(names) == ["", "a", "b", "b/data/c"]


def test_an_accent_spelt_in_two_parts_is_the_same_name(tmp_path):
    folder = tmp_path / "bag"
    folder.mkdir()
    (folder / "cafe\u0301").write_text("x")
    bagit.make_bag(str(folder), checksums=["md5"])
    manifest = folder / "manifest-md5.txt"
    manifest.write_text(manifest.read_text().replace("cafe\u0301", "caf\u00e9"))
    (folder / "tagmanifest-md5.txt").unlink()
    assert check_bag(folder).faults == ()
