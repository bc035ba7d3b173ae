"""An SMTP server that keeps every letter for the test to read, or refuses it as the test wishes."""

from __future__ import annotations

from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from rig.program import LOOPBACK, free_port


@dataclass(frozen=True, slots=True)
class Letter:
    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage


class Mailbox:
    """`letters` in order of arrival. Set `refusal` ("451 try again later") to have the next ones refused."""

    def __init__(self) -> None:
        self.port = free_port()
        self.letters: list[Letter] = []
        self.refusal = ""
        self._controller = Controller(self, hostname=LOOPBACK, port=self.port)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        self._controller.start()

    def stop(self) -> None:
        self._controller.stop()

    def clear(self) -> None:
        self.letters.clear()
        self.refusal = ""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Called by aiosmtpd, on its own thread, for each letter."""
        if self.refusal:
            return self.refusal
        message = message_from_bytes(envelope.content, EmailMessage, policy=policy.default)
        self.letters.append(Letter(envelope.mail_from, tuple(envelope.rcpt_tos), message))
        return "250 kept"
