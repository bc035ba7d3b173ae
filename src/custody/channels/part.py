"""What channels bring into the kernel."""

from __future__ import annotations

from typing import Final

from custody.kernel.applications import Part, Schema

PART: Final = Part(
    name="channels",
    schema=Schema("custody", "channels/schema"),
    details={
        **dict.fromkeys(
            (
                "archived", "believed", "brake", "deleted", "disbelieved", "doubted", "hint", "look_again", "no_intent",
                "round", "set_aside", "trouble", "unread", "files_due", "files_wanted", "by_number", "guild",
                "guild_sure", "kind", "kind_said", "kind_sure", "parent", "removed_with", "threads_upto",
            ),
            "is the channels'",
        ),
        "mirrored": "is the channels': whether anything is kept at all",
        "removal": "is the channels': which removal is ordered",
        "wanted_again": "is the channels': what begins anew after a removal",
    },
    notes={"removed_with": "is the channels'"},
    events=dict.fromkeys(
        (
            "added", "not added", "removal ordered", "removed", "swept", "synced", "verified", "tiered", "mended",
            "policy", "brake",
            "erased", "believed", "disbelieved", "set aside", "counts again", "came back", "seen again",
            "readable again", "unreadable", "gone", "hidden", "token", "failing", "unreadable element",
            "message reviewed", "message not shown", "files lost", "files refused", "damaged", "parts lost",
            "loss accepted", "blank believed", "blank disbelieved", "described otherwise", "unknown kind",
        ),
        "channels, of what was mirrored",
    ),
    reads=("channel:read",),
    acts=("channel:act",),
    agents=("watch", "sweep"),
    forgets=("channel/",),
)  # fmt: skip
