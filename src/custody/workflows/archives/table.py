"""The archives that are looked after: which there are, how far each has been taken in, what is amiss."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from custody.errors import BadInput, NotFound, Refused
from custody.formats.names import shown
from custody.formats.shell import BLANK, command
from custody.kernel.model.authority.grant import COLLECTION, HOOKS, REPOSITORY
from custody.kernel.model.names.names import alike, fault
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import DEPOSITS, must_be_free, must_look_like_none
from custody.kernel.stores.registers.grants import grant_in, withdraw_all
from custody.kernel.stores.rows import Tx, loads
from custody.kernel.stores.rules.events import write_note
from custody.workflows.archives import hooks
from custody.workflows.archives.credentials import split
from custody.workflows.archives.folder import NAME as FOLDER_NAME
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.ownership import commit_gates
from custody.workflows.archives.ownership.commit_gates import git_unasked, svn_unasked
from custody.workflows.archives.ownership.hook_sight import UNSEEN, HookSight
from custody.workflows.archives.ownership.standing import Standing, named_in, not_granted
from custody.workflows.archives.port import Archive
from custody.workflows.archives.svn.svn import SvnArchive


def _svn(location: str, _: Store) -> Archive:
    address, who = split(location)
    return SvnArchive(address, username=who.username, password=who.password)


def _git(location: str, store: Store) -> Archive:
    return GitArchive(Path(location), store)


def _folder(location: str, _: Store) -> Archive:
    return FolderArchive(Path(location))


SYSTEMS: dict[str, Callable[[str, Store], Archive]] = {"svn": _svn, "git": _git, "folder": _folder}
ANOTHER = {
    "svn": ", or, for a copy that lives on by itself, `svnadmin setuuid` on it",
    "folder": f", or, for a copy that lives on by itself, another uuid in its {FOLDER_NAME}",
}
"""How a copy becomes a repository of its own; git's are told apart by where they stand."""
UNREACHABLE, PARTLY = "unreachable", "partly unreadable"
GONE_TOLD = 7 * 24 * 3600 * 1_000_000  # microseconds that a revision that is gone is told of


@dataclass(frozen=True, slots=True)
class Kept:
    """An archive on record."""

    name: str
    system: str
    location: str
    uuid: str
    last: int  # revisions up to this one have a commit job
    frozen: str  # why nothing is taken in any more; empty: all is well


