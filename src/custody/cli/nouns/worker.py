"""custody worker: run the work; see who runs it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import PATIENCE, open_store
from custody.cli.runtime import AsJson, StoreUrl
from custody.cli.signals import stop_on_signals
from custody.cli.times import ago
from custody.kernel.stores import Store

if TYPE_CHECKING:
    from custody.config import Config
    from custody.kernel.engine.listeners import Listener
    from custody.web.metrics import Telling
    from custody.web.metrics_server import Scraped

app = runtime.noun("Run the work; see who runs it.")


@app.command()
def run(
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="only this kind, or kind:state; may be repeated")
    ] = None,
    load: Annotated[
        list[Path] | None, typer.Option(help="a Python file with KINDS = [Kind(…)]; may be repeated")
    ] = None,
    exec_: Annotated[
        list[str] | None, typer.Option("--exec", help="KIND=COMMAND: payload as JSON on its standard input")
    ] = None,
    threads: Annotated[int, typer.Option(help="how many jobs at once")] = 4,
    lease: Annotated[float, typer.Option(help="seconds a claim lasts without renewal")] = 30,
    poll: Annotated[float, typer.Option(help="seconds between looks when nothing wakes us")] = 1,
    grace: Annotated[float, typer.Option(help="seconds for work to finish on SIGTERM")] = 20,
    place: Annotated[str, typer.Option(help="this machine's working disk, if not as configured")] = "",
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle", help="end when nothing can be worked on now or in a moment; repositories are asked first"
        ),
    ] = False,
    wake: Annotated[bool, typer.Option(help="listen for wake-ups between polls")] = True,
    config: Annotated[Path | None, typer.Option(envvar="CUSTODY_CONFIG", help="custody.toml")] = None,
    log: Annotated[bool, typer.Option(help="structured log on standard error")] = True,
    metrics: Annotated[str, typer.Option(help="serve Prometheus metrics there, such as 127.0.0.1:9337")] = "",
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Claim jobs and work on them until told to stop (SIGTERM or Ctrl-C)."""
    from custody.cli.composition import serving
    from custody.cli.log import Logging
    from custody.config import find
    from custody.kernel.engine import Settings, Worker
    from custody.kernel.engine.listeners import NOTHING

    found = find(config)
    place = place or (found.ingest.place if found else "")
    if found is None and not (load or exec_ or kinds):
        print(
            "there is no custody.toml here, so this worker serves no batches, archives or channels;\n"
            "  `custody init` writes one, --config names another",
            file=sys.stderr,
            flush=True,
        )
    with open_store(store, found, lease, place, patience=PATIENCE) as opened:
        serves = serving(opened, config, load or [], exec_ or [], place=place)
        serves = serves.only(kinds) if kinds else serves
        settings = Settings(threads=threads, lease=lease, poll=poll, grace=grace, place=place, wake=wake)
        watch: Listener = Logging() if log else NOTHING
        scraped = _metrics(metrics, opened, watch, found) if metrics else None
        worker = Worker(opened, serves, settings, scraped[0] if scraped else watch)
        stop_on_signals(worker.stop)
        with scraped[1] if scraped else nullcontext():
            worker.run_until_quiet() if until_idle else worker.run_forever()


def _metrics(where: str, store: Store, watch: Listener, found: Config | None = None) -> tuple[Telling, Scraped]:
    from custody.cli.composition import channel_numbers, machines
    from custody.web.metrics import Telling
    from custody.web.metrics_server import Scraped

    telling = Telling(watch)
    telling.channels = channel_numbers(store, found)
    scraped = Scraped(where, store, machines(), telling)
    print(f"metrics    {scraped.url}", file=sys.stderr, flush=True)
    return telling, scraped


@app.command("list")
def list_(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """Workers seen within the last half minute."""
    with open_store(store) as opened:
        workers, now = opened.workers(), opened.now()
    if json:
        runtime.emit(workers)
        return
    columns = {
        "worker": lambda worker: worker.id,
        "place": lambda worker: worker.place,
        "up": lambda worker: ago(worker.started, now),
        "seen": lambda worker: ago(worker.seen, now) + " ago",
        "serves": lambda worker: ", ".join(p.replace("|", ":").strip(":") for p in worker.serves.split("\n")),
    }
    runtime.table(columns, workers, "no worker has been seen lately: custody worker run")
