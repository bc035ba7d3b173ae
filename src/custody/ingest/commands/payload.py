"""What `custody batch submit` is given: read, checked, and uploaded where it lies on this machine."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from custody.config import Config
from custody.errors import BadInput
from custody.ingest.submission.staging import Staging, name_in


def pair(text: str) -> tuple[str, str]:
    element, equals, value = text.partition("=")
    if not (element and equals and value):
        raise BadInput(f"cannot read {text!r}", code="submission.dc", where="--dc", hint="--dc rights='Public domain'")
    return element, value


def check_profile(settings: Config, name: str) -> None:
    from custody.ingest.world import read_profiles

    known = read_profiles(settings.home / settings.ingest.profiles)
    if name not in known:
        raise BadInput(
            f"there is no profile {name!r}",
            code="profile.unknown",
            where="--profile",
            hint=f"known: {', '.join(known)}",
        )


def stage(payload: str, settings: Config) -> tuple[str, str]:
    """The payload's URL and file name; what lies on this machine is uploaded."""
    if payload.startswith(("http://", "https://")):
        return payload, name_in(payload)
    path, staging = Path(payload), Staging(settings.home / settings.ingest.staging)
    if path.is_dir():
        name = f"{path.resolve().name}.tar"
        with tempfile.NamedTemporaryFile(suffix=".tar") as box:
            with tarfile.open(box.name, "w") as tar:
                for each in sorted(path.iterdir()):
                    tar.add(each, arcname=each.name, filter=_only_files)
                if not any(member.isfile() for member in tar):
                    raise BadInput(f"there are no files in {payload}", where="payload", code="submission.payload")
            return staging.put_file(Path(box.name)).url.rsplit("/", 1)[0] + f"/{name}", name
    if not path.is_file():
        raise BadInput(
            f"there is no file or folder {payload}",
            where="payload",
            code="submission.payload",
            hint="a payload is a file or a folder here, or an http:// or https:// URL",
        )
    return staging.put_file(path).url, path.name


def _only_files(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if not (member.isfile() or member.isdir()):
        raise BadInput(f"{member.name} is neither a file nor a folder", where="payload", hint="leave links out")
    return member
