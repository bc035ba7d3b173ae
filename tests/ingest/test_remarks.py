"""A bag that is not sound is never called well: it fails, or the depositor is told; so are folders that are not kept."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from custody.border.folder import Folder
from custody.ingest.batch import remarks
from formats.bag_family import FETCH, Made
from ingest.bench import Archive
from ingest.test_end_to_end import tar_of


def bag(at: str = "bag/", declaration: str = "bagit.txt", damaged: bool = True) -> dict[str, bytes]:
    digest = hashlib.sha256(b"hello").hexdigest()
    return {
        f"{at}{declaration}": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        f"{at}manifest-sha256.txt": f"{digest}  data/hello.txt\n".encode(),
        f"{at}data/hello.txt": b"HELLO" if damaged else b"hello",
    }


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


LITTER = {"__MACOSX/._bag": b"\0\5\x16\7", ".DS_Store": b"x", "Thumbs.db": b"x", "._bag": b"x"}
INSIDE = {
    "a file beside it": bag() | {"beside.txt": b"x"},
    "two of them": bag("one/") | bag("two/"),
    "one folder deeper": bag("x/bag/"),
    "in another spelling": bag(declaration="BagIt.txt"),
    "whose declaration got lost": {name: data for name, data in bag(damaged=False).items() if "bagit.txt" not in name},
    "that is all there is, without its declaration": {
        name: data for name, data in bag("", damaged=False).items() if name != "bagit.txt"
    },
    "in a sound bag": bag(damaged=False) | bag("bag/metadata/inner/"),
}


def test_what_systems_leave_beside_a_bag_does_not_hide_it(home: Archive) -> None:
    bad = home.submit(home.put("bag.zip", zipped(bag() | LITTER)), filename="bag.zip")
    good = home.submit(home.put("good.zip", zipped(bag(damaged=False) | LITTER)), filename="good.zip")
    home.run()
    ((broken,), (sound,)) = home.jobs(bad), home.jobs(good)
    assert (broken.state, broken.code) == ("failed", "bag.digest")
    assert (sound.state, sound.facts.get("remarks")) == ("completed", None)


def test_sound_bags_of_every_form_are_taken(home: Archive) -> None:
    about: list[dict[str, str]] = [
        {"encoding": "UTF-16"},
        {"encoding": "ISO-8859-1", "version": "0.93"},
        {"version": "0.97"},
    ]
    batches = []
    for number, each in enumerate(about):
        made = Made(home.home / f"bag-{number}", algorithms=("sha224",), **each)  # type: ignore[arg-type]
        made.make().write("fetch.txt", FETCH)
        made.retag()
        files = {path.relative_to(made.folder).as_posix(): path for path in made.folder.rglob("*") if path.is_file()}
        packed = tar_of({name: path.read_bytes() for name, path in files.items()})
        batches.append(home.submit(home.put(f"{number}.tar.gz", packed), filename=f"{number}.tar.gz"))
    home.run()
    found = [(job.state, job.code, job.facts.get("remarks")) for batch in batches for job in home.jobs(batch)]
    assert found == [("completed", None, None)] * 3


def test_the_depositor_is_told_of_every_bag_inside_that_is_not_sound_or_was_not_checked(home: Archive) -> None:
    batches = {
        what: home.submit(home.put(f"{number}.tar.gz", tar_of(files)), filename=f"{number}.tar.gz")
        for number, (what, files) in enumerate(INSIDE.items())
    }
    well = home.submit(
        home.put("well.tar.gz", tar_of(bag("x/bag/", damaged=False) | {"y.txt": b"y"})), filename="well.tar.gz"
    )
    home.run()
    for what, batch in batches.items():
        (job,) = home.jobs(batch)
        assert job.state == "completed", what
        (told,) = job.facts["remarks"]
        assert "as plain files" in told, what
        assert ("not checked" in told) == (what in ("in another spelling", "in a sound bag"))
        (line,) = home.report(batch)["jobs"]  # type: ignore[misc]
        assert line["remark"] == told
    assert "remarks" not in home.jobs(well)[0].facts, "a bag that is sound, wherever it is, needs no remark"
    letters = [
        message_from_bytes((home.home / "outbox" / name).read_bytes(), policy=policy.SMTP) for name in home.mails()
    ]
    reports = [letter for letter in letters if ", with remarks" in letter["Subject"]]
    assert len(reports) == len(INSIDE)
    for letter in reports:
        body = letter.get_body(("plain",))  # type: ignore[attr-defined]
        assert "PLEASE NOTE: 1 bag was" in body.get_content() or "2 bags were" in body.get_content()


def test_a_folder_without_files_is_told_of(home: Archive) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in ("empty", "deep/empty"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        file = tarfile.TarInfo("full/a.txt")
        file.size = 1
        tar.addfile(file, io.BytesIO(b"a"))
    batch = home.submit(home.put("box.tar.gz", out.getvalue()), filename="box.tar.gz")
    home.run()
    (job,) = home.jobs(batch)
    assert job.facts["remarks"] == ["2 empty folders were not kept: deep/empty; empty"]


@pytest.mark.parametrize("number", [remarks.MOST_CHECKED, remarks.MOST_CHECKED + 3])
def test_bags_beyond_those_that_are_checked_are_counted(tmp_path: Path, number: int) -> None:
    files = {name: data for each in range(number) for name, data in bag(f"{each}/", damaged=False).items()}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = remarks.remarks(tmp_path, list(files))
    left = number - remarks.MOST_CHECKED
    assert [each.split(":")[0] for each in found] == (
        [f"{left} bags were kept inside as plain files and not checked"] if left else []
    )


TWO = {"README": b"upper", "readme": b"lower", "x.txt": b"x"}


def test_names_that_differ_in_case_are_kept_as_they_came_and_told(home: Archive) -> None:
    rows = [home.object_row(f"{number}", data, name=name) for number, (name, data) in enumerate(TWO.items())]
    batches = [
        home.submit(home.object_manifest("two.checkm", rows), type="object-manifest", filename="two.checkm"),
        home.submit(home.put("two.tar.gz", tar_of(TWO)), filename="two.tar.gz"),
        home.submit(home.put("two.zip", zipped(TWO)), filename="two.zip"),
    ]
    home.run()
    for batch in batches:
        (job,) = home.jobs(batch)
        assert job.state == "completed"
        assert job.facts["remarks"] == [
            "names that differ only in case, and are one file on many disks, are kept: README and readme"
        ]
        root, ark = home.world.nodes["main"], job.facts["primary"]
        kept = {name: root.file(ark, f"producer/{name}").read_bytes() for name in TWO}  # type: ignore[attr-defined]
        assert kept == TWO


def test_a_disk_that_cannot_tell_them_apart_says_so(home: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Folder, "tells_case_apart", lambda folder: False)
    rows = [home.object_row(f"{number}", data, name=name) for number, (name, data) in enumerate(TWO.items())]
    batch = home.submit(home.object_manifest("two.checkm", rows), type="object-manifest", filename="two.checkm")
    home.run()
    (job,) = home.jobs(batch)
    assert (job.state, job.code) == ("failed", "name.case")
    assert "README and readme are one file on this working disk" in home.store.queue.reason(job)


def test_whether_a_disk_tells_case_apart_is_found_out_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Folder(tmp_path) as folder:
        assert folder.tells_case_apart()
        look = os.stat
        monkeypatch.setattr(os, "stat", lambda name, **more: look(str(name).lower(), **more))
        assert not folder.tells_case_apart()
        monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
