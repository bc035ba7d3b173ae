"""Is a channel's archive what it claims to be? Every blob is read again; a sample is compared with the live channel.

Reading is judged by what the archive itself promises: lists in order, blocks that match the digests in their names,
messages only where the coverage says they may be, files that match theirs. The live channel can have changed since,
and one answer of it is not the truth; so a difference there is told apart: what a sync would have found is *behind*,
what is missing inside the coverage is a hole.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from custody.channels.blobs.port import Blobs, Broken, NoBlob, Shut
from custody.channels.condition.standing import marks_of
from custody.channels.context import assets_of, files_of
from custody.channels.crawl.coverage import Coverage
from custody.channels.crawl.trust import Ask, Raw, judge, unshown
from custody.channels.debts.debts import DIFFERS, LOST, TORN, Debts
from custody.channels.discord import media
from custody.channels.discord.client import Discord
from custody.channels.files.wanted import state_of
from custody.channels.messages import last_seen
from custody.channels.messages.versions import newer
from custody.channels.table import Finding, Table

LIVE = frozenset(
    {"live.edited", "live.deleted", "live.erased", "live.bad"}
)  # the channel moved on: a sync or a review brings it in
OWED = frozenset({"live.missing", "live.other", "live.edited", "live.erased"})  # the next sync fetches these
DAMAGE = frozenset(
    {
        "index.missing",
        "child.missing",
        "leaf.older",
        "leaf.unnamed",
        "index.order",
        "leaf.order",
        "leaf.outside",
        "mark.damaged",
        "shut",
        "table.missing",
        "table.older",
        "table.foreign",
        "block.foreign",
    }
)  # of a table
FILES = frozenset({"file.missing", "file.damaged", "file.shut"})
NEVER_HAD = frozenset({"file.lost", "file.wanted", "file.refused"})
UNKNOWN = "leaf.unknown"
HARMLESS = LIVE | NEVER_HAD | {"orphan", "gap", UNKNOWN}

CODES = {
    "coverage.beyond": "a message is newer than the archive says it has fetched",
    "file.missing": "a file that was kept is not there",
    "file.damaged": "a file does not have the digest it is kept under",
    "file.shut": "a file that may be whole is not given here",
    "file.lost": "a file that a message names is not to be had",
    "file.wanted": "a file that a message names has not been fetched yet",
    "file.refused": "a file that a message names is at a place where nobody asks",
    "table.missing": "a table was kept, and nothing of it is there",
    "table.older": "a table tells less than the store knows that it did",
    "table.foreign": "a table, or a part of one, is another channel's",
    "block.foreign": "messages of another channel are among those of this",
    "leaf.unnamed": "a leaf that no index names has what the table has not",
    "torn": "a part could not be read any more, and was not fetched again yet",
    "lost": "of a part that could not be read any more, earlier versions and what was deleted there may be lost",
    "gap": "a part that is known not to have been fetched yet",
    "live.missing": "the channel has a message that the archive should have and has not",
    "live.edited": "the channel has a newer version",
    "live.other": "the channel shows another text than the newest one kept, and no later edit: a sync brings it in",
    "live.deleted": "the channel does not show it any more",
    "live.erased": "the channel shows one that was erased here",
    "live.bad": "a page of the channel was no answer to what was asked",
}


@dataclass(frozen=True, slots=True)
class Verified:
    messages: int
    files: int
    sampled: int  # messages compared with the live channel
    findings: tuple[Finding, ...]
    damaged: tuple[int, ...] = ()  # messages
    hurt: str = ""  # what of its tables cannot be read

    @property
    def never_had(self) -> int:
        """Files that messages name and that are not here."""
        return sum(finding.code in NEVER_HAD for finding in self.findings)

    @property
    def sound(self) -> bool:
        """Nothing is wrong here; what is behind, or known to be missing, is not wrong."""
        return all(finding.code in HARMLESS for finding in self.findings)


def verify(
    blobs: Blobs,
    channel: int,
    table: Table,
    discord: Discord | None = None,
    pages: int = 3,
    seed: int | None = None,
    gone: Iterable[Finding] = (),
) -> Verified:
    """Read everything again; with a connection, also compare so many pages, chosen at random, with the channel.

    `gone`: what the store knows and is not there.
    """
    findings = [*gone, *table.check(), *last_seen.of(blobs, channel).check()]
    coverage, debts, unread = marks_of(blobs, channel)
    messages, damaged = 0, list[int]()
    for found in table.between():
        messages += bool(found.versions)
        damaged += [found.id] if found.damaged and not found.upto else []
        if found.id > coverage.upto and not unread and not found.upto:
            findings.append(Finding("coverage.beyond", str(found.id)))
    findings += [Finding("gap", f"{gap.low}..{gap.high}") for gap in coverage.gaps]
    findings += [Finding(debt.why, f"{debt.next}..{debt.high}") for debt in debts if debt.why in (TORN, LOST)]
    files, wrong = files_of_channel(blobs, channel)
    findings += wrong
    sampled = 0
    if discord is not None and coverage.upto:
        for start in _starts(coverage, pages, random.Random(seed)):
            compared, live = _compare(discord, channel, table, coverage, start=start)
            sampled, findings = sampled + compared, findings + live
    hurt = next((f"{one.where}: {one.code}" for one in findings if is_told(one)), unread)
    return Verified(
        messages=messages,
        files=files,
        sampled=sampled,
        findings=tuple(dict.fromkeys(findings)),
        damaged=tuple(damaged),
        hurt=hurt,
    )


def is_told(finding: Finding) -> bool:
    """Does it stand on the channel's item? Damaged messages are owed one by one instead."""
    block = finding.code == "block.damaged" and not finding.where.startswith("ch/")
    return block or finding.code in DAMAGE | FILES


