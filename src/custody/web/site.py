"""What all routes share: the store, who is who, how pages are made. One value, no globals."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from fastapi import Request
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from custody import __version__
from custody.border.roots import NO_ROOTS, Roots
from custody.channels.messages.reader import Reader
from custody.channels.requests import Asking, by_jobs
from custody.errors import BadInput, Unavailable
from custody.ingest.adapters import Adapters
from custody.ingest.batch.links import Links
from custody.kernel.access.caller import Caller
from custody.kernel.access.rules import Rule
from custody.kernel.access.tokens import Tokens
from custody.kernel.engine.makers import OWN_KIND, is_among
from custody.kernel.history.sealer import Sealer
from custody.kernel.model.job import Job
from custody.kernel.model.machine import PLAIN, Machines
from custody.kernel.model.why import Reason
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store
from custody.web import formatting
from custody.web.access.oidc import Issuer
from custody.web.access.rate_limits import KNOWN, UNKNOWN, Doorstep, Rate, Rates
from custody.web.live_updates import Changes
from custody.web.metrics import Telling
from custody.web.operations import submission
from custody.web.operations.makers import MAKERS
from custody.web.operations.reasons import why
from custody.web.queries.overview import Glance
from custody.web.sections import INGEST, Section
from custody.workflows.tasks.runner import Runner

SAID = "custody_said"
MEBIBYTE = 1 << 20
NOBODY = Caller("", frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Options:
    """How this process serves. Without `demo`, everything but a few public addresses needs a token."""

    secret: bytes  # signs depositors' links; the same in all processes of an installation
    demo: bool = False  # loopback without login
    machines: Machines = PLAIN
    world: Adapters | None = None  # what ingest works in; without it nothing can be deposited here
    sections: Sequence[Section] = (INGEST,)
    small_body: int = MEBIBYTE
    upload: int = 64 << 30
    secure_cookie: bool = False  # behind TLS
    rate: Rate = KNOWN  # of each token
    unknown_rate: Rate = UNKNOWN  # of each address that comes without a valid one
    login: Issuer | None = None  # where people log in besides with tokens
    who: str = "demo"  # the name in the history of what is done in demo mode
    telling: Telling = field(default_factory=Telling)
    readers: Callable[[int], Reader] | None = None  # what is kept of a channel, by its number, as people may see it
    asking: Asking | None = None  # how something is asked about channels; None: by jobs of the engine
    shop: Runner | None = None  # where tasks' logs and files are kept
    roots: Roots = NO_ROOTS  # below which items are
    keeping: Sealer = field(default_factory=Sealer)  # whose seals of the history are believed
    open_kinds: Sequence[str] = ()  # what may be asked for besides the kinds that workers have offered


class Site:
    def __init__(self, store: Store, options: Options, sections: Sequence[Section], rules: Mapping[str, Rule]) -> None:
        self.store, self.options, self.sections, self.rules = store, options, tuple(sections), rules
        self.tokens = Tokens(store)
        self.rates, self.unknown_rates = Rates(options.rate), Rates(options.unknown_rate)
        self.doorstep = Doorstep()
        lines = [section.line for section in sections if section.line]
        self.glance = Glance(store, options.machines, lines)
        self.changes = Changes(store, self.glance.forget)

    @property
    def machines(self) -> Machines:
        return self.options.machines

    @property
    def world(self) -> Adapters:
        if self.options.world is None:
            raise Unavailable(
                "nothing can be deposited here: this process was started without a configuration of ingest",
                code="ingest.missing",
                hint="`custody serve --config custody.toml`",
            )
        return self.options.world

    @property
    def asking(self) -> Asking:
        return self.options.asking or by_jobs(self.store)

    @property
    def links(self) -> Links:
        """Those that workers put into mails are checked with the same secret."""
        return self.options.world.links if self.options.world else Links(self.options.secret)

    def why(self, job: Job, caller: Caller) -> Sequence[Reason]:
        """Why it does not go on, with what only ingest can know, in words that are this caller's to hear."""
        reasons = why(self.store, job, self.options.world.disk if self.options.world else None)
        return submission.told_to(self.store, caller, reasons)

    def must_be_open(self, kind: str) -> None:
        """Refuse a kind that an application makes itself, and one that no worker has ever offered."""
        MAKERS.must_be_free(kind)
        if is_among(kind, self.options.open_kinds) or is_among(kind, [one.kind for one in self.store.kinds.list()]):
            return
        raise BadInput(
            f"no worker has offered to do {kind[:100]}",
            code="job.kind",
            where="kind",
            hint=f"{OWN_KIND}; or name it in custody.toml: [access] open_kinds",
        )

    def operator(self, caller: Caller) -> Operator:
        return Operator(self.store, self.machines, caller.agent)

    def demo_caller(self) -> Caller:
        return Caller(
            self.options.who,
            frozenset({"admin"}),
            None,
            csrf=self.form_token(None),
            identity=f"demo:{self.options.who}",
        )

    def form_token(self, caller: Caller | None) -> str:
        """For a session its own; for those without one (the login form, demo mode) the installation's."""
        if caller is not None and caller.csrf:
            return caller.csrf
        return hmac.new(self.options.secret, b"form", hashlib.sha256).hexdigest()

    @cached_property
    def templates(self) -> Environment:
        made = Environment(
            loader=_templates(),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters |= formatting.FILTERS
        made.globals |= {"static": formatting.static_address(), "version": __version__, "look": formatting.look}
        return made

    def page(self, request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        caller: Caller | None = getattr(request.state, "caller", None)
        theme = request.cookies.get("custody_theme", "auto")
        shown = [each for each in self.sections if caller and caller.has(each.right)]
        about = values.get("job") or values.get("batch")
        common = {
            "sections": [each for each in shown if caller and (caller.where(each.right) is None or not each.whole)],
            "caller": caller,
            "form_token": self.form_token(caller),
            "now": self.store.now(),
            "path": request.url.path,
            "theme": theme if theme in ("light", "dark") else "auto",
            "query": dict(request.query_params),
            "address": formatting.address(request.url.path, request.query_params),
            "demo": self.options.demo,
            "backend": self.store.db.dialect,
            "data_address": "",
            "csv_address": "",
            "live": False,
            "since": getattr(request.state, "since", 0),
            "sees_all": bool(caller and caller.where("event:read") is None),
            "may_act": bool(
                caller
                and (caller.may("job:act", about.collection) if isinstance(about, Job) else caller.has("job:act"))
            ),
            "said": unquote(request.cookies.get(SAID, "")),
        }
        html = self.templates.get_template(template).render({**common, **values})
        response = HTMLResponse(html, status)
        if SAID in request.cookies:
            response.delete_cookie(SAID, path="/")  # said once
        return response


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def caller_of(request: Request) -> Caller:
    """Whom the gate let through; nobody in particular on public pages."""
    return getattr(request.state, "caller", None) or NOBODY


def _templates() -> ChoiceLoader:
    """The shell's own, and each application's by its name: `ingest/batch.html`, which may extend `base.html`."""
    names = ("ingest", "workflows", "channels", "robots")
    return ChoiceLoader(
        [PackageLoader("custody.web"), PrefixLoader({name: PackageLoader(f"custody.{name}.pages") for name in names})]
    )
