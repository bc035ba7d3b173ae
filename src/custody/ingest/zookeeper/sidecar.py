"""What we write down about a job or a batch beside the deployed tree: who has it, how often it was tried, until when
it waits. The version of its node is the token: it rises at every claim and every move."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from custody.ingest.zookeeper.tree import dump, load


@dataclass(frozen=True, slots=True)
class Record:
    holder: str | None = None
    since: int = 0  # when it was claimed
    attempts: int = 0
    crashes: int = 0
    suspect: int = (
        0  # as it was claimed; what was said since is in the entry of the claim: see kernel/model/suspicion.py
    )
    due: int | None = None  # not before
    place: str = ""
    lane: str = ""  # once it is another than its collection's: that of a storage node
    code: str | None = None  # why it failed
    key: str | None = None  # of a batch: the depositor's own name for the submission
    move: str = ""  # the mark of the last change of ours
    by: str = ""  # who asked for it
    status: int = -1  # the version of the status that this goes with

    def write(self) -> bytes:
        return dump({name: value for name, plain in _PLAIN.items() if (value := getattr(self, name)) != plain})

    def beside(self, status: int) -> Record:
        """As it counts for a status: if another service has moved the job since, only its past is left."""
        if status == self.status:
            return self
        return replace(self, holder=None, attempts=0, suspect=0, due=None, code=None)


_PLAIN = asdict(Record())


def read_record(data: bytes) -> Record:
    known = load(data)
    return Record(**{name: known[name] for name in Record.__dataclass_fields__ if name in known})
