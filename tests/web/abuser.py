"""Runs by itself: asks with one token as fast as it can, opens connections on which it says next to nothing, and sends a
body that has no end. Ends when its standard input does; says how often it was answered, and how often sent away.

    python -m web.abuser PORT TOKEN CONNECTIONS
"""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

ASKING = 4
BODY = b"x" * 65536
BEGUN = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX: "


def ask(port: int, token: str, over: threading.Event, heard: Counter[int]) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not over.is_set():
        try:
            line.request("GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
            answer = line.getresponse()
            answer.read()
            heard[answer.status] += 1
        except (OSError, http.client.HTTPException):
            line.close()


def upload(port: int, token: str, over: threading.Event, heard: Counter[int]) -> None:
    """A gigabyte, in pieces, of what may be a megabyte; again when it is refused."""
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    while not over.wait(0.05):
        with socket.create_connection(("127.0.0.1", port), timeout=3) as line, suppress(OSError, LookupError):
            try:
                line.sendall(head.encode())
                for _ in range((1 << 30) // len(BODY)):
                    line.sendall(b"%x\r\n%s\r\n" % (len(BODY), BODY))
            except OSError:  # nobody listens any more, as it should be
                heard[413] += 1
                continue
            heard[int(line.recv(4096).split()[1])] += 1


def dawdle(port: int, count: int, over: threading.Event) -> None:
    """Connections on which a letter comes every second, not all of them at once; those that are ended are begun again."""
    lines: list[socket.socket] = []
    for number in itertools.cycle(range(count)):
        if over.wait(1.0 / count if len(lines) == count else 0.0):
            return
        try:
            lines[number].sendall(b"y")
        except (OSError, IndexError):
            fresh = socket.create_connection(("127.0.0.1", port), timeout=60)
            fresh.sendall(BEGUN)
            lines[number : number + 1] = [fresh]


def main(port: int, token: str, connections: int) -> None:
    over, heard = threading.Event(), Counter[int]()
    threads = [threading.Thread(target=ask, args=(port, token, over, heard), daemon=True) for _ in range(ASKING)]
    threads.append(threading.Thread(target=upload, args=(port, token, over, heard), daemon=True))
    threads.append(threading.Thread(target=dawdle, args=(port, connections, over), daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    print("at it", flush=True)
    sys.stdin.readline()
    over.set()
    print(json.dumps(dict(heard)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
