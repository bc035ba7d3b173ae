"""The one worker loop: fetch → admit → run → settle → leave.

Polling is level-triggered: whatever is ready in the store will be found, with or without wake-ups. The loop
claims no more than its threads will soon need: a buffer sized from how long the work takes, given back on
shutdown. Three kinds of threads share the pipe: the main one fetches and admits, those of the pool run, and the
settler's settles and leaves. Running inline (`run_until_idle`) is the same pipe in one thread, for tests, simulations
and scripts.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.listeners import NOTHING, Listener, Unharmed, report
from custody.kernel.engine.maintenance.chores import Chores
from custody.kernel.engine.maintenance.loop import Maintenance
from custody.kernel.engine.maintenance.passes import Passes
from custody.kernel.engine.pipe.fetcher import Fetcher
from custody.kernel.engine.pipe.held import Held
from custody.kernel.engine.pipe.keeper import Keeper
from custody.kernel.engine.pipe.losses import excuse, note_loss
from custody.kernel.engine.pipe.prefetch import Prefetch
from custody.kernel.engine.pipe.run import IN_A_ROW, LATE, Runner
from custody.kernel.engine.pipe.settler import Settler
from custody.kernel.engine.pipe.threads import Threads
from custody.kernel.engine.pipe.values import Claimed, End, Finished, Lost, Settled
from custody.kernel.engine.recovery.quarantine import Quarantine
from custody.kernel.engine.recovery.rescuer import Rescuer
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.work import Work
from custody.kernel.model.home import must_be_at_home
from custody.kernel.ports import Store

LISTEN_SECONDS = 0.02  # between looks for commits of other processes
SETTLED_SECONDS = 0.02  # between looks of a worker that waits for its own threads
SOON_SECONDS = 0.6  # nobody is idle who has something to claim by then; pauses after a failure are longer
LAST_WORDS_SECONDS = 2.0  # for what was told to stop to say so
START_AGAIN = "store.restored"  # what a process says that knows a history which is no more


class Worker:
    def __init__(
        self,
        store: Store,
        serving: Serving,
        settings: Settings | None = None,
        listener: Listener = NOTHING,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        holder: str = "",
    ) -> None:
        self.store, self.serving, self.settings = store, serving, (settings or Settings()).checked()
        self._listener = listener if listener is NOTHING else Unharmed(listener)
        # A random part per start: a restarted process never inherits leases by its name.
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}:{store.new_move()[:6]}"
        self._pid, self._stopping, self.settled_count = os.getpid(), False, 0
        self._set_up(rng or random.Random(), clock)

    def _set_up(self, rng: random.Random, clock: Callable[[], float]) -> None:
        """Make the parts of the pipe, each with no more than stands after it."""
        store, serving, settings = self.store, self.serving, self.settings
        holder, listener = self.holder, self._listener
        self._keeper = Keeper(store.queue, settings.lease, clock)
        self._held = Held(store.queue, serving, self._keeper, settings.threads)
        self._prefetch = Prefetch(settings.threads)
        self._fetcher = Fetcher(store.queue, serving, holder=holder, settings=settings, clock=clock)
        self._rescuer = Rescuer(store.queue, serving, holder=holder, settings=settings, clock=clock)
        self._runner = Runner(
            store,
            serving,
            holder=holder,
            lease=settings.lease,
            prefetch=self._prefetch,
            listener=listener,
            rng=rng,
            clock=clock,
        )
        self._threads = Threads(self._runner.run_in_thread)
        self._quarantine = Quarantine(store.queue, serving, self._threads, clock)
        self._settler = Settler(store, serving, clock)
        self._settling = threading.Thread(target=self._settle_on, name="custody-settler", daemon=True)
        self._maintenance = Maintenance(
            store,
            serving,
            settings,
            listener=listener,
            clock=clock,
            passes=Passes(store, serving, chance=rng.random, clock=clock, listener=listener),
            chores=Chores(store, serving.chores, holder, listener),
        )

    # The life of a worker

    def run_forever(self) -> None:
        """Until `stop` is called from elsewhere (a signal handler, another thread)."""
        with self._running():
            while not self._stopping:
                try:
                    heard = self.store.heard()
                    if not self._cycle():
                        self._wait(heard)
                except Exception as error:  # the next look may find better times; nothing is lost by waiting
                    if isinstance(error, CustodyError) and error.code == START_AGAIN:
                        raise
                    report(self._listener, error, "the worker's loop")
                    time.sleep(min(1.0, self.settings.poll))

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self._stay("the worker's loop")
            self.shut_down()

    def _stay(self, where: str) -> None:
        stay(self._pid, where)

    def start(self) -> None:
        must_be_at_home(self._pid, "worker")
        self.store.must_serve_several()
        if self.settings.wake and (deaf := self.store.listen()):
            hint = "name a direct address for it: ?listen=URL in the store's address"
            self._listener.trouble(Unavailable(deaf, code="store.deaf", hint=hint))
        self._keeper.start()
        self._settling.start()
        self._threads.start(self.settings.threads)

    def stop(self) -> None:
        """Ask for a graceful end: nothing new is claimed, work finishes or is given back.

        No more than this: a signal may come while its own thread holds whatever lock we would ask for here."""
        must_be_at_home(self._pid, "worker")
        self._stopping = True
        self._runner.in_a_row = 0

    def shut_down(self) -> None:
        self.stop()
        self._give_back(self._threads.stop() + self._quarantine.give_back())
        deadline = time.monotonic() + self.settings.grace
        while (running := self._held.alive()) and time.monotonic() < deadline:
            self._threads.wait(0.05)
        for work in running:
            work.stop("shutdown")
        self._wait_for_last_words()
        self._leave_behind(self._held.alive())  # the leases of what is lost simply end
        self._settler.close()
        self._threads.close()
        if self._settling.is_alive():
            self._threads.closed.wait()
        self._keeper.close()
        self._maintenance.close(self.holder)

    def run_until_idle(self, most: int | None = None) -> int:
        """Work on everything that can be claimed now, in this thread; answers how many were settled."""
        must_be_at_home(self._pid, "worker")
        try:
            return self._run_inline(most)
        finally:
            self._stay("the worker's loop")

    def _run_inline(self, most: int | None) -> int:
        before, count, idle = self.settled_count, 0, True
        self._runner.in_a_row = IN_A_ROW if most is None and not self._stopping else 0
        while most is None or count < most:
            self._maintenance.look(self.holder, now=idle)
            room = max(1, self.settings.threads)
            claimed = self._fetch(room) + self._rescue(room)
            if not claimed and not self._maintenance.decide(self.holder, now=True):
                if idle:
                    break
                idle = True  # something may have become due meanwhile: look once more
                continue
            idle = False
            self._begin_suspects()
            while work := self._threads.next_one():
                self._settle([self._runner.run(work)])
                self._begin_suspects()
            count += claimed
        return self.settled_count - before

    def run_until_quiet(self) -> bool:
        """With all threads, until nothing is running, or claimable now or in a moment by itself; and until chores that
        began after the last work have found nothing either. False when it was told to stop before."""
        with self._running():
            while self._work_until_quiet() and self._maintenance.look_again():
                pass
            return not self._stopping

    def _work_until_quiet(self) -> bool:
        """Whether there was anything to work on; False, too, when told to stop."""
        nothing, total = 0, 0
        while not self._stopping and nothing < 2:  # what was just settled may be claimable again: look twice
            looking = self._maintenance.is_looking  # asked before the claim: what it has found by then is seen by that
            claimed = self._cycle()
            looking = looking or self._maintenance.is_looking
            busy = claimed or self._held.count or looking or self._maintenance.decide(self.holder, now=True)
            coming = not busy and self._fetcher.is_coming(SOON_SECONDS)  # it waits for another one's end, say
            nothing, total = 0 if busy or coming else nothing + 1, total + claimed
            if not claimed:  # while threads are at work, what comes of it is what there can be to claim
                self._threads.hungry.wait(SETTLED_SECONDS if self._held.count or looking or coming else 0.002)
        return bool(total) and not self._stopping

    # The pipe

    def _cycle(self) -> int:
        """Go once round in the main thread: look after things, then claim what there is room for; how many."""
        self._maintenance.look(self.holder)
        for trouble in self.store.troubles():
            self._listener.trouble(trouble)
        self._threads.hungry.clear()
        self._lay_down(self._threads.take_back(self._prefetch.excess(len(self._threads.ready))))
        room, wanted = self._room()
        rescued = self._rescue(room)
        self._begin_suspects()
        if room - rescued >= wanted:
            return rescued + self._fetch(room - rescued)
        if not rescued:
            self._threads.hungry.wait(0.01)
        return rescued or 1  # there may be more: look again at once

    def _room(self) -> tuple[int, int]:
        return self._prefetch.room(self._held.count, self._threads.waiting)

    def _fetch(self, room: int) -> int:
        return sum(map(self._admit, self._fetcher.fetch(room, self._held.allowed)))

    def _rescue(self, room: int) -> int:
        """Jobs whose holders vanished: they have waited for a lease already, so there is room for them."""
        room = max(room, self.settings.threads - self._quarantine.count)
        return sum(map(self._admit, self._rescuer.rescue(room, self._held.allowed)))

    def _admit(self, claimed: Claimed) -> int:
        """Ours from here on, whatever becomes of the next claim: called between two of them."""
        works = self._held.add(claimed)
        if claimed.kind.prepare and not claimed.rescued:
            self._prepare(claimed.kind.prepare, works)
        self._threads.put(self._quarantine.pick(works), first=claimed.rescued)
        return len(works)

    def _prepare(self, prepare: Callable[[Sequence[Work]], None], works: list[Work]) -> None:
        try:
            try:
                prepare(works)
            finally:
                self._stay("preparing what was claimed")
        except Exception as error:  # each handler then looks for itself, and meets the trouble as its own
            report(self._listener, error, "preparing what was claimed")

    def _begin_suspects(self) -> None:
        self._quarantine.begin(self._prefetch.buffer())

    def _settle_on(self) -> None:
        """In the settler's thread, until the pool is closed."""
        for done in self._threads.done():
            self._settle(done)

    def _settle(self, done: Sequence[Finished | Lost]) -> None:
        for ends in self._settler.settle(done):
            self._leave(ends)

    def _leave(self, ends: Sequence[End]) -> None:
        """Let go of what has ended, and begin what was claimed with its end. In the settler's thread, not in the main
        one: what goes onward must not wait for a poll."""
        given_back = []
        self._held.uncount([end.work for end in ends if isinstance(end, Lost) and end.why == LATE])
        for end in ends:
            if isinstance(end, Settled):
                self._listener.settled(end.work.job, end.change, end.answer)
                self.settled_count += end.answer.done
            elif end.why in ("shutdown", LATE):
                given_back.append(end.work)
            else:
                note_loss(self.store, end, self._listener)
        if onward := self._held.add_onward(ends):  # before the others are dropped: between them nobody must look idle
            given_back += [] if self._threads.put(onward) else onward
        works = [end.work for end in ends]
        self._let_go([work for work in works if work not in given_back] if given_back else works)
        if given_back:
            self._give_back(given_back)

    def _let_go(self, works: Sequence[Work]) -> None:
        self._held.drop(works)
        self._quarantine.leave(works)
        self._threads.tell_left()

    # Between claims

    def _wait(self, heard: tuple[int, int]) -> None:
        """Until something may have changed, here or in another process, or the poll interval is over.

        However long that is, leases that end meanwhile are seen.
        """
        until = time.monotonic() + self.settings.poll
        while not self._stopping and (left := until - time.monotonic()) > 0:
            pause = min(LISTEN_SECONDS, left)
            self._begin_suspects()
            if self._rescue(self._room()[0]):
                return
            if not self.settings.wake:
                self._threads.wait(pause)
            elif self.store.wait(heard, pause):
                return

    # What is not worked on after all

    def _lay_down(self, works: list[Work]) -> None:
        """More was claimed than is soon begun: others may have it, and it does not count."""
        if works:
            self._held.uncount(works)
            self._give_back(works)

    def _give_back(self, works: list[Work]) -> None:
        try:
            self.store.queue.release([work.claim for work in works if not self._may_live(work)])
        except Exception as error:
            report(self._listener, error, "giving back")  # then their leases simply end
        self._let_go(works)

    def _may_live(self, work: Work) -> bool:
        """Given back, it could be cancelled while an earlier attempt still runs: its lease ends, and someone asks."""
        return bool(work.job.suspect) and not work.confirmed and self.serving.of(work.job).may_survive

    def _leave_behind(self, works: list[Work]) -> None:
        """What is still under way. What may live on by itself is nobody else's before its lease ends, and someone asks;
        that says nothing against it."""
        living = [work for work in works if self.serving.of(work.job).may_survive]
        for work in living:
            excuse(self.store.queue, work, self._listener)
        self._let_go(living)
        self._give_back([work for work in works if work not in living])

    def _wait_for_last_words(self) -> None:
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while self._held.alive() and time.monotonic() < deadline:
            self._threads.wait(0.05)
