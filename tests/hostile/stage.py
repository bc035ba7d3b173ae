"""Where hostile owners try what they can: a repository of `nobody`, a secret of ours, and a folder for marks that
anybody can leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import custody
from rig.program import room

NOBODY, ORDINARY = 65534, 54321
SECRET = "not-for-them-4711"
PEOPLE = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENV = {
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    **PEOPLE,
}


@dataclass
class Stage:
    folder: Path  # everybody may enter
    worker: str  # root, ordinary

    @property
    def repository(self) -> Path:
        return self.folder / "theirs"

    @property
    def secret(self) -> Path:
        return self.folder / "ours" / "secret"

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    @property
    def mark(self) -> str:
        """What hostile code does: says whose rights it has, wherever it can, and takes what it can."""
        inside = self.repository / "mark"
        return f"id -u >> {self.marks}/mark; id -u >> {inside}; cat {self.secret} >> {inside}; cat {self.secret} >> {self.marks}/mark"

    def program(self, name: str, after: str = "cat") -> Path:
        """Hostile code as a program of the repository."""
        file = self.repository / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n({self.mark}) 2>/dev/null\n{after}\n")
        file.chmod(0o755)
        return file

    def git(self, *words: str, given: bytes = b"", at: Path | None = None) -> str:
        argv = ["git", f"--git-dir={at or self.repository}", *words]
        return subprocess.run(argv, input=given, capture_output=True, check=True, env=ENV).stdout.decode().strip()

    def put(self, files: dict[str, str], ref: str = "refs/heads/main", at: Path | None = None) -> str:
        """A commit with these files; its id."""
        env = {**ENV, "GIT_INDEX_FILE": str(self.folder / "index")}
        (self.folder / "index").unlink(missing_ok=True)
        for name, text in files.items():
            blob = self.git("hash-object", "-w", "--stdin", given=text.encode(), at=at)
            subprocess.run(
                [
                    "git",
                    f"--git-dir={at or self.repository}",
                    "update-index",
                    "--add",
                    "--cacheinfo",
                    f"100644,{blob},{name}",
                ],
                check=True,
                env=env,
            )
        argv = ["git", f"--git-dir={at or self.repository}", "write-tree"]
        tree = subprocess.run(argv, env=env, capture_output=True, check=True, text=True).stdout.strip()
        return self.commit(tree, ref, at)

    def commit(self, tree: str, ref: str = "refs/heads/main", at: Path | None = None) -> str:
        before = self.git("for-each-ref", "--format=%(objectname)", ref, at=at)
        commit = self.git("commit-tree", tree, "-m", "theirs", *(["-p", before] if before else []), at=at)
        self.git("update-ref", ref, commit, at=at)
        return commit

    def give_away(self) -> None:
        """All of it is nobody's, links themselves and not where they lead."""
        for folder, folders, files in os.walk(self.repository):
            for name in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
                os.chown(name, NOBODY, NOBODY, follow_symlinks=False)

    def act(self, system: str = "git", commits: bool = False) -> dict[str, Any]:
        """Let the worker do what it does, and see that nothing was got: no bytes, no code with its rights."""
        self.give_away()
        own = self.folder / f"worker-{len(list(self.folder.iterdir()))}"
        own.mkdir()
        words: list[str] = []
        if self.worker != "root":
            words = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--"]
            os.chown(own, ORDINARY, ORDINARY)
        environ = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(own)}
        environ["PYTHONPATH"] = f"{Path(custody.__file__).parents[1]}:{sysconfig.get_path('purelib')}"
        script = Path(__file__).with_name("acts.py")
        argv = [*words, sys.executable, str(script), str(self.repository), system, str(own)]
        done = subprocess.run(
            [*argv, *(["commit"] if commits else [])], env=environ, cwd="/", capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        assert (told["uid"] == 0) == (self.worker == "root")
        assert SECRET not in done.stdout + done.stderr, "bytes of ours"
        assert not (self.marks / "mark").exists(), "code of theirs ran unconfined"
        inside = self.repository / "mark"
        lines = inside.read_text().split() if inside.exists() else []
        assert set(lines) <= {str(NOBODY)}, "code of theirs ran with rights that are not theirs"
        assert not commits or self.worker != "root" or self.left_by_root() == []
        return told

    def left_by_root(self) -> list[str]:
        found = [
            os.path.join(at, name) for at, folders, files in os.walk(self.repository) for name in (*folders, *files)
        ]
        return [name for name in found if os.lstat(name).st_uid == 0]


@pytest.fixture(params=["root", "ordinary"])
def stage(request: pytest.FixtureRequest) -> Any:
    if os.geteuid() != 0:
        pytest.skip("needs owners of its own")
    folder = room("hostile")
    folder.chmod(0o755)
    made = Stage(folder, request.param)
    made.marks.mkdir()
    made.marks.chmod(0o777)
    made.secret.parent.mkdir(mode=0o700)
    made.secret.write_text(SECRET)
    if request.param == "ordinary":  # then what it must not give away is its own
        for path in (made.secret.parent, made.secret):
            os.chown(path, ORDINARY, ORDINARY)
    made.secret.chmod(0o600)
    yield made
    shutil.rmtree(folder, ignore_errors=True)
