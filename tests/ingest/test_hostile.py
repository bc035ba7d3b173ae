"""Hostile deposits, all the way: each ends with the code that is promised, writes nothing outside its folder, makes no
connection that is not allowed; and the worker goes on with the next deposit as if nothing had been.

The rules themselves have their own, longer tables: names, addresses, containers and texts in tests/border, manifests
in tests/ingest/manifest. Here is one row for each of their kinds, as a depositor would hand it in.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from border.containers import Z, block, file_in_tar, zip_of
from border.containers import tar_of as raw_tar
from border.test_ssrf import Recorder
from custody.border.http.policy import Policy
from custody.errors import BadInput
from custody.kernel.model.job import Job
from ingest.bench import Archive, archive
from ingest.test_end_to_end import tar_of

XXE = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'
LAUGHS = b'<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><l>&b;</l>'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """One archive for all of them: what one leaves behind would harm the next."""
    folder = tmp_path_factory.mktemp("hostile")
    with archive(folder, f"sqlite:///{folder / 'custody.db'}") as made:
        yield made


def ends(home: Archive, batch: int) -> Job:
    home.run()
    jobs = home.jobs(batch)
    return jobs[0] if jobs else home.batch(batch)


def everything(home: Archive) -> set[str]:
    """Every file there is, but for those of the archive's own making."""
    own = ("work/", "storage", "staging/", "outbox/", "custody", "depositor/", "profiles/")
    names = (path.relative_to(home.home).as_posix() for path in home.home.rglob("*") if path.is_file())
    return {name for name in names if not name.startswith(own)}


def still_works(home: Archive) -> None:
    assert everything(home) == set()
    batch = home.submit(home.put("good.txt", b"good"), type="file", filename="good.txt")
    home.run()
    assert home.batch(batch).state == "completed"


# 3.1 Manifests

MANIFESTS: dict[str, tuple[Callable[[str], str], str]] = {
    # what the manifest of one object says in its row, after the file's address; and the code
    "a path that leads out": (lambda url: f"{url} | | | | | ../../x", "name.unsafe"),
    "an absolute path": (lambda url: f"{url} | | | | | /etc/cron.d/x", "name.unsafe"),
    "a drive": (lambda url: f"{url} | | | | | C:\\x", "name.unsafe"),
    "a home folder": (lambda url: f"{url} | | | | | ~/.bashrc", "name.unsafe"),
    "dots of another width": (lambda url: f"{url} | | | | | ．．/x", "name.unsafe"),
    "a path within a path": (lambda url: f"{url} | | | | | a/./b", "name.unsafe"),
    "an empty folder's name": (lambda url: f"{url} | | | | | a//b", "name.unsafe"),
    "a device": (lambda url: f"{url} | | | | | NUL.txt", "name.unsafe"),
    "a dot at the end": (lambda url: f"{url} | | | | | a.", "name.unsafe"),
    "a name past 255 bytes": (lambda url: f"{url} | | | | | {'é' * 128}", "name.unsafe"),
    "a depth past 64": (lambda url: f"{url} | | | | | {'d/' * 64}x", "name.unsafe"),
    "a name of ours": (lambda url: f"{url} | | | | | mrt-owner.txt", "name.reserved"),
    "a folder of ours": (lambda url: f"{url} | | | | | system/x", "name.reserved"),
    "text turned around": (lambda url: f"{url} | | | | | a\u202etxt.exe", "manifest.charset"),
    "a control character": (lambda url: f"{url} | | | | | a\x07", "manifest.charset"),
    "an unknown digest": (lambda url: f"{url} | crc-32 | 12345678 | | | a", "digest.unknown"),
    "an odd digest": (lambda url: f"{url} | md5 | {'0' * 31} | | | a", "digest.form"),
    "another file's address": (lambda url: "file:///etc/passwd | | | | | a", "manifest.url.scheme"),
    "a name and a folder in it": (lambda url: f"{url} | | | | | a\n{url} | | | | | a/b", "manifest.duplicate"),
    "two names in one place": (lambda url: f"{url} | | | | | é\n{url} | | | | | e\u0301", "manifest.duplicate"),
    "nothing": (lambda url: "# only a remark", "manifest.empty"),
}
HEAD = "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n"


