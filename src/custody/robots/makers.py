"""Who may make the jobs of robots: the store, when an item has had the right events."""

from __future__ import annotations

from typing import Final

from custody.engine.makers import Maker

ROBOT_MAKER: Final = Maker(
    kind="robot/", behalf="system", instead="a robot wakes by events: `custody item`, `custody robot restart`"
)
MAKERS: Final = (ROBOT_MAKER,)
