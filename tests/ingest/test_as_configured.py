"""What custody.toml says is done: by every command, by workers, and towards the mail server."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from custody.errors import Unavailable
from custody.ingest.batch.mail import by_smtp
from ingest.test_batch_report import message
from rig.commands import Run

# -- the working disk's place -----------------------------------------------------------------------------


def settle_in(folder: Path, custody: Run, **changes: str) -> None:
    assert custody("init", str(folder)).code == 0
    config = folder / "custody.toml"
    text = config.read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    config.write_text(text)
    (folder / "a.txt").write_text("a")


@pytest.mark.parametrize("words", [(), ("--place", "disk-b")])
def test_a_worker_works_on_what_is_pinned_to_the_disk_that_its_configuration_names(
    tmp_path: Path, custody: Run, words: tuple[str, ...]
) -> None:
    settle_in(tmp_path, custody, **{'place = ""': 'place = "disk-a"'})
    assert custody("batch", "submit", "a.txt", "--profile", "example").code == 0
    assert custody("worker", "run", "--until-idle", *words).code == 0
    assert "completed" in custody("batch", "list").out
    (job,) = [job for job in custody("job", "list", "--json").json() if job["kind"] == "ingest/job"]  # type: ignore[attr-defined]
    assert job["place"] == (words[-1] if words else "disk-a")


def test_a_job_on_the_disk_of_this_machine_waits_for_nothing_but_a_worker(tmp_path: Path, custody: Run) -> None:
    settle_in(tmp_path, custody, **{'place = ""': 'place = "disk-a"'})
    assert custody("batch", "submit", "a.txt", "--profile", "example").code == 0
    early = [f"ingest/job:{state}" for state in ("pending", "estimating", "provisioning")]
    for kind in ("ingest/batch:pending", *early):
        assert custody("worker", "run", "--until-idle", "--kind", kind).code == 0
    told = custody("job", "why", "2").out
    assert "pinned" not in told
    assert "it is pinned to disk-a" in custody("job", "why", "2", "--place", "disk-b").out


# -- the store of a configuration that is named --------------------------------------------------------------


@pytest.mark.parametrize("named", ["option", "word", "environment"])
def test_every_command_means_the_store_of_the_configuration_that_is_named(
    tmp_path: Path, custody: Run, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    home = tmp_path / "archive"
    settle_in(home, custody)
    config = str(home / "custody.toml")
    words = {"option": ("--config", config), "word": (f"--config={config}",), "environment": ()}[named]
    if named == "environment":
        monkeypatch.setenv("CUSTODY_CONFIG", config)
    assert custody("batch", "submit", str(home / "a.txt"), "--profile", "example", *words).out == "batch 1\n"
    assert custody("worker", "run", "--until-idle", *words).code == 0
    assert "it has ended: completed" in custody("job", "why", "1", *words).out
    assert not (tmp_path / "custody.db").exists()
    assert "there is no job 1" in custody("job", "why", "1", "--store", f"sqlite:///{tmp_path}/other.db", *words).err


# -- a mail server that asks who we are ----------------------------------------------------------------------


class Office(Controller):
    """A mail server with TLS and a password."""

    def __init__(self, folder: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "office.pem", folder / "office.key")
        self.letters: list[Any] = []
        self.password = b"right"
        super().__init__(
            self, hostname="127.0.0.1", port=0, tls_context=context, authenticator=self._knows, auth_required=True
        )

    def _knows(self, server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        return AuthResult(success=(given.login, given.password) == (b"custody", self.password), handled=False)

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.letters.append(envelope)
        return "250 kept"


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "office.key",
        "-out",
        "office.pem",
        "-days",
        "2",
    ]
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *words, *name], cwd=tmp_path, check=True, capture_output=True)
    made = Office(tmp_path)
    made.start()
    yield made
    made.stop()


def test_a_wrong_password_is_the_archives_mistake_and_the_letter_waits(tmp_path: Path, office: Office) -> None:
    trust = ssl.create_default_context(cafile=str(tmp_path / "office.pem"))
    wrong = by_smtp("127.0.0.1", office.port, user="custody", password="wrong", starttls=True, trust=trust)
    with pytest.raises(Unavailable) as refused:
        wrong(message())
    assert refused.value.code == "mail.login"
    assert "127.0.0.1 does not let custody in: 535" in refused.value.message
    assert "smtp_password_file" in refused.value.hint
    assert "wrong" not in str(refused.value)
    by_smtp("127.0.0.1", office.port, user="custody", password="right", starttls=True, trust=trust)(message())
    assert len(office.letters) == 1


def test_a_certificate_that_nobody_vouches_for_is_named(office: Office) -> None:
    with pytest.raises(Unavailable) as refused:
        by_smtp("127.0.0.1", office.port, user="custody", password="right", starttls=True)(message())
    assert (refused.value.code, "SSL_CERT_FILE" in refused.value.hint) == ("mail.certificate", True)
    assert office.letters == []


def test_a_deposit_is_unharmed_and_its_letter_sent_when_the_password_is_right(
    tmp_path: Path, custody: Run, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "office.pem"))
    smtp = f'smtp = "127.0.0.1:{office.port}"\nsmtp_user = "custody"\nsmtp_password_file = "smtp.password"\n'
    settle_in(tmp_path, custody, **{"# link_days": f"{smtp}# link_days"})
    (tmp_path / "smtp.password").write_text("wrong\n")
    assert custody("batch", "submit", "a.txt", "--profile", "example").code == 0
    assert custody("worker", "run", "--until-idle").code == 0
    assert "completed" in custody("batch", "list").out
    told = custody("job", "why", "3").out
    assert "try 1 failed, mail.login: the mail server 127.0.0.1 does not let custody in" in told
    assert office.letters == []
    (tmp_path / "smtp.password").write_text("right\n")
    for _ in range(100):
        assert custody("worker", "run", "--until-idle").code == 0
        if office.letters:
            break
    assert len(office.letters) == 1
    assert "done" in custody("job", "show", "3").out


# -- a batch whose depositor would not be told ------------------------------------------------------------------


def test_deleting_what_was_not_told_must_be_meant(tmp_path: Path, custody: Run) -> None:
    settle_in(tmp_path, custody)
    assert custody("batch", "submit", "https://127.0.0.1/x.pdf", "--profile", "example").code == 0
    assert custody("worker", "run", "--until-idle").code == 0
    asked = custody("batch", "delete", "1", "--why", "a mistake")
    assert (asked.code, "repeat it with --yes" in asked.err) == (3, True)
    assert "failed" in custody("batch", "list").out
    assert "is deleted, with 1 job" in custody("batch", "delete", "1", "--why", "a mistake", "--yes").out