@pytest.mark.proves("H1")
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_hostile_manifest_is_rejected_for_good(home: Archive, name: str) -> None:
    row, code = MANIFESTS[name]
    url = home.put("innocent.txt", b"innocent")
    manifest = home.put("hostile.checkm", f"{HEAD}{row(url)}\n#%eof\n".encode())
    job = ends(home, home.submit(manifest, type="object-manifest", filename="hostile.checkm"))
    assert (job.state, job.code) == ("rejected", code)
    assert everything(home) == set()


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "manifest.faulty"),
        (b"\xff\xfe#%checkm", "manifest.faulty"),
        (b"#%checkm_0.7\n#%eof\n", "manifest.faulty"),
        (b"x" * 70_000, "manifest.faulty"),
        ("\N{BYTE ORDER MARK}#%checkm_0.7\n".encode(), "manifest.faulty"),
    ],
)
def test_a_hostile_batch_fails_as_a_whole(home: Archive, text: bytes, code: str) -> None:
    batch = ends(home, home.submit(home.put("b.checkm", text), type="batch-manifest", filename="b.checkm"))
    assert (batch.state, batch.code) == ("failed", code)


def test_a_manifest_that_lists_itself_goes_no_deeper_than_one(home: Archive) -> None:
    own = f"{home.server.url}/self.checkm"
    kind = HEAD.replace("mrt-ingest-manifest", "mrt-batch-manifest")
    home.put("self.checkm", f"{kind}{own} | | | | | self.checkm\n#%eof\n".encode())
    batch = home.submit(own, type="batch-manifest", filename="self.checkm")
    job = ends(home, batch)
    assert (job.state, job.code) == ("rejected", "manifest.kind")
    assert len(home.jobs(batch)) == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"size": 7}, "size.mismatch"), ({"digest": hashlib.sha256(b"other").hexdigest()}, "digest.mismatch")],
)
def test_bytes_that_are_not_as_promised_fail_with_both_values_and_keep_the_folder(
    home: Archive, changes: dict[str, object], code: str
) -> None:
    row = home.object_row("promised.txt", b"eight by", **changes)
    job = ends(home, home.submit(home.object_manifest("p.checkm", [row]), type="object-manifest"))
    assert (job.state, job.code) == ("failed", code)
    told = str(home.store.records.events(job.subject)[-1].detail)
    assert str(changes.get("size", changes.get("digest"))) in told
    assert str(8 if "size" in changes else hashlib.sha256(b"eight by").hexdigest()) in told
    assert home.world.disk.folder(job).is_dir()


def test_an_identifier_of_another_collection_is_forbidden(home: Archive) -> None:
    theirs = ends(home, home.submit(home.put("m.txt", b"map"), "maps", type="file", filename="m.txt"))
    ark = theirs.facts["primary"]
    job = ends(home, home.submit(home.put("a.txt", b"a"), type="file", filename="a.txt", primary_id=ark))
    assert (job.state, job.code) == ("failed", "identifier.forbidden")
    assert [version.version for version in home.world.inventory.versions(ark)] == [1]


@pytest.mark.parametrize("given", ["doi:10.1/x", "../../etc", "ark:/99999/a b", "ark:/99999/\n"])
def test_an_identifier_that_is_none_is_refused_at_once(home: Archive, given: str) -> None:
    with pytest.raises(BadInput, match="is not an ARK"):
        home.submit("http://127.0.0.1/a", type="file", primary_id=given)


def test_a_weak_digest_checks_the_way_and_sha256_is_kept_all_the_same(home: Archive) -> None:
    row = home.object_row("weak.txt", b"weak", algorithm="md5", digest=hashlib.md5(b"weak").hexdigest().upper())
    job = ends(home, home.submit(home.object_manifest("w.checkm", [row]), type="object-manifest"))
    (file,) = [file for file in home.world.inventory.files(job.facts["primary"], 1) if file.name.endswith("weak.txt")]
    assert file.sha256 == hashlib.sha256(b"weak").hexdigest()


# 3.2 Addresses: nothing here opens a socket, the recorder only writes down who would have been asked

