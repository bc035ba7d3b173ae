"""Two state tables that the fault tests use besides the plain one."""

from __future__ import annotations

from custody.kernel.model.machine import AFTER_LAST_PASSED, Machine, Move

STEPS = Machine(
    "steps",
    "fetching",
    (
        Move("fetching", "pass", "storing"),
        Move("fetching", "fail", "failed"),
        Move("storing", "pass", "done"),
        Move("storing", "fail", "failed"),
        Move("failed", "resume", AFTER_LAST_PASSED, by="admin"),
    ),
    frozenset({"fetching", "storing"}),
    {"done": "passed", "failed": "failed"},
)

RESUMABLE = Machine(
    "resumable batch",
    "pending",
    (
        Move("pending", "pass", "processing"),
        Move("pending", "fail", "failed"),
        Move("failed", "resume", "pending", by="admin"),
        Move("processing", "empty", "reporting", by="engine"),
        Move("reporting", "pass", "completed"),
    ),
    frozenset({"pending", "reporting"}),
    {"completed": "passed", "failed": "failed"},
)
