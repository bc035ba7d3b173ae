"""Channels, as the rest of the program knows them."""

from custody.application import Application, Noun

APPLICATION = Application(
    name="channels",
    nouns={
        "channel": Noun("chat channels mirrored, searchable and incremental", "custody.channels.commands.channel:app")
    },
    kinds=("channel/",),
    part="custody.channels.part:PART",
    config="custody.channels.config:ChannelConfig",
    folders="custody.channels.config:folders",
    makers="custody.channels.makers:MAKERS",
    open="custody.channels.opening:open_here",
    section="custody.channels.pages.channels:CHANNELS",
)