ADDRESSES = {
    "https://127.0.0.1/x": "url.forbidden_address",
    "https://2130706433/x": "url.forbidden_address",
    "https://0x7f.1/x": "url.forbidden_address",
    "https://[::ffff:7f00:1]/x": "url.forbidden_address",
    "https://[64:ff9b::7f00:1]/x": "url.forbidden_address",
    "https://169.254.169.254/latest/meta-data": "url.forbidden_address",
    "https://metadata.google.internal/x": "url.forbidden_address",
    "https://127.0.0.1.nip.io/x": "url.forbidden_address",
    "https://mixed.example/x": "url.forbidden_address",
    "https://good.example:6379/x": "url.forbidden_port",
    "https://nowhere.example/x": "url.unknown_host",
}


@pytest.mark.proves("H3")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("way", ["payload", "row", "callback"])
def test_no_address_gets_a_worker_to_connect_where_it_must_not(home: Archive, address: str, way: str) -> None:
    recorder = Recorder()
    policy = Policy(tries=1, backoff_seconds=0)
    fetchers = {"papers": recorder.fetcher(policy)}
    profile = home.world.profiles["papers"]
    callback = replace(profile.callback, url=address, secret_file="x") if way == "callback" else profile.callback
    world = replace(
        home.world,
        fetchers=fetchers,
        profiles={"papers": replace(profile, callback=callback)},
        secrets={"papers": ["whsec_" + "A" * 32]},
    )
    guarded = Archive(home.home, home.store, home.server, world)
    text = f"{HEAD}{address} | | | | | a.txt\n#%eof\n".encode()
    payload = {
        "payload": address,
        "row": world.staging.put([text], "h.checkm").url,
        "callback": world.staging.put([b"abc"], "abc.txt").url,
    }[way]
    type_ = "object-manifest" if way == "row" else "file"
    job = ends(guarded, guarded.submit(payload, type=type_, filename="h.txt"))
    assert (job.state, job.code) == ("failed", ADDRESSES[address])
    assert recorder.dialled == [], "nobody was connected to"
    host = address.split("/")[2]
    if not host.replace(".", "").isdigit() and "[" not in host:  # who wrote the number knows it
        events = guarded.store.records.all_events(job.subject)
        told = str([guarded.store.queue.reason(job), *(event.detail for event in events)]).replace(host, "")
        assert not re.search(r"\b(127|169)\.\d+\.\d+\.\d+", told), "where a name leads is nothing for a depositor"


# 3.3 Containers


def linked() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("innocent")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
        inner = tarfile.TarInfo("innocent/passwd")
        inner.size = 1
        tar.addfile(inner, io.BytesIO(b"x"))
    return out.getvalue()


CONTAINERS: dict[str, tuple[str, bytes, str]] = {
    "a zip that slips out": ("x.zip", zip_of(Z(b"../../slipped.txt")), "container.unsafe"),
    "an absolute name": ("x.zip", zip_of(Z(b"/tmp/slipped.txt")), "container.unsafe"),
    "a drive letter": ("x.zip", zip_of(Z(b"C:/slipped.txt")), "container.unsafe"),
    "two names for one member": ("x.zip", zip_of(Z(b"a.txt", local_name=b"b.txt")), "container.unsafe"),
    "the same name twice": ("x.zip", zip_of(Z(b"a"), Z(b"a")), "container.unsafe"),
    "a wrong checksum": ("x.zip", zip_of(Z(local={"crc": 1}, central={"crc": 1})), "container.corrupt"),
    "cut short": ("x.zip", zip_of(Z(b"a"), Z(b"b"))[:-30], "container.corrupt"),
    "encrypted": ("x.zip", zip_of(Z(flags=1)), "container.unsupported"),
    "an unknown compression": ("x.zip", zip_of(Z(method=97)), "container.unsupported"),
    "a bomb": ("x.zip", zip_of(Z(b"zeros", bytes(5 << 20))), "container.too_large"),
    "a bomb of gzip": ("x.tar.gz", gzip.compress(raw_tar(file_in_tar(b"z", bytes(5 << 20)))), "container.too_large"),
    "a link, and a file behind it": ("x.tar", linked(), "container.unsafe"),
    "a hard link": ("x.tar", raw_tar(block(b"x", kind=b"1", link=b"/etc/passwd")), "container.unsafe"),
    "a device": ("x.tar", raw_tar(block(b"x", kind=b"3")), "container.unsafe"),
    "a pipe": ("x.tar", raw_tar(block(b"x", kind=b"6")), "container.unsafe"),
    "no files in it": ("x.tar", raw_tar(), "container.empty"),
    "7z": ("x.zip", b"7z\xbc\xaf\x27\x1c" + bytes(600), "container.unsupported"),
    "no container at all": ("x.tar", b"just text", "container.unsupported"),
    "a name of ours": ("x.tar.gz", tar_of({"a": b"a", "mrt-mom.txt": b"x"}), "name.reserved"),
    # 3.4 texts that a depositor addresses to us
    "an entity from outside": ("x.tar.gz", tar_of({"a": b"a", "mrt-dc.xml": XXE}), "xml.dtd"),
    "a thousand laughs": ("x.tar.gz", tar_of({"a": b"a", "mrt-dc.xml": LAUGHS}), "xml.dtd"),
    "XML that is none": ("x.tar.gz", tar_of({"a": b"a", "mrt-dc.xml": b"<dc"}), "xml.syntax"),
    "XML in UTF-7": ("x.tar.gz", tar_of({"mrt-dc.xml": b'<?xml version="1.0" encoding="utf-7"?><x/>'}), "xml.encoding"),
    "XML of a great depth": ("x.tar.gz", tar_of({"mrt-dc.xml": b"<a>" * 500 + b"</a>" * 500}), "xml.depth"),
    "a record that is not UTF-8": ("x.tar.gz", tar_of({"a": b"a", "mrt-erc.txt": b"who: \xff"}), "text.encoding"),
    "a record that is no record": ("x.tar.gz", tar_of({"a": b"a", "mrt-erc.txt": b"no colon here"}), "anvl.form"),
}


