"""Run by a test as root and as an ordinary user: hostile robots and swapped folders, what came of them told as JSON.

python mounting.py FOLDER robots | swaps NUMBER
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from custody.border.roots import Root, Source
from custody.border.sandbox.sandbox import Sandboxes, Spec
from custody.border.sandbox.spec import Mount
from custody.errors import CustodyError
from custody.kernel.model.item import NewItem
from custody.kernel.stores import open_store
from custody.kernel.stores.rows import Tx

SECRET = "not-for-robots"
CONFIG = """
store = "sqlite:///custody.db"
[storage]
roots = {store = "store", machine = "/"}
"""
LABEL = """
name = "{name}"
version = "1"
event = "{event}"
command = {command}
tries = 1
[when]
{when}
"""
PEEK = "ls -a /inputs /inputs/item; cat /inputs/item/custody.secret /inputs/item/page.txt; echo told=$CUSTODY_FOLDER"
_EXCHANGE, _HERE = 2, -100
_libc = ctypes.CDLL(None, use_errno=True)


def furnish(home: Path) -> None:
    """A store with a secret beside its objects, as an installation has it, and links that lead out."""
    (home / "custody.secret").write_text(SECRET)
    (home / "custody.secret").chmod(0o600)
    for name in ("map-1", "map-2"):
        (home / "store" / name).mkdir(parents=True)
        (home / "store" / name / "page.txt").write_text(f"the page of {name}\n")
    (home / "store" / "out").symlink_to(home)
    (home / "store" / "map-2" / "up").symlink_to(home / "store")
    (home / "custody.toml").write_text(CONFIG)


def label(name: str, command: str, when: str) -> str:
    return LABEL.format(name=name, event=name, command=json.dumps(["/bin/sh", "-c", command]), when=when)


def changes(home: Path) -> dict[str, dict[str, Any]]:
    """What a program may try to have changed about its item, by name."""
    return {
        "folder": {"folder": str(home)},
        "place": {"place": "machine:etc"},
        "priority": {"robot_priority": -100},
        "types": {"types": ["trusted"]},
        "title": {"title": "another"},
        "mirrored": {"mirrored": "removed"},
    }


def places(home: Path) -> dict[str, str]:
    """Places that somebody wrote into the table."""
    return {
        "dots": "store:../.",
        "dots-inside": "store:map-1/../..",
        "absolute": f"store:{home}",
        "nothing": "store:",
        "itself": "store:.",
        "last-link": "store:out",
        "middle-link": "store:map-2/up/map-1",
        "no-root": "home:map-1",
        "a-path": str(home),
        "other-disk": "machine:proc/self/root",
        "a-device": "machine:dev/null",
        "nul": "store:a\0b",
    }


def robots(home: Path) -> dict[str, Any]:
    furnish(home)
    line = home / "line"
    line.mkdir()
    for name, words in changes(home).items():
        said = json.dumps({"changed": {"fingerprint": "sha256:aa", **words}})
        (line / f"{name}.robot.toml").write_text(label(f"says-{name}", f"printf %s '{said}'", f'types = ["{name}"]'))
    (line / "peek.robot.toml").write_text(label("peek", f"{PEEK}; true", 'types = ["object"]\nold = ["peek"]'))
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        liars = [NewItem(name, frozenset({"object", name}), place="store:map-1") for name in changes(home)]
        forged = [NewItem(name, frozenset({"object"})) for name in [*places(home), "detail"]]
        store.records.put([*liars, *forged])

        def forge(tx: Tx) -> None:
            for name, place in places(home).items():
                tx.run("set_place", id=name, place=place)

        store.db.write(forge)
    import apsw

    with apsw.Connection(str(home / "custody.db")) as db:
        db.execute("update item set detail = ? where id = 'detail'", (json.dumps({"folder": str(home)}),))
    ran = subprocess.run(
        [sys.executable, "-m", "custody", "robot", "run", "line", "--once"],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
    )
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        outputs = {
            item.id: [event.detail.get("output", "") for event in store.records.events(f"item/{item.id}")][-1]
            for item in store.records.items("", 1000, "", "")
        }
        stand = {item.id: [item.place, dict(item.detail)] for item in store.records.items("", 1000, "", "")}
        failed = {f"{job.kind} {job.key}": job.code for job in store.queue.every() if job.ended == "failed"}
    said = ran.stdout + ran.stderr
    return {"said": said, "outputs": outputs, "items": stand, "failed": failed, "user": os.geteuid()}


def swaps(home: Path, turns: int) -> dict[str, Any]:
    """A folder of the root is a folder and a link out of it, by turns, while sandboxes are given it."""
    furnish(home)
    for name in ("here", "there"):
        (home / "store" / name).mkdir()
    (home / "store" / "here" / "map").symlink_to(home)
    (home / "store" / "there" / "map").mkdir()
    (home / "store" / "there" / "map" / "page.txt").write_text("the page of map\n")
    pairs = [("store/map-1", "store/out"), ("store/here", "store/there")]
    over, swapped, found = threading.Event(), 0, Counter[str]()

    def swap() -> None:
        nonlocal swapped
        while not over.is_set():
            for one, other in pairs:
                words = (os.fsencode(home / one), os.fsencode(home / other))
                assert _libc.renameat2(_HERE, words[0], _HERE, words[1], _EXCHANGE) == 0
                swapped += 1
            over.wait(0.0005)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with Sandboxes(home / "boxes") as boxes:
            for turn in range(turns):
                found[_turn(home, boxes, turn)] += 1
    finally:
        over.set()
        thread.join()
    return {"found": found, "swapped": swapped, "user": os.geteuid()}


def _turn(home: Path, boxes: Sandboxes, turn: int) -> str:
    work = home / "work"
    work.mkdir(exist_ok=True)
    source = Source(Root("store", home / "store"), "here/map" if turn % 2 else "map-1")
    argv = (
        "sh",
        "-c",
        "cat /inputs/item/custody.secret /inputs/item/custody.toml /inputs/item/page.txt; ls /inputs/item",
    )
    try:
        running = boxes.start(
            Spec(name=f"turn-{turn}", work=work, argv=argv, timeout=60, mounts=(Mount(source, "/inputs/item"),))
        )
    except CustodyError as error:
        return error.code
    end, said = running.wait(120), running.output().decode()
    running.remove()
    if SECRET in said or "custody.toml\n" in said.replace("custody.toml: ", ""):
        return "GOT THROUGH"
    return "its own" if "the page of map" in said else f"nothing: {end.reason if end else ''} {said[:200]}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(json.dumps(robots(folder) if sys.argv[2] == "robots" else swaps(folder, int(sys.argv[3]))))
