"""custody channel deleted, believe, disbelieve, set-aside, accept-loss: what an operator says about what goes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from custody.channels.commands.parts import Channel, blobs_of, known
from custody.channels.context import Context, checked, item_id, noted
from custody.channels.crawl import trust
from custody.channels.crawl.kept import Kept
from custody.channels.debts import emptied_texts
from custody.channels.integrity import damage
from custody.channels.kinds import open_mirror
from custody.channels.messages import deletions, last_seen
from custody.channels.messages.deletions import Policy
from custody.channels.snowflake import HIGHEST
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile, StoreUrl, opened
from custody.cli.runtime import Why
from custody.config import Config
from custody.errors import BadInput, Refused
from custody.kernel.model.event import NewEvent
from custody.kernel.stores import Store

UpTo = Annotated[datetime | None, typer.Option("--up-to", help="gone by this moment (UTC); now unless told")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]


def deleted(
    channel: Channel,
    policy: Annotated[str, typer.Argument(help="keep, tombstone, or 'honour after N days'")],
    why: Why,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Say what becomes here of messages that are gone there. What was erased before stays erased."""
    told, number = str(Policy.read(policy, "policy")), checked(channel)
    if told == "tombstone" != policy:
        raise BadInput(
            "without days of grace it is erased as soon as it is confirmed to be gone",
            code="channel.deleted",
            where="policy",
            hint="say tombstone if that is meant, or honour after 7 days",
        )
    with opened(config, store) as (handle, _):
        known(handle, number)
        event = NewEvent(item_id(number), "policy", detail={"deleted": told, "why": why})
        handle.records.put((noted(number, deleted=told),), (event,), runtime.me())
    print(f"channel {channel}: {told}")


def believe(
    channel: Channel,
    why: Why,
    up_to: UpTo = None,
    unseen: Annotated[bool, typer.Option("--unseen", help="all that is kept is gone: nothing is left to ask")] = False,
    blank: Annotated[
        bool, typer.Option("--blank", help="texts that are shown empty without an edit are so: they are no longer owed")
    ] = False,
    yes: Yes = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Permit that messages which were confirmed to be gone there are erased here, as the channel's policy says."""
    if blank:
        if unseen or up_to:
            raise BadInput("it is about what is shown now", where="--blank", hint="without --unseen and --up-to")
        _say_blank(config, store, channel, why=why, yes=yes)
        return
    _say(config, store, channel, up_to, why=why, yes=yes, word="believed", unseen=unseen)


def disbelieve(
    channel: Channel,
    why: Why,
    up_to: UpTo = None,
    blank: Annotated[
        bool, typer.Option("--blank", help="take back that texts are empty there: they are owed again")
    ] = False,
    yes: Yes = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Keep for ever what was confirmed to be gone there until now, whatever the policy says."""
    if blank:
        if up_to:
            raise BadInput("it is about all of which that was said", where="--blank", hint="without --up-to")
        _say_blank(config, store, channel, why=why, yes=yes, back=True)
        return
    _say(config, store, channel, up_to, why=why, yes=yes, word="disbelieved")


def _say(
    config: Path | None,
    store: str,
    channel: str,
    up_to: datetime | None,
    *,
    why: str,
    yes: bool,
    word: str,
    unseen: bool = False,
) -> None:
    number = checked(channel)
    with opened(config, store) as (handle, settings):
        item, now = known(handle, number), handle.now()
        upto = trust.moment(up_to.replace(tzinfo=UTC).isoformat()) if up_to else now
        if upto > now:
            hint = "a word is about what is confirmed by now: without --up-to"
            raise BadInput("that moment has not come yet", code="channel.future", where="--up-to", hint=hint)
        if unseen and not deletions.is_silent(item):
            hint = "it is about channels that show nothing any more, and were synced since: without --unseen"
            raise Refused("the channel shows messages", code="channel.shown", where=item.id, hint=hint)
        mirror = _mirror(handle, settings)
        kept = Kept(mirror, number)
        ids = list(kept.kept(-1, HIGHEST + 1)) if unseen else deletions.believed(kept, upto)
        print(f"{len(ids)} messages that are kept are {word}: gone by {trust.stamp(upto)}")
        if ids and not yes:
            typer.confirm("Is that so?", abort=True)
        if unseen and ids:
            kept.mark(ids, (upto, trust.WORD, runtime.me()))
        if ids:
            deletions.say(mirror, number, upto=upto, why=why, who=runtime.me(), word=word, count=len(ids))


def _mirror(store: Store, settings: Config) -> Context:
    mirror = open_mirror(store, settings.channels, settings.home)
    if mirror is None:
        raise BadInput("there is no bot's token", code="discord.token", where=str(settings.channels.token_file))
    return mirror


def _say_blank(config: Path | None, store: str, channel: str, *, why: str, yes: bool, back: bool = False) -> None:
    """What is kept of these texts stays, whatever is said."""
    number = checked(channel)
    with opened(config, store) as (handle, settings):
        known(handle, number)
        mirror = _mirror(handle, settings)
        ids, debts = (emptied_texts.believed(mirror, number), []) if back else emptied_texts.shown_now(mirror, number)
        told = "were believed to be empty there" if back else "are shown without the text that is kept of them"
        print(f"{len(ids)} messages {told}")
        if ids and not yes:
            typer.confirm("Are their texts owed again?" if back else "Were they truly emptied there?", abort=True)
        if ids and back:
            emptied_texts.disbelieve(mirror, number, ids, why=why, who=runtime.me())
        elif ids:
            emptied_texts.believe(mirror, number, ids, debts, why=why, who=runtime.me())
        if ids:
            handle.records.put((noted(number, owed_at=trust.stamp(handle.now())),), (), runtime.me())


def set_aside(
    channel: Channel,
    why: Why,
    back: Annotated[bool, typer.Option("--back", help="let it count again")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Let a channel's state no longer make a run end with an error; it is tried again all the same."""
    number = checked(channel)
    with opened(config, store) as (handle, _):
        known(handle, number)
        event = NewEvent(item_id(number), "counts again" if back else "set aside", detail={"why": why})
        handle.records.put((noted(number, set_aside=not back),), (event,), runtime.me())
    print(f"channel {channel}: {'counts again' if back else 'set aside'}")


def accept_loss(channel: Channel, why: Why, config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Say that you know of the parts that were damaged here and are lost: they no longer count against the channel."""
    number = checked(channel)
    with opened(config, store) as (handle, settings):
        known(handle, number)
        count = damage.accepted(last_seen.of(blobs_of(settings, handle), number, settings.channels.capacity))
        if count:
            told = {"parts": count, "why": why}
            handle.records.append(
                NewEvent(item=item_id(number), type="loss accepted", outcome="success", agent=runtime.me(), detail=told)
            )
    print(f"channel {channel}: {count} lost parts no longer count; its history has them")