@pytest.mark.proves("H4")
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_hostile_container_fails_and_nothing_of_it_is_anywhere(home: Archive, name: str) -> None:
    filename, data, code = CONTAINERS[name]
    job = ends(home, home.submit(home.put(filename, data), type="container", filename=filename))
    assert (job.state, job.code) == ("failed", code)
    assert everything(home) == set()
    assert not Path("/tmp/slipped.txt").exists()


def test_a_container_inside_a_container_stays_a_file(home: Archive) -> None:
    inner = zip_of(Z(b"../../slipped.txt"))
    job = ends(home, home.submit(home.put("box.tar.gz", tar_of({"inner.zip": inner})), filename="box.tar.gz"))
    assert job.state == "completed"
    names = {file.name for file in home.world.inventory.files(job.facts["primary"], 1)}
    assert "producer/inner.zip" in names


# What depositors say about their deposits

WORDS = {
    "a forged line": "Letters\nwho: somebody else",
    "a control character": "Letters\x01\x00",
    "a formula": "=cmd()",
    "markup": "<script>alert(1)</script>&",
    "text turned around": "Letters \u202eetiuqer",
    "very long": "x" * 20_000,
}


@pytest.mark.parametrize("name", WORDS)
def test_what_a_depositor_says_is_kept_as_text_and_forges_nothing(home: Archive, name: str) -> None:
    said = WORDS[name].replace("\x00", "")
    staged = home.world.staging.put([b"abc"], "abc.txt").url
    given = {"title": said, "creator": said, "local_id": f"w-{name}", "note": said}
    job = ends(home, home.submit(staged, type="file", filename="abc.txt", **given))
    assert job.state == "completed"
    erc = home.world.nodes["main"].file(job.facts["primary"], "system/mrt-erc.txt").read_text()  # type: ignore[attr-defined]
    assert [line.split(":")[0] for line in erc.splitlines() if line[:1].strip()] == [
        "erc",
        "who",
        "what",
        "when",
        "where",
        "where",
    ]


@pytest.mark.parametrize("filename", ["../../x.txt", "/etc/x", "a/../x", "mrt-owner.txt", "x" * 300])
def test_a_hostile_file_name_fails_the_job_and_is_written_nowhere(home: Archive, filename: str) -> None:
    staged = home.world.staging.put([b"abc"], "abc.txt").url
    job = ends(home, home.submit(staged, type="file", filename=filename))
    assert job.state == "rejected"
    assert (job.code or "").startswith("name.")
    assert everything(home) == set()


def test_after_all_that_the_next_deposit_is_as_good_as_ever(home: Archive) -> None:
    still_works(home)
