"""The worker's log: one structured line per thing that happened, with subject and token."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from custody.errors import CustodyError
from custody.kernel.model.job import Answer, Change, Job


class _StandardError(io.TextIOBase):
    """When nobody reads it any more (`… | head`, a full disk), the work goes on all the same."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


class Logging:
    def __init__(self) -> None:
        plain = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(cast(TextIO, _StandardError())),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                plain,
            ],
        )

    def started(self, job: Job) -> None:
        self._log.debug("started", subject=job.subject, kind=job.kind, state=job.state, token=job.token)

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        told = {"subject": job.subject, "kind": job.kind, "token": answer.token or job.token, "to": change.to}
        if not answer.done:
            self._log.warning("refused", **told, code=answer.code, why=answer.why)
        elif change.outcome == "failure":
            self._log.warning(change.type, **told, code=change.code, reason=change.detail.get("reason"))
        else:
            self._log.info(change.type, **told)

    def lost(self, job: Job, reason: str) -> None:
        self._log.warning("lease lost", subject=job.subject, kind=job.kind, token=job.token, reason=reason)

    def trouble(self, error: CustodyError) -> None:
        self._log.error("trouble", code=error.code, why=str(error))
