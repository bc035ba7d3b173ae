"""Subversion repositories behind a private Apache with mod_dav_svn, for archives at http:// addresses."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import pwd
import shutil
import signal
import urllib.error
import urllib.request
from pathlib import Path

from rig.program import LOOPBACK, Program, free_port, room, tool
from rig.svn import Repository, run

MODULES = Path("/usr/lib/apache2/modules")
USER = "www-data"  # Debian has it; Apache does not serve as root
SETTINGS = """\
ServerRoot "{folder}"
ServerName localhost
Listen {host}:{port}
PidFile "{folder}/pid"
ErrorLog "{folder}/error.log"
DefaultRuntimeDir "{folder}"
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authn_file_module {modules}/mod_authn_file.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule auth_basic_module {modules}/mod_auth_basic.so
LoadModule dav_module {modules}/mod_dav.so
LoadModule dav_svn_module {modules}/mod_dav_svn.so
StartServers 1
<Location "/svn">
    DAV svn
    SVNParentPath "{folder}/repositories"
    Require all granted
</Location>
<Location "/closed">
    DAV svn
    SVNParentPath "{folder}/repositories"
    AuthType Basic
    AuthName "closed"
    AuthBasicProvider file
    AuthUserFile "{folder}/users"
    Require valid-user
</Location>
"""


class Apache:
    """Anyone on this machine may read and commit below /svn, those with a password below /closed; loopback alone."""

    def __init__(self) -> None:
        self.folder = room("apache")
        self.port = free_port()
        self.user = USER if os.geteuid() == 0 else ""
        self.program = Program("apache2", self.folder / "log", user=self.user)
        self.repositories = self.folder / "repositories"
        self.repositories.mkdir()
        self._numbers = itertools.count(1)
        settings = SETTINGS.format(folder=self.folder, host=LOOPBACK, port=self.port, modules=MODULES)
        (self.folder / "apache2.conf").write_text(settings)

    def let_in(self, user: str, password: str) -> None:
        """From now on this one may read and commit below /closed."""
        digest = base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()  # a form that Apache knows
        (self.folder / "users").write_text(f"{user}:{{SHA}}{digest}\n")
        self._give(self.folder)

    def start(self) -> None:
        self._give(self.folder)
        words = [tool("apache2"), "-f", str(self.folder / "apache2.conf"), "-DFOREGROUND"]
        self.program.run(words, self._answers)

    def stop(self) -> None:
        self.program.end(signal.SIGTERM)

    def fresh_repository(self) -> Repository:
        path = self.repositories / f"test_{next(self._numbers)}"
        run([tool("svnadmin"), "create", str(path)])
        self._give(path)
        return Repository(path, f"http://{LOOPBACK}:{self.port}/svn/{path.name}", "unused")

    def remove(self) -> None:
        self.program.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> None:
        try:
            urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/", timeout=5).close()
        except urllib.error.HTTPError as answer:
            answer.close()  # any answer is one

    def _give(self, top: Path) -> None:
        if not self.user:
            return
        account = pwd.getpwnam(self.user)
        for folder, folders, files in os.walk(top):
            for name in (".", *folders, *files):
                os.chown(Path(folder, name), account.pw_uid, account.pw_gid)
