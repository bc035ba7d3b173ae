"""What is written beside a job or a batch for others to read: identifiers, sizes, where its files are, reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from custody.ingest.zookeeper import tree


def write_space(bytes_: int | None) -> bytes:
    """Minus one when nobody knows; nothing at all is a size."""
    return b"-1" if bytes_ is None else str(bytes_).encode()


def handover(facts: Mapping[str, Any], update: bool) -> dict[str, bytes]:
    """What others who store and record need to know. Storage: where our manifest is, whose it is, what to take out.
    Inventory: where the storage service tells what it holds by then; our manifest, where there is no such service."""
    manifest = facts.get("storage_manifest")
    if not manifest:
        return {}
    mode = "update" if update else "add"
    about = f"{mode}/{facts.get('storage_node', '')}/{quote(str(facts.get('primary', '')), safe='')}"
    delete = facts.get("storage_delete")
    return {
        "inventory": tree.dump({"manifest_url": facts.get("inventory_manifest") or manifest, "mode": ""}),
        "store": tree.dump({"manifest_url": manifest, "mode": about, **({"delete": delete} if delete else {})}),
    }


def write_report(now: int, failed: Iterable[str], completed: Iterable[str]) -> list[bytes]:
    """What was told, in pieces that a node can hold."""
    rows = [("failed_jobs", name) for name in sorted(failed)] + [
        ("successful_jobs", name) for name in sorted(completed)
    ]
    size = tree.MOST_BYTES // 32
    return [_report_piece(now, rows[at : at + size]) for at in range(0, max(1, len(rows)), size)]


def _report_piece(now: int, rows: Sequence[tuple[str, str]]) -> bytes:
    lists = {which: [name for kind, name in rows if kind == which] for which in ("failed_jobs", "successful_jobs")}
    return tree.dump({"last_modified": tree.stamp(now), **lists})
