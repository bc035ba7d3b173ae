"""What a worker can do for workflows: plan commits, run tasks, ask repositories whether something was missed."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from custody.border import modes
from custody.border.egress.allowance import Rules
from custody.border.sandbox import containers
from custody.border.sandbox.sandbox import Sandboxes, available
from custody.errors import CustodyError
from custody.kernel.engine.kinds import Backoff, Chore, Kind
from custody.kernel.engine.makers import Maker
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Outcome
from custody.kernel.stores import Store
from custody.workflows.archives.git.git_branches import BRANCHES, keep_limit
from custody.workflows.archives.hook_spool import Note, spooled
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.processes.vcs_process import unless
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits
from custody.workflows.makers import COMMIT_MAKER, QUICK_MAKER, RUN_MAKER, TASK_MAKER
from custody.workflows.patience import hurry
from custody.workflows.plan.job import commit
from custody.workflows.plan.requested import run
from custody.workflows.tasks import client as inside
from custody.workflows.tasks import leftover_folders
from custody.workflows.tasks.run import confirm_dead, run_task
from custody.workflows.tasks.runner import Runner

RECONCILE_SECONDS = 5.0
PATIENT = Backoff(first=1, most=60)
ASKED_AT_ONCE = 8  # repositories, so that a server that says nothing keeps only some of them waiting


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
    checkout_files: int = LIMITS.files  # of one working copy, folders counted too
    checkout_bytes: int = LIMITS.bytes
    checkout_depth: int = LIMITS.depth  # of its folders
    branches: int = BRANCHES  # of a git repository that are followed; more wait


def open_shop(store: Store, config: WorkflowConfig, home: Path, network: Rules | None = None) -> Runner:
    keep_limit(store, config.branches)
    sandboxes = Sandboxes((home / config.sandboxes).resolve())
    works = available()
    if works:
        sandboxes.__enter__()
    work = (home / config.work).resolve()
    modes.make_closed(work, "tasks")
    kept, secrets = (home / config.kept).resolve(), (home / config.secrets).resolve()
    modes.make_folder(kept)
    shop = Runner(
        store=store,
        sandboxes=sandboxes,
        work=work,
        kept=kept,
        sandbox_works=works,
        client=_client(work),
        secrets=secrets,
        identity=_identity(work),
        engine=containers.engine(config.engine),
        images=tuple(config.images),
        adopt=float(config.adopt),
        network=network or Rules(),
        outputs=int(config.outputs),
        limits=Limits(config.checkout_files, config.checkout_bytes, config.checkout_depth),
    )
    leftover_folders.sweep(shop)
    return shop


def _identity(work: Path) -> str:
    """Names this folder of this machine; made once."""
    file = work / ".tools" / "identity"
    with suppress(FileExistsError), file.open("x") as new:
        new.write(uuid.uuid4().hex)
    return file.read_text()


def _client(work: Path) -> Path:
    """The program that tasks commit with, as a file of its own that can be run."""
    client = work / ".tools" / "custody"
    client.parent.mkdir(exist_ok=True)
    draft = client.with_name(f"custody-{os.getpid()}-{threading.get_ident()}")
    shutil.copyfile(inside.__file__, draft)
    draft.chmod(0o755)
    os.replace(draft, client)  # another worker may be giving it to a sandbox just now
    return client


def kinds(shop: Runner, at_once: int = 0) -> Sequence[Kind]:
    """Long tasks leave a thread of every worker to planning and to quick tasks; and so do those that are only called
    quick."""
    return (
        planning(shop.store),
        Kind(
            RUN_MAKER.kind,
            _while_wanted(lambda work: run(work, shop.store)),
            tries=1_000_000,
            backoff=PATIENT,
            maker=RUN_MAKER,
        ),
        replace(_tasks(shop, QUICK_MAKER), spare=1),
        replace(_tasks(shop, TASK_MAKER), at_once=at_once, spare=1),
    )


def planning(store: Store) -> Kind:
    """Whoever has planned a revision plans the next one, if it is known by then."""
    return Kind(
        COMMIT_MAKER.kind,
        _while_wanted(lambda work: commit(work, store)),
        tries=1_000_000,
        backoff=PATIENT,
        onward=True,
        maker=COMMIT_MAKER,
    )


def _tasks(shop: Runner, maker: Maker) -> Kind:
    return Kind(
        maker.kind,
        _while_wanted(lambda work: run_task(work, shop)),
        tries=1_000,
        confirm_dead=lambda job: confirm_dead(job, shop),
        maker=maker,
    )


def _while_wanted(handle: Callable[[Work], Outcome]) -> Callable[[Work], Outcome]:
    """Whoever is told to stop asks its repository no more, at whichever question it is."""

    def handled(work: Work) -> Outcome:
        with unless(lambda: work.stopped):
            return handle(work)

    return handled


def chores(store: Store, every: float = RECONCILE_SECONDS) -> Sequence[Chore]:
    return (Chore("reconcile archives", every, lambda: reconcile_all(store), finds=True),)


def reconcile_all(store: Store) -> int:
    """Ask every repository for its youngest revision; one that does not answer does not stop the others."""
    waiting, new = deque(Archives(store).list()), list[int]()

    def ask() -> None:
        with suppress(IndexError):
            while True:
                new.append(_reconcile(store, waiting.popleft()))

    # Not a pool's: whoever ends the process does not wait for a server that says nothing.
    threads = [threading.Thread(target=ask, daemon=True) for _ in range(min(ASKED_AT_ONCE, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(new)


def _reconcile(store: Store, kept: Kept) -> int:
    """How many of one archive's revisions were new; what went wrong is noted."""
    new, why, partly = 0, "", False
    try:
        notes = _spooled(kept)
        new = reconcile(store, kept)
        for note in notes:  # answered by what the repository itself said after they were written
            note.forget()
    except Exception as error:  # whatever it is, it is this archive's alone
        why = str(error) if isinstance(error, CustodyError | OSError) else repr(error)
        partly = isinstance(error, CustodyError) and bool(error.facts.get("partly"))
    with suppress(CustodyError):  # the store is told of at the next look
        if Archives(store).note_reach(kept.name, why, "reconciler", partly) and not why:
            hurry(store, kept.name)
    return new


def _spooled(kept: Kept) -> Sequence[Note]:
    """What a hook could not pass on; while it is frozen nobody is asked, and nothing is answered."""
    if kept.frozen:
        return ()
    location = Path(kept.location.removeprefix("file://"))
    return spooled(location) if location.is_dir() else ()
