"""Fetching files from URLs that somebody else wrote.

    fetcher = Fetcher(Policy())
    fetched = fetcher.download("https://example.org/page.tif", folder, "page.tif", digests={"md5": "…"})

Every URL is judged before anything is sent (`urls.py`), every address before we connect (`addresses.py`),
every redirect like a new URL. We send no cookies and no credentials, so none can be carried elsewhere.
A body is limited in size and time, digested as it is written, and has its name only when it is whole and on
the disk. What may pass by itself is tried again a few times and then is `Unavailable`; what will not is
`BadInput` or `Refused`, with a code a depositor can look up.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from custody.border.folder import Folder, disk_errors
from custody.border.http import answers
from custody.border.http.addresses import Resolver, system_resolver
from custody.border.http.client import Client
from custody.border.http.deadlines import Cancel, Deadline
from custody.border.http.parallel import spread
from custody.border.http.partial import PARTIALS, Partial
from custody.border.http.policy import Policy
from custody.border.http.pool import Connector, connect
from custody.border.http.urls import Target, read_url
from custody.errors import BadInput, CustodyError, LeaseLost, NotFound, Refused, Unavailable
from custody.formats.digests import Digests, mismatch, read_digests
from custody.formats.names import folded, safe_parts


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to fetch: from where, under which name, and what is known about it beforehand."""

    url: str
    name: str
    size: int | None = None
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that was fetched, as it lies on the disk. `resumed` bytes came from an earlier attempt."""

    name: str
    size: int
    digests: Mapping[str, str]
    tries: int = 0
    resumed: int = 0


Tell = Callable[[Wanted, Fetched | CustodyError], None]


class Fetcher:
    """Fetches under one policy, keeping connections open in between. Safe to use from several threads."""

    def __init__(self, policy: Policy, *, resolver: Resolver = system_resolver, connector: Connector = connect) -> None:
        self.policy = policy
        self._client = Client(policy, resolver, connector)

    def head(self, url: str, *, cancel: Cancel | None = None) -> int | None:
        """The size of a file, if the server tells. Only a URL that is not allowed is an error here."""
        target = read_url(url, self.policy)
        try:
            return self._client.size(target, self._short_watch(target, cancel))
        except CustodyError as error:
            if error.code.startswith("url.") or _asks_to_stop(error):
                raise
            return None

    def head_many(
        self, urls: Iterable[str], *, parallel: int = 16, cancel: Cancel | None = None
    ) -> list[int | CustodyError | None]:
        """The sizes of many files, in their order; for a URL that is not allowed, the reason."""

        def work(url: str, stop: Cancel) -> int | CustodyError | None:
            try:
                return self.head(url, cancel=_either(cancel, stop))
            except CustodyError as error:
                if _asks_to_stop(error):
                    raise
                return error

        return spread(list(urls), self._host_of, work, parallel=parallel, per_host=self.policy.per_host)

    def download(
        self,
        url: str,
        folder: Folder,
        name: str,
        *,
        size: int | None = None,
        digests: Mapping[str, str] | None = None,
        cancel: Cancel | None = None,
    ) -> Fetched:
        """Fetch one file. When this returns, it is whole, checked and on the disk."""
        try:
            return self._download(Wanted(url, name, size, digests or {}), folder, cancel)
        finally:
            folder.remove_if_empty(PARTIALS)
            folder.settle()

    def download_many(
        self,
        wanted: Iterable[Wanted],
        folder: Folder,
        *,
        parallel: int = 16,
        cancel: Cancel | None = None,
        tell: Tell | None = None,
    ) -> list[Fetched | CustodyError]:
        """Fetch many files, some at once. One that fails does not stop the others: its place holds the error.

        `tell` is called for each as it ends, from several threads; all are durable when this returns.
        """

        def work(one: Wanted, stop: Cancel) -> Fetched | CustodyError:
            try:
                result: Fetched | CustodyError = self._download(one, folder, _either(cancel, stop))
            except CustodyError as error:
                if _asks_to_stop(error):
                    raise
                result = error
            if tell is not None:
                tell(one, result)
            return result

        everything = list(wanted)
        try:
            return spread(
                everything,
                lambda one: self._host_of(one.url),
                work,
                parallel=parallel,
                per_host=self.policy.per_host,
            )
        finally:
            folder.remove_if_empty(PARTIALS)
            folder.settle()

    def post(
        self, url: str, body: bytes, fields: Mapping[str, str], *, cancel: Cancel | None = None
    ) -> tuple[int, bytes]:
        """Send a callback, once: its status and the beginning of its answer. Redirects are not followed."""
        target = read_url(url, self.policy)
        return self._client.post(target, self._short_watch(target, cancel), body, fields)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _short_watch(self, target: Target, cancel: Cancel | None) -> Deadline:
        """For questions whose answer has no long body."""
        return Deadline(cancel, 2 * self.policy.answer_seconds + self.policy.connect_seconds, target.shown)

    def _host_of(self, url: str) -> tuple[str, str, int] | None:
        try:
            return read_url(url, self.policy).origin
        except CustodyError:
            return None  # it will be refused when its turn comes

    def _download(self, wanted: Wanted, folder: Folder, cancel: Cancel | None) -> Fetched:
        target = read_url(wanted.url, self.policy)
        digests = read_digests(wanted.digests, target.shown)
        _check_name(wanted.name)
        answers.check_size(wanted.size, self.policy, target)
        watch = Deadline(cancel, self.policy.total_seconds, target.shown)
        watch.tick()
        found = _already_there(folder, wanted, digests)
        if found is not None:
            return found
        partial = Partial(folder, wanted.name, target.url, digests)
        try:
            tries = self._fetch_into(partial, target, wanted.size, digests, watch=watch)
            fetched = Fetched(
                name=wanted.name, size=partial.length, digests=partial.digests(), tries=tries, resumed=partial.resumed
            )
            partial.finish()
            return fetched
        except CustodyError as error:
            if _is_final(error):
                partial.discard()
            else:
                partial.pause()
            raise
        except BaseException:
            partial.pause()
            raise

    def _fetch_into(
        self, partial: Partial, target: Target, size: int | None, digests: Mapping[str, str], watch: Deadline
    ) -> int:
        """Try until the partial file is whole; says how many tries it took."""
        number = 0
        while True:
            number += 1
            try:
                if partial.length == 0 or partial.length != size:
                    self._receive(partial, target, size, digests, watch=watch)
                _check_whole(partial, size, digests, target)
                return number
            except Unavailable as error:
                wait = self._pause_after(error, number)
                if wait is None:
                    raise
                watch.sleep(wait)

    def _pause_after(self, error: Unavailable, number: int) -> float | None:
        """How long to wait before the next try, or None if there is to be none."""
        asked = float(error.facts.get("retry_after", 0))
        if number >= self.policy.tries or asked > self.policy.patience_seconds or error.code == "fetch.deadline":
            return None
        grown = self.policy.backoff_seconds * 2.0 ** (number - 1)
        spoiled = random.uniform(0.5, 1.0)  # so that many who failed together do not come back together
        return max(asked, min(grown, self.policy.patience_seconds) * spoiled)

    def _receive(
        self, partial: Partial, target: Target, size: int | None, digests: Mapping[str, str], watch: Deadline
    ) -> None:
        """One request, for the bytes that are still missing."""
        fields = answers.range_fields(partial.length, partial.marks, bool(digests))
        with self._client.answer("GET", target, watch, fields) as answer:
            head = answer.head
            try:
                whole = answers.whole_size(head, partial.length, target, resuming=bool(fields))
            except CustodyError as error:
                if error.code == "http.bad_range":
                    partial.restart()
                raise
            if head.status == 206:
                partial.resumed = partial.length
            elif partial.length:
                partial.restart()  # the server begins again, because we asked it to or the file has changed
            answers.check_body(head, whole, size, self.policy, vouched=bool(digests), target=target)
            partial.marks = answers.marks(head)
            limit = self.policy.max_bytes if size is None else size
            watch.body(self.policy.slow_bytes, self.policy.slow_seconds)
            for piece in answer.body:
                if partial.length + len(piece) > limit:
                    raise answers.too_long(limit, size, target)
                partial.write(piece)
            if whole is not None and partial.length != whole:
                raise answers.cut_short(whole - partial.length, target)


def _either(cancel: Cancel | None, stop: Cancel) -> Cancel:
    return stop if cancel is None else lambda: stop() or cancel()


def _asks_to_stop(error: CustodyError) -> bool:
    return isinstance(error, LeaseLost) or error.code == "fetch.cancelled"


def _is_final(error: CustodyError) -> bool:
    """Whether what has arrived is of no use to a later attempt."""
    return isinstance(error, (BadInput, Refused)) and not _asks_to_stop(error)


def _check_name(name: str) -> None:
    if folded(safe_parts(name)[0]) == PARTIALS:
        raise BadInput(f"the folder {PARTIALS} is ours", code="name.reserved", where=name)


def _check_whole(partial: Partial, size: int | None, digests: Mapping[str, str], target: Target) -> None:
    error = mismatch(digests, partial.digests(), target.shown)
    if size is not None and partial.length != size:
        error = answers.wrong_size(partial.length, size, target)
    if error is None:
        return
    if not partial.resumed:
        raise error
    # The first part may be from another version of the file. Once more, from the beginning.
    partial.restart()
    raise Unavailable(error.message, code=error.code, where=error.where, **error.facts) from error


def _already_there(folder: Folder, wanted: Wanted, digests: Mapping[str, str]) -> Fetched | None:
    """The file, if an earlier attempt had finished it and was not heard of. Only a digest can tell."""
    if not digests:
        return None
    try:
        descriptor = folder.open(wanted.name)
    except (NotFound, Refused):
        return None
    try:
        with disk_errors(wanted.name):
            size = os.fstat(descriptor).st_size
            if wanted.size not in (None, size):
                return None
            found = Digests(digests)
            while piece := os.read(descriptor, 1 << 20):
                found.update(piece)
            os.fsync(descriptor)  # the attempt that wrote it may have died before it did
    finally:
        os.close(descriptor)
    if mismatch(digests, found.values(), wanted.name):
        return None
    folder.doubt(wanted.name)
    return Fetched(name=wanted.name, size=size, digests=found.values(), tries=0, resumed=size)
