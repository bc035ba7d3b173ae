"""Text extraction: the label beside this file, so that the program can be run by the name of a module."""

import os
from dataclasses import replace
from pathlib import Path

from custody.robots.programs.label import read_label
from custody.robots.programs.program import Program

text = read_label(Path(__file__).with_name("text.robot.toml"))

if os.environ.get("CUSTODY_TEXTS") and isinstance(text.work, Program):
    text = replace(text, work=replace(text.work, keep=Path(os.environ["CUSTODY_TEXTS"]).resolve()))
