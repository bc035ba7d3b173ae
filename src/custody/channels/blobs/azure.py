"""Block blobs in Azure Blob Storage; needs the extra `azure`.

What is not obvious, and tested against Azurite:

- The SDK turns every block it is given into *Latest*, whatever state it is told, and would lose the order
  if it did not. Latest is what `Blobs.commit` promises, so ids are passed and nothing else.
- A commit is sent once. The SDK would repeat it after a lost answer and then report its own success as
  somebody else's change; the table looks instead.
- Metadata and tags vanish and the tier may change with a commit that does not name them: all three are sent.
- `get_block_list` drops the ETag, so it is taken from the raw answer.
- Last access is tracked only where the account has it switched on. Elsewhere the first read of a day leaves
  its date in the tag `read`, which changes neither ETag nor time of modification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, cast

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.blob import BlobLeaseClient, ContainerClient, StandardBlobTier

from custody.channels.blobs.port import (
    BlockList,
    BlocksMissing,
    Changed,
    Content,
    Facts,
    Leased,
    NoBlob,
    Properties,
    Tier,
    check_facts,
    check_ids,
    check_lease_seconds,
    check_name,
    check_tags,
)
from custody.errors import BadInput, CustodyError, Unavailable

AT_ONCE = 8  # uploads side by side; the SDK's connection pool holds ten
PIECE = 4 * 2**20
READ = "read"
READ_NOTED_EVERY = timedelta(hours=24)
PLAIN = Facts()

_REFUSALS: dict[str, type[CustodyError]] = {
    "BlobNotFound": NoBlob,
    "ConditionNotMet": Changed,
    "BlobAlreadyExists": Changed,
    "InvalidBlockList": BlocksMissing,
    "InvalidBlobOrBlock": BadInput,
    "InvalidRange": BadInput,
}


class Azure:
    def __init__(self, container: ContainerClient) -> None:
        self._container = container
        self._uploads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stage")
        self._noted: dict[str, datetime] = {}

    @classmethod
    def connect(cls, connection: str, container: str, absent: Callable[[], None] = lambda: None) -> Azure:
        """Open a container by connection string and make it if it is not there, unless `absent` refuses that."""
        client = ContainerClient.from_connection_string(connection, container)
        with _refusals(container):
            if not client.exists():
                absent()
                client.create_container()
        return cls(client)

    @property
    def container_name(self) -> str:
        return str(self._container.container_name)

    def close(self) -> None:
        self._uploads.shutdown()
        self._container.close()

    # --- Writing ---

    def stage(self, name: str, blocks: Iterable[tuple[str, bytes]], *, lease: str = "") -> None:
        staged = list(blocks)
        check_ids(name, [one for one, _ in staged])
        blob, shown = self._blob(name), _lease(lease)

        def upload(block: tuple[str, bytes]) -> None:
            blob.stage_block(block[0], block[1], length=len(block[1]), **shown)

        with _refusals(name):
            if len(staged) == 1:
                upload(staged[0])
            else:
                list(self._uploads.map(upload, staged))

    def commit(
        self,
        name: str,
        ids: Sequence[str],
        facts: Facts = PLAIN,
        *,
        if_match: str = "",
        if_absent: bool = False,
        lease: str = "",
    ) -> str:
        check_ids(name, ids)
        check_facts(name, facts)
        conditions = _if_match(if_match) | _lease(lease)
        if if_absent:
            conditions["match_condition"] = MatchConditions.IfMissing
        with _refusals(name):
            answer = self._blob(name).commit_block_list(
                list(ids),
                metadata=dict(facts.metadata),
                tags=dict(facts.tags),
                standard_blob_tier=StandardBlobTier(facts.tier),
                retry_total=0,
                **conditions,
            )
        return str(answer["etag"])

    def delete(self, name: str, *, if_match: str = "", lease: str = "") -> None:
        with _refusals(name):
            self._blob(name).delete_blob(**_if_match(if_match), **_lease(lease))
        self._noted.pop(name, None)

    def set_aside(self, name: str, to: str) -> None:
        data = self.read(name).data
        ids = [f"{start:012d}" for start in range(0, len(data), PIECE)]
        for one in ids:
            self.stage(to, [(one, data[int(one) : int(one) + PIECE])])
        self.commit(to, ids, Facts({"kind": "damaged"}))
        self.delete(name)

    def set_tier(self, name: str, tier: Tier) -> None:
        with _refusals(name):
            self._blob(name).set_standard_blob_tier(StandardBlobTier(tier))

    def set_tags(self, name: str, tags: Mapping[str, str]) -> None:
        check_tags(name, tags)
        with _refusals(name):
            self._blob(name).set_blob_tags(dict(tags))

    # --- Reading ---

    def blocks(self, name: str) -> BlockList:
        seen: list[str] = []

        def note_etag(answer: Any) -> None:
            seen.append(answer.http_response.headers.get("ETag", ""))

        with _refusals(name):
            committed, _ = self._blob(name).get_block_list("committed", raw_response_hook=note_etag)
        if not committed:  # an empty blob, or one with nothing but staged blocks, which is not there yet
            self._needed(name)
        return BlockList(seen[-1], tuple(one.id for one in committed), tuple(one.size for one in committed))

    def head(self, name: str, *, unless: str = "") -> Properties | None:
        condition = {"etag": unless, "match_condition": MatchConditions.IfModified} if unless else {}
        blob = self._blob(name)
        with _refusals(name):
            try:
                found = blob.get_blob_properties(**condition)
            except HttpResponseError as error:
                if error.status_code == 304:
                    return None
                raise
            tags = blob.get_blob_tags() if found.tag_count else {}
        return _properties(found, tags)

    def read(self, name: str, start: int = 0, size: int | None = None, *, if_match: str = "") -> Content:
        dates: list[str] = []

        def note_date(answer: Any) -> None:
            dates.append(answer.http_response.headers.get("Date", ""))

        if size == 0:
            empty = self._needed(name)
            return Content(b"", empty.etag, empty.facts.metadata)
        whole = not start and size is None  # the SDK forgives an empty blob only if no range is named
        wanted = _if_match(if_match) | ({} if whole else {"offset": start, "length": size})
        with _refusals(name):
            answer = self._blob(name).download_blob(raw_response_hook=note_date, **wanted)
            data = answer.readall()
        if not data and not whole:  # Azurite answers a range after the end with nothing, Azure refuses it
            raise BadInput(f"no byte {start}", code="blob.range", where=name)
        found = answer.properties
        if found.last_accessed_on is None and dates and dates[0]:
            self._note_read(name, parsedate_to_datetime(dates[0]))
        return Content(data, str(found.etag), dict(found.metadata or {}))

    def list(self, prefix: str) -> Iterator[Properties]:
        with _refusals(prefix):
            for found in self._container.list_blobs(prefix, include=["metadata", "tags"]):
                yield _properties(found, found.tags or {})

    def folders(self, prefix: str) -> Iterator[str]:
        with _refusals(prefix):
            for found in self._container.walk_blobs(prefix, delimiter="/"):
                if found.name.endswith("/"):
                    yield found.name.removeprefix(prefix).removesuffix("/")

    def _note_read(self, name: str, now: datetime) -> None:
        noted = self._noted.get(name)
        if noted and now - noted < READ_NOTED_EVERY:
            return
        self._noted[name] = now
        blob = self._blob(name)
        # The read has succeeded; that its date could not be noted is no reason to fail it.
        with suppress(AzureError):
            tags = blob.get_blob_tags()
            before = tags.get(READ, "")
            if not before or now - datetime.fromisoformat(before) >= READ_NOTED_EVERY:
                blob.set_blob_tags(tags | {READ: now.isoformat()})

    # --- Leases ---

    def acquire(self, name: str, seconds: int) -> str:
        check_lease_seconds(seconds)
        with _refusals(name):
            return str(self._blob(name).acquire_lease(seconds).id)

    def renew(self, name: str, lease: str) -> None:
        with _refusals(name):
            BlobLeaseClient(self._blob(name), lease).renew()

    def release(self, name: str, lease: str) -> None:
        with _refusals(name):
            BlobLeaseClient(self._blob(name), lease).release()

    def _needed(self, name: str) -> Properties:
        return cast(Properties, self.head(name))

    def _blob(self, name: str) -> Any:
        return self._container.get_blob_client(check_name(name))


def _if_match(etag: str) -> dict[str, Any]:
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}


def _lease(lease: str) -> dict[str, Any]:
    return {"lease": lease} if lease else {}


def _properties(found: Any, tags: Mapping[str, str]) -> Properties:
    shown = {key: value for key, value in tags.items() if key != READ}
    noted = datetime.fromisoformat(tags[READ]) if READ in tags else None
    return Properties(
        name=found.name,
        etag=found.etag if found.etag.startswith('"') else f'"{found.etag}"',  # listings leave the quotes out
        size=found.size,
        facts=Facts(dict(found.metadata or {}), shown, found.blob_tier or "Hot"),
        modified=found.last_modified,
        tier_changed=found.blob_tier_change_time,
        accessed=found.last_accessed_on or noted,
    )


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Azure's answers as ours: expected refusals by their code, the rest as a store that is not there."""
    try:
        yield
    except HttpResponseError as error:
        told = getattr(error, "error_code", None)
        code = str(getattr(told, "value", told) or "")
        kind = Leased if code.startswith("Lease") else _REFUSALS.get(code)
        if kind is None:
            kind = NoBlob if error.status_code == 404 and not code else Unavailable
        raise kind(_first_line(error), where=where, azure=code) from error
    except AzureError as error:
        raise Unavailable(_first_line(error), where=where, hint="is the storage account reachable?") from error


def _first_line(error: AzureError) -> str:
    return str(error.message).splitlines()[0] if error.message else type(error).__name__
