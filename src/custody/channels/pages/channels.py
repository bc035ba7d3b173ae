"""Channels: how far each has been mirrored, what is missing and why, its messages, and what is to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from fastapi import Request
from starlette.responses import Response

from custody.channels import jobs, removal, snowflake
from custody.channels.context import Request as Wish
from custody.channels.messages.reader import Reader
from custody.channels.pages import views
from custody.errors import BadInput, Unavailable
from custody.kernel.access.rules import Rule
from custody.web import formatting
from custody.web.access.gate import form_of
from custody.web.page import Asked, View, back, show
from custody.web.request_bodies import Router
from custody.web.sections import Section
from custody.web.site import Site, caller_of, site_of

router = Router()
SHOWN = 50
COLUMNS = {
    "channel": lambda row: str(row.number),
    "name": lambda row: row.name,
    "state": lambda row: row.said,
    "up to": lambda row: str(row.coverage.upto),
    "gaps": lambda row: len(row.coverage.gaps),
    "jobs": lambda row: len(row.jobs),
}
MESSAGE_COLUMNS = {
    "message": lambda row: str(row.id),
    "at": lambda row: row.at.isoformat(),
    "author": lambda row: row.author,
    "text": lambda row: row.text,
    "versions": lambda row: len(row.versions),
    "deleted": lambda row: row.deleted_at,
    "deleted there": lambda row: row.gone,
    "damaged": lambda row: row.damaged or None,
}


def read_list(asked: Asked) -> View:
    found = views.channels(asked.site)
    return View("Channels", {"channels": found}, {"channels": found}, lambda: found)


def read_one(asked: Asked) -> View:
    site = asked.site
    channel = views.channel(site, _number(str(asked.part("channel")), "channel"))
    events = site.store.records.events(f"item/{jobs.item_id(channel.number)}", limit=1000)
    reasons = views.why(site, channel, events)
    reviews = [job for job in channel.jobs if job.kind == jobs.REVIEW]
    synced = next((event for event in reversed(events) if event.type == "synced"), None)
    values = {
        "channel": channel,
        "reasons": reasons,
        "events": events[-50:],
        "reviews": reviews,
        "synced": synced,
        "why_of": {job.id: site.store.queue.why(job.id) for job in reviews[:SHOWN]},
        "held": views.holds(site, channel.number),
        "bot": site.options.readers is not None,
        "threads": views.threads(site, channel.number),
        "may_hold": site.asking.holds,
        "others": [job for job in channel.jobs if job.kind != jobs.REVIEW],
    }
    values["under"] = removal.goes_along(site.store, channel.number)
    data = {"channel": channel, "why": reasons, "review": reviews, "events": events}
    return View(f"#{channel.name} · channel", values, data)


def read_messages(asked: Asked) -> View:
    """A page of what is kept, from a day or a message on."""
    number = _number(str(asked.part("channel")), "channel")
    channel, table = views.channel(asked.site, number), _reader(asked.site, number)
    first = _first(asked.query)
    rows, following = views.messages(asked.site, number, table, first, count=SHOWN)
    here = f"/channels/{number}/messages"
    values = {
        "channel": channel,
        "rows": rows,
        "day": asked.query.get("day", ""),
        "next_address": formatting.address(here, {"after": str(following)}) if following else "",
        "first_address": here if first else "",
    }
    data = {"messages": rows, "next": str(following or "")}
    return View(f"Messages of #{channel.name}", values, data, lambda: rows)


def read_message(asked: Asked) -> View:
    number = _number(str(asked.part("channel")), "channel")
    channel, table = views.channel(asked.site, number), _reader(asked.site, number)
    message = views.message(table, _number(str(asked.part("message")), "message"))
    return View(f"Message {message.id}", {"channel": channel, "message": message}, {"message": message})


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise BadInput(f"{text[:40]!r} is not a number of a {where}", code="channel.number", where=where)
    return snowflake.parse(text)


def _first(query: Mapping[str, str]) -> int:
    if query.get("after"):
        return _number(query["after"], "message")
    day = query.get("day", "")
    if not day:
        return 0
    try:
        return snowflake.at(datetime.fromisoformat(day).replace(tzinfo=UTC))
    except ValueError:
        raise BadInput(f"{day[:40]!r} is not a day", code="channel.day", where="day", hint="2026-03-01") from None


def _reader(site: Site, number: int) -> Reader:
    table = views.reader_of(site, number)
    if table is None:
        raise Unavailable(
            "this process was started without a configuration of channels",
            code="channels.missing",
            hint="`custody serve --config custody.toml`",
        )
    return table


show(router, "/channels", "channels/channels.html", read_list, columns=COLUMNS)
show(router, "/channels/{channel}/messages", "channels/messages.html", read_messages, columns=MESSAGE_COLUMNS)
show(router, "/channels/{channel}/messages/{message}", "channels/message.html", read_message)
show(router, "/channels/{channel}", "channels/channel.html", read_one)


@router.post("/channels", include_in_schema=False, response_model=None)
def add(request: Request) -> Response:
    number = _number(form_of(request).get("channel", "").strip(), "channel")
    return _asked_for(request, Wish("add", number), f"/channels/{number}", f"Channel {number} will be mirrored")


Make = Callable[[int, Mapping[str, str]], tuple[Wish, str]]


def _sync(channel: int, form: Mapping[str, str]) -> tuple[Wish, str]:
    return Wish("sync", channel, why="asked for"), f"Channel {channel} will be synced"


def _review(channel: int, form: Mapping[str, str]) -> tuple[Wish, str]:
    message = _number(form.get("message", "").strip(), "message")
    return Wish("review", channel, message), f"Message {message} will be looked at again"


def _remove(channel: int, form: Mapping[str, str]) -> tuple[Wish, str]:
    if form.get("sure") != str(channel):
        raise BadInput("write the channel's number to confirm", code="channel.sure", where="sure")
    why = form.get("why", "").strip()[:2000]
    if not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    along = tuple(_number(one, "thread") for one in form.get("along", "").split())  # those that the page has shown
    return Wish("remove", channel, why=why, along=along), f"All that is kept of channel {channel} will be deleted"


ACTIONS: Final[Mapping[str, Make]] = {"sync": _sync, "review": _review, "remove": _remove}


@router.post("/channels/{channel}/{action}", include_in_schema=False, response_model=None)
def act(request: Request, channel: str, action: str) -> Response:
    """Ask for something; the work itself is a job."""
    site, number = site_of(request), _number(channel, "channel")
    views.channel(site, number)
    if action in ("hold", "lift"):
        return _pause(request, number, action == "hold")
    if action not in ACTIONS:
        raise BadInput(f"there is no action {action!r}", code="action", hint=", ".join(("hold", "lift", *ACTIONS)))
    wish, said = ACTIONS[action](number, form_of(request))
    return _asked_for(request, wish, f"/channels/{number}", said)


def _pause(request: Request, channel: int, hold: bool) -> Response:
    site, who, why = site_of(request), caller_of(request).agent, form_of(request).get("why", "").strip()[:2000]
    if not site.asking.holds:
        raise Unavailable(
            "channels cannot be held here: it is not the engine that coordinates them",
            code="channels.holds",
            hint='stop their workers, or set `queues = "store"`',
        )
    if hold and not why:
        raise BadInput("say why, for the history", code="action.why", where="why")
    if hold:
        site.store.queue.hold("lane", str(channel), who, why)
    else:
        site.store.queue.lift("lane", str(channel), who, why)
    return back(request, f"/channels/{channel}", f"Channel {channel} is {'held' if hold else 'no longer held'}.")


def _asked_for(request: Request, wish: Wish, path: str, said: str) -> Response:
    """The way this installation is asked: what nobody would do is not promised."""
    became = site_of(request).asking.ask(wish, caller_of(request).acting)
    return back(request, path, f"{said}: {became}.")


RULES: Final[Mapping[str, Rule]] = {
    "GET /channels": Rule("channel:read", whole=True),
    "GET /channels/{channel}": Rule("channel:read", whole=True),
    "GET /channels/{channel}/messages": Rule("channel:read", whole=True),
    "GET /channels/{channel}/messages/{message}": Rule("channel:read", whole=True),
    "POST /channels": Rule("channel:act", whole=True),
    "POST /channels/{channel}/{action}": Rule("channel:act", whole=True),
}


def brief(site: Site) -> str:
    found = views.items(site)
    lost = sum(item.detail.get("mirrored") == "unreadable" for item in found)
    return f"{len(found)} mirrored" + (f", {lost} cannot be read" if lost else "")


CHANNELS: Final = Section(
    "Channels", "/channels", "c", right="channel:read", routers=(router,), rules=RULES, brief=brief
)
