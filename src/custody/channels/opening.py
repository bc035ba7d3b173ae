"""Channels as a process opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from custody.channels.config import ChannelConfig
from custody.kernel.stores import Store
from custody.opening import Gauge, Here, Opened

if TYPE_CHECKING:
    from custody.channels.condition.metrics import Numbers
    from custody.channels.messages.reader import Reader
    from custody.channels.requests import Asking


@dataclass(frozen=True, slots=True)
class View:
    """For the pages."""

    readers: Callable[[int], Reader]  # what is kept of a channel, by its number, as people may see it
    asking: Asking | None = None  # how something is asked about channels; None: by jobs of the engine


def open_here(store: Store, config: ChannelConfig | None, here: Here) -> Opened:
    if config is None or not (here.works or here.shows):
        return Opened()
    from custody.channels.kinds import chores, embedded, kinds

    mirror = embedded(store, config, here.home) if here.works else None
    return Opened(
        kinds=tuple(kinds(mirror)) if mirror else (),
        chores=tuple(chores(mirror)) if mirror else (),
        gauges=_gauges(store, config, here.home),
        view=view_of(store, config, here.home) if here.shows else None,
    )


def view_of(store: Store, config: ChannelConfig, home: Path) -> View:
    """With or without a bot's token."""
    from custody.channels.kinds import open_blobs, settings_of
    from custody.channels.messages.reader import readers
    from custody.channels.requests import asking_of

    found = readers(store, open_blobs(config, home, store), settings_of(config), config)
    return View(found, asking_of(store, config, home))


def _gauges(store: Store, config: ChannelConfig, home: Path) -> Callable[[], Iterator[Gauge]]:
    known: list[Callable[[], Numbers]] = []

    def gauges() -> Iterator[Gauge]:
        if not known:
            from custody.channels.condition.metrics import kept_for_a_while, numbers
            from custody.channels.kinds import open_blobs

            known.append(kept_for_a_while(lambda: numbers(store, open_blobs(config, home, store))))
        return told(known[0]())

    return gauges


def told(found: Numbers) -> Iterator[Gauge]:
    """How the channels stand, in the words of metrics."""
    by_state = [((state,), float(count)) for state, count in found.states.items()]
    yield Gauge("custody_channels", "Mirrored channels and threads by state", ("state",), by_state)
    files = [((state,), float(count)) for state, count in found.files.items()]
    yield Gauge("custody_channel_files", "Files of messages that are lacking", ("state",), files)
    alarming = [(labels, float(one)) for labels, one in found.alarming.items()]
    yield Gauge("custody_channel_alarming", "Channels that need somebody to look", ("channel", "state"), alarming)
    since = "Since the longest unseen channel was looked at"
    yield Gauge("custody_channel_unseen_seconds", since, (), [((), found.unseen)])