class Archives:
    def __init__(self, store: Store) -> None:
        self._store, self._db = store, store.db

    def open(self, kept: Kept) -> Archive:
        """Its repository. `Refused` if that is not ours and nobody has agreed to it."""
        archive, found = self.found(kept.system, kept.location)
        if found and (waits := self._waits(kept, found)):
            raise not_granted(waits, kept.name, kept.location)
        if isinstance(archive, GitArchive | SvnArchive):
            archive.hook_sight = self._hook_sight(kept)
        return archive

    def _hook_sight(self, kept: Kept) -> HookSight:
        return HookSight(kept.name, self._store.grants.of(f"archive/{kept.name}", HOOKS))

    def unseen(self, kept: Kept) -> str:
        """What a hook that can refuse names and does not see when a task commits; empty: nothing that can be read."""
        if not _has_hooks(kept):
            return ""
        gates = commit_gates.GIT if kept.system == "git" else commit_gates.SUBVERSION
        sight = self._hook_sight(kept)
        for gate, path in sight.names_unseen(Path(kept.location), gates):
            told = f"its hook {gate} names {shown(path)}, {UNSEEN}: if it looks there, the commit is refused"
            return f"{told}; {sight.hint(path)}"
        return ""

    def waits_for_a_grant(self, kept: Kept) -> Standing | None:
        """Whose its repository is besides, if nobody has agreed to them."""
        found = self.found(kept.system, kept.location)[1]
        return self._waits(kept, found) if found else None

    def _waits(self, kept: Kept, found: Standing) -> Standing | None:
        waits = found.without(self._store.grants.of(f"archive/{kept.name}", REPOSITORY) if found.foreign else ())
        return waits if waits.foreign and waits.who else None

    def unasked(self, kept: Kept) -> str:
        """Which gate of its owner tasks would pass by with a commit, so that none is made; empty: all are asked."""
        if not _has_hooks(kept):
            return ""
        return (git_unasked if kept.system == "git" else svn_unasked)(Path(kept.location))

    def unheard(self, kept: Kept) -> str:
        """Why the hook that was installed there is not run; empty: it is, or there is none."""
        try:
            return hooks.unheard(Path(kept.location)) if _has_hooks(kept) else ""
        except NotFound:
            return ""  # told elsewhere

    def opened(self, name: str) -> Archive:
        return self.open(self.get(name))

    def found(self, system: str, location: str) -> tuple[Archive, Standing | None]:
        if system not in SYSTEMS:
            raise BadInput(f"{system!r} is not a kind of archive", code="archive.system", hint=" or ".join(SYSTEMS))
        archive = SYSTEMS[system](location, self._store)
        return archive, archive.standing()

    def add(
        self,
        name: str,
        system: str,
        location: str,
        who: str,
        since: int = 0,
        foreign: str = "",
        shares: str = "",
        profiles: Collection[str] = (),
    ) -> Kept:
        """Look after an archive; revisions up to `since` are taken as done. `foreign` is why an operator agrees to a
        repository that is not ours: from then on, that is granted for its owner. `shares` is why he agrees to a name
        that others have for a collection, `profiles` those that are configured."""
        _must_be_a_name(name)
        if shares:
            must_look_like_none(self._store, name, profiles, location)
        else:
            must_be_free(self._store, name, profiles, location)
        archive, found = self.found(system, location)
        granted = found is not None and bool(found.foreign)
        if isinstance(archive, SvnArchive):
            archive.must_be_whole()
        if found and granted and not foreign:
            raise not_granted(found, name, location)
        uuid, youngest = archive.uuid(), archive.youngest()  # one that does not answer is not added
        if isinstance(archive, GitArchive):
            archive.must_be_counted(others="")  # nothing is added of which a part cannot be taken in
        _must_be_there(since, youngest, location)
        agreed = [(REPOSITORY, found.value, foreign)] if found and granted else []
        agreed += [(COLLECTION, DEPOSITS, shares)] if shares else []

        def work(tx: Tx) -> None:
            all_kept = [Kept(*row) for row in tx.run("wf_archives")]
            _must_not_look_like(name, [kept.name for kept in all_kept], location)
            others = [kept.name for kept in all_kept if kept.uuid == uuid]
            if others and name not in others:
                removing = command("archive remove", others[0], why=BLANK)
                raise Refused(
                    f"{location} is the repository of archive {others[0]} already",
                    code="archive.known",
                    where=name,
                    hint=f"one archive each: `{removing}`{ANOTHER.get(system, '')}",
                )
            _must_be_the_same(tx, name, uuid)
            if not tx.run("wf_add_archive", name=name, system=system, location=location, uuid=uuid, last=since):
                hint = f"`{command('archive remove', name, why=BLANK)}` first, or give this one another name"
                raise Refused(f"there is an archive {name} already", code="archive.exists", where=location, hint=hint)
            for what, value, why in agreed:
                grant_in(tx, f"archive/{name}", what, value, who=who, why=why)
            write_note(tx, f"archive/{name}", "added", who, detail={"location": location, "since": since, "uuid": uuid})

        self._db.write(work)
        return self.get(name)

    def get(self, name: str) -> Kept:
        rows = self._db.glance(lambda tx: tx.run("wf_archive", name=name))
        if not rows:
            raise NotFound(f"there is no archive {name}", code="archive.unknown", hint="`custody archive list`")
        return Kept(*rows[0])

    def list(self) -> tuple[Kept, ...]:
        return tuple(Kept(*row) for row in self._db.read(lambda tx: tx.run("wf_archives")))

    def workable(self, name: str) -> Kept | str:
        """The archive; or why nothing of it may be worked on now."""
        rows = self._db.glance(lambda tx: tx.run("wf_archive", name=name))
        if not rows:
            return f"{name} is no longer looked after: `custody archive add` takes it up again"
        kept = Kept(*rows[0])
        return f"{name} is frozen: {kept.frozen}" if kept.frozen else kept

    def another_owner(self, kept: Kept, who: str) -> bool:
        """Take nothing in any more of one that has another owner, or one more, than was granted; what was granted for
        those who own nothing of it now is ended. False if nothing was granted for anybody."""
        _, found = self.found(kept.system, kept.location)
        before = self._store.grants.of(f"archive/{kept.name}", REPOSITORY)
        waits = self._waits(kept, found) if found else None
        if found is None or waits is None or not before:
            return False
        why = f"its repository is not ours: {found.foreign}; what was granted was for {', '.join(before)}"
        for value in before:
            if not {*named_in(value)} & {*found.who}:
                self._store.grants.withdraw(f"archive/{kept.name}", REPOSITORY, value, who, why=why)
        self.freeze(kept.name, why, kept.uuid, who)  # what helps is told as it stands when somebody asks: `findings`
        return True

    def freeze(self, name: str, why: str, uuid: str, who: str) -> None:
        """Take nothing in any more, and say why."""

        def work(tx: Tx) -> None:
            tx.run("wf_freeze", name=name, frozen=why, uuid=uuid)
            write_note(tx, f"archive/{name}", "frozen", who, detail={"why": why}, outcome="warning")

        self._db.write(work)

    def thaw(self, name: str, uuid: str, who: str, why: str = "") -> None:
        """The repository that is there now, whichever it is, is the right one."""

        def work(tx: Tx) -> None:
            tx.run("wf_freeze", name=name, frozen="", uuid=uuid)
            write_note(tx, f"archive/{name}", "thawed", who, detail={"why": why} if why else {}, outcome="warning")

        self._db.write(work)

    def out_of_reach(self, name: str) -> str:
        """Why its repository could not be asked when it was last tried; empty: it answered."""
        rows = self._db.glance(lambda tx: tx.run("wf_last_word", subject=f"archive/{name}"))
        return str(loads(rows[0][1]).get("why", "")) if rows and rows[0][0] in (UNREACHABLE, PARTLY) else ""

    def goes_on(self, name: str) -> bool:
        """Whether what was amiss when it was last asked is a part of it only, and the rest is taken in."""
        rows = self._db.glance(lambda tx: tx.run("wf_last_word", subject=f"archive/{name}"))
        return bool(rows) and rows[0][0] == PARTLY

    def gone(self, name: str) -> str:
        """Revisions of this week that were cleared away before anything of them was run, or that nobody can run; empty:
        none."""
        since = self._store.now() - GONE_TOLD
        rows = self._db.read(lambda tx: tx.run("wf_gone", line=name, since=since))
        found = sorted(((position, loads(facts)) for position, facts in rows), key=itemgetter(0))
        gone = [number for number, facts in found if facts.get("gone") and not facts.get("malformed")]
        wrong = [(number, facts["gone"]) for number, facts in found if facts.get("gone") and facts.get("malformed")]
        told = [f"revision {number} cannot be used: {why}; later ones went on" for number, why in wrong]
        if gone:
            word, verb = ("revision", "is") if len(gone) == 1 else ("revisions", "are")
            numbers = ", ".join(map(str, gone))
            what = "pushed away and cleared away before any task was run; later ones went on"
            told.insert(0, f"{word} {numbers} {verb} gone: {what}")
        return "; ".join(told)

    def note_reach(self, name: str, why: str, who: str, partly: bool = False) -> bool:
        """Whether it answers, written down when that changes; an empty reason: it does. False: nothing has changed."""
        if why == self.out_of_reach(name):
            return False
        told = (PARTLY if partly else UNREACHABLE, {"why": why}, "warning") if why else ("reached", {}, "none")
        self._db.write(lambda tx: write_note(tx, f"archive/{name}", told[0], who, detail=told[1], outcome=told[2]))
        return True

    def drop(self, name: str, who: str, why: str = "") -> bool:
        """Look after it no longer; its jobs and its history stay. What it was allowed is for nobody who comes after."""

        def work(tx: Tx) -> bool:
            if not tx.run("wf_drop_archive", name=name):
                return False
            withdraw_all(tx, f"archive/{name}", who, f"{name} is no longer looked after")
            write_note(tx, f"archive/{name}", "dropped", who, detail={"why": why} if why else {})
            return True

        return self._db.write(work)


