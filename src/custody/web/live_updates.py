"""What has changed, told to open pages: one look at the history for all of them, one message a second for each.

The stream says only that something happened and to whom; a page then asks for itself anew. A page says how far the
history went when it was made, so that nothing is missed between a page and its stream or while a stream was cut.
Where very many are open they are told one after another, and less often: each answers with a request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from custody.errors import CustodyError
from custody.kernel.access.caller import Caller
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.authority.acting import identity_of
from custody.kernel.model.event import Event
from custody.kernel.stores import Store
from custody.kernel.stores.rows import job_from

LOOK_SECONDS = 0.3  # between looks at the history, while anyone listens
PAUSE_SECONDS = 1.0  # between messages to one page, at least
SHARE_SECONDS = 0.02  # of this process, that each open page may take: two hundred hear every four seconds
APART_SECONDS = 0.006  # between the first page that hears and the next, about as long as making a page takes
TRUST_SECONDS = 2.0  # between looks whether those who listen still may: one for all of them
BEAT_SECONDS = 15.0  # a word now and then, so that proxies do not hang up
MOST_SUBJECTS = 50
MOST_EVENTS = 1000
JOB = "job/"


@dataclass(eq=False, slots=True)
class _Listener:
    news: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0
    last: int = 0
    named: bool = True  # else only that something happened: the names of what is foreign are foreign, too
    own: str = ""  # an identity: hears of the jobs that it has made, by their names, and of nothing else
    subjects: dict[str, None] = field(default_factory=dict)
    caller: Caller | None = None  # who asked for the stream, with a token
    over: bool = False  # that gives something else now, or nothing

    def is_over(self) -> bool:
        return self.over

    def hear(self, events: Sequence[Event], made_by: Mapping[str, str]) -> None:
        news = [event for event in events if event.id > self.last]
        if self.own:
            news = [event for event in news if made_by.get(event.subject) == self.own]
        if news:
            self.count, self.last = self.count + len(news), news[-1].id
            self.subjects |= dict.fromkeys(event.subject for event in news[-MOST_SUBJECTS:] if self.named or self.own)
            self.news.set()

    def message(self) -> str:
        text = json.dumps({"events": self.count, "last": self.last, "subjects": list(self.subjects)})
        self.count, self.subjects = 0, {}
        self.news.clear()
        return f"id: {self.last}\nevent: change\ndata: {text}\n\n"


class Changes:
    def __init__(self, store: Store, on_news: Callable[[], None] = lambda: None) -> None:
        self._store, self._on_news = store, on_news
        self._tokens = Tokens(store)
        self._listeners: set[_Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._next = 0.0  # when the next page may be told

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def close(self) -> None:
        """End every stream, so that a server can stop at once."""
        self._closed = True
        for listener in self._listeners:
            listener.news.set()

    async def listen(
        self, since: int | None = None, named: bool = True, own: str = "", caller: Caller | None = None
    ) -> AsyncIterator[str]:
        """The lines of one stream, from where the reader's page stood until he leaves, his token gives something else
        than it did, or the server stops."""
        listener = _Listener(last=since or 0, named=named, own=own, caller=caller if caller and caller.token else None)
        self._listeners.add(listener)
        try:
            self._watch()
            if since is not None:
                await self._tell(await self._after(since), [listener])
            yield "retry: 2000\n\n: listening\n\n"
            while not self._closed and not listener.is_over():
                try:
                    await asyncio.wait_for(listener.news.wait(), BEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if listener.is_over():
                    break
                await self._turn()
                if listener.count:  # else it was woken to end
                    yield listener.message()
                await asyncio.sleep(max(PAUSE_SECONDS, SHARE_SECONDS * self.listeners))
            if listener.is_over():
                yield "event: bye\ndata: {}\n\n"
        finally:
            self._listeners.discard(listener)

    async def _turn(self) -> None:
        """All wake at once; none speaks before those that woke earlier have."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next) + APART_SECONDS
        if self._next - APART_SECONDS > now and not self._closed:
            await asyncio.sleep(self._next - APART_SECONDS - now)

    def _watch(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """While anyone listens: what is new since the last look, for everyone at once."""
        last = await run_in_threadpool(self.newest)
        looked = 0.0
        while self._listeners and not self._closed:
            now = asyncio.get_running_loop().time()
            if now - looked >= TRUST_SECONDS:
                looked = now
                await run_in_threadpool(self._look_who_listens, tuple(self._listeners))
                for each in self._listeners:
                    if each.over:
                        each.news.set()
            await asyncio.sleep(LOOK_SECONDS)
            events = await self._after(last)
            if events:
                last = events[-1].id
                await self._tell(events, tuple(self._listeners))

    def _look_who_listens(self, listeners: Sequence[_Listener]) -> None:
        """End the streams of those whose token is not worth what it was: they may ask again, with what they have."""
        known = [(each, each.caller) for each in listeners if each.caller]
        try:
            now = self._tokens.callers([*{caller.token for _, caller in known}]) if known else {}
        except CustodyError:
            return  # the store is away: nobody could be told anything either
        for listener, caller in known:
            found = now.get(caller.token)
            listener.over = found is None or found.worth != caller.worth

    async def _after(self, last: int) -> Sequence[Event]:
        try:
            return await run_in_threadpool(self._store.records.since, last, MOST_EVENTS)
        except CustodyError:
            return ()  # the store is away; pages will ask again when it is back

    async def _tell(self, events: Sequence[Event], listeners: Sequence[_Listener]) -> None:
        if events:
            self._on_news()  # before anyone asks anew: what was kept at hand is no longer true
        made_by: Mapping[str, str] = {}
        if events and any(listener.own for listener in listeners):
            made_by = await run_in_threadpool(self._made_by, events)
        for listener in listeners:
            listener.hear(events, made_by)

    def _made_by(self, events: Sequence[Event]) -> Mapping[str, str]:
        """Of the jobs that these events are about: the identity of who asked for each."""
        ids = {int(event.subject[len(JOB) :]) for event in events if event.subject.startswith(JOB)}
        try:
            rows = self._store.db.read(lambda tx: tx.run("web_jobs_these", ids=json.dumps(sorted(ids))))
            found = {job.id: job for job in map(job_from, rows)}
            there = self._store.elsewhere
            missing = [] if there is None else [each for each in ids - found.keys() if there.has(each)]
            found |= {each: self._store.queue.get(each) for each in missing}
        except CustodyError:
            return {}  # the store is away; whoever listens asks for himself
        return {job.subject: identity_of(job.by) for job in found.values()}

    def newest(self) -> int:
        """How far the history goes now."""
        newest: int = self._store.db.read(lambda tx: tx.run("web_newest_event"))[0][0]
        return newest
