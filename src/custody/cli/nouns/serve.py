"""custody serve: API, dashboard, scheduler and workers in one process."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody.cli import runtime
from custody.cli.process.output import Unsaid, say_no_more
from custody.cli.process.signals import stop_on_signals
from custody.cli.runtime import Without

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
    without: Without = None,
    log: Annotated[bool, typer.Option(help="the workers' log on standard error")] = True,
    store: Annotated[str, typer.Option(envvar="CUSTODY_STORE", help="instead of the configuration's store")] = "",
) -> None:
    """Serve until SIGTERM or Ctrl-C; work under way finishes or is given back."""
    from custody.cli.composition import keeping_of, opened, serving
    from custody.cli.open_store import PATIENCE, open_store
    from custody.cli.process.log import Logging
    from custody.cli.storage_roots import open_roots
    from custody.config import find
    from custody.installation import machines
    from custody.kernel.access.installation import read_secret
    from custody.kernel.engine import Settings, Worker
    from custody.kernel.engine.listeners import NOTHING
    from custody.web.access.oidc import open_issuer
    from custody.web.app import Options, build_app
    from custody.web.metrics import Telling
    from custody.web.server import Server

    found = find(config)
    telling = Telling(Logging() if log else NOTHING)
    url = store or (found.store if found else runtime.DEFAULT_STORE)
    with (
        open_store(url, found, patience=PATIENCE) as handle,
        opened(handle, found, works=workers, shows=True, secret=secret, without=without or ()) as applications,
    ):
        options = Options(
            read_secret(secret or (found.secret if found else Path("custody.secret"))),
            demo=demo,
            machines=machines(),
            opened=applications,
            place=found.place if found else "",
            secure_cookie=secure,
            who=runtime.me(),
            telling=telling,
            roots=open_roots(handle, found),
            keeping=keeping_of(found),
            login=open_issuer(found.login, found.home) if found else None,
            open_kinds=found.access.open_kinds if found else (),
        )
        telling.applications = tuple(applications.values())
        site = build_app(handle, options)
        server = Server(site, host, port).start()
        stopping = threading.Event()
        settings = Settings(threads=threads, place=found.place if found else "")
        worker = Worker(handle, serving(handle, found, applications), settings, telling) if workers else None

        def stop() -> None:
            stopping.set()
            if worker:
                worker.stop()

        stop_on_signals(stop)
        where = _workers(workers, configured=found is not None)
        _greet(server.url, demo, _can_log_in(site.state.site, handle.now()), where, store=handle.url)
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
    said = f"dashboard  {url}/\nAPI        {url}/api/v1/openapi.json\nworkers    {workers}"
    if demo:
        said += "\nlogin      none: only this machine is served"
    elif not has_tokens:
        said += f"\nlogin      needs a token: custody token create NAME --role admin --store {_shown(store)}"
    try:
        print(said, flush=True)
    except Unsaid:  # a service is often started without; whom it serves does not mind
        say_no_more()
        print(said, file=sys.stderr, flush=True)


def _shown(store: str) -> str:
    """Without the password that a PostgreSQL URL may hold."""
    return store if store.startswith("sqlite:") else "…"
