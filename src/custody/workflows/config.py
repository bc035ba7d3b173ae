"""The [workflows] part of custody.toml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.errors import BadInput
from custody.opening import Folder


@dataclass(frozen=True, slots=True)
class WorkflowConfig:
    """The [workflows] part of custody.toml. Paths are relative to the file."""

    work: Path = Path("work-tasks")
    kept: Path = Path("tasks")  # logs and artifacts
    sandboxes: Path = Path("sandboxes")
    secrets: Path = Path("secrets")  # one file for each, readable by the worker only
    engine: str = "podman"  # or docker: runs tasks that name an image
    images: Sequence[str] = ()  # patterns of the images that tasks may name, e.g. ["localhost/*"]
    adopt: float = 120.0  # seconds that a container may live on after its worker was killed
    outputs: int = 65_536  # MiB that one task may leave
    checkout_files: int = 1_000_000  # of one working copy, folders counted too
    checkout_bytes: int = 64 << 30
    checkout_depth: int = 100  # of its folders
    branches: int = 1_000  # of a git repository that are followed; more wait

    def __post_init__(self) -> None:
        for key in ("branches", "checkout_files", "checkout_bytes", "checkout_depth"):
            if getattr(self, key) < 1:
                raise BadInput(f"workflows.{key} must be 1 or more", code="config.value")


def folders(config: WorkflowConfig, home: Path) -> Iterator[Folder]:
    """Who may write to what [workflows] names."""
    yield Folder("workflows.work", home / config.work, "closed")
    yield Folder("workflows.sandboxes", home / config.sandboxes, "closed")
    yield Folder("workflows.kept", home / config.kept, "ours", kept=True)
    yield Folder("workflows.secrets", home / config.secrets, "read", kept=True)
