"""Workflows, as the rest of the program knows them."""

from custody.application import Application, Noun

APPLICATION = Application(
    name="workflows",
    nouns={
        "archive": Noun(
            "versioned archives whose commits run their own workflow files",
            "custody.workflows.commands.archive:app",
            after="hold",
        )
    },
    kinds=("workflow/",),
    part="custody.workflows.part:PART",
    config="custody.workflows.config:WorkflowConfig",
    folders="custody.workflows.config:folders",
    makers="custody.workflows.makers:MAKERS",
    open="custody.workflows.opening:open_here",
    section="custody.workflows.pages.archives:ARCHIVES",
)
