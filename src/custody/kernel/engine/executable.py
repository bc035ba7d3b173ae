"""Any executable as a handler: payload as JSON on standard input, facts in variables, the exit code is the outcome.

    0    passed; a JSON object on the last line of its output, of a mebibyte at most, is kept as facts
    75   not now (EX_TEMPFAIL): tried again with growing pauses
    …    failed, with the end of its error output as the reason

The command runs in a process group of its own, in the worker's environment: for code of one's own. Foreign code
belongs in a sandbox (see the workflows application).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from custody.formats.text.compact_json import depth_of
from custody.kernel.engine.kinds import Kind
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Failed, Outcome, Passed

NOT_NOW = 75
MOST_TOLD = 2_000
MOST_KEPT = 1 << 20  # bytes of output: only its end is of use here, however long a program talks

DEEPEST = 20
LONGEST_NUMBER = 18


def executable(kind: str, command: Sequence[str]) -> Kind:
    """A kind of job that is worked on by running `command`."""

    def handler(work: Work) -> Outcome:
        return run(command, work)

    return Kind(kind, handler)


def run(command: Sequence[str], work: Work) -> Outcome:
    job = work.job
    facts = {"CUSTODY_JOB": str(job.id), "CUSTODY_KIND": job.kind, "CUSTODY_ATTEMPT": str(job.attempts)}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **facts},
            start_new_session=True,
        )
    except OSError as error:
        return Failed("command.start", f"cannot start {command[0]}: {error.strerror}")
    work.on_stop(lambda: _kill(process))
    out, err = _talk(process, json.dumps(dict(job.payload)).encode())
    if process.returncode == 0:
        return Passed(keep=_facts(out), detail={"output": out[-MOST_TOLD:]} if out else {})
    told = err.strip()[-MOST_TOLD:] or f"exit code {process.returncode}"
    return Failed(f"exit.{process.returncode}", told, transient=process.returncode == NOT_NOW)


def _talk(process: subprocess.Popen[bytes], given: bytes) -> tuple[str, str]:
    """Tell it what it is to do, and hear it out; answers the ends of its output and of its error output."""
    with process, ThreadPoolExecutor(2) as listening:
        out, err = (listening.submit(_end, stream) for stream in (process.stdout, process.stderr))
        _say(process.stdin, given)
        return out.result().decode(errors="replace"), err.result().decode(errors="replace")


def _say(pipe: IO[bytes] | None, given: bytes) -> None:
    """It need not listen. (What is left of a word that nobody heard is said again at the close.)"""
    assert pipe is not None
    with contextlib.suppress(BrokenPipeError):
        pipe.write(given)
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def _end(stream: IO[bytes] | None) -> bytes:
    assert isinstance(stream, io.BufferedReader)
    kept = bytearray()
    while piece := stream.read1(1 << 16):
        kept += piece
        if len(kept) > 2 * MOST_KEPT:
            del kept[:-MOST_KEPT]
    return bytes(kept[-MOST_KEPT:])


def _facts(output: str) -> dict[str, Any]:
    last = output.strip().rsplit("\n", 1)[-1]
    if depth_of(last, DEEPEST + 1) > DEEPEST:
        return {}
    try:
        value = json.loads(last, parse_constant=_refused, parse_int=_short, object_pairs_hook=_once)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _short(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number that is too long")
    return int(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(value := dict(pairs)) < len(pairs):
        raise ValueError("a name that comes twice")
    return value


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # else its number may be a stranger's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
