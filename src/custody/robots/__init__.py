"""Robots: functions that wake when an item has had the right events, and record theirs."""

from custody.model.item import Item
from custody.model.trigger import Trigger
from custody.robots.robot import Report, Robot, robot

__all__ = ["Item", "Report", "Robot", "Trigger", "robot"]
