"""custody init: a commented configuration to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from custody.config import NAME
from custody.errors import BadInput, Refused

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

CONFIG = """\
# Custody: where things are. Paths are relative to this file.

# One file on this machine; for several machines: "postgresql://user@host/database"
store = "sqlite:///custody.db"

[ingest]
profiles = "profiles"      # a folder with one TOML file per collection
staging = "staging"        # what was uploaded, kept by its digest
work = "work"              # a folder per job while it is being worked on
# files = "http://here/work"  # where storage services see that folder; see docs/operations.md
place = ""                 # name this machine's disk if other machines do not see it
threshold = 0.05           # of the working disk is kept free
outbox = "outbox"          # mail goes here as files, unless …
# smtp = "mail.example.org:25"
# smtp_user = "custody"     # for a server that asks; then with STARTTLS
# smtp_password_file = "smtp.password"
sender = "custody@localhost"
keep_days = 30             # completed batches are cleaned up after so many
web = "http://127.0.0.1:7337"  # where depositors reach `custody serve`: mails link to their page there
# link_days = 90           # so long such a link is good
# secret = "custody.secret"  # signs those links: the same file on every machine

[ingest.nodes]             # where objects are stored: OCFL storage roots, by name
main = "storage"

# [files]                  # what is made here is readable by its owner only; everything but what sandboxes write …
# group_readable = true    # … also by the group of each folder. For a storage root alone: [ingest] shared = ["main"]

# [storage]                # folders with items that were not deposited here: custody item add ID --folder PATH
# roots = {maps = "/srv/maps"}

# [workflows]              # archives whose commits run their own workflow files: custody archive add
# secrets = "secrets"      # a file for each that tasks may be given, readable by the worker only
# images = ["localhost/*"]  # patterns of the container images that tasks may name; none unless told

# [history]                # custody history key history.key > history.public, and workers seal what was recorded
# witnesses = ["/mnt/elsewhere/witness.txt"]

# [access]                 # what programs may ask for by the API besides the kinds that workers have offered
# open_kinds = ["greet"]

# [login]                  # people log in at an OpenID Connect issuer, besides with tokens
# issuer = "https://login.example.org"
"""

PROFILE = """\
# A collection: its name is this file's name.
description = "An example collection"
owner = "ark:/99999/owner"

[identifier]
minter = "local"           # identifiers are minted here; or "ezid"
naan = "99999"             # 99999 is for tests: ask for your own
shoulder = "fk4"

[storage]
node = "main"              # an OCFL root of custody.toml, or the name of a node of …
# service = "https://storage.example.org"

[notification]
addresses = ["archive@localhost"]
confirm = false            # a mail already when a batch was taken in

[fetch]
schemes = ["https"]        # add "http" if you must
# hosts = ["files.example.org"]
"""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="where")] = Path("."),
    profile: Annotated[str, typer.Option(help="name of the first collection")] = "example",
) -> None:
    """Write custody.toml and a first collection profile, both with comments."""
    target = folder / NAME
    if target.exists():
        raise Refused(f"{target} exists already", hint="it is left as it is")
    if not profile or profile != Path(profile).name:
        raise BadInput(
            f"{profile!r} cannot be the name of a collection", where="--profile", hint="one word, such as maps"
        )
    (folder / "profiles").mkdir(parents=True, exist_ok=True)
    target.write_text(CONFIG)
    (folder / "profiles" / f"{profile}.toml").write_text(PROFILE)
    print(f"{target} and {folder / 'profiles' / f'{profile}.toml'} are yours to edit.\n")
    print("Then, in that folder:\n")
    print(f"  custody batch submit some-file.pdf --profile {profile}")
    print("  custody worker run --until-idle")
    print("  custody batch list")
