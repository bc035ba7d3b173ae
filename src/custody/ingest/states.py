"""The two tables of ingest: how an object's job and how a batch move.

Read by the engine, the diagram in the docs, the CLI's choices and the test that walks the whole of it.
`storing` is the deployed form of "call the storage endpoint": split off from processing so that a failure of
storage is resumed without minting and describing again.
"""

from __future__ import annotations

from typing import Final

from custody.kernel.model.machine import AFTER_LAST_PASSED, Machine, Move

JOB_KIND: Final = "ingest/job"
BATCH_KIND: Final = "ingest/batch"

QUEUE: Final = "ingest"
QUEUE_KINDS: Final = (JOB_KIND, BATCH_KIND)
"""The queue as people name it, and the kinds of work in it: paused together."""

STEPS: Final = (
    "pending",
    "estimating",
    "provisioning",
    "downloading",
    "processing",
    "storing",
    "recording",
    "notify",
)
"""The working states of a job, in order."""

JOB: Final = Machine(
    name="ingest job",
    start="pending",
    working=frozenset(STEPS),
    ends={"completed": "passed", "failed": "failed", "rejected": "failed"},
    moves=(
        # from             signal     to
        Move("pending", "pass", "estimating"),
        Move("pending", "fail", "rejected"),  # final: a new submission is required
        Move("pending", "hold", "held"),
        Move("held", "release", "pending", by="admin"),
        Move("estimating", "pass", "provisioning"),
        Move("provisioning", "pass", "downloading"),
        Move("provisioning", "fail", "failed"),
        Move("downloading", "pass", "processing"),
        Move("downloading", "fail", "failed"),
        Move("processing", "pass", "storing"),
        Move("processing", "fail", "failed"),
        Move("storing", "pass", "recording"),
        Move("storing", "fail", "failed"),
        Move("recording", "pass", "notify"),
        Move("recording", "fail", "failed"),
        Move("notify", "pass", "completed"),
        Move("notify", "fail", "failed"),
        Move("failed", "resume", AFTER_LAST_PASSED, by="admin"),
    ),
    instead={
        ("rejected", "resume"): "a new submission is required: what was handed in is itself at fault",
        ("deleted", "resume"): "a new submission is required: who deleted it is in its history",  # in the tree
        ("completed", "delete"): "it is deposited, and is reported so; `custody batch delete` takes it along",
    },
)

BATCH: Final = Machine(
    name="ingest batch",
    start="pending",
    working=frozenset({"pending", "reporting", "update-reporting"}),
    ends={"completed": "passed", "failed": "failed"},
    moves=(
        # from                 signal     to
        Move("pending", "pass", "processing"),
        Move("pending", "fail", "failed"),  # no rows, or a manifest that cannot be read
        Move("pending", "hold", "held"),
        Move("held", "release", "pending", by="admin"),
        Move("processing", "empty", "reporting", by="engine"),
        Move("reporting", "pass", "completed"),
        Move("reporting", "fail", "failed"),
        Move("failed", "report", "update-reporting", by="admin"),
        Move("update-reporting", "pass", "completed"),
        Move("update-reporting", "fail", "failed"),
    ),
    instead={
        ("failed", "resume"): "it is its jobs that are resumed; then `custody batch report … --update` tells of them",
        ("update-reporting", "report"): "it was asked for before: a worker will see to it",
        ("completed", "report"): "all of it is deposited and reported: there is nothing to tell",
        ("processing", "report"): "its first report comes by itself when its last job has ended",
        ("reporting", "report"): "its first report is being made",
    },
)

MACHINES: Final = {JOB_KIND: JOB, BATCH_KIND: BATCH}
