"""Mail to depositors: the message, and two ways to send it.

A message is one delivery with one Message-ID, however often it is tried: a mail system that gets it twice
can tell, and so can the outbox folder. Text from depositors is only ever body text or an attachment.
"""

from __future__ import annotations

import contextlib
import os
import re
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from custody.border import modes
from custody.errors import BadInput, Refused, Unavailable

MOST_RECIPIENTS = 50
MOST_SAID = 300
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_MESSAGE_ID = re.compile(r"<[A-Za-z0-9._+=-]+@[A-Za-z0-9.-]+>")
_TYPES = {".csv": ("text", "csv"), ".json": ("application", "json"), ".txt": ("text", "plain")}


class Mail(Protocol):
    """Sends a message, or raises: Unavailable if trying again may help, Refused if not."""

    def __call__(self, message: EmailMessage) -> None: ...


def check_address(address: str) -> str:
    if not _ADDRESS.fullmatch(address) or len(address) > 254:
        raise BadInput(f"{address!r} is not a mail address", code="mail.address")
    return address


def check_addresses(text: str) -> Sequence[str]:
    """The addresses that a depositor gave, separated by commas or semicolons; few, and each one right."""
    found = [part.strip() for part in re.split("[,;]", text) if part.strip()]
    if len(found) > MOST_RECIPIENTS:
        raise BadInput(
            f"{len(found)} addresses, and {MOST_RECIPIENTS} are allowed", code="mail.recipients", where="notification"
        )
    for each in found:
        try:
            check_address(each)
        except BadInput as error:
            raise BadInput(
                error.message, code=error.code, where="notification", hint="such as ada@archive.example"
            ) from error
    return found


def compose(
    *,
    sender: str,
    recipients: Sequence[str],
    subject: str,
    text: str,
    message_id: str,
    date: datetime,
    attachments: Mapping[str, str] | None = None,
) -> EmailMessage:
    """A message with text and files (`failed.csv` -> its content). `message_id` is the delivery's own."""
    if not 1 <= len(recipients) <= MOST_RECIPIENTS:
        raise BadInput(f"{len(recipients)} recipients, 1 to {MOST_RECIPIENTS} are allowed", code="mail.recipients")
    if not _MESSAGE_ID.fullmatch(message_id):
        raise BadInput(f"{message_id!r} is not a Message-ID", code="mail.message-id")
    message = EmailMessage(policy=SMTP)
    try:
        message["From"] = check_address(sender)
        message["To"] = ", ".join(check_address(each) for each in recipients)
        message["Subject"] = subject
    except ValueError as error:
        raise BadInput(f"the mail's header cannot be written: {error}", code="mail.header") from error
    message["Date"] = format_datetime(date)
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message.set_content(text)
    for name, content in (attachments or {}).items():
        main, sub = _TYPES.get(Path(name).suffix, ("application", "octet-stream"))
        message.add_attachment(content.encode(), maintype=main, subtype=sub, filename=name)
    return message


def to_outbox(folder: Path) -> Mail:
    """Leaves each message as a file, named by its Message-ID: for the demo, and for a mail system that
    collects. The same message twice is one file."""

    def send(message: EmailMessage) -> None:
        modes.make_folder(folder)
        name = quote(str(message["Message-ID"]).strip("<>"), safe="@+=")
        target, part = folder / f"{name}.eml", folder / f".{name}.{os.getpid()}.part"
        if target.exists():
            return
        part.unlink(missing_ok=True)  # of a process that had our number; or a link, which would be written through
        with part.open("xb") as file:
            file.write(message.as_bytes())
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    return send


def by_smtp(
    host: str,
    port: int,
    *,
    user: str = "",
    password: str = "",
    starttls: bool = False,
    timeout: float = 30,
    trust: ssl.SSLContext | None = None,
) -> Mail:
    """Hands each message to a mail server. A password is never sent without TLS."""
    if user and not starttls:
        raise BadInput("a mail password needs starttls", code="mail.password")

    def send(message: EmailMessage) -> None:
        try:
            with contextlib.closing(smtplib.SMTP(host, port, timeout=timeout)) as server:
                if starttls:
                    server.starttls(context=trust or ssl.create_default_context())
                if user:
                    server.login(user, password)
                refused = server.send_message(message)
                server.quit()
        except (smtplib.SMTPException, OSError) as error:
            raise _trouble(error, host, user) from error
        if refused:  # some recipients have it: sending again would give them a second one
            raise _refused(refused, permanently=True)

    return send


def _trouble(error: Exception, host: str, user: str) -> Refused | Unavailable:
    """What the server said, or did not say, as an error that tells whether to try again."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _refused(error.recipients)
    if isinstance(error, smtplib.SMTPAuthenticationError):  # the archive's own mistake: the letter is good, and waits
        return Unavailable(
            f"the mail server {host} does not let {user} in: {_said(error)}",
            code="mail.login",
            hint="smtp_user and smtp_password_file in custody.toml; workers read them when they start",
        )
    if isinstance(error, smtplib.SMTPResponseException):
        kind = Unavailable if error.smtp_code < 500 else Refused
        return kind(f"the mail server {host} says {_said(error)}", code="mail.server")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unavailable(
            f"the certificate of the mail server {host} is not trusted: {error.verify_message}",
            code="mail.certificate",
            hint="SSL_CERT_FILE names a private authority, for the workers",
        )
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return Refused(f"the mail server {host} cannot: {error}", code="mail.server")
    return Unavailable(f"the mail server {host} does not answer: {error}", code="mail.server")


def _said(error: smtplib.SMTPResponseException) -> str:
    said = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
    return f"{error.smtp_code} {' '.join(said.split())[:MOST_SAID]}".strip()


def _refused(recipients: Mapping[str, tuple[int, bytes]], *, permanently: bool = False) -> Refused | Unavailable:
    codes = {code for code, _ in recipients.values()}
    kind = Unavailable if not permanently and max(codes) < 500 else Refused
    return kind(f"the mail server refuses {', '.join(sorted(recipients))}", code="mail.recipients")
