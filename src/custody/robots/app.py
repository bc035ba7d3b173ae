"""Robots, as the rest of the program knows them."""

from custody.application import Application, Noun

APPLICATION = Application(
    name="robots",
    nouns={
        "robot": Noun("functions that wake when an item has had the right events", "custody.robots.commands.robot:app")
    },
    kinds=("robot/",),
    part="custody.robots.part:PART",
    makers="custody.robots.makers:MAKERS",
    folders="custody.robots.opening:folders",
    open="custody.robots.opening:open_here",
    section="custody.robots.pages.robots:ROBOTS",
    acts={
        "stopped": "robot stop",
        "approved": "robot approve",
        "prioritised": "robot prioritise",
        "withdrawn": "robot restart",
    },
    may_import="custody.robots.discovery:must_not_be_a_program",
)
