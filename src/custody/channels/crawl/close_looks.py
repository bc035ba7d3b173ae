"""Looking closely at single messages after pages have left them out, and erasing what is due: some at a time.

One odd channel can give reason for hundreds of such questions. They are asked in steps of a few, between which others
have their turn (see `jobs.sync`). What is still to be looked into is kept in memory: another process that goes on
without it looks at nothing and erases nothing, and the next look over the pages finds it again.
"""

from __future__ import annotations

from custody.channels.context import Context, noted, number_of
from custody.channels.crawl import trust, walk
from custody.channels.crawl.kept import Kept, Live
from custody.channels.messages import deletions
from custody.kernel.model.item import Item

LOOKS = 10  # at single messages in one step


def leave(mirror: Context, item: Item, found: walk.Found) -> None:
    """Keep what pages have left to look into for the next steps."""
    found.suspects |= {int(one) for one in item.detail.get("doubted", ())}
    mirror.suspected[number_of(item)] = found


def look(mirror: Context, item: Item, live: Live, kept: Kept) -> bool:
    """Look at some of them; answers whether there were any left to look at, in one sync not too many."""
    found = mirror.suspected.get(number_of(item))
    if found is None:
        return False
    before = len(found.looked)
    if before < walk.MOST_LOOKS:
        walk.closer(live, kept, found, min(LOOKS, walk.MOST_LOOKS - before))
    if len(found.looked) > before:
        return True
    doubted(mirror, item, kept, found)
    return False


def settle(mirror: Context, item: Item, live: Live, kept: Kept) -> tuple[int, bool]:
    """Erase some of what is due; answers how many, and whether there are more of them."""
    number = number_of(item)
    found = mirror.suspected.get(number) or walk.Found()
    settled = (
        deletions.go_on(item, live, kept, found)
        if found.due
        else deletions.settle(mirror, item, live, kept, found=found)
    )
    written(mirror, settled)
    if not found.due:
        mirror.suspected.pop(number, None)
    return settled.erased, bool(found.due)


def settle_at_once(mirror: Context, item: Item, live: Live, kept: Kept, found: walk.Found) -> int:
    """All of it, where nobody else comes between."""
    settled = deletions.settle(mirror, item, live, kept, found=found)
    written(mirror, settled)
    erased = settled.erased
    while found.due:
        settled = deletions.go_on(item, live, kept, found)
        written(mirror, settled)
        erased += settled.erased
    return erased


def written(mirror: Context, settled: deletions.Settled) -> None:
    if settled.items or settled.events:
        mirror.store.records.put(settled.items, settled.events, "deletions")


def doubted(mirror: Context, item: Item, kept: Kept, found: walk.Found) -> None:
    """Note those that need another look later: not yet confirmed, and marked. The newest, as far as there is room."""
    open_ = [one for one in sorted(found.suspects, reverse=True)[: walk.MOST_LOOKS] if _is_open(kept.doubt(one))]
    told = [str(one) for one in open_]
    if told != list(item.detail.get("doubted", ())) or found.more:
        again = trust.stamp(mirror.store.now() + trust.APART) if told or found.more else ""
        mirror.store.records.put((noted(number_of(item), doubted=told, look_again=again),), (), "channels")


def _is_open(doubt: trust.Doubt) -> bool:
    return bool(doubt.marks) and doubt.confirmed() is None
