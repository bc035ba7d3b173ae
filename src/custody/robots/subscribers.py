"""Robots as the store knows them: subscribers of the kind robot/NAME."""

from __future__ import annotations

from typing import Any, Final

from custody.kernel.model.trigger import Trigger
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.items import Subscriber
from custody.robots.declaration import Robot
from custody.robots.part import PRIORITY

PREFIX: Final = "robot/"


def name_of(kind: str) -> str:
    return kind.removeprefix(PREFIX)


def subscriptions(tx: Tx) -> list[tuple[str, Trigger, dict[str, Any]]]:
    """The robots that are registered, each by its name, with its trigger and its facts."""
    known = items.subscriptions(tx)
    return [(name_of(each.kind), each.trigger, each.facts) for each in known if each.kind.startswith(PREFIX)]


def subscriber_of(robot: Robot) -> Subscriber:
    """As its row would say it: what a sweep makes is what news makes."""
    return Subscriber(robot.kind, robot.when, {"priority": robot.priority}, PRIORITY)
