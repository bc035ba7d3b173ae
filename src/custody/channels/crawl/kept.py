"""A channel as the walks see it: the service that is asked about it, and the tables in which it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from custody.channels.context import Context
from custody.channels.crawl import trust
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.trust import NO_SUCH, Ask, Doubt, Mark, Page, Raw, Span
from custody.channels.debts import unseen_content
from custody.channels.debts.debts import BLANK, UNREADABLE, VEIL
from custody.channels.discord import attachments, threads
from custody.channels.discord.client import Gone, Unreadable
from custody.channels.messages import last_seen
from custody.channels.messages.copies import copied, own
from custody.channels.messages.versions import blanked, newer
from custody.channels.snowflake import HIGHEST, at
from custody.channels.table import Table

PAUSES = (1.0, 5.0, 30.0)  # seconds before a page that cannot be the answer is asked for again
AHEAD = timedelta(days=1)  # by how much a service's clock may be ahead of ours
UNKNOWN_MESSAGE = 10008
AN_HOUR = 3_600 * 1_000_000  # by how much clocks of our own may differ


class Live:
    """The channel there."""

    def __init__(self, mirror: Context, channel: int) -> None:
        self._mirror, self._channel = mirror, channel
        self.asked = 0  # questions

    def now(self) -> int:
        return self._mirror.store.now()

    def page(self, after: int | None = None, before: int | None = None) -> Page:
        page = self._page(Ask(after, before))
        for pause in PAUSES:
            if not page.bad or page.bad == trust.NOTHING_READ:  # that is asked for again by the next sync
                break
            self._mirror.discord.sleep(pause)
            page = self._page(Ask(after, before))
        return page

    def _page(self, ask: Ask) -> Page:
        self.asked += 1
        now, newest = self.now(), min(HIGHEST, at(self._mirror.now() + AHEAD))
        answer = self._mirror.discord.messages(self._channel, after=ask.after, before=ask.before, limit=ask.limit)
        page = trust.judge(self._channel, ask, answer, newest=newest, at=now)
        return replace(page, sights=tuple(map(own, page.sights)))

    def message(self, one: int) -> tuple[str, Raw | None]:
        """Only a refusal in the service's own words speaks against a message; any other answer says nothing."""
        self.asked += 1
        try:
            raw = self._mirror.discord.message(self._channel, one)
        except Gone as gone:
            return NO_SUCH if gone.facts.get("discord") == UNKNOWN_MESSAGE else "", None
        except Unreadable:
            return "", None
        here = str(raw.get("channel_id", self._channel)) == str(self._channel)
        sound = here and trust.identity(raw) == one and trust.legible(raw)
        return ("200", own(raw)) if sound else ("", None)


