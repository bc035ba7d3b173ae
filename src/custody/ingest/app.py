"""Ingest, as the rest of the program knows it."""

from custody.application import Application, Noun

APPLICATION = Application(
    name="ingest",
    nouns={
        "batch": Noun(
            "deposits: submit, check, list, show, report, hold, resume",
            "custody.ingest.commands.batch:app",
            after="init",
        )
    },
    kinds=("ingest/", "deliver/"),
    part="custody.ingest.part:PART",
    config="custody.ingest.config:IngestConfig",
    folders="custody.ingest.config:folders",
    machines="custody.ingest.states:MACHINES",
    makers="custody.ingest.makers:MAKERS",
    open="custody.ingest.opening:open_here",
    section="custody.ingest.pages.section:SECTION",
    stores={"zookeeper": "custody.ingest.opening:ZOOKEEPER"},
    scopes={"node": "custody.ingest.holds:NODE", "queue": "custody.ingest.holds:QUEUES"},
)
