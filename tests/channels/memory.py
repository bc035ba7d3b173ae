"""Block blobs in memory, copied in no time, for tests that try thousands of crashes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from custody.channels.blobs.port import (
    BlockList,
    BlocksMissing,
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


@dataclass(frozen=True)
class Blob:
    about: Properties | None = None
    ids: tuple[str, ...] = ()
    blocks: Mapping[str, bytes] = field(default_factory=dict)
    staged: Mapping[str, bytes] = field(default_factory=dict)
    lease: tuple[str, datetime, int] | None = None

    @property
    def content(self) -> bytes:
        return b"".join(self.blocks[one] for one in self.ids)


class Memory:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.kept: dict[str, Blob] = {}
        self.count = itertools.count(1)

    def copy(self) -> Memory:
        twin = Memory(self.clock)
        twin.kept, twin.count = dict(self.kept), self.count
        return twin

    def _need(self, name: str, if_match: str = "") -> tuple[Blob, Properties]:
        blob = self.kept.get(check_name(name), Blob())
        if blob.about is None:
            raise NoBlob("no such blob", where=name)
        if if_match and blob.about.etag != if_match:
            raise Changed("changed", where=name)
        return blob, blob.about

    def _check_lease(self, name: str, lease: str) -> Blob:
        blob = self.kept.get(check_name(name), Blob())
        current = blob.lease[0] if blob.lease and self.clock() < blob.lease[1] else ""
        if current != lease:
            raise Leased("leased", where=name)
        return blob

    def stage(self, name: str, blocks: Iterable[tuple[str, bytes]], *, lease: str = "") -> None:
        staged = dict(blocks)
        check_ids(name, list(staged))
        blob = self._check_lease(name, lease)
        if len({len(one.encode()) for one in (*blob.staged, *blob.ids, *staged)}) > 1:
            raise BadInput("block ids of one blob have one length", where=name)
        if staged:
            self.kept[name] = replace(blob, staged={**blob.staged, **staged})

    def commit(
        self,
        name: str,
        ids: Sequence[str],
        facts: Facts = Facts(),  # noqa: B008
        *,
        if_match: str = "",
        if_absent: bool = False,
        lease: str = "",
    ) -> str:
        check_ids(name, ids)
        check_facts(name, facts)
        blob = self._check_lease(name, lease)
        old = blob.about
        if (if_match and (old is None or old.etag != if_match)) or (if_absent and old):
            raise Changed("changed", where=name)
        known = {**blob.blocks, **blob.staged}
        if any(one not in known for one in ids):
            raise BlocksMissing("not staged", where=name)
        blocks = {one: known[one] for one in ids}
        changed = old.tier_changed if old and old.facts.tier == facts.tier else self.clock()
        size = sum(len(blocks[one]) for one in ids)
        about = Properties(name, f'"{next(self.count)}"', size, facts, self.clock(), changed)
        self.kept[name] = Blob(about, tuple(ids), blocks, {}, blob.lease)
        return about.etag

    def blocks(self, name: str) -> BlockList:
        blob, about = self._need(name)
        return BlockList(about.etag, blob.ids, tuple(len(blob.blocks[one]) for one in blob.ids))

    def head(self, name: str, *, unless: str = "") -> Properties | None:
        _, about = self._need(name)
        return None if unless and about.etag == unless else about

    def read(self, name: str, start: int = 0, size: int | None = None, *, if_match: str = "") -> Content:
        blob, about = self._need(name, if_match)
        if not 0 <= start <= max(0, about.size - 1):
            raise BadInput("no such byte", where=name)
        stop = None if size is None else start + size
        self.kept[name] = replace(blob, about=replace(about, accessed=about.accessed or self.clock()))
        return Content(blob.content[start:stop], about.etag, about.facts.metadata)

    def list(self, prefix: str) -> Iterator[Properties]:
        for name in sorted(self.kept):
            about = self.kept[name].about
            if name.startswith(prefix) and about:
                yield about

    def folders(self, prefix: str) -> Iterator[str]:
        rest = (about.name.removeprefix(prefix) for about in self.list(prefix))
        yield from sorted({one.partition("/")[0] for one in rest if "/" in one})

    def delete(self, name: str, *, if_match: str = "", lease: str = "") -> None:
        self._need(name, if_match)
        self._check_lease(name, lease)
        del self.kept[name]

    def set_aside(self, name: str, to: str) -> None:
        blob, _ = self._need(name)
        self.stage(to, [("0", blob.content)])
        self.commit(to, ["0"], Facts({"kind": "damaged"}))
        self.delete(name)

    def set_tier(self, name: str, tier: Tier) -> None:
        blob, about = self._need(name)
        if about.facts.tier != tier:
            facts = replace(about.facts, tier=tier)
            self.kept[name] = replace(blob, about=replace(about, facts=facts, tier_changed=self.clock()))

    def set_tags(self, name: str, tags: Mapping[str, str]) -> None:
        check_tags(name, tags)
        blob, about = self._need(name)
        self.kept[name] = replace(blob, about=replace(about, facts=replace(about.facts, tags=dict(tags))))

    def acquire(self, name: str, seconds: int) -> str:
        check_lease_seconds(seconds)
        blob, _ = self._need(name)
        if blob.lease and self.clock() < blob.lease[1]:
            raise Leased("leased", where=name)
        return self._lease(name, blob, f"lease-{next(self.count)}", seconds)

    def renew(self, name: str, lease: str) -> None:
        blob, _ = self._need(name)
        if not blob.lease or blob.lease[0] != lease:
            raise Leased("not the current lease", where=name)
        self._lease(name, blob, lease, blob.lease[2])

    def release(self, name: str, lease: str) -> None:
        blob, _ = self._need(name)
        if not blob.lease or blob.lease[0] != lease:
            raise Leased("not the current lease", where=name)
        self.kept[name] = replace(blob, lease=None)

    def _lease(self, name: str, blob: Blob, lease: str, seconds: int) -> str:
        until = self.clock() + timedelta(seconds=seconds)
        self.kept[name] = replace(blob, lease=(lease, until, seconds))
        return lease
