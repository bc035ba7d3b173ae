#!/usr/bin/env python3
"""`custody archive commit`, for a task inside its sandbox: tells the worker outside what to commit, and why.

    custody archive commit -m "Pages for the web" dist/site

This file is put into the sandbox by itself, so it needs nothing but Python. It holds no credentials: it writes one
line of JSON to the socket that the worker has put beside it and reads one line back. Anything else that can talk to
a socket may do the same: {"do": "commit", "message": "…", "paths": ["dist/site"]}.
"""

from __future__ import annotations

import json
import os
import socket
import sys

SOCKET = "CUSTODY_SOCKET"
USAGE = "usage: custody archive commit -m MESSAGE PATH [PATH …]\n"


def ask(message: str, paths: list[str]) -> dict[str, object]:
    """The worker's answer: `ok`, and the revision or what is wrong."""
    place = os.environ.get(SOCKET, "")
    if not place:
        return {"ok": False, "error": "only a task can commit this way", "hint": "outside, use svn or git"}
    question = json.dumps({"do": "commit", "message": message, "paths": paths}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(place)
            wire.sendall(question)
            with wire.makefile("rb") as answers:
                line = answers.readline()
    except OSError as error:
        return {"ok": False, "error": f"the worker does not answer: {error}"}
    answer = json.loads(line) if line else None
    return answer if isinstance(answer, dict) else {"ok": False, "error": "the worker has left"}


def read(words: list[str]) -> tuple[str, list[str]] | None:
    """Message and paths, or nothing if it is not a commit that is asked for."""
    message, paths = "", []
    if words[:2] != ["archive", "commit"]:
        return None
    rest = iter(words[2:])
    for word in rest:
        if word in ("-m", "--message"):
            message = next(rest, "")
        elif word == "--":
            paths += list(rest)
        elif word.startswith("-"):
            return None
        else:
            paths.append(word)
    return (message, paths) if message and paths else None


def tell(answer: dict[str, object]) -> int:
    """In words; the exit code."""
    if answer.get("ok"):
        revision = answer.get("revision")
        sys.stdout.write(f"committed revision {revision}\n" if revision else "nothing has changed\n")
        return 0
    sys.stderr.write(f"custody: {answer.get('error', 'no')}\n")
    if answer.get("hint"):
        sys.stderr.write(f"  {answer['hint']}\n")
    return 3


def main(words: list[str]) -> int:
    wanted = read(words)
    if wanted is None:
        sys.stderr.write(USAGE)
        return 2
    return tell(ask(*wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