def owe(overlay: Table, findings: Iterable[Finding], stamp: str) -> int:
    """Write down what the live channel shows and the archive has not, or has otherwise; answers how many messages."""
    ids = sorted({int(one.where) for one in findings if one.code in OWED})
    known = debts = Debts.read(overlay.mark)
    for one in ids:
        debts = debts.owe(one, one, DIFFERS, stamp)
    if debts != known:
        overlay.upsert([], debts.mark())
    return len(ids)


def files_of_channel(blobs: Blobs, channel: int) -> tuple[int, list[Finding]]:
    """How many files are kept, each read and compared with its digest, and what is wrong with them and their rows."""
    tables, findings, good = (files_of(blobs, channel), assets_of(blobs, channel)), list[Finding](), dict[str, str]()
    count = 0
    for row in (row for table in tables for row in table.between() if row.versions):
        if "digest" not in row.message:
            told = str(row.message.get("why") or row.message.get("lost") or "")
            findings.append(Finding(f"file.{state_of(row.message)}", str(row.id), told))
            continue
        digest, count = str(row.message["digest"]), count + 1
        if digest not in good:
            good[digest] = _state_of(blobs, media.name_of(str(channel), digest), digest)
        if good[digest]:
            findings.append(Finding(good[digest], str(row.id), digest))
    return count, [*findings, *(finding for table in tables for finding in table.check())]


def _state_of(blobs: Blobs, name: str, digest: str) -> str:
    try:
        return "" if sha256(blobs.read(name).data).hexdigest() == digest else "file.damaged"
    except NoBlob:
        return "file.missing"
    except Shut:
        return "file.shut"
    except Broken:
        return "file.damaged"


# --- The live channel ---


def _starts(coverage: Coverage, pages: int, dice: random.Random) -> Iterator[int]:
    """Ids to look behind: the beginning, and places at random."""
    yield from [0, *(dice.randrange(coverage.upto) for _ in range(pages - 1))][:pages]


def _compare(discord: Discord, channel: int, table: Table, coverage: Coverage, start: int) -> tuple[int, list[Finding]]:
    """A page against what is kept; one that cannot be the answer is told as such and compared with nothing."""
    ask = Ask(after=start)
    page = judge(channel, ask, discord.messages(channel, after=start, limit=ask.limit))
    if page.bad:
        return 0, [Finding("live.bad", str(start), page.bad)]
    shown = {one: raw for one, raw in zip(page.ids, page.sights, strict=True) if coverage.covers(one)}
    if not shown:
        return 0, []
    rows = {row.id: row for row in table.between(page.ids[0], page.ids[-1] + 1)}
    hurt = [(row.id, row.upto or row.id) for row in rows.values() if row.damaged]  # told already
    shown = {one: raw for one, raw in shown.items() if not any(low <= one <= high for low, high in hurt)}
    stored = {one: row.message for one, row in rows.items() if row.versions}
    told = [("live.missing", one) for one in shown if one not in rows]
    told += [("live.erased", one) for one in shown if one in rows and one not in stored]
    other = {one: raw for one, raw in shown.items() if one in stored and newer(stored[one], raw)}
    told += [("live.edited" if _later(raw, stored[one]) else "live.other", one) for one, raw in other.items()]
    told += [("live.deleted", one) for one in unshown(page, sorted(stored))[0]]
    unread = [Finding("live.bad", str(start), f"{len(page.unread)} elements cannot be read")] if page.unread else []
    return len(shown), unread + [Finding(code, str(one)) for code, one in sorted(told, key=lambda one: one[1])]


def _later(raw: Raw, kept: Raw) -> bool:
    return str(raw.get("edited_timestamp") or "") > str(kept.get("edited_timestamp") or "")
