"""Text extraction: the label beside this file, so that the program can be run by the name of a module."""

from pathlib import Path

from custody.robots.label import read_label

text = read_label(Path(__file__).with_name("text.robot.toml"))
