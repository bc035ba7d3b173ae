"""Block blobs on a local disk: the default store, with the rules of Azure's block blobs.

A commit that only adds at the end appends to the content; any other writes the content anew under the next
number. Content reaches the disk before the state that names it, so a crash leaves the old blob or the new
one. Readers take no lock: committed bytes never change under their name. Writers of one blob exclude each
other, in this process and in others. `layout.py` knows the files, `durable.py` how to write them.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from custody.border import below, modes
from custody.channels.blobs import durable, leases
from custody.channels.blobs.disk_errors import refusals, typed
from custody.channels.blobs.disk_index import BROKEN, found, last_read, properties, what_is_left, write_content
from custody.channels.blobs.layout import Shelf, State
from custody.channels.blobs.port import (
    BlockList,
    Broken,
    Changed,
    Content,
    Facts,
    Leased,
    NoBlob,
    Properties,
    Tier,
    check_facts,
    check_ids,
    check_lease_seconds,
    check_name,
    check_tags,
)
from custody.errors import BadInput

LOCKS = 64  # shared by all blobs: a lock file per blob could not be removed safely with it
READ_NOTED_EVERY = timedelta(hours=24).total_seconds()
STAGED_LIVES = timedelta(days=7).total_seconds()
STATES_KEPT = 4096
PLAIN = Facts()


class Files:
    def __init__(self, root: Path, clock: Callable[[], datetime] | None = None) -> None:
        self.root = root
        self._clock = clock
        self._states: dict[str, State] = {}
        self._noted: dict[str, float] = {}
        self._guard = threading.Lock()
        with refusals(str(root)):
            modes.make_folder(root)
            durable.make_folder(root / "@locks")
            (root / "@clock").touch()

    # --- Writing ---

    @typed
    def stage(self, name: str, blocks: Iterable[tuple[str, bytes]], *, lease: str = "") -> None:
        staged = list(blocks)
        if not staged:
            return
        ids, data = zip(*staged, strict=True)
        check_ids(name, ids)
        with self._locked(name) as shelf:
            state = self._find(shelf)
            leases.check(shelf, lease, self._now)
            durable.make_folder(shelf.path("staged").parent)
            shelf.add_staged(state, ids, data)

    @typed
    def commit(
        self,
        name: str,
        ids: Sequence[str],
        facts: Facts = PLAIN,
        *,
        if_match: str = "",
        if_absent: bool = False,
        lease: str = "",
    ) -> str:
        ids = tuple(ids)
        check_ids(name, ids)
        check_facts(name, facts)
        with self._locked(name) as shelf:
            old = self._find(shelf)
            if (if_match and (old is None or old.etag != if_match)) or (if_absent and old is not None):
                raise Changed("the blob has changed", where=name)
            leases.check(shelf, lease, self._now)
            durable.make_folder(shelf.path("state").parent)
            number, sizes = write_content(shelf, ids, old)
            now = self._now()
            kept = old.tier_changed if old and old.facts.tier == facts.tier else now
            etag = f'"0x{secrets.token_hex(8).upper()}"'
            state = State(
                turn=secrets.token_hex(8),
                etag=etag,
                number=number,
                size=sum(sizes),
                ids=ids,
                sizes=sizes,
                facts=facts,
                modified=now,
                tier_changed=kept,
            )
            self._save(shelf, state)
            if old and old.number != number:
                durable.remove(shelf.content(old.number))
            durable.remove(shelf.path("staged"))
            return etag

    @typed
    def delete(self, name: str, *, if_match: str = "", lease: str = "") -> None:
        with self._locked(name) as shelf:
            try:
                state = self._need(shelf)
            except (Broken, NoBlob):
                if if_match not in ("", BROKEN) or not (shelf.contents() or os.path.lexists(shelf.path("state"))):
                    raise
                return shelf.clear_all()
            if if_match and state.etag != if_match:
                raise Changed("the blob has changed", where=name)
            leases.check(shelf, lease, self._now)
            self._save(shelf, state.turned(gone=True))
            self._clear_away(shelf, state)
            return None

    @typed
    def set_aside(self, name: str, to: str) -> None:
        """By renaming, which a full disk can do as well."""
        with self._locked(name) as shelf:
            left = [*shelf.contents()[-1:], *(path for path in (shelf.path("state"),) if os.path.lexists(path))]
            for path in left:
                there = self._shelf(to + (".state" if path == shelf.path("state") else ""))
                durable.make_folder(there.path("state").parent)
                size = path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
                os.replace(path, there.content(1))
                facts, now = Facts({"kind": "damaged"}), self._now()
                etag = f'"0x{secrets.token_hex(8).upper()}"'
                self._save(
                    there,
                    State(
                        turn=secrets.token_hex(8),
                        etag=etag,
                        number=1,
                        size=size,
                        ids=("0",),
                        sizes=(size,),
                        facts=facts,
                        modified=now,
                        tier_changed=now,
                    ),
                )
            shelf.clear_all()
            self._states.pop(name, None)

    def _clear_away(self, shelf: Shelf, state: State) -> None:
        shelf.clear_away(state)
        self._states.pop(shelf.name, None)
        self._noted.pop(shelf.name, None)

    @typed
    def set_tier(self, name: str, tier: Tier) -> None:
        with self._locked(name) as shelf:
            state = self._need(shelf)
            if state.facts.tier != tier:
                facts = replace(state.facts, tier=tier)
                self._save(shelf, state.turned(facts=facts, tier_changed=self._now()))

    @typed
    def set_tags(self, name: str, tags: Mapping[str, str]) -> None:
        check_tags(name, tags)
        with self._locked(name) as shelf:
            state = self._need(shelf)
            self._save(shelf, state.turned(facts=replace(state.facts, tags=dict(tags))))

    # --- Reading ---

    @typed
    def blocks(self, name: str) -> BlockList:
        state = self._need(self._shelf(name))
        return BlockList(state.etag, state.ids, state.sizes)

    @typed
    def head(self, name: str, *, unless: str = "") -> Properties | None:
        shelf = self._shelf(name)
        state = self._need(shelf)
        return None if unless and state.etag == unless else properties(shelf, state)

    @typed
    def read(self, name: str, start: int = 0, size: int | None = None, *, if_match: str = "") -> Content:
        shelf = self._shelf(name)
        for _ in range(100):
            state = self._need(shelf)
            if if_match and state.etag != if_match:
                raise Changed("the blob has changed", where=name)
            if not 0 <= start <= max(0, state.size - 1):
                raise BadInput(f"no byte {start} in {state.size}", code="blob.range", where=name)
            wanted = state.size - start if size is None else min(size, state.size - start)
            with suppress(FileNotFoundError):  # written anew since we looked: look again
                data = shelf.read(state.number, start, wanted)
                self._note_read(shelf)
                return Content(data, state.etag, state.facts.metadata)
        raise Broken("the content is missing from the disk", where=name)

    def list(self, prefix: str) -> Iterator[Properties]:
        with refusals(prefix):
            for name, kinds in sorted(found(self.root, prefix).items()):
                shelf = self._shelf(name)
                if kinds == {"staged"}:
                    self._forget_staged(name)
                elif (about := self._listed(shelf)) is not None:
                    yield about

    @typed
    def folders(self, prefix: str) -> Iterator[str]:
        """Those that hold something: a removal leaves empty ones."""
        within = self.root / prefix
        names = sorted(one.name for one in within.iterdir() if one.is_dir()) if within.is_dir() else []
        return iter([one for one in names if any(files for _, _, files in os.walk(within / one))])

    def _listed(self, shelf: Shelf) -> Properties | None:
        try:
            state = self._load(shelf)
        except Broken:
            return what_is_left(shelf)
        if state is None:
            return what_is_left(shelf) if shelf.contents() else None
        if state.gone:
            with self._locked(shelf.name):
                return None  # taking the lock finishes the deletion
        return properties(shelf, state)

    def _forget_staged(self, name: str) -> None:
        """Blocks that were never committed die after a week, as they do on Azure."""
        with self._locked(name) as shelf, suppress(FileNotFoundError):
            path = shelf.path("staged")
            if self._now() - path.stat().st_mtime > STAGED_LIVES:
                durable.remove(path)

    def _note_read(self, shelf: Shelf) -> None:
        now = self._now()
        noted = self._noted.get(shelf.name) or last_read(shelf)
        if noted is None or now - noted >= READ_NOTED_EVERY:
            with suppress(OSError):  # the read has succeeded; that it could not be noted is no reason to fail it
                path = shelf.path("read")
                path.touch()
                os.utime(path, (now, now))
            noted = now
        self._noted[shelf.name] = noted

    # --- Leases ---

    @typed
    def acquire(self, name: str, seconds: int) -> str:
        check_lease_seconds(seconds)
        with self._locked(name) as shelf:
            self._need(shelf)
            if leases.holder(shelf, self._now):
                raise Leased("the blob is leased", where=name)
            return leases.write(shelf, secrets.token_hex(16), seconds, self._now)

    @typed
    def renew(self, name: str, lease: str) -> None:
        with self._locked(name) as shelf:
            state, found = self._need(shelf), leases.found(shelf)
            if found.get("id") != lease:
                raise Leased("this lease is no longer current", where=name)
            if found["until"] <= min(self._now(), state.modified):
                raise Leased("this lease ran out and the blob was written since", where=name)
            leases.write(shelf, lease, found["seconds"], self._now)

    @typed
    def release(self, name: str, lease: str) -> None:
        with self._locked(name) as shelf:
            self._need(shelf)
            if leases.found(shelf).get("id") != lease:
                raise Leased("this lease is no longer current", where=name)
            durable.remove(shelf.path("lease"))

    # --- States, locks, time ---

    def _shelf(self, name: str) -> Shelf:
        """`Refused` if a link is on the way to it."""
        shelf = Shelf(self.root, check_name(name))
        below.must_be_plain(self.root, shelf.path("state").parent)
        return shelf

    @contextmanager
    def _locked(self, name: str) -> Iterator[Shelf]:
        shelf = self._shelf(name)
        below.must_be_ours(self.root, shelf.path("state").parent)
        with durable.locked(self.root / "@locks" / f"{zlib.crc32(name.encode()) % LOCKS:02d}"):
            with suppress(Broken):  # whoever needs the state is told
                state = self._load(shelf)
                if state and state.gone:  # a deletion that a crash cut short
                    self._clear_away(shelf, state)
            yield shelf

    def _load(self, shelf: Shelf) -> State | None:
        state = shelf.load(self._states.get(shelf.name))
        if state:
            self._remember(shelf, state)
        return state

    def _find(self, shelf: Shelf) -> State | None:
        state = self._load(shelf)
        return None if state is None or state.gone else state

    def _need(self, shelf: Shelf) -> State:
        state = self._find(shelf)
        if state is None:
            raise NoBlob("no such blob", where=shelf.name)
        return state

    def _save(self, shelf: Shelf, state: State) -> None:
        shelf.save(state)
        self._remember(shelf, state)

    def _remember(self, shelf: Shelf, state: State) -> None:
        if self._states.get(shelf.name) is state:
            return
        with self._guard:
            if len(self._states) >= STATES_KEPT:
                self._states.pop(next(iter(self._states)))
            self._states[shelf.name] = state

    def _now(self) -> float:
        """The disk's own time, which every process on it shares, unless a clock was given."""
        if self._clock:
            return self._clock().timestamp()
        path = self.root / "@clock"
        os.utime(path)
        return path.stat().st_mtime