class Kept:
    """The channel here: its messages, and what is told of them besides."""

    def __init__(self, mirror: Context, channel: int, table: Table | None = None) -> None:
        self._mirror, self._channel = mirror, channel
        self._table, self._seen = table or mirror.table(channel), mirror.seen(channel)
        self._coverage: Coverage | None = None
        self.added = self.edited = self.marked = 0
        self.revived, self.mended, self.unread = list[int](), list[int](), list[str]()
        self.blank = set[int]()  # shown without the text that is kept of them

    @property
    def coverage(self) -> Coverage:
        """Read once: others may say more meanwhile, and marks are joined when they are written."""
        if self._coverage is None:
            self._coverage = Coverage.read(self._table.mark)
        return self._coverage

    def keep(self, page: Page, spans: Sequence[Span]) -> None:
        """Files first, then messages with the mark in one commit, then what is told without an edit."""
        self.unread += page.unread
        before = self.coverage
        grown = before.grown(*spans)
        known, damaged = self._known(page.ids, before)
        sights = dict(zip(page.ids, page.sights, strict=True))
        blank = {one for one, raw in sights.items() if (have := known.get(one)) is not None and blanked(have, raw)}
        veiled = blank | unseen_content.veiled(self._mirror, list(sights.values()))
        self.blank = (self.blank - sights.keys()) | {one for one in blank if not self._is_believed(one, known[one])}
        fresh = [
            raw
            for one, raw in sights.items()
            if one not in known or (one not in veiled and self._is_news(known[one], raw))
        ]
        self.added += sum(one not in known for one in page.ids)
        self.edited += len(fresh) - sum(one not in known for one in page.ids)
        here = [raw for one, raw in sights.items() if one not in known or known[one] is not None]
        attachments.want(self._mirror, self._channel, here)
        threads.remember(self._mirror, self._channel, here)
        if fresh or grown != before:
            self._table.upsert(
                fresh, grown.mark() if grown != before else "", trust.stamp(page.at), veiled=veiled, revive=False
            )
        if mendable := [sights[one] for one in sorted(damaged - veiled)]:
            self._table.mend(mendable, trust.stamp(page.at))
            self.mended += [int(raw["id"]) for raw in mendable]
        self._owe(page, {one for one in veiled if one not in known})
        self._coverage = grown
        self._noted([raw for one, raw in sights.items() if known.get(one) is not None], page.at)

    def _is_believed(self, one: int, have: Raw | None) -> bool:
        """Has an operator said that its text is empty there?"""
        row = self._seen.search(one)
        edited = str((have or {}).get("edited_timestamp") or "")
        return bool(row and row.versions and last_seen.is_believed_blank(row.message, edited))

    def _owe(self, page: Page, veiled: set[int]) -> None:
        """What of a page was not seen, or not with its content, is to be fetched again."""
        stamp = trust.stamp(page.at)
        if veiled:
            unseen_content.owe(self._mirror, self._channel, [(min(veiled), max(veiled))], VEIL, stamp=stamp)
        if blank := self.blank & set(page.ids):
            unseen_content.owe(self._mirror, self._channel, [(min(blank), max(blank))], BLANK, stamp=stamp)
        holes = [(low + 1, high - 1) for low, high in page.holes if high - low > 1]
        if page.ids and page.loose[1] and not page.bad:  # before its first id there is a gap, or what is kept
            newest = min(page.ask.high - 1, at(self._mirror.now() + AHEAD))
            holes += [(page.ids[-1] + 1, newest)] if newest > page.ids[-1] else []
        if holes:
            unseen_content.owe(self._mirror, self._channel, holes, UNREADABLE, stamp=stamp)

    def _known(self, ids: Sequence[int], coverage: Coverage) -> tuple[dict[int, Raw | None], set[int]]:
        """Those of these that are here already, as they are here; None for one that was erased or is damaged."""
        if not ids or ids[0] > coverage.upto:
            return {}, set()
        wanted = set(ids)
        rows = [row for row in self._table.between(ids[0], ids[-1] + 1) if row.id in wanted]
        return {row.id: row.message if row.versions else None for row in rows}, {row.id for row in rows if row.damaged}

    def _is_news(self, known: Raw | None, raw: Raw) -> bool:
        """A page does not bring back what was erased: one from a cache would undo the erasure."""
        return known is not None and newer(known, raw)

    def kept(self, low: int, high: int) -> Sequence[int]:
        return [row.id for row in self._table.between(low + 1, high) if row.versions]

    def erased(self, ids: Sequence[int]) -> list[int]:
        if not ids:
            return []
        wanted = set(ids)
        return [row.id for row in self._table.between(min(ids), max(ids) + 1) if row.deleted_at and row.id in wanted]

    # --- Doubts ---

    def doubt(self, one: int) -> Doubt:
        row = self._seen.search(one)
        return trust.doubt_of(row.message) if row and row.versions else Doubt()

    def confirmed(self, ids: Collection[int]) -> dict[int, int]:
        """Those of these that are gone there, and since when: one pass over the rows between them."""
        if not ids:
            return {}
        rows = (row for row in self._seen.between(min(ids), max(ids) + 1) if row.versions)
        found = ((row.id, trust.doubt_of(row.message).confirmed()) for row in rows)
        wanted = set(ids)
        return {one: since for one, since in found if since is not None and one in wanted}

    def mark(self, ids: Iterable[int], mark: Mark) -> None:
        """What says nothing new is not written: the same page again, or anything about what is confirmed."""
        doubts = {one: self.doubt(one) for one in ids}
        news = {one: doubt.marked(mark) for one, doubt in doubts.items() if _is_news(doubt, mark)}
        if news:
            self._seen.upsert([_row(one, doubt) for one, doubt in sorted(news.items())])
        self.marked += len(news)

    def _noted(self, messages: Sequence[Raw], at: int) -> None:
        """What was shown is there: how it was last seen is kept, and nothing speaks against it any more."""
        if not messages:
            return
        stamp, wanted = trust.stamp(at), {int(raw["id"]) for raw in messages}
        latest = trust.stamp(self._mirror.store.now() + AN_HOUR)
        last_seen.refresh(self._table, self._seen, messages, stamp, latest=latest)
        rows = self._seen.between(min(wanted), max(wanted) + 1)
        doubted = [row for row in rows if row.id in wanted and row.versions and trust.doubt_of(row.message).marks]
        if doubted:
            self._seen.upsert([{"id": str(row.id), "shown": stamp} for row in doubted])

    def shown(self, raw: Raw, at: int) -> None:
        """A direct look has shown it. What was erased comes back: something had lied."""
        one = int(raw["id"])
        row = self._table.search(one)
        if row and row.deleted_at:
            self.revived.append(one)
        attachments.want(self._mirror, self._channel, [raw])
        veiled = unseen_content.veiled(self._mirror, [raw])
        self._table.upsert([raw], asked_at=trust.stamp(at), veiled=veiled, revive=True)
        self._noted([raw], at)

    def gone(self) -> list[tuple[int, int]]:
        """Messages that are gone there and kept here, and since when: all of the table is read."""
        doubts = ((row.id, trust.doubt_of(row.message).confirmed()) for row in self._seen.between() if row.versions)
        return [(one, since) for one, since in doubts if since is not None and self._is_here(one)]

    def _is_here(self, one: int) -> bool:
        row = self._table.search(one)
        return row is not None and bool(row.versions)

    def count(self) -> int:
        return sum(bool(row.versions) for row in self._table.between())

    def take_out_copies(self, ids: Sequence[int]) -> None:
        """Write the lines anew that hold a copy of one of these: of replies, which come after them, and of the threads
        that began there. The merge of versions leaves every copy out."""
        if not ids:
            return
        wanted = set(ids)
        began = [self._mirror.table(one) for one in ids if self._mirror.item(one) is not None]
        for table, first in ((self._table, min(ids)), *((one, 0) for one in began)):
            rows = (row for row in table.between(first) if row.versions)
            if holding := [row for row in rows if any(wanted & set(copied(line)) for line in row.versions)]:
                table.upsert([own(row.message) for row in holding], revive=False)

    def erase(self, ids: Sequence[int]) -> None:
        """The tombstone first and the files after it: a crash in between leaves files that the daily sweep finds."""
        rows = [row for one in ids if (row := self._table.search(one)) and row.versions]
        self._table.delete([row.id for row in rows], self._mirror.stamp())
        attachments.drop(self._mirror.blobs, self._channel, rows)
        self._seen.delete(ids, self._mirror.stamp())  # told twice: no lost leaf brings an erased message back


def _is_news(doubt: Doubt, mark: Mark) -> bool:
    same = mark[1] != NO_SUCH and any(known[1:] == mark[1:] for known in doubt.marks)
    return mark[1] == trust.WORD or (doubt.confirmed() is None and not same)


def _row(one: int, doubt: Doubt) -> dict[str, object]:
    row: dict[str, object] = {"id": str(one), "absent": [trust.written(mark) for mark in sorted(doubt.marks)]}
    if since := doubt.confirmed():
        row["gone"] = {"since": trust.stamp(since), "how": doubt.how}
    return row
