"""Robots, as the rest of the program knows them."""

from custody.application import Application, Noun

APPLICATION = Application(
    name="robots",
    nouns={
        "robot": Noun("functions that wake when an item has had the right events", "custody.robots.commands.robot:app")
    },
    kinds=("robot/",),
    makers="custody.robots.makers:MAKERS",
)