def _has_hooks(kept: Kept) -> bool:
    """Whether it is a repository on this machine."""
    local = kept.system == "git" or (kept.system == "svn" and "://" not in kept.location)
    return local and os.path.isdir(kept.location)


def _must_be_a_name(name: str) -> None:
    """It is a collection's name, too: `*` stands for all of them, and `operator@maps` is a role in one."""
    if not name or name[0] in "-.~" or any(letter in name for letter in "|:/@* "):
        raise BadInput(
            f"{name!r} is not a name for an archive",
            code="archive.name",
            hint="no spaces, colons, slashes, @ or *, and neither -, . nor ~ at its beginning",
        )
    if wrong := fault(name):
        raise BadInput(f"a name for an archive {wrong}", code="archive.name", where=repr(name))


def _must_be_there(since: int, youngest: int, location: str) -> None:
    if since and not 0 <= since <= youngest:
        raise BadInput(
            f"there is no revision {since}",
            code="archive.since",
            where=location,
            hint=f"revisions up to this one are taken as done; the youngest is {youngest}",
        )


def _must_not_look_like(name: str, others: Sequence[str], location: str) -> None:
    if other := alike(name, others):
        raise BadInput(
            f"{name!r} looks like the archive {other}, which is another",
            code="archive.name",
            where=location,
            hint="choose a name that nobody takes for that one",
        )


def _must_be_the_same(tx: Tx, name: str, uuid: str) -> None:
    """Jobs and history of an archive stay when it is removed; the same numbers cannot mean other revisions."""
    before = [loads(row[0]) for row in tx.run("wf_added_before", subject=f"archive/{name}", line=name)]
    if before and before[0].get("uuid", uuid) != uuid:
        raise Refused(
            f"{name} was another repository before ({before[0]['location']}), and its revisions are on record",
            code="archive.name",
            where=name,
            hint="give this one another name",
        )


def check_owner(store: Store, name: str, value: str) -> None:
    """A grant for a repository names who may change it now: nobody agrees to whoever comes after."""
    kept = Archives(store).get(name)
    _, found = Archives(store).found(kept.system, kept.location)
    if found is None or not found.foreign:
        why = "a repository on a server has no owner here" if found is None else f"{kept.location} is all ours"
        raise BadInput(f"there is nothing to grant: {why}", code="grant.value", where=name)
    if not {*named_in(value)} <= {*found.who}:
        raise BadInput(
            f"{value!r} is not whose {kept.location} is",
            code="grant.value",
            where=name,
            hint=f"{found.foreign}: {found.value}",
        )
