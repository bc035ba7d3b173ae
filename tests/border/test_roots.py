"""Storage roots: what lies below one is found, and nothing else, whatever its name says."""

from __future__ import annotations

import ast
import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import custody
from custody.border import roots as module
from custody.border.roots import Root, Roots, Source, ours, roots
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable

SOURCES = Path(custody.__file__).parent


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with a folder in a folder, beside a secret; and links of every sort."""
    (tmp_path / "secret").write_text("not below it")
    store = tmp_path / "store"
    (store / "a" / "b").mkdir(parents=True)
    (store / "a" / "b" / "page").write_text("a page")
    (store / "out").symlink_to(tmp_path)
    (store / "inside").symlink_to("a")
    (store / "a" / "up").symlink_to("..")
    (store / "broken").symlink_to("nowhere")
    (store / "magic").symlink_to("/proc/self/root")
    os.mkfifo(store / "pipe")
    return Root("store", store)


def test_a_folder_and_a_file_below_it_are_found_and_opened_as_they_are(root: Root) -> None:
    for relative in ("a", "a/b", "a/b/page"):
        descriptor = root.find(relative).open()
        assert os.path.samestat(os.fstat(descriptor), (root.path / relative).stat())
        os.close(descriptor)


def test_a_socket_is_found(root: Root) -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(str(root.path / "wire"))
        assert root.find("wire").path == root.path / "wire"


@pytest.mark.parametrize(
    ("relative", "kind", "code"),
    [
        ("..", BadInput, "place.path"),
        ("a/../../secret", BadInput, "place.path"),
        ("a/../a", BadInput, "place.path"),
        ("", BadInput, "place.path"),
        (".", BadInput, "place.path"),
        ("/etc", BadInput, "place.path"),
        ("a//b", BadInput, "place.path"),
        ("a/", BadInput, "place.path"),
        ("a\0b", BadInput, "place.path"),
        ("x" * 256, BadInput, "place.path"),
        ("out", Refused, "place.link"),
        ("out/secret", Refused, "place.link"),
        ("inside", Refused, "place.link"),
        ("inside/b", Refused, "place.link"),
        ("a/up/a", Refused, "place.link"),
        ("broken", Refused, "place.link"),
        ("magic", Refused, "place.link"),
        ("magic/etc", Refused, "place.link"),
        ("nothing", NotFound, "place.missing"),
        ("a/b/page/more", NotFound, "place.missing"),
        ("pipe", Refused, "place.kind"),
    ],
)
def test_what_leads_elsewhere_is_refused(root: Root, relative: str, kind: type[CustodyError], code: str) -> None:
    with pytest.raises(kind) as caught:
        root.find(relative)
    assert caught.value.code == code


def test_another_file_system_is_outside_unless_the_root_reaches_across() -> None:
    everything = Root("machine", Path("/"))
    with pytest.raises(Refused) as caught:
        everything.find("proc/self")  # which is a link, on another file system
    assert caught.value.code in ("place.outside", "place.link")
    with pytest.raises(Refused) as caught:
        everything.find("proc/sys")
    assert caught.value.code == "place.outside"
    across = Root("machine", Path("/"), across=True)
    assert across.find("proc/sys").path == Path("/proc/sys")
    with pytest.raises(Refused) as caught:
        across.find("proc/self/cwd")
    assert caught.value.code == "place.link", "links are refused all the same"


def test_a_root_that_is_away_is_told_and_found_again(tmp_path: Path) -> None:
    away = Root("tape", tmp_path / "tape")
    with pytest.raises(Unavailable) as caught:
        away.find("a")
    assert (caught.value.code, caught.value.where) == ("root.missing", str(tmp_path / "tape"))
    (tmp_path / "tape" / "a").mkdir(parents=True)
    assert away.find("a")


def test_what_was_opened_stays_what_it_is_when_its_name_is_given_to_another(root: Root, tmp_path: Path) -> None:
    descriptor = root.find("a/b").open()
    (root.path / "a").rename(root.path / "was")
    (root.path / "a").symlink_to(tmp_path)
    try:
        assert os.listdir(f"/proc/self/fd/{descriptor}") == ["page"]
    finally:
        os.close(descriptor)


def test_a_kernel_that_is_unsure_is_asked_again(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = module._libc.syscall

    class Unsure:
        def syscall(self, *words: Any) -> int:
            asked.append(1)
            if len(asked) % 5:
                module.ctypes.set_errno(errno.EAGAIN)
                return -1
            return int(real(*words))

    monkeypatch.setattr(module, "_libc", Unsure())
    os.close(Source(root, "a").open())
    assert len(asked) == 5
    monkeypatch.setattr(module, "_AGAIN", 3)
    with pytest.raises(Unavailable):
        Source(root, "a").open()


def test_an_old_kernel_is_told_in_words(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPENAT2", 100_000)
    with pytest.raises(Unavailable) as caught:
        root.find("a")
    assert caught.value.code == "root.kernel"


def test_a_place_names_a_root_and_a_path_below_it(root: Root, tmp_path: Path) -> None:
    known = roots([root, Root("other", tmp_path / "other")])
    assert known.source("store:a/b").path == root.path / "a" / "b"
    assert known.place_of(root.path / "a" / "b") == "store:a/b"
    assert known.place_of(tmp_path / "secret") is None
    assert known.place_of(root.path) is None
    assert known.place_of(root.path / ".." / "secret") is None
    assert known.seen("") is known.seen("tape:a") is known.seen("store:nothing") is known.seen("other:a") is None
    for place, kind in {"a": BadInput, "store:": BadInput, "tape:a": NotFound, "store:out": Refused}.items():
        with pytest.raises(kind):
            known.source(place)
    with pytest.raises(Refused):
        known.seen("store:out")
    assert list(Roots()) == []


def test_a_root_has_a_whole_path() -> None:
    with pytest.raises(BadInput):
        Root("here", Path("store"))


def test_something_of_our_own_is_found_and_a_link_in_its_place_is_not(tmp_path: Path) -> None:
    (tmp_path / "item.json").write_text("{}")
    assert ours(tmp_path / "item.json").path == tmp_path / "item.json"
    (tmp_path / "link").symlink_to("item.json")
    with pytest.raises(Refused):
        ours(tmp_path / "link")


MAKERS = {
    "Root": {
        "border/ocfl_object.py",
        "border/roots.py",
        "border/sandbox/spec.py",
        "cli/storage_roots.py",
        "ingest/world.py",
        "robots/programs/sandboxed.py",
        "workflows/tasks/runner.py",
    },
    "Source": {"border/roots.py", "border/sandbox/spec.py"},
    "ours": {"robots/programs/sandboxed.py", "workflows/tasks/runner.py"},
    "Mount": {"border/sandbox/spec.py", "robots/programs/sandboxed.py", "workflows/tasks/runner.py"},
}
"""Whoever makes a root or a mount decides what may be seen. A new name here is to be thought about."""


@pytest.mark.parametrize("name", MAKERS)
def test_only_these_say_what_may_be_mounted(name: str) -> None:
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if name in _called(path)}
    others = {"kernel/stores/postgres/connection.py", "cli/nouns/history.py"}
    assert found - others == MAKERS[name], "there, `ours` and `Source` (of PREMIS) are names of other things"


def test_only_whoever_stores_items_says_where_they_are() -> None:
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NewItem"
            if made and (any(word.arg == "place" for word in node.keywords) or len(node.args) > 6):
                found.add(str(path.relative_to(SOURCES)))
    assert found == {"ingest/steps/steps.py", "cli/nouns/item.py"}


def _called(path: Path) -> set[str]:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {getattr(node.func, "id", "") for node in calls}
