"""Robots: functions that wake when an item has had the right events, and record theirs."""

from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.robot import Report, Robot, robot

__all__ = ["Item", "Report", "Robot", "Trigger", "robot"]
