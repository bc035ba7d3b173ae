"""custody serve: API, dashboard, scheduler and workers in one process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody.cli import runtime
from custody.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from custody.web.site import Site

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
PORT = 7337


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="the address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one")] = PORT,
    workers: Annotated[bool, typer.Option(help="also work, and turn due schedules into jobs")] = True,
    threads: Annotated[int, typer.Option(help="how many jobs at once")] = 4,
    demo: Annotated[bool, typer.Option("--demo", help="this machine only, without login")] = False,
    secure: Annotated[bool, typer.Option("--secure", help="behind TLS: cookies travel nowhere else")] = False,
    secret: Annotated[
        Path | None, typer.Option(envvar="CUSTODY_SECRET", help="file whose secret signs depositors' links")
    ] = None,
    config: Annotated[Path | None, typer.Option(envvar="CUSTODY_CONFIG", help="custody.toml")] = None,
    log: Annotated[bool, typer.Option(help="the workers' log on standard error")] = True,
    store: Annotated[str, typer.Option(envvar="CUSTODY_STORE", help="instead of the configuration's store")] = "",
) -> None:
    """Serve until SIGTERM or Ctrl-C; work under way finishes or is given back."""
    from custody.cli.composition import asking_of, channel_numbers, keeping_of, machines, readers_of, serving, shop_of
    from custody.cli.log import Logging
    from custody.cli.open_store import PATIENCE, open_store
    from custody.cli.storage_roots import open_roots
    from custody.config import find
    from custody.ingest.batch.links import read_secret
    from custody.ingest.config import open_world
    from custody.kernel.engine import Settings, Worker
    from custody.kernel.engine.listeners import NOTHING
    from custody.web.access.oidc import open_issuer
    from custody.web.app import Options, build_app
    from custody.web.metrics import Telling
    from custody.web.pages.all_sections import SECTIONS
    from custody.web.server import Server

    found = find(config)
    telling = Telling(Logging() if log else NOTHING)
    url = store or (found.store if found else runtime.DEFAULT_STORE)
    with open_store(url, found, patience=PATIENCE) as opened:
        world = open_world(opened, found.ingest, found.home) if found else None
        if world and secret:
            world = replace(world, links=replace(world.links, secret=read_secret(secret)))
        options = Options(
            world.links.secret if world else read_secret(secret or Path("custody.secret")),
            demo=demo,
            machines=machines(),
            world=world,
            secure_cookie=secure,
            who=runtime.me(),
            telling=telling,
            sections=SECTIONS,
            readers=readers_of(opened, found),
            asking=asking_of(opened, found),
            shop=shop_of(opened, found),
            roots=open_roots(opened, found),
            keeping=keeping_of(found),
            login=open_issuer(found.login, found.home) if found else None,
            open_kinds=found.access.open_kinds if found else (),
        )
        telling.channels = channel_numbers(opened, found)
        site = build_app(opened, options)
        server = Server(site, host, port).start()
        stopping = threading.Event()
        settings = Settings(threads=threads, place=found.ingest.place if found else "")
        worker = Worker(opened, serving(opened, config, [], [], world=world), settings, telling) if workers else None

        def stop() -> None:
            stopping.set()
            if worker:
                worker.stop()

        stop_on_signals(stop)
        where = _workers(workers, configured=found is not None)
        _greet(server.url, demo, _can_log_in(site.state.site, opened.now()), where, store=opened.url)
        worker.run_forever() if worker and not stopping.is_set() else stopping.wait()
        server.stop()


def _can_log_in(site: Site, now: int) -> bool:
    return any(token.revoked is None and token.expires > now for token in site.tokens.list())


def _workers(here: bool, configured: bool) -> str:
    """Who works, and on what: archives and deposits need to know where to put things."""
    if not here:
        return "elsewhere: custody worker run"
    return "in this process" if configured else "in this process, but not on archives or deposits: first custody init"


def _greet(url: str, demo: bool, has_tokens: bool, workers: str, store: str) -> None:
    print(f"dashboard  {url}/\nAPI        {url}/api/v1/openapi.json", flush=True)
    print(f"workers    {workers}", flush=True)
    if demo:
        print("login      none: only this machine is served", flush=True)
    elif not has_tokens:
        print(f"login      needs a token: custody token create NAME --role admin --store {_shown(store)}", flush=True)


def _shown(store: str) -> str:
    """Without the password that a PostgreSQL URL may hold."""
    return store if store.startswith("sqlite:") else "…"
