"""A depositor's web server for benchmarks: files of a folder, kept-alive connections, and a pause before each answer.

    python -m bench.depositor FOLDER [SECONDS]

Prints its address when it listens. It does the least that a server must, so that the fetchers are what is measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

PIECE = 1 << 18


class Depositor:
    def __init__(self, folder: Path, pause: float) -> None:
        self.folder, self.pause = folder, pause

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.split(b"\r\n", 1)[0].split(b" ")
                if self.pause:
                    await asyncio.sleep(self.pause)
                await self._answer(writer, method, self.folder / path.decode().lstrip("/"))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has what it wanted
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, method: bytes, path: Path) -> None:
        size = path.stat().st_size
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: text/plain\r\n\r\n" % size)
        if method == b"HEAD":
            return
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                writer.write(piece)
                await writer.drain()


async def _listen(folder: Path, pause: float) -> None:
    server = await asyncio.start_server(Depositor(folder, pause).serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def depositor(folder: Path, pause: float = 0.0) -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [sys.executable, "-m", "bench.depositor", str(folder), str(pause)]
    with Popen(command, stdout=PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_listen(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
