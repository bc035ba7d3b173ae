"""Watches over one sandbox, and empties it when nobody confirms in time that the work is still wanted.

A worker can be stopped, killed or cut off while its task runs on; a lease that has ended does not stop
anything by itself. So every sandbox has a small process of its own, the deadman, which is neither the
worker's child nor in its session. It reads the output, enforces the time limits, keeps the exit code, and
answers on a socket in the sandbox's state folder. When the confirmed time passes it kills the sandbox,
whatever has become of the worker.

If the deadman itself is killed, the kernel kills the sandbox (`--die-with-parent`). So there are three states
and no fourth: watched, ended with a reason, or gone.

Times are read from the clock that also runs while the machine sleeps (CLOCK_BOOTTIME), since leases run on
then too.

State folder:  spec.json what was asked · pids.json who is running · control the socket · output-NNNNNN what
was printed · lock held while the deadman lives · granted.json where its way out may lead, if that has changed ·
end.json how it ended · deadman.err a surprise in the deadman.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from custody.border import processes
from custody.border.egress.gate import clock as now
from custody.border.sandbox.containers import Contained
from custody.border.sandbox.disk_usage import Disk
from custody.border.sandbox.launch import Launched
from custody.border.sandbox.masking import patterns
from custody.border.sandbox.output import ERR, OUT, Gatherer
from custody.border.sandbox.spec import DISK, EXITED, LEASE, MEMORY, NOT_STARTED, STOPPED, TIMEOUT, End, Spec

if TYPE_CHECKING:
    from custody.border.egress.way_out import WayOut

GRANTED = "granted.json"
_PIECE = 65536
_LAST_BYTES_WITHIN = 2.0  # seconds for what it has sent to be passed on, when it has ended by itself


class Deadman:
    """One sandbox from its release to its end. Works in the current folder, which is the state folder."""

    def __init__(
        self, spec: Spec, launched: Launched | Contained, listener: socket.socket, until: float, way: WayOut | None
    ) -> None:
        self._spec = spec
        self._way = way
        self._it = launched
        self._until = until
        self._started = now()
        self._timeout = self._started + spec.timeout if spec.timeout is not None else None
        self._kill_at: float | None = None
        self._why = ""
        self._code: int | None = None
        self._gone = False
        hidden = {pattern for value in spec.secrets.values() for pattern in patterns(value)}
        self._printed = Gatherer(".", spec.output_limit, hidden)
        self._disk = Disk(spec.work, spec.limits.disk, spec.limits.keep_free)
        self._followers: list[socket.socket] = []
        self._poll = select.poll()
        self._on: dict[int, Callable[[], object]] = {}
        self._bwrap_fd = os.pidfd_open(launched.process.pid)
        self.watch(listener.fileno(), lambda: self._meet(listener))
        self._pipes = {launched.out: OUT, launched.err: ERR}  # those still open; their numbers are used again
        self.watch(launched.out, lambda: self._read(launched.out))
        self.watch(launched.err, lambda: self._read(launched.err))
        self.watch(launched.init_fd, self._emptied)
        self.watch(self._bwrap_fd, self._reaped)
        if way:
            self.watch(way.fileno(), self._hear_of_the_way)

    def run(self) -> End:
        while not (self._gone and self._code is not None):
            for descriptor, _ in self._poll.poll(self._patience()):
                if handle := self._on.get(descriptor):
                    handle()
            self._keep_time()
        for descriptor in list(self._pipes):
            while descriptor in self._pipes:
                self._read(descriptor)
        return self._end()

    def stop(self, grace: float) -> None:
        self._terminate(STOPPED, grace)

    # Time.

    def _patience(self) -> float:
        """Milliseconds until something is due. Waking up late would be the deadman's only sin."""
        due = [self._until, now() + 60]
        due += [] if self._why else [self._started + self._disk.due]
        due += [at for at in (self._timeout, self._kill_at) if at is not None]
        due += [] if self._printed.due is None else [self._started + self._printed.due]
        return max(0.0, min(due) - now()) * 1000

    def _keep_time(self) -> None:
        at = now()
        if at >= self._until:
            self._until = float("inf")
            self._kill(LEASE)
        if self._timeout is not None and at >= self._timeout:
            self._timeout = None
            self._terminate(TIMEOUT, self._spec.grace)
        if self._kill_at is not None and at >= self._kill_at:
            self._kill(self._why)
        if not self._why and at >= self._started + self._disk.due:
            self._look_at_disk(at - self._started)
        if self._printed.due is not None and at >= self._started + self._printed.due:
            self._flush()

    def _look_at_disk(self, at: float) -> None:
        if self._disk.too_full(at):
            self._kill(DISK)

    # Ending it.

    def _terminate(self, why: str, grace: float) -> None:
        """TERM to everything inside, not to the command alone: a shell traps only after its child."""
        self._why = self._why or why
        kill_at = now() + grace
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        for process in self._it.inside():
            processes.send(process, signal.SIGTERM)

    def _kill(self, why: str) -> None:
        self._why = self._why or why
        self._kill_at = None
        self._it.kill()
        if self._way:
            self._way.cut()

    def _emptied(self) -> None:
        """The namespace's first process has ended, and the kernel ends it only after all others in it."""
        self._gone = True
        self._unwatch(self._it.init_fd)
        self._kill_at = None

    def _reaped(self) -> None:
        """bwrap ends when the command does; what the command left behind ends here."""
        self._code = self._it.process.wait()
        self._unwatch(self._bwrap_fd)
        if self._way and not self._why:
            self._it.kill()
            self._way.finish(min(_LAST_BYTES_WITHIN, self._until - now()))
        self._kill(self._why)

    def _end(self) -> End:
        self._flush(final=True)
        reason, code = self._verdict()
        _bury_orphans()
        self._it.finish()
        printed = self._printed.recorder
        printed.close()
        return End(
            reason=reason,
            code=code,
            seconds=round(now() - self._started, 3),
            output_bytes=printed.total,
            dropped_bytes=printed.dropped,
            detail=self._printed.last_words() if reason == NOT_STARTED else "",
        )

    def _verdict(self) -> tuple[str, int | None]:
        said = self._it.exit_code()
        code = said if said is not None else self._code
        code = 128 - code if code is not None and code < 0 else code  # bwrap itself was killed
        if self._why:
            return self._why, code
        if code and self._it.ran_out_of_memory():
            return MEMORY, code
        return (NOT_STARTED, None) if self._never_ran(said, code) else (EXITED, code)

    def _never_ran(self, said: int | None, code: int | None) -> bool:
        """It could not be set up, or there was no such command."""
        return (said is None and code == 1) or self._it.never_ran(code, self._printed.last_words())

    # Output.

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _PIECE)
        if data:
            if self._printed.add(self._pipes[descriptor], data, now() - self._started):
                self._tell()
        else:
            del self._pipes[descriptor]
            self._unwatch(descriptor)
            os.close(descriptor)

    def _flush(self, *, final: bool = False) -> None:
        if self._printed.flush(now() - self._started, final=final):
            self._tell()

    def _tell(self) -> None:
        """A hint to those who follow; one who does not read has enough hints already."""
        for follower in list(self._followers):
            try:
                follower.send(b"\n", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                pass
            except OSError:
                self._part(follower)

    def _hear_of_the_way(self) -> None:
        """What was refused is told where whoever wrote the task looks first."""
        assert self._way is not None
        said = self._way.hear()
        if said is None:
            self._unwatch(self._way.fileno())
        elif said and self._printed.add(ERR, f"custody: {said}\n".encode(), now() - self._started):
            self._tell()

    # Conversation: one line of JSON asks, one line answers.

    def _meet(self, listener: socket.socket) -> None:
        try:
            guest, _ = listener.accept()
        except OSError:
            return
        guest.setblocking(False)
        self.watch(guest.fileno(), lambda: self._hear(guest))

    def _hear(self, guest: socket.socket) -> None:
        try:
            asked = json.loads(guest.recv(4096))
            answer = self._answers[asked["do"]](self, guest, asked)
            if answer:
                guest.send(json.dumps(answer).encode() + b"\n", socket.MSG_NOSIGNAL)
        except BlockingIOError:  # the event was meant for one who had this descriptor before
            pass
        except (ValueError, KeyError, TypeError, OSError):  # gone, or not one of us
            self._part(guest)

    def _confirm(self, guest: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
        if self._why:
            return {"ok": False, "reason": self._why}
        self._until = float(asked["until"])
        if self._way and (leave := asked.get("leave")):
            granted = json.loads(Path(GRANTED).read_text()) if leave["granted"] else None
            self._way.renew(float(leave["fresh"]), float(leave["lease"]), granted)
        return {"ok": True}

    def _asked_to_stop(self, guest: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
        self.stop(float(asked["grace"]))
        return {"ok": True}

    def _follow(self, guest: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
        self._followers.append(guest)
        return {"ok": True}

    _answers: ClassVar[dict[str, Callable[[Deadman, socket.socket, dict[str, Any]], dict[str, Any]]]] = {
        "confirm": _confirm,
        "stop": _asked_to_stop,
        "follow": _follow,
    }

    def _part(self, guest: socket.socket) -> None:
        if guest in self._followers:
            self._followers.remove(guest)
        self._unwatch(guest.fileno())
        guest.close()

    def watch(self, descriptor: int, handle: Callable[[], object]) -> None:
        self._on[descriptor] = handle
        self._poll.register(descriptor, select.POLLIN)

    def _unwatch(self, descriptor: int) -> None:
        if self._on.pop(descriptor, None):
            self._poll.unregister(descriptor)


def _bury_orphans() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def write_file(name: str, value: dict[str, Any] | list[str]) -> None:
    """Whole or not at all, for readers in other processes."""
    Path(f"{name}.new").write_text(json.dumps(value))
    os.rename(f"{name}.new", name)
