"""What `custody archive add` needs besides: what a path is, and a hook that is there if the archive is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from custody.cli import runtime
from custody.config import absolute
from custody.errors import CustodyError, Refused, Unavailable
from custody.kernel.stores import Store
from custody.workflows.archives import folder, hooks
from custody.workflows.archives.table import Archives

NOT_HOOKED = (
    "it is asked every few seconds; for more, its owner installs one there, which tells an API: `custody archive hook`"
)


def instead(path: Path) -> str:
    if path.is_file():
        return f"of a bundle, `git clone --bare {path} NAME.git` makes one; of a dump, `svnadmin load`"
    return f"`git init --bare {path}` or `svnadmin create {path}` makes one"


def must_take_a_hook(store: Store, name: str, system: str, where: str, local: bool) -> None:
    """Refuse what was asked for and would not be done: nothing of it has been added yet."""
    if not local:
        told = "a repository on a server has no hook that we could install"
    elif system == "folder":
        told = "nothing is pushed to a folder, so it has no hooks"
    elif (found := Archives(store).found(system, where)[1]) and found.foreign:
        told = f"nothing is written into a repository that is not all ours: {found.foreign}"
    else:
        return
    hint = f"leave --hook out: {NOT_HOOKED if local and system != 'folder' else 'it is asked every few seconds'}"
    raise Refused(f"its hook cannot be installed: {told}", code="archive.hook", where=name, hint=hint)


@contextmanager
def all_or_nothing(store: Store, name: str, hooked: Path | None) -> Iterator[None]:
    """What was to be added and could not, whatever came between, is not there: neither the archive nor its hook."""
    try:
        yield
    except BaseException:
        Archives(store).drop(name, runtime.me(), "it could not be added")
        if hooked:
            with suppress(CustodyError, OSError):  # it was not installed
                hooks.uninstall(hooked)
        raise


def install(store: Store, name: str, repository: Path) -> None:
    """The hook; an archive that was to have one and cannot is not added."""
    try:
        hooks.install_for_store(repository, hooks.ourselves(), name, absolute(store.url, Path.cwd()))
    except (CustodyError, OSError) as error:
        hint = "--no-hook adds it without one: then it is asked every few seconds"
        if isinstance(error, CustodyError) and error.hint:
            hint = f"{error.hint}; or {hint}"
        raise Unavailable(
            f"its hook cannot be installed: {error}", code="archive.hook", where=name, hint=hint
        ) from error


def system_of(repository: Path) -> str:
    if (repository / folder.NAME).is_file():
        return "folder"
    return "git" if hooks.kind_of(repository) is hooks.GIT else "svn"
