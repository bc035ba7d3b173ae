"""The client and the stand-in for Discord, over real connections and with a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from channels.conftest import Clock
from custody.channels.discord.answers import expires
from custody.channels.discord.client import BadToken, Discord, Gone, RateLimited, Raw, Unreadable, WrongKind
from custody.channels.discord.rate_limits import Buckets, Budget, Route, Spaced, reset_after
from custody.channels.snowflake import HIGHEST, parse
from custody.demo.standins.discord import Standin
from custody.demo.standins.discord_guild import FORUM, NEWS, PRIVATE_THREAD, TEXT, World
from custody.demo.standins.discord_traffic import Switches
from custody.errors import BadInput, CustodyError, Unavailable, Unsafe


class Rig:
    """A stand-in with one text channel, and clients whose sleeping moves the clock."""

    def __init__(self, clock: Clock, stack: ExitStack) -> None:
        self.clock = clock
        self.stack = stack
        self.world = World()
        self.text = self.world.add(TEXT, "general", 1_000)
        self.switches = Switches()
        self.server = stack.enter_context(Standin(self.world, clock, self.switches))
        self.slept = 0.0

    def seconds(self) -> float:
        return self.clock.now.timestamp()

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept += seconds
        self.clock.advance(seconds=seconds + 0.001)

    def client(self, token: str = "token", patience: float = 60.0) -> Discord:
        http = self.stack.enter_context(httpx2.Client(trust_env=False, timeout=60))
        return Discord(
            token,
            http=http,
            slots=Spaced(now=self.seconds),
            buckets=Buckets(now=self.seconds),
            budget=Budget(now=self.seconds),
            api=self.server.api,
            media_hosts=self.server.media_hosts,
            patience=patience,
            sleep=self.sleep,
        )

    @property
    def statuses(self) -> list[int]:
        return [status for _, status in self.server.asked]


def page_of(client: Discord, channel: int, **more: int) -> list[Raw]:
    """A page, oldest first."""
    return sorted(client.messages(channel, **more), key=lambda raw: int(raw["id"]))


@pytest.fixture
def rig(clock: Clock) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(clock, stack)


def ids(page: list[Raw]) -> list[int]:
    return [int(raw["id"]) for raw in page]


def crawl(client: Discord, channel: int, limit: int = 100) -> list[Raw]:
    """Forward, page by page."""
    found: list[Raw] = []
    while page := page_of(client, channel, after=int(found[-1]["id"]) if found else 0, limit=limit):
        found += page
    return found


# --- Reading ---


def test_a_crawl_forward_brings_every_message_once_and_in_order(rig: Rig) -> None:
    found = crawl(rig.client(), rig.text.id)
    assert ids(found) == [rig.world.message_id(rig.text, n) for n in range(1_000)]
    assert found == sorted(found, key=lambda raw: int(raw["id"]))


def test_a_crawl_backward_meets_the_same_messages(rig: Rig) -> None:
    client, found = rig.client(), list[int]()
    while page := page_of(client, rig.text.id, before=found[0] if found else HIGHEST):
        found = ids(page) + found
    assert found == [rig.world.message_id(rig.text, n) for n in range(1_000)]


def test_a_server_that_answers_after_in_the_other_order_changes_nothing(rig: Rig) -> None:
    rig.switches.after_ascends = True
    rig.switches.resets_in_ms = True
    assert ids(crawl(rig.client(), rig.text.id)) == [rig.world.message_id(rig.text, n) for n in range(1_000)]


def test_messages_come_with_fields_nobody_has_documented(rig: Rig) -> None:
    odd = [raw for raw in crawl(rig.client(), rig.text.id) if "not_documented" in raw]
    assert len(odd) >= 2
    assert odd[0]["type"] > 45
    assert odd[0]["not_documented"]["π"] == [None, 1.5, {"deep": "yes"}]


def test_several_messages_share_a_millisecond(rig: Rig) -> None:
    times = [one >> 22 for one in ids(crawl(rig.client(), rig.text.id))]
    assert len(set(times)) < len(times) / 2


def test_a_message_is_read_by_its_id(rig: Rig) -> None:
    one = rig.world.message_id(rig.text, 5)
    assert rig.client().message(rig.text.id, one)["id"] == str(one)


def test_the_last_message_of_a_channel_may_have_been_deleted(rig: Rig) -> None:
    last = rig.world.message_id(rig.text, 999)
    rig.world.delete(rig.text, last)
    client = rig.client()
    assert client.channel(rig.text.id)["last_message_id"] == str(last)
    with pytest.raises(Gone):
        client.message(rig.text.id, last)


def test_edits_and_deletions_between_pages_are_seen_by_the_next_look(rig: Rig) -> None:
    def change(channel: int, page: int) -> None:
        if page == 2:
            rig.world.delete(rig.text, rig.world.message_id(rig.text, 3))
            rig.world.edit(rig.text, rig.world.message_id(rig.text, 4), rig.clock.now, "changed")
            rig.world.post(rig.text, 2)

    rig.switches.between_pages = change
    client = rig.client()
    first = crawl(client, rig.text.id)
    second = crawl(client, rig.text.id)
    assert (len(first), len(second)) == (1_002, 1_001)
    assert [raw["content"] for raw in second if raw["content"] == "changed"] == ["changed"]


def test_without_the_right_to_read_history_a_channel_looks_empty(rig: Rig) -> None:
    rig.text.no_history = True
    assert page_of(rig.client(), rig.text.id, after=0) == []


def test_without_the_message_content_intent_messages_come_empty(rig: Rig) -> None:
    rig.switches.message_content = False
    assert {raw["content"] for raw in page_of(rig.client(), rig.text.id, after=0)} == {""}


def test_a_channel_of_a_million_messages_is_computed_not_stored(rig: Rig) -> None:
    big = rig.world.add(NEWS, "big", 1_000_000)
    client = rig.client()
    middle = rig.world.message_id(big, 700_000)
    assert ids(page_of(client, big.id, after=middle, limit=2)) == [
        rig.world.message_id(big, 700_001),
        rig.world.message_id(big, 700_002),
    ]
    assert ids(page_of(client, big.id, before=HIGHEST, limit=1)) == [rig.world.message_id(big, 999_999)]
    assert World().message(big, 123_456) == World().message(big, 123_456) != World(seed=2).message(big, 123_456)


# --- Threads, forums, files ---


def test_threads_have_the_id_of_the_message_they_begin_at(rig: Rig) -> None:
    thread = rig.world.add_thread(rig.text, 7, 25)
    client = rig.client()
    [found] = client.active_threads(rig.world.guild)
    assert found["id"] == str(rig.world.message_id(rig.text, 7)) == str(thread.id)
    inside = crawl(client, thread.id)
    assert len(inside) == 25
    assert inside[0]["type"] == 21
    assert client.message(rig.text.id, thread.id)["id"] == str(thread.id)


def test_archived_threads_are_listed_by_the_date_they_were_archived(rig: Rig) -> None:
    for n in range(130):
        rig.world.add_thread(rig.text, n, 3, archived_at=rig.clock.now - timedelta(hours=n))
    rig.world.add_thread(rig.text, 500, 3, archived_at=rig.clock.now, kind=PRIVATE_THREAD)
    client = rig.client()
    first = client.archived_threads(rig.text.id)
    edge = first["threads"][-1]["thread_metadata"]["archive_timestamp"]
    second = client.archived_threads(rig.text.id, edge)
    assert (first["has_more"], second["has_more"]) == (True, False)
    found = [int(raw["id"]) for raw in (*first["threads"], *second["threads"])]
    assert found == [rig.world.message_id(rig.text, n) for n in range(130)]
    assert len(client.archived_threads(rig.text.id, kind="private")["threads"]) == 1


def test_a_forum_has_threads_and_no_messages(rig: Rig) -> None:
    forum = rig.world.add(FORUM, "forum", 10)
    thread = rig.world.add_thread(forum, 2, 5)
    client = rig.client()
    with pytest.raises(WrongKind):
        page_of(client, forum.id, after=0)
    assert ids(crawl(client, thread.id))[0] == thread.id
    assert client.channel(forum.id)["last_message_id"] == str(thread.id)
    assert {raw["type"] for raw in client.channels(rig.world.guild)} == {TEXT, FORUM}


def test_a_file_is_there_until_its_link_ends_and_again_with_a_fresh_one(rig: Rig) -> None:
    client = rig.client()
    message = next(raw for raw in crawl(client, rig.text.id) if raw["attachments"])
    [attachment] = message["attachments"]
    data = b"".join(client.attachment(attachment["url"]))
    assert len(data) == attachment["size"]
    assert expires(attachment["url"]) is not None
    rig.clock.advance(days=15)
    with pytest.raises(Gone):
        b"".join(client.attachment(attachment["url"]))
    [fresh] = client.message(rig.text.id, int(message["id"]))["attachments"]
    assert b"".join(client.attachment(fresh["url"])) == data


def test_a_link_says_when_it_ends() -> None:
    assert expires("https://cdn.discordapp.com/attachments/1/2/a.png?ex=65d903de&is=65c68ede&hm=2") == datetime(
        2024, 2, 23, 20, 45, 18, tzinfo=UTC
    )
    assert expires("https://cdn.discordapp.com/attachments/1/2/a.png") is None
    assert expires("https://cdn.discordapp.com/a?ex=zzz") is None


def test_a_link_to_somewhere_else_is_not_followed(rig: Rig) -> None:
    with pytest.raises(Unsafe):
        next(rig.client().attachment("http://169.254.169.254/latest/meta-data"))


# --- Limits ---


def test_buckets_are_learnt_and_never_overdrawn(rig: Rig) -> None:
    rig.switches.bucket_limit, rig.switches.bucket_seconds = 3, 2.0
    found = crawl(rig.client(), rig.text.id)
    assert len(found) == 1_000
    assert set(rig.statuses) == {200}
    assert rig.slept > 5


def test_channels_have_buckets_of_their_own(rig: Rig) -> None:
    rig.switches.bucket_limit, rig.switches.bucket_seconds = 1, 30.0
    client = rig.client()
    others = [rig.world.add(TEXT, f"c{n}", 5) for n in range(5)]
    for channel in others:
        page_of(client, channel.id, after=0)
    assert rig.slept < 1


def test_no_more_than_45_requests_go_out_in_a_second(rig: Rig) -> None:
    rig.switches.bucket_limit = 1_000
    client, started = rig.client(), rig.clock.now
    for _ in range(120):
        client.channel(rig.text.id)
    took = (rig.clock.now - started).total_seconds()
    assert set(rig.statuses) == {200}
    assert took >= 119 / 45


LIMITS: dict[str, tuple[Callable[[Rig], None], float]] = {
    "of the bucket": (lambda rig: setattr(rig.switches, "bucket_limit", 2), 0.5),
    "of the bot": (lambda rig: setattr(rig.switches, "global_limit", 2), 0.5),
    "shared with others": (lambda rig: rig.switches.shared_limit_at.add(2), 1.4),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_waited_for(rig: Rig, what: str) -> None:
    arrange, least = LIMITS[what]
    arrange(rig)
    client = rig.client()
    client.buckets.learn = lambda route, headers: None  # type: ignore[method-assign] # so that it runs into it
    for _ in range(4):
        client.channel(rig.text.id)
    assert rig.statuses.count(200) == 4
    assert 429 in rig.statuses
    assert rig.slept >= least


def test_a_wait_longer_than_our_patience_is_handed_on(rig: Rig) -> None:
    rig.switches.bucket_limit, rig.switches.bucket_seconds = 1, 1_800.0
    client = rig.client()
    client.channel(rig.text.id)
    with pytest.raises(RateLimited) as caught:
        client.channel(rig.text.id)
    assert 1_700 < caught.value.facts["retry_after"] <= 1_800
    assert rig.slept < 1


def test_a_ban_with_a_page_of_html_stops_everything(rig: Rig) -> None:
    rig.switches.html_ban_after = 1
    locked = rig.world.add(TEXT, "staff", 5, unreadable=True)
    client = rig.client()
    with pytest.raises(Unreadable):
        page_of(client, locked.id, after=0)
    for _ in range(5):
        with pytest.raises(RateLimited) as caught:
            client.channel(rig.text.id)
        assert caught.value.facts["retry_after"] > 3_000
    assert rig.statuses == [403, 429]  # it was not asked again
    rig.clock.advance(seconds=3_700)
    assert client.channel(rig.text.id)["id"] == str(rig.text.id)


def test_the_budget_of_invalid_requests_is_never_used_up(rig: Rig) -> None:
    locked = rig.world.add(TEXT, "staff", 5, unreadable=True)
    client = rig.client()
    client.budget.most = 20
    outcomes = []
    for _ in range(30):
        with pytest.raises(CustodyError) as caught:
            page_of(client, locked.id, after=0)
        outcomes.append(caught.value.code)
    assert outcomes == ["discord.unreadable"] * 20 + ["discord.budget"] * 10
    assert rig.statuses.count(403) == 20
    rig.clock.advance(seconds=600)
    with pytest.raises(Unreadable):
        page_of(client, locked.id, after=0)


def test_a_shared_limit_is_not_our_fault(rig: Rig) -> None:
    rig.switches.shared_limit_at = set(range(1, 11))
    client = rig.client()
    client.budget.most = 5
    client.channel(rig.text.id)
    assert rig.statuses == [429] * 10 + [200]


# --- Trouble ---


@pytest.mark.parametrize("trouble", [500, 502, 503, "drop"])
def test_a_server_in_trouble_is_asked_again(rig: Rig, trouble: int | str) -> None:
    rig.switches.fail_at = {1: trouble, 2: trouble, 4: trouble}
    found = crawl(rig.client(), rig.text.id)
    assert len(found) == 1_000
    assert rig.slept > 1


def test_a_server_that_stays_in_trouble_is_given_up_for_now(rig: Rig) -> None:
    rig.switches.fail_at = dict.fromkeys(range(1, 100), 502)
    with pytest.raises(Unavailable) as caught:
        rig.client().channel(rig.text.id)
    assert caught.value.code == "discord.down"
    assert len(rig.statuses) == 6
    assert 10 < rig.slept < 60


def test_a_slow_body_is_read_to_its_end(rig: Rig) -> None:
    rig.switches.slow_seconds = 0.01
    assert len(page_of(rig.client(), rig.text.id, after=0)) == 100


REFUSALS: dict[str, tuple[Callable[[Rig, Discord], object], type[CustodyError], int | None]] = {
    "a channel that is not there": (lambda rig, client: client.channel(1), Gone, 10003),
    "a message that is not there": (lambda rig, client: client.message(rig.text.id, 1), Gone, 10008),
    "a guild that is not there": (lambda rig, client: client.channels(1), Gone, 10004),
    "a page of 101": (lambda rig, client: page_of(client, rig.text.id, limit=101), BadInput, 50035),
    "a channel we may not see": (
        lambda rig, client: page_of(client, rig.world.add(TEXT, "staff", 1, unreadable=True).id),
        Unreadable,
        50001,
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_is_not_repeated_and_says_why(rig: Rig, what: str) -> None:
    ask, kind, code = REFUSALS[what]
    with pytest.raises(kind) as caught:
        ask(rig, rig.client())
    assert caught.value.facts["discord"] == code
    assert caught.value.where.startswith("/")
    assert len(rig.statuses) == 1


def test_a_refused_token_is_not_shown_again(rig: Rig) -> None:
    client = rig.client(token="wrong")
    for _ in range(3):
        with pytest.raises(BadToken):
            client.me()
    assert rig.statuses == [401]


def test_the_front_door_is_not_a_locked_channel(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custody.channels.discord.client.AGENT", "curl/8")
    with pytest.raises(Unavailable) as caught:
        rig.client().channel(rig.text.id)
    assert caught.value.code == "discord.blocked"


def test_the_bot_introduces_itself(rig: Rig) -> None:
    assert rig.client().me()["bot"] is True


@pytest.mark.parametrize("body", [b"[]", b'{"threads": 1', b"[" * 100_000])
def test_an_answer_that_makes_no_sense_is_trouble_and_not_a_message(rig: Rig, body: bytes) -> None:
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=body))
    client = rig.client()
    client.http = httpx2.Client(transport=transport)
    with pytest.raises(Unavailable):
        client.channel(1) if body == b"[]" else page_of(client, 1)


# --- The parts ---


def test_places_in_the_line_are_even_and_none_are_saved_up(clock: Clock) -> None:
    slots = Spaced(per_second=10, now=lambda: clock.now.timestamp())
    assert [round(slots.take(), 3) for _ in range(4)] == [0, 0.1, 0.2, 0.3]
    clock.advance(seconds=60)
    assert [round(slots.take(), 3) for _ in range(3)] == [0, 0.1, 0.2]
    slots.pause(5)
    assert round(slots.take(), 3) == 5


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-ratelimit-reset-after": "1.25"}, 1.25),
        ({"x-ratelimit-reset-after": "-3"}, 0),
        ({"x-ratelimit-reset": "1774952403.5", "date": "Tue, 31 Mar 2026 10:20:00 GMT"}, 3.5),
        ({"x-ratelimit-reset": "1774952403500", "date": "Tue, 31 Mar 2026 10:20:00 GMT"}, 3.5),
        ({"x-ratelimit-reset": "1774952403.5"}, None),
        ({"x-ratelimit-reset-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_reset_is_read_in_every_form_that_is_known(headers: dict[str, str], expected: float | None) -> None:
    assert reset_after(headers) == expected


def test_routes_that_share_a_bucket_share_its_emptiness(clock: Clock) -> None:
    buckets = Buckets(now=lambda: clock.now.timestamp())
    first, second = Route("/a/{top}", 1), Route("/b/{top}", 1)
    told = {"x-ratelimit-bucket": "same", "x-ratelimit-limit": "2", "x-ratelimit-reset-after": "5"}
    buckets.learn(second, told | {"x-ratelimit-remaining": "1"})
    buckets.learn(first, told | {"x-ratelimit-remaining": "0"})
    assert buckets.wait(second) == 5
    assert buckets.wait(Route("/b/{top}", 2)) == 0
    clock.advance(seconds=5)
    assert buckets.wait(second) == 0


def test_every_id_of_the_stand_in_is_a_snowflake_that_fits(rig: Rig) -> None:
    late = rig.world.add(TEXT, "late", 10, begins=(HIGHEST >> 22) - 20_000)
    assert [parse(str(one)) for one in ids(crawl(rig.client(), late.id))][-1] > 2**62
