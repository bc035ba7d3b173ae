"""custody demo: the main jobs of this program on this machine, with nothing else installed."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody import __version__
from custody.cli import runtime
from custody.cli.composition import dashboard_kinds, decided, machines
from custody.cli.signals import stop_on_signals
from custody.errors import Unavailable

if TYPE_CHECKING:
    from custody.demo.together import Stories
    from custody.kernel.stores import Store
    from custody.web.metrics import Telling
    from custody.web.server import Server

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FIRST_PORT = 7337
MOST_PORTS = 50


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="where its data is kept")] = Path("custody-demo"),
    reset: Annotated[bool, typer.Option("--reset", help="begin again from nothing")] = False,
    speed: Annotated[
        float, typer.Option(min=0.05, max=1000, help="how many files a second the depositor's server sends")
    ] = 2.0,
    threads: Annotated[int, typer.Option(help="jobs at once")] = 4,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="end when the stories have nothing left to do")
    ] = False,
) -> None:
    """Deposits that become preserved objects, before your eyes. Loopback only, no login, no services.

    Kill it as rudely as you like and start it again: it goes on where it stopped.
    """
    from custody.demo.together import Stories
    from custody.demo.together import reset as start_over
    from custody.kernel.engine import Settings, Worker
    from custody.kernel.stores import open_store
    from custody.web.metrics import Telling

    if reset:
        start_over(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open_store(f"sqlite:///{folder.resolve() / 'custody.db'}") as store:
        stories = Stories.open(store, folder.resolve(), _port(folder))
        stories.deposits.server.pause = 0.0 if until_idle else 1 / speed
        stories.begin()
        telling = Telling()
        dashboard = None if until_idle else _dashboard(store, stories, telling)
        if dashboard:
            stories.deposits.followed_at(dashboard.url)
        serving = decided(stories.serving(dashboard_kinds(store, stories.line.keeping)))
        worker = Worker(store, serving, Settings(threads=threads, lease=5), telling)
        stop_on_signals(worker.stop)
        if dashboard is None:
            _greet(folder, stories)
            worker.run_until_quiet()
        else:
            _greet(folder, stories, dashboard.url)
            threading.Thread(target=stories.watch_for_mending, daemon=True).start()
            worker.run_forever()
            dashboard.stop()
        stories.stop()


def _dashboard(store: Store, stories: Stories, telling: Telling) -> Server:
    """At the usual port, or the next free one; back when it has answered."""
    from custody.channels.messages.reader import readers
    from custody.web.app import Options, build_app
    from custody.web.pages.all_sections import SECTIONS
    from custody.web.server import Server

    world, chat = stories.deposits.world, stories.chat.mirror
    options = Options(
        world.links.secret,
        demo=True,
        machines=machines(),
        world=world,
        who=runtime.me(),
        telling=telling,
        sections=SECTIONS,
        readers=readers(store, chat.blobs, chat.settings, chat),
        shop=stories.book.shop,
        keeping=stories.line.keeping,
        roots=stories.line.roots,
    )
    return Server(build_app(store, options), port=FIRST_PORT, tries=MOST_PORTS).start()


def _port(folder: Path) -> int:
    """The port of an earlier start, so that addresses in manifests stay good; or the next free one."""
    kept = folder / "demo-port"
    if kept.exists():
        port = int(kept.read_text())
        if not _is_free(port):
            raise Unavailable(
                f"port {port} is taken, perhaps by another demo in {folder}",
                hint="stop that one, or `custody demo --folder elsewhere`",
            )
        return port
    for port in range(FIRST_PORT + 1, FIRST_PORT + MOST_PORTS):
        if _is_free(port):
            kept.write_text(str(port))
            return port
    raise Unavailable(f"no free port between {FIRST_PORT} and {FIRST_PORT + MOST_PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _greet(folder: Path, stories: Stories, dashboard: str = "") -> None:
    here = os.path.relpath(folder)
    path = "" if shutil.which("custody") else f"export PATH={Path(sys.executable).parent}:$PATH; "
    works = stories.book.shop.sandbox_works
    builds = "builds it, a newer build" if works else "would build it, a newer build"
    waits = "" if works else f"\n             Builds wait: {works.reason} ({works.hint})."
    look = f"\n  Dashboard   {dashboard}/\n  API         {dashboard}/api/v1/openapi.json\n" if dashboard else ""
    print(
        f"""custody {__version__} · data in {here} (SQLite) · demo mode: loopback only, no login
{look}
  Deposits   at {stories.deposits.server.url} a depositor hands in 12 objects: two have wrong digests, one file
             is missing. Another's collection is frozen while the map room moves house.
  Archive    a book is being written; each revision indexes it and {builds}
             replaces one still being made.{waits}
  Channel    three thousand messages are mirrored, no faster than is allowed.
  Robots     whatever is stored has its digests and formats checked; all of it is sealed.
  All four   one robot writes a record of each object into an archive, whose workflow indexes it:
             an object's page shows the whole of its history.

Try, in another terminal:
  {path}cd {folder.resolve()}
  custody job list                        where everything stands
  custody job failures                    what went wrong, by cause
  custody job why 1                       why something waits
  custody hold list                       what is frozen, by whom
  custody archive graph My-Project        revisions and tasks of the book
  custody robot matrix                    which item has had which events
  custody channel list                    how far the channel has been mirrored
  ls outbox                               what the depositors were told
  touch depositor/mended                  she puts the missing page back …
  custody job resume --cause http.404     … and you let the job go on;
  custody batch report 1 --update         then she is told what has changed

Ctrl-C stops it. Start it again and it goes on where it was. (kill -9 it: nothing is lost.)
""",
        flush=True,
    )
