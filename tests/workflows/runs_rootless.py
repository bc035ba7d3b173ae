"""Run by a test as somebody who is not root: one container from its start to its end, told as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from custody.border.sandbox.containers import engine, has_image
from custody.border.sandbox.sandbox import Sandboxes, Spec


def main(folder: Path, image: str) -> None:
    which = engine("podman")
    work = folder / "tasks" / "work"  # podman opens the folder that it runs in to others
    work.parent.mkdir(mode=0o700)
    work.mkdir()
    (work / "notes.txt").write_text("from the archive\n")
    argv = ("sh", "-c", "cat notes.txt; echo made > made.txt; cat /run/secrets/key; exit 7")
    spec = Spec(name="rootless", work=work, argv=argv, image=image, engine=which, secrets={"key": b"s3cret"})
    with Sandboxes(folder / "sandboxes") as sandboxes:
        assert has_image(which, image)
        running = sandboxes.start(spec)
        end = running.wait(60)
        output = running.output().decode()
        running.remove()
    made = (work / "made.txt").stat().st_uid == os.geteuid()
    print(json.dumps({"user": os.geteuid(), "output": output, "code": end.code if end else None, "ours": made}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
