"""The one worker loop: claim a few, run them, settle together, go on.

Polling is level-triggered: whatever is ready in the store will be found, with or without wake-ups. The loop
claims no more than its threads will soon need: a buffer sized from how long the work takes, given back on
shutdown. Running inline (`run_until_idle`) is the same loop in one thread, for tests, simulations and scripts.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine.fetcher import Fetcher
from custody.kernel.engine.judge import surprise
from custody.kernel.engine.keeper import Keeper
from custody.kernel.engine.kinds import Kind, Serving
from custody.kernel.engine.listeners import NOTHING, Listener, Unharmed
from custody.kernel.engine.maintenance.chores import Chores
from custody.kernel.engine.maintenance.loop import Maintenance
from custody.kernel.engine.maintenance.passes import Passes
from custody.kernel.engine.prefetch import MOST_BUFFERED, Prefetch
from custody.kernel.engine.recovery.quarantine import Quarantine
from custody.kernel.engine.recovery.rescuer import Rescuer
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.run import NOT_DEAD, conclude, run
from custody.kernel.engine.settings import Settings
from custody.kernel.engine.settler import Finished, Heard, Settler
from custody.kernel.engine.threads import Threads
from custody.kernel.engine.work import Work
from custody.kernel.model.home import must_be_at_home
from custody.kernel.model.job import Change, Claim, Onward
from custody.kernel.model.suspicion import CLEAN
from custody.kernel.ports import Store

LISTEN_SECONDS = 0.02  # between looks for commits of other processes
IN_A_ROW = 32  # so often the next of a queue is taken with the end of the one before it
SETTLED_SECONDS = 0.02  # between looks of a worker that waits for its own hands
SOON_SECONDS = 0.6  # nobody is idle who has something to claim by then; pauses after a failure are longer
START_AGAIN = "store.restored"  # what a process says that knows a history which is no more


class Worker:
    def __init__(
        self,
        store: Store,
        serving: Serving,
        settings: Settings | None = None,
        watch: Listener = NOTHING,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self.serving, self.settings = store, serving, (settings or Settings()).checked()
        self.watch = watch if watch is NOTHING else Unharmed(watch)
        # A random part per start: a restarted process never inherits leases by its name.
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{store.new_move()[:6]}"
        self._pid = os.getpid()
        self._rng, self._clock = rng or random.Random(), clock
        self._keeper = Keeper(store.queue, self.settings.lease, clock)
        self._settler = Settler(store, serving, self._settled, self._lost, clock)
        self._hands = Threads(self._work_by_hand)
        self._busy: Counter[str] = Counter()  # claimed and not yet settled, by prefix
        self._taken: Counter[str] = Counter()  # claimed so far
        self._pace = Prefetch()
        self._stopping = False
        self._in_a_row = IN_A_ROW
        self._suspects = Quarantine(store.queue, serving, self._hands, clock)
        self._takeover = Rescuer(store.queue, serving, self.settings.lease, self.settings.place, clock)
        self._lookout = Fetcher(store.queue, serving, self.settings.place, clock)
        rounds = Passes(store, serving, self._rng.random, clock, self._trouble)
        chores = Chores(store, serving.chores, self.holder, self.watch)
        self._upkeep = Maintenance(store, serving, self.settings, rounds, chores, clock, self._trouble)
        self.settled_count = 0

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
                    self._trouble(error, "the worker's loop")
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
            self.watch.trouble(Unavailable(deaf, code="store.deaf", hint=hint))
        self._keeper.start()
        self._settler.start()
        self._hands.start(self.settings.threads)

    def stop(self) -> None:
        """Ask for a graceful end: nothing new is claimed, work finishes or is given back.

        No more than this: a signal may come while its own thread holds whatever lock we would ask for here."""
        must_be_at_home(self._pid, "worker")
        self._stopping = True

    def shut_down(self) -> None:
        must_be_at_home(self._pid, "worker")
        self._stopping = True
        self._give_back(self._hands.stop() + self._suspects.give_back())
        deadline = time.monotonic() + self.settings.grace
        while (running := self._with_a_say()) and time.monotonic() < deadline:
            self._hands.wait(0.05)
        for work in running:
            work.stop("shutdown")
        self._settle_last_words()
        self._leave_behind(self._with_a_say())  # the leases of what is lost simply end
        self._settler.close()
        self._keeper.close()
        self._upkeep.close(self.holder)

    def run_until_idle(self, most: int | None = None) -> int:
        """Work on everything that can be claimed now, in this thread; answers how many were settled."""
        must_be_at_home(self._pid, "worker")
        try:
            return self._run_inline(most)
        finally:
            self._stay("the worker's loop")

    def _run_inline(self, most: int | None) -> int:
        before, count, idle = self.settled_count, 0, True
        self._in_a_row = IN_A_ROW if most is None else 0
        while most is None or count < most:
            self._upkeep.look(self.holder, now=idle)
            room = max(1, self.settings.threads)
            claimed = self._claim(room) + self._take_over(room)
            if not claimed and not self._upkeep.decide(self.holder, now=True):
                if idle:
                    break
                idle = True  # something may have become due meanwhile: look once more
                continue
            idle = False
            self._begin_suspects()
            while work := self._hands.next_one():
                self._work(work, inline=True)
                self._begin_suspects()
            count += claimed
        return self.settled_count - before

    def run_until_quiet(self) -> bool:
        """With all threads, until nothing is running, or claimable now or in a moment by itself; and until chores that
        began after the last work have found nothing either. False when it was told to stop before."""
        with self._running():
            while self._work_until_quiet() and self._upkeep.look_again():
                pass
            return not self._stopping

    def _work_until_quiet(self) -> bool:
        """Whether there was anything to work on; False, too, when told to stop."""
        nothing, total = 0, 0
        while not self._stopping and nothing < 2:  # what was just settled may be claimable again: look twice
            looking = self._upkeep.is_looking  # asked before the claim: what it has found by then is seen by that
            claimed = self._cycle()
            looking = looking or self._upkeep.is_looking
            busy = claimed or self._keeper.count() or looking or self._upkeep.decide(self.holder, now=True)
            coming = not busy and self._lookout.is_coming(SOON_SECONDS)  # it waits for another one's end, say
            nothing, total = 0 if busy or coming else nothing + 1, total + claimed
            if not claimed:  # while hands are at work, what comes of it is what there can be to claim
                self._hands.hungry.wait(SETTLED_SECONDS if self._keeper.count() or looking or coming else 0.002)
        return bool(total) and not self._stopping

    # Claiming

    def _cycle(self) -> int:
        self._upkeep.look(self.holder)
        for trouble in self.store.troubles():
            self.watch.trouble(trouble)
        self._hands.hungry.clear()
        if excess := self._pace.excess(self.settings.threads, len(self._hands.ready)):
            self._lay_down(self._hands.take_back(excess))
        room, wanted = self._room()
        claimed = self._take_over(room)
        self._begin_suspects()
        claimed += self._claim(room - claimed) if room - claimed >= wanted else 0
        if not claimed and room < wanted:
            self._hands.hungry.wait(0.01)
            return 1  # there may be more: look again at once
        return claimed

    def _lay_down(self, works: list[Work]) -> None:
        """More was claimed than is soon begun: others may have it, and it does not count."""
        self._taken.subtract(self.serving.of(work.job).prefix for work in works)
        self._give_back(works)

    def _room(self) -> tuple[int, int]:
        return self._pace.room(self.settings.threads, self._keeper.count(), self._settler.waiting)

    def _claim(self, room: int) -> int:
        return self._lookout.claim(room, self._allowed, self._claim_from)

    def _claim_from(self, kind: Kind, queues: list[str], share: int) -> int:
        asked_at = self._clock()
        self._stay("claiming")
        claims = self.store.queue.claim(queues, self.holder, self.settings.lease, share)
        return self._take(claims, asked_at, prepare=kind.prepare)

    def _allowed(self, kind: Kind) -> int:
        threads = self.settings.threads
        limit = kind.at_once or (max(1, threads - kind.spare) if kind.spare else MOST_BUFFERED + threads)
        limit -= self._busy[kind.prefix]
        return min(limit, kind.at_most - self._taken[kind.prefix]) if kind.at_most else limit

    def _take_over(self, room: int) -> int:
        """Jobs whose holders vanished."""
        room = max(room, self.settings.threads - self._suspects.count)  # it has waited for a lease already
        asked_at = self._clock()
        return self._takeover.claim(
            self.holder, room, self._allowed, lambda claims: self._take(claims, asked_at, first=True)
        )

    def _take(
        self,
        claims: list[Claim],
        asked_at: float,
        first: bool = False,
        prepare: Callable[[Sequence[Work]], None] | None = None,
    ) -> int:
        """Theirs to be worked on from now on, whatever becomes of the claims that follow."""
        if not claims:
            return 0
        works = [Work(claim, self.store.queue) for claim in claims]
        prefixes = [self.serving.of(work.job).prefix for work in works]
        self._keeper.add(works, asked_at)
        if prepare:
            self._prepare(prepare, works)
        with self._hands.change:
            self._busy.update(prefixes)
            self._taken.update(prefixes)
        self._hands.put(self._suspects.pick(works), first)
        return len(works)

    def _begin_suspects(self) -> None:
        self._suspects.begin(self._pace.buffer(self.settings.threads))

    def _prepare(self, prepare: Callable[[Sequence[Work]], None], works: list[Work]) -> None:
        try:
            try:
                prepare(works)
            finally:
                self._stay("preparing what was claimed")
        except Exception as error:  # each handler then looks for itself, and meets the trouble as its own
            self._trouble(error, "preparing what was claimed")

    # Working

    def _work_by_hand(self, work: Work) -> None:
        """A hand outlives whatever its work throws: else that would be held, and renewed, for ever."""
        try:
            self._work(work)
        except BaseException as error:
            kind, move = self.serving.of(work.job), self.store.new_move()
            change = conclude(kind, work, surprise(error), self._rng.random(), move)
            self._settler.put(work, change) if change else self._lost(work)

    def _work(self, work: Work, inline: bool = False) -> None:
        started = time.monotonic()
        self.watch.started(work.job)
        change = self._to_say(work)
        self._pace.add(time.monotonic() - started)
        if change is None:
            self._lost(work)
        elif inline:
            self._settler.settle([Finished(work, change)])
        else:
            self._settler.put(work, change)

    def _to_say(self, work: Work) -> Change | None:
        """What is to be settled; its end may make the next one ready, which is then ours. Not for ever: others, and
        other queues, have their turn."""
        kind = self.serving.of(work.job)
        change = run(kind, work, self._rng.random(), self.store.new_move(), self.store)
        goes_on = kind.onward and not kind.at_most and work.in_a_row < self._in_a_row and not self._stopping
        if change is None or not change.ended or not goes_on:
            return change
        return replace(change, onward=Onward(work.job.queue, self.holder, self.settings.lease))

    def _settled(self, heard: Sequence[Heard], asked_at: float) -> None:
        for work, change, answer in heard:
            self.watch.settled(work.job, change, answer)
            self.settled_count += answer.done
            if answer.onward:
                self._go_on(Work(answer.onward, self.store.queue, work.in_a_row + 1), asked_at)
        self._leave([work for work, _, _ in heard])

    def _go_on(self, work: Work, asked_at: float) -> None:
        """Claimed with the end of the one before it; it takes its place. It has waited until now, so it is suspected of
        nothing."""
        prefix = self.serving.of(work.job).prefix
        self._keeper.add([work], asked_at)
        with self._hands.change:
            self._busy[prefix] += 1
            self._taken[prefix] += 1
        if not self._hands.put([work]):
            self._give_back([work])

    def _lost(self, work: Work) -> None:
        """Nothing can be said about it any more."""
        if work.stop_reason == "shutdown":
            self._give_back([work])
            return
        self.watch.lost(work.job, work.stop_reason)
        if work.stop_reason.startswith(NOT_DEAD):
            self._excuse(work)
        if work.stop_reason in ("", "lost"):  # it was refused a renewal, or to keep a fact
            self._settler.note_refusal(work, "renewed", "lease.lost", "someone else has claimed or moved it")
        elif work.stop_reason == "unconfirmed":  # nobody refused it, but what it had to say was not said either
            why = "nobody could be asked in time whether it still had the job"
            self._settler.note_refusal(work, "nothing", "lease.unconfirmed", why, "silenced")
        self._leave([work])

    def _excuse(self, work: Work) -> None:
        try:
            self.store.queue.suspect([work.claim], CLEAN)
        except Exception as error:
            self._trouble(error, "excusing a job")  # then it counts as a crash, which is the safe mistake

    def _leave(self, works: Sequence[Work]) -> None:
        self._keeper.drop(works)
        self._suspects.leave(works)
        with self._hands.change:
            self._busy.subtract(self.serving.of(work.job).prefix for work in works)
            self._hands.change.notify_all()
        self._hands.hungry.set()

    # Between claims

    def _trouble(self, error: Exception, where: str) -> None:
        if not isinstance(error, CustodyError):
            error = CustodyError(f"{type(error).__name__}: {error}", code="surprise", where=where)
        self.watch.trouble(error)

    def _wait(self, heard: tuple[int, int]) -> None:
        """Until something may have changed, here or in another process, or the poll interval is over.

        However long that is, leases that end meanwhile are seen.
        """
        until = time.monotonic() + self.settings.poll
        while not self._stopping and (left := until - time.monotonic()) > 0:
            pause = min(LISTEN_SECONDS, left)
            self._begin_suspects()
            if self._take_over(self._room()[0]):
                return
            if not self.settings.wake:
                self._hands.wait(pause)
            elif self.store.wait(heard, pause):
                return

    # The end

    def _leave_behind(self, works: list[Work]) -> None:
        """What is still under way. What may live on by itself is nobody else's before its lease ends, and someone asks;
        that says nothing against it."""
        living = [work for work in works if self.serving.of(work.job).may_survive]
        for work in living:
            self._excuse(work)
        self._leave(living)
        self._give_back([work for work in works if work not in living])

    def _give_back(self, works: list[Work]) -> None:
        try:
            self.store.queue.release([work.claim for work in works if not self._may_live(work)])
        except Exception as error:
            self._trouble(error, "giving back")  # then their leases simply end
        self._leave(works)

    def _may_live(self, work: Work) -> bool:
        """Given back, it could be cancelled while an earlier attempt still runs: its lease ends, and someone asks."""
        return bool(work.job.suspect) and not work.confirmed and self.serving.of(work.job).may_survive

    def _settle_last_words(self) -> None:
        patience = time.monotonic() + 2.0
        while self._with_a_say() and time.monotonic() < patience:
            self._hands.wait(0.05)

    def _with_a_say(self) -> list[Work]:
        """What is being worked on and not lost: the rest is not waited for, as nothing it says would be heard."""
        return [work for work in self._keeper.held() if not work.lost]
