"""Run by tests as root and as an ordinary user: what a worker does with one repository, told as JSON.

python acts.py REPOSITORY SYSTEM FOLDER [commit]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from custody.errors import CustodyError
from custody.kernel.stores import open_store
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.port import read_workflows
from custody.workflows.archives.table import Archives
from custody.workflows.archives.working_copy.draft import Draft


def act(repository: str, system: str, folder: Path, commits: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"uid": os.geteuid(), "errors": [], "words": [], "content": {}, "parents": {}, "meta": {}}

    def tried(what: Any) -> Any:
        try:
            return what()
        except CustodyError as error:
            told["errors"].append(error.code)
            told["words"].append(f"{error} {error.hint} {error.facts}")
            return None

    with open_store(f"sqlite:///{folder / 'custody.db'}") as store:
        archives = Archives(store)
        kept = tried(lambda: archives.add("proj", system, repository, "ada", foreign="tried"))
        archive = tried(lambda: archives.open(kept)) if kept else None
        if archive is None:
            return told
        tried(lambda: reconcile(store, kept))
        for revision in range(1, (tried(archive.youngest) or 0) + 1):
            told["parents"][revision] = tried(lambda revision=revision: archive.parents(revision))
            meta = tried(lambda revision=revision: archive.meta(revision))
            told["meta"][revision] = meta.message if meta else None
            tried(lambda revision=revision: read_workflows(archive, revision))
            tried(lambda revision=revision: archive.changed(revision))
            tried(lambda revision=revision: archive.tree(revision, ""))
            out = folder / f"out-{revision}"
            tried(lambda revision=revision, out=out: archive.export(revision, out))
            told["content"][revision] = found(out)
        if commits:
            file = folder / "made.txt"
            file.write_text("made")
            base = archive.youngest()
            draft = Draft("made", base, {"made.txt": file}, [], ["task"], "1.0.0.word")
            told["committed"] = tried(lambda: archive.commit(draft, 60))
            told["read"] = (
                tried(lambda: archive.read(told["committed"], "made.txt").decode()) if told["committed"] else ""
            )
    return told


def found(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}"
        if path.is_symlink()
        else path.read_text(errors="replace")
        for path in files
    }


if __name__ == "__main__":
    print(json.dumps(act(sys.argv[1], sys.argv[2], Path(sys.argv[3]), "commit" in sys.argv[4:])))
