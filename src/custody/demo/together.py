"""All stories of the demo: opened, begun and served together by one worker."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.demo.stories.book import Book
from custody.demo.stories.chat import Chat
from custody.demo.stories.deposits import Deposits
from custody.demo.stories.robots import Line
from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.stores import Store

LOOK_SECONDS = 0.5


@dataclass
class Stories:
    home: Path
    deposits: Deposits
    line: Line
    chat: Chat
    book: Book

    @classmethod
    def open(cls, store: Store, home: Path, port: int) -> Stories:
        deposits = Deposits.open(store, home, port)
        return cls(
            home=home,
            deposits=deposits,
            line=Line.open(store, home),
            chat=Chat.open(store, home),
            book=Book.open(store, home),
        )

    def begin(self) -> None:
        """What an earlier start has begun goes on."""
        self.deposits.begin()
        self.line.begin()
        self.chat.begin()
        self.book.begin()

    def serving(self, more: Sequence[Kind]) -> Serving:
        kinds = (*self.deposits.kinds(), *self.line.kinds(), *self.chat.kinds(), *self.book.kinds())
        chores = (*self.line.chores(), *self.chat.chores(), *self.book.chores())
        return Serving((*kinds, *more), chores)

    def watch_for_mending(self) -> None:
        """The file `mended` in the depositor's folder is how another terminal puts the missing page back."""
        never = threading.Event()
        while not never.wait(LOOK_SECONDS):
            if (self.home / "depositor" / "mended").exists() and self.deposits.server.faults:
                self.deposits.mend()

    def stop(self) -> None:
        self.deposits.server.stop()
        self.chat.stop()


def reset(home: Path) -> None:
    if (home / "demo-port").exists():
        shutil.rmtree(home)
